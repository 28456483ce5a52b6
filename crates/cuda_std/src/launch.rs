// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels as the host sees them: typed handles. Not present on the device.
//!
//! `#[kernel] pub fn saxpy(…)` leaves, beside the function, a type of the same name that implements [`Kernel`]. A host
//! crate launches through that type, so that a launch with the wrong number or types of arguments does not compile.
//! `#[device_fn]` leaves one that implements [`DeviceFn`], of which expressions are made.

use core::marker::PhantomData;

use bytemuck::Pod;
use cuda_sim::{Dim3, LaunchConfig};
use half::{bf16, f16};

use crate::machine::Place;
use crate::param::{ByValue, Param};
use crate::{GridBarrier, Slice, SliceMut, signature};

mod device_fn;

pub use device_fn::{ArrayReader, DeviceFn, Scalars, output};

/// The handle of one kernel: what a launch needs to know of it.
///
/// # Safety
///
/// The PTX entry `NAME` of package `PACKAGE` in version `VERSION`, if it carries `SIGNATURE`, takes exactly `Params`, and
/// so does `run`.
#[diagnostic::on_unimplemented(
    message = "there is no kernel `{Self}`",
    note = "a kernel exists for the types that its #[kernel(…)] lists"
)]
pub unsafe trait Kernel: 'static {
    /// The types of the parameters, as a tuple; borrowed ones are written `'static`.
    type Params: Params;
    /// The name of the PTX entry, and of the PTX module that holds it.
    const NAME: &'static str;
    /// The package that the kernel belongs to.
    const PACKAGE: &'static str;
    /// That package's version.
    const VERSION: &'static str;
    /// A hash of the kernel as it is written.
    const SOURCE: u64;
    /// A hash of that, the names and the sizes of the parameters, which the PTX entry carries too.
    const SIGNATURE: u64 = signature::of(
        Self::PACKAGE,
        Self::VERSION,
        Self::NAME,
        Self::SOURCE,
        <Self::Params as Params>::SIZES,
    );
    /// The most threads a block may have.
    const MAX_THREADS: u32;
    /// The extents of a cluster, in blocks; all 1 where the kernel has no clusters.
    const CLUSTER: Dim3 = Dim3 { x: 1, y: 1, z: 1 };

    /// Runs the kernel's body for one thread of the simulated GPU, in a launch that lasts for `'launch`.
    ///
    /// # Safety
    ///
    /// `params` points to the addresses of the values of `Params`, laid out as for `cuLaunchKernel`; what they refer
    /// to lives for `'launch`; for a kernel that is an `unsafe fn`, its contract holds. Called inside a launch of the
    /// simulated GPU.
    #[allow(
        clippy::extra_unused_lifetimes,
        reason = "it is what the implementation's body borrows the parameters for"
    )]
    unsafe fn run<'launch>(params: *const *const ());
}

/// The extents of a kernel's clusters, of parameters `P`.
///
/// # Panics
///
/// If a cluster has no block, or more than 8, or if the kernel has a [`GridBarrier`]: in a constant, which is a compile
/// error.
#[doc(hidden)]
pub const fn cluster<P: Params>(x: u32, y: u32, z: u32) -> Dim3 {
    let most = cuda_sim::LIMITS.max_cluster;
    assert!(
        x > 0 && y > 0 && z > 0 && x <= most && y <= most && z <= most && x * y * z <= most,
        "a cluster has 1 to 8 blocks"
    );
    assert!(
        !P::IS_COOPERATIVE,
        "a kernel with a GridBarrier has no clusters: its blocks meet all together"
    );
    Dim3 { x, y, z }
}

/// A kernel whose function is safe: any launch of it is.
///
/// # Safety
///
/// No argument and no launch configuration makes the kernel do harm.
#[diagnostic::on_unimplemented(
    message = "the kernel `{Self}` has no safe launch",
    note = "the launch of a kernel that is an `unsafe fn` is unsafe: use `launch_unchecked`, and state why its contract holds"
)]
pub unsafe trait SafeKernel: Kernel {}

