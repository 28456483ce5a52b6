// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `#[kernel]`, `#[device_fn]` and `shared_array!` expand to, for each machine.
//!
//! The unstable features that a PTX entry needs are allowed to these macros here, so that a kernels crate is written
//! in stable Rust and needs no feature attributes of its own.

/// On a GPU: the PTX entry point, and a note beside it that tells cuda_builder its module and launch bounds.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
#[allow_internal_unstable(abi_ptx, asm_experimental_arch)]
macro_rules! __kernel_entry {
    (
        unit: $unit:ident, entry: $entry:ident, handle: $handle:ty, safe: $safe:tt, call: [$call:expr], name: $name:literal,
        source: $source:literal, constant: [$($constant:ident = $value:expr)?], signature: [$signature:expr],
        note: $note:literal, max_threads: [$($max_threads:expr)?], min_blocks: [$($min_blocks:expr)?],
        cluster: [$($cluster_x:expr, $cluster_y:expr, $cluster_z:expr)?],
        params: [$(($param:ident, $head:ident, $tail:ident, $number:literal, $place:ident): $type:ty),* $(,)?], list: [$($list:tt)*],
        sizes: [$($sizes:item)?], tensor_maps: [$tensor_maps:expr],
    ) => {
        // Where the crate is a dependency of the one that is built, its lists are used by name alone.
        #[cfg(not(cuda_entries))]
        const _: ::core::marker::PhantomData<$handle> = {
            $(let _ = $max_threads;)?
            $(let _ = $min_blocks;)?
            $(let _ = ($cluster_x, $cluster_y, $cluster_z);)?
            ::core::marker::PhantomData
        };
        // Beside the entry and not in it: the module of the note below sees names of the crate's modules alone.
        $(
            #[cfg(cuda_entries)]
            #[allow(non_upper_case_globals)]
            const $constant: u64 = $value;
        )?
        #[cfg(cuda_entries)]
        const _: () = {
            #[allow(unused_imports)]
            mod note {
                use super::*;
                ::core::arch::global_asm!(
                    $note, signature = const $signature, $(max_threads = const $max_threads,)? $(min_blocks = const $min_blocks,)?
                    $(cluster_x = const $cluster_x, cluster_y = const $cluster_y, cluster_z = const $cluster_z,)?
                    tensor_maps = const $tensor_maps,
                );
            }

            $($sizes)?

            // rustc puts a method into the codegen unit of its type's module.
            impl $unit::Unit {
                #[unsafe(export_name = $name)]
                #[allow(improper_ctypes_definitions, non_snake_case)]
                unsafe extern "ptx-kernel" fn $entry<'launch>(
                    $($head: <$type as $crate::param::Param>::Head, $tail: <$type as $crate::param::Param>::Tail,)*
                ) {
                    // SAFETY: the launch passes what the handle's Params say, which lives for 'launch, as these values
                    // do, and upholds the kernel's own contract.
                    #[allow(unused_unsafe)]
                    unsafe {
                        $(
                            let $head: &'launch <$type as $crate::param::Param>::Head = &*(&raw const $head);
                            let $param = $crate::__param!($place, $type, $head, $tail, $name, SIZES, $number);
                        )*
                        $call
                    }
                }
            }
        };
    };
}

/// On a GPU: a parameter, put together of what was passed; with its place, if it may ask for that.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __param {
    (nowhere, $type:ty, $head:ident, $tail:ident, $entry:literal, $sizes:expr, $number:literal) => {
        $crate::param::from_values::<$type>($head, $tail)
    };
    (somewhere, $type:ty, $head:ident, $tail:ident, $entry:literal, $sizes:expr, $number:literal) => {{
        let place = $crate::__param_place!($entry, $sizes, $number);
        <$type as $crate::param::Param>::from_abi($head, $tail, place)
    }};
}

/// On a GPU: where the entry's parameter of that number is, by the name that LLVM gives it.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
#[allow_internal_unstable(asm_experimental_arch)]
macro_rules! __param_place {
    ($entry:literal, $sizes:expr, $number:literal) => {
        if $sizes[$number].0 > 0 {
            let address: u64;
            ::core::arch::asm!(
                concat!("mov.b64 {0}, ", $entry, "_param_{number};"), out(reg64) address,
                number = const $crate::param::values_before($sizes, $number),
                options(pure, nomem, nostack, preserves_flags)
            );
            $crate::machine::Place(address)
        } else {
            $crate::machine::Place(0)
        }
    };
}

