// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels as the host sees them: typed handles. Not present on the device.
//!
//! `#[kernel] pub fn saxpy(…)` leaves, beside the function, a type of the same name that implements [`Kernel`]. A host
//! crate launches through that type, so that a launch with the wrong number or types of arguments does not compile.

use core::marker::PhantomData;

use crate::param::Param;
use crate::signature;

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

    /// Runs the kernel's body for one thread of the simulated GPU.
    ///
    /// # Safety
    ///
    /// `params` points to the addresses of the values of `Params`, laid out as for `cuLaunchKernel`; what they refer
    /// to outlives the call; for a kernel that is an `unsafe fn`, its contract holds. Called inside a launch of the
    /// simulated GPU.
    unsafe fn run(params: *const *const ());
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

    /// Appends the addresses of the values, as `cuLaunchKernel` takes them.
    fn addresses(abi: &Self::Abi, into: &mut Vec<*const ()>);
}

macro_rules! params {
    ($($name:ident)*) => {
        impl<$($name: Param),*> Params for ($($name,)*) {
            type Abi = ($(Abi<$name>,)*);

            const SIZES: &'static [(usize, usize)] = &[$((size_of::<$name::Head>(), size_of::<$name::Tail>())),*];

            #[allow(non_snake_case, unused_variables)]
            fn addresses(abi: &Self::Abi, into: &mut Vec<*const ()>) {
                let ($($name,)*) = abi;
                $(
                    into.push((&raw const $name.head).cast());
                    if size_of::<$name::Tail>() > 0 {
                        into.push((&raw const $name.tail).cast());
                    }
                )*
            }
        }
    };
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

/// Reads a launch's parameters back, one after another; what [`Kernel::run`] is made of.
#[doc(hidden)]
pub struct ParamReader<'a> {
    next: *const *const (),
    _params: PhantomData<&'a ()>,
}

impl ParamReader<'_> {
    /// # Safety
    ///
    /// `params` points to the addresses that [`Params::addresses`] gave for the parameters that will be read.
    pub unsafe fn new(params: *const *const ()) -> Self {
        Self {
            next: params,
            _params: PhantomData,
        }
    }

    /// # Safety
    ///
    /// The next parameter is a `P`, and what it refers to outlives its use.
    #[allow(clippy::should_implement_trait)]
    pub unsafe fn next<P: Param>(&mut self) -> P {
        // SAFETY: by the contracts of `new` and this function, the next address is that of a Head, and the one behind
        // it, if a Tail has a size, that of a Tail; a Tail without a size can be read from any aligned address.
        unsafe {
            let head = self.next.read().cast::<P::Head>().read();
            self.next = self.next.add(1);
            let tail = if size_of::<P::Tail>() > 0 {
                let tail = self.next.read().cast::<P::Tail>().read();
                self.next = self.next.add(1);
                tail
            } else {
                core::ptr::NonNull::<P::Tail>::dangling().as_ptr().read()
            };
            P::from_abi(head, tail)
        }
    }
}