/// Elements or parameters that are bit for bit those of another type: an `i32` is a `u32`, and so
/// `&[i32]` is `&[u32]`.
///
/// # Safety
///
/// The bits of every value of one type are those of a value of the other, with the same size and alignment. As a
/// parameter, one crosses the launch as the other does.
#[diagnostic::on_unimplemented(message = "`{Self}` is not bit for bit `{U}`")]
pub unsafe trait SameBits<U> {}

/// Lists of as many parameters as another, each bit for bit the other's.
///
/// # Safety
///
/// As [`SameBits`], for each.
#[diagnostic::on_unimplemented(message = "the parameters `{Self}` are not bit for bit `{U}`")]
pub unsafe trait SameParams<U> {}

// SAFETY: the same type.
unsafe impl<P: ByValue> SameBits<P> for P {}

macro_rules! same_bits {
    ($($type:ty = $other:ty),* $(,)?) => {
        // SAFETY: numbers of the same size, for which all bits are values.
        $(unsafe impl SameBits<$other> for $type {})*
    };
}

same_bits! {
    i32 = u32,
    f32 = u32,
    i64 = u64,
    f64 = u64,
    f16 = u16,
    bf16 = u16,
    bf16 = f16,
    i8 = u8,
}

// SAFETY (of the three): an address and a length, of elements that are the same bits.
unsafe impl<T: Pod + SameBits<U>, U: Pod> SameBits<&'static [U]> for &'static [T] {}
unsafe impl<T: Pod + SameBits<U>, U: Pod> SameBits<Slice<'static, U>> for Slice<'static, T> {}
unsafe impl<T: Pod + SameBits<U>, U: Pod> SameBits<SliceMut<'static, U>> for SliceMut<'static, T> {}

/// Kernel `K`, launched with the parameters `P`, which are those of `K` bit for bit: for types that a kernel does the
/// same with, such as the sums of two `u32` and of two `i32`, there is one entry.
///
/// ```
/// use cuda_std::launch::{Kernel, Retyped};
/// use cuda_std::prelude::*;
///
/// #[kernel]
/// pub fn negate(x: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         out.set(i, x[i].wrapping_neg());
///     }
/// }
///
/// type NegateSigned = Retyped<negate, (&'static [i32], SliceMut<'static, i32>)>;
/// assert_eq!(NegateSigned::NAME, "negate");
/// ```
///
/// Of another size, an element is not the same bits:
///
/// ```compile_fail,E0277
/// # use cuda_std::launch::{Kernel, Retyped};
/// # use cuda_std::prelude::*;
/// # #[kernel]
/// # pub fn negate(x: &[u32], out: SliceMut<'_, u32>) {}
/// type NegateLong = Retyped<negate, (&'static [i64], SliceMut<'static, i64>)>;
/// assert_eq!(NegateLong::NAME, "negate");
/// ```
pub struct Retyped<K, P>(PhantomData<fn() -> (K, P)>);

// SAFETY: the entry takes the parameters of `K`, and `P` is the same bits.
unsafe impl<K: Kernel, P: Params + SameParams<K::Params> + 'static> Kernel for Retyped<K, P> {
    type Params = P;
    const NAME: &'static str = K::NAME;
    const PACKAGE: &'static str = K::PACKAGE;
    const VERSION: &'static str = K::VERSION;
    const SOURCE: u64 = K::SOURCE;
    const SIGNATURE: u64 = K::SIGNATURE;
    const MAX_THREADS: u32 = K::MAX_THREADS;
    const CLUSTER: Dim3 = K::CLUSTER;

    unsafe fn run<'launch>(params: *const *const ()) {
        // SAFETY: the caller's promise, of parameters that are the same bits.
        unsafe { K::run(params) };
    }
}

// SAFETY: a launch of `K`.
unsafe impl<K: SafeKernel, P: Params + SameParams<K::Params> + 'static> SafeKernel for Retyped<K, P> {}

/// One parameter as it crosses the launch.
pub struct Abi<P: Param> {
    /// The first value.
    pub head: P::Head,
    /// The second value; of no size where there is none.
    pub tail: P::Tail,
}

impl<P: Param> Clone for Abi<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Param> Copy for Abi<P> {}

/// A kernel's parameter list.
pub trait Params {
    /// The values of all parameters.
    type Abi: Copy;