/// On a GPU: a codegen unit of rustc's, for some of a kernel's entries.
///
/// When rustc compiles incrementally, each module is a unit of its own.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_unit {
    ($unit:ident) => {
        #[cfg(cuda_entries)]
        mod $unit {
            pub(super) struct Unit;
        }
    };
}

/// On the host there are no entries.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_unit {
    ($unit:ident) => {};
}

/// On the host: the typed handle's implementation.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_entry {
    (
        unit: $unit:ident, entry: $entry:ident, handle: $handle:ty, safe: $safe:tt, call: [$call:expr], name: $name:literal,
        source: $source:literal, constant: [$($constant:ident = $value:expr)?], signature: [$signature:expr],
        note: $note:literal, max_threads: [$($max_threads:expr)?], min_blocks: [$($min_blocks:expr)?],
        cluster: [$($cluster_x:expr, $cluster_y:expr, $cluster_z:expr)?],
        params: [$(($param:ident, $head:ident, $tail:ident, $number:literal, $place:ident): $type:ty),* $(,)?], list: [$($list:tt)*],
        sizes: [$($sizes:item)?], tensor_maps: [$tensor_maps:expr],
    ) => {
        // The host has no use for it but to check it, and to know that the constant is used.
        $(const _: u32 = $min_blocks as u32;)?
        // Said here, too, for a constant of an implementation is computed where it is used alone.
        $(const _: $crate::machine::Dim3 = $crate::launch::cluster::<<$handle as $crate::launch::Kernel>::Params>(
            $cluster_x as u32, $cluster_y as u32, $cluster_z as u32,
        );)?
        // SAFETY: the name, the module and the parameters are those of the PTX entry, made from the same lines.
        unsafe impl $crate::launch::Kernel for $handle {
            $($list)*
            const NAME: &'static str = $name;
            const PACKAGE: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            const SOURCE: u64 = $source;
            const MAX_THREADS: u32 = {
                #[allow(unused_mut, unused_assignments)]
                let mut threads = 1024;
                $(threads = $max_threads as u32;)?
                threads
            };
            $(const CLUSTER: $crate::machine::Dim3 =
                $crate::launch::cluster::<Self::Params>($cluster_x as u32, $cluster_y as u32, $cluster_z as u32);)?

            $crate::__kernel_run! {
                #[allow(unused_unsafe, unused_variables, unused_mut)]
                unsafe fn run<'launch>(params: *const *const ()) {
                    // SAFETY: the caller's promise: `params` is what `Params` says; the kernel's contract is the
                    // caller's.
                    unsafe {
                        let mut reader = $crate::launch::ParamReader::<'launch>::new(params);
                        $(let $param = reader.next::<$type>();)*
                        $call
                    }
                }
            }
        }
        $crate::__kernel_safe!($safe, $handle);
    };
}

/// The body for the simulated GPU as an inline function: a crate compiles the bodies of the kernels that it launches, and
/// not those of all entries of the crates that it depends on.
#[cfg(all(not(target_arch = "nvptx64"), not(feature = "linked-bodies")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_run {
    ($($run:tt)*) => {
        #[inline]
        $($run)*
    };
}

/// The same, compiled once, with the crate that has the kernel. That crate's own unit tests are inline all the same:
/// nothing links to them.
#[cfg(all(not(target_arch = "nvptx64"), feature = "linked-bodies"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_run {
    ($($run:tt)*) => {
        #[cfg_attr(test, inline)]
        $($run)*
    };
}

/// Marks the handle of a safe kernel.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel_safe {
    (true, $handle:ty) => {
        // SAFETY: the kernel is a safe function.
        unsafe impl $crate::launch::SafeKernel for $handle {}
    };
    (false, $handle:ty) => {};
}