    /// The sizes of head and tail of each parameter, for the kernel's signature.
    #[doc(hidden)]
    const SIZES: &'static [(usize, usize)];

    /// Whether all blocks of a launch run at a time, since there is a [`GridBarrier`] among the parameters.
    const IS_COOPERATIVE: bool;

    /// Appends the addresses of the values, as `cuLaunchKernel` takes them: a value of no size is not passed.
    fn addresses(abi: &Self::Abi, into: &mut Vec<*const ()>);
}

macro_rules! params {
    ($($name:ident)*) => {
        impl<$($name: Param),*> Params for ($($name,)*) {
            type Abi = ($(Abi<$name>,)*);

            const SIZES: &'static [(usize, usize)] = &[$((size_of::<$name::Head>(), size_of::<$name::Tail>())),*];

            const IS_COOPERATIVE: bool = false $(|| $name::IS_GRID_BARRIER)*;

            #[allow(non_snake_case, unused_variables)]
            fn addresses(abi: &Self::Abi, into: &mut Vec<*const ()>) {
                let ($($name,)*) = abi;
                $(
                    if size_of::<$name::Head>() > 0 {
                        into.push((&raw const $name.head).cast());
                    }
                    if size_of::<$name::Tail>() > 0 {
                        into.push((&raw const $name.tail).cast());
                    }
                )*
            }
        }
    };
}

macro_rules! same_params {
    ($($($name:ident = $other:ident)*;)*) => {
        // SAFETY: what holds of each parameter holds of all.
        $(unsafe impl<$($name: SameBits<$other>, $other),*> SameParams<($($other,)*)> for ($($name,)*) {})*
    };
}

same_params! {
    A = P B = Q;
    A = P B = Q C = R;
    A = P B = Q C = R D = S;
    A = P B = Q C = R D = S E = T;
    A = P B = Q C = R D = S E = T F = U;
    A = P B = Q C = R D = S E = T F = U G = V;
    A = P B = Q C = R D = S E = T F = U G = V H = W;
}

params!();
params!(A);
params!(A B);
params!(A B C);
params!(A B C D);
params!(A B C D E);
params!(A B C D E F);
params!(A B C D E F G);
params!(A B C D E F G H);
params!(A B C D E F G H I);
params!(A B C D E F G H I J);
params!(A B C D E F G H I J K);
params!(A B C D E F G H I J K L);
params!(A B C D E F G H I J K L M);
params!(A B C D E F G H I J K L M N);

/// Reads a launch's parameters back, one after another; what [`Kernel::run`] is made of.
#[doc(hidden)]
pub struct ParamReader<'launch> {
    next: *const *const (),
    _params: PhantomData<&'launch ()>,
}

impl<'launch> ParamReader<'launch> {
    /// # Safety
    ///
    /// `params` points to the addresses that [`Params::addresses`] gave for the parameters that will be read; the values,
    /// and what those refer to, live for `'launch`.
    pub unsafe fn new(params: *const *const ()) -> Self {
        Self {
            next: params,
            _params: PhantomData,
        }
    }

    /// # Safety
    ///
    /// The next parameter is a `P`.
    #[allow(clippy::should_implement_trait)]
    pub unsafe fn next<P: Param>(&mut self) -> P::At<'launch> {
        // SAFETY: by the contracts of `new` and this function, what comes next is a Head, then a Tail, and what they
        // refer to lives for 'launch.
        unsafe { P::from_abi(self.value::<P::Head>(), *self.value::<P::Tail>(), Place) }
    }

    /// # Safety
    ///
    /// The next value is a `T`.
    unsafe fn value<T: Copy>(&mut self) -> &'launch T {
        if size_of::<T>() == 0 {
            // SAFETY: a value without a size can be anywhere that is aligned; that there is one, the caller says.
            return unsafe { core::ptr::NonNull::<T>::dangling().as_ref() };
        }
        // SAFETY: the caller's promise: the next address is that of a `T`, which is there for 'launch.
        unsafe {
            let value = &*self.next.read().cast::<T>();
            self.next = self.next.add(1);
            value
        }
    }
}

/// Calls `kernel` once for each thread of a launch on the simulated GPU, with `out` for it to write: what the examples of
/// kernels run by. Programs launch through a device.
///
/// # Panics
///
/// If the launch fails.
#[doc(hidden)]
#[track_caller]
pub fn on_simulator<T: Pod>(
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    out: &mut [T],
    kernel: impl Fn(SliceMut<'_, T>) + Sync,
) {
    example(cuda_sim::launch, LaunchConfig::new(grid, block), out, kernel);
}

/// As [`on_simulator`], for a kernel with a grid's barrier.
///
/// # Panics
///
/// If the launch fails.
#[doc(hidden)]
#[track_caller]
pub fn on_simulator_cooperative<T: Pod>(
    grid: impl Into<Dim3>,
    block: impl Into<Dim3>,
    out: &mut [T],
    kernel: impl Fn(GridBarrier<'_>, SliceMut<'_, T>) + Sync,
) {
    // SAFETY: the launch is cooperative; the simulated GPU does not use the word.
    let barrier = || unsafe { GridBarrier::from_word(core::ptr::null_mut()) };
    let kernel = |out: SliceMut<'_, T>| kernel(barrier(), out);
    example(
        cuda_sim::launch_cooperative,
        LaunchConfig::new(grid, block),
        out,
        kernel,
    );
}

/// As [`on_simulator`], in clusters of so many blocks.
///
/// # Panics
///
/// If the launch fails.
#[doc(hidden)]
#[track_caller]
pub fn on_simulator_in_clusters<T: Pod>(
    grid: impl Into<Dim3>,
    cluster: impl Into<Dim3>,
    block: impl Into<Dim3>,
    out: &mut [T],
    kernel: impl Fn(SliceMut<'_, T>) + Sync,
) {
    let options = cuda_sim::Options {
        cluster: Some(cluster.into()),
        ..cuda_sim::Options::default()
    };
    let launch = |kernel: &str, config: &LaunchConfig, body: &(dyn Fn() + Sync)| {
        cuda_sim::launch_with(kernel, config, options, body)
    };
    example(launch, LaunchConfig::new(grid, block), out, kernel);
}

/// Launches `kernel` by `launch`.
#[track_caller]
fn example<T: Pod>(
    launch: impl Fn(&str, &LaunchConfig, &(dyn Fn() + Sync)) -> Result<(), cuda_sim::Error>,
    config: LaunchConfig,
    out: &mut [T],
    kernel: impl Fn(SliceMut<'_, T>) + Sync,
) {
    let config = LaunchConfig {
        dynamic_shared: 1024,
        ..config
    };
    let (address, len) = (out.as_mut_ptr().expose_provenance(), out.len());
    let run = || {
        // SAFETY: the elements of `out`, which is borrowed until the launch is over.
        kernel(unsafe { SliceMut::from_raw_parts(core::ptr::with_exposed_provenance_mut(address), len) });
    };
    if let Err(error) = launch("example", &config, &run) {
        panic!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::NoTail;

    /// A structure without fields, which PTX does not pass.
    #[repr(C)]
    #[derive(Clone, Copy, cuda_std::KernelParam)]
    struct Nothing;

    #[test]
    fn values_without_a_size_are_not_passed() {
        type P = (u32, Nothing, Slice<'static, u64>);
        let elements = [7u64, 8, 9];
        let abi: <P as Params>::Abi = (
            Abi { head: 5, tail: NoTail },
            Abi {
                head: Nothing,
                tail: NoTail,
            },
            Abi {
                head: elements.as_ptr(),
                tail: elements.len(),
            },
        );
        let mut addresses = Vec::new();
        P::addresses(&abi, &mut addresses);
        assert_eq!(addresses.len(), 3, "a number, an address and a length");
        // SAFETY: the addresses are those of these parameters, and `elements` lives until the end of the function.
        let (number, slice) = unsafe {
            let mut reader = ParamReader::new(addresses.as_ptr());
            let number = reader.next::<u32>();
            reader.next::<Nothing>();
            (number, reader.next::<Slice<'static, u64>>())
        };
        assert_eq!((number, slice.len(), slice.get(2)), (5, 3, 9));
    }
}