/// On a GPU: the PTX function, and a note beside it that tells cuda_builder its module.
///
/// rustc makes of an `extern "C"` function of `u32` and `u64`
///
/// ```text
/// .visible .func  (.param .b32 func_retval0) NAME(
///     .param .b32 NAME_param_0,
///     .param .b64 NAME_param_1
/// )
/// { … }
/// ```
///
/// with one `.param` for each argument, and so for any numbers when they are passed by their bits. Smaller integers it would
/// widen by their sign, and floats pass as `.b32` too: registers leave nothing of that to know.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
#[allow_internal_unstable(asm_experimental_arch)]
macro_rules! __device_fn {
    (
        unit: $unit:ident, wrapper: $wrapper:ident, handle: $handle:ty, call: [$call:expr], name: $name:literal,
        source: $source:literal, constant: $constant:ident, note: $note:literal,
        arguments: [$(($argument:ident, $register:ident): $type:ty),* $(,)?], result: $result:ty, list: [$($list:tt)*],
    ) => {
        // Where the crate is a dependency of the one that is built, its lists are used by name alone.
        #[cfg(not(cuda_entries))]
        const _: ::core::marker::PhantomData<$handle> = ::core::marker::PhantomData;
        // Beside the function: the module of the note below sees names of the crate's modules alone.
        #[cfg(cuda_entries)]
        #[allow(non_upper_case_globals)]
        const $constant: u64 = $crate::signature::of_function(
            env!("CARGO_PKG_NAME"),
            env!("CARGO_PKG_VERSION"),
            $name,
            $source,
            &[$(<$type as $crate::scalar::Scalar>::TYPE),*],
            <$result as $crate::scalar::Scalar>::TYPE,
        );
        #[cfg(cuda_entries)]
        const _: () = {
            mod note {
                ::core::arch::global_asm!($note, signature = const super::$constant);
            }

            // rustc puts a method into the codegen unit of its type's module.
            impl $unit::Unit {
                #[unsafe(export_name = $name)]
                #[allow(non_snake_case)]
                extern "C" fn $wrapper(
                    $($register: <$type as $crate::scalar::Scalar>::Register),*
                ) -> <$result as $crate::scalar::Scalar>::Register {
                    $(let $argument = <$type as $crate::scalar::Scalar>::from_register($register);)*
                    <$result as $crate::scalar::Scalar>::to_register($call)
                }
            }
        };
    };
}

/// On the host: the typed handle's implementation.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __device_fn {
    (
        unit: $unit:ident, wrapper: $wrapper:ident, handle: $handle:ty, call: [$call:expr], name: $name:literal,
        source: $source:literal, constant: $constant:ident, note: $note:literal,
        arguments: [$(($argument:ident, $register:ident): $type:ty),* $(,)?], result: $result:ty, list: [$($list:tt)*],
    ) => {
        // SAFETY: the name, the module and the types are those of the PTX function, made from the same lines.
        unsafe impl $crate::launch::DeviceFn for $handle {
            $($list)*
            type Output = $result;
            const NAME: &'static str = $name;
            const PACKAGE: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
            const SOURCE: u64 = $source;

            $crate::__kernel_run! {
                #[allow(unused_variables, unused_mut)]
                unsafe fn run(arguments: *const *const (), output: *mut (), len: usize) {
                    // SAFETY: the caller's promise: as many arrays as arguments, each of `len` elements of its type, and
                    // memory for `len` results.
                    let (($($argument,)*), output) = unsafe {
                        let mut arrays = $crate::launch::ArrayReader::new(arguments, len);
                        (($(arrays.next::<$type>(),)*), $crate::launch::output::<$result>(output, len))
                    };
                    for i in 0..len {
                        $(let $argument = $argument[i];)*
                        output[i].write($call);
                    }
                }
            }
        }
    };
}

/// On a GPU: a `.shared` variable of the module, and its address.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[macro_export]
#[allow_internal_unstable(asm_experimental_arch)]
macro_rules! __shared_array {
    ($type:ty, $len:expr, $declaration:literal, $address:literal) => {{
        const _: () = {
            #[allow(unused_imports)]
            mod storage {
                use super::*;
                ::core::arch::global_asm!($declaration, bytes = const ::core::mem::size_of::<$type>() * $len);
            }
        };
        const { assert!(::core::mem::align_of::<$type>() <= 16) };
        let address: u32;
        // SAFETY: reads the address of the variable declared above.
        unsafe {
            ::core::arch::asm!($address, out(reg32) address, options(pure, nomem, nostack, preserves_flags));
            $crate::shared::Shared::<$type>::from_raw_parts($crate::machine::SharedPtr(address), $len)
        }
    }};
}

/// On the simulated GPU: a site, for which each block has storage.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __shared_array {
    ($type:ty, $len:expr, $declaration:literal, $address:literal) => {{
        static SITE: $crate::SharedSite = $crate::SharedSite::new(::core::mem::size_of::<$type>() * $len, 16);
        const { assert!(::core::mem::align_of::<$type>() <= 16) };
        // SAFETY: the block's storage for this site has that many bytes at that alignment.
        unsafe { $crate::shared::Shared::<$type>::from_raw_parts($crate::machine::static_shared(&SITE), $len) }
    }};
}
