// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions as the host sees them.

use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::scalar::{Scalar, ScalarType};
use crate::signature;

/// The handle of one device function: what `#[device_fn]` leaves beside it, for each list of type arguments.
///
/// ```
/// use cuda_std::launch::DeviceFn;
/// use cuda_std::prelude::*;
/// use cuda_std::scalar::ScalarType;
///
/// #[device_fn(T = [f32, f64])]
/// pub fn scaled<T: Float>(x: T, factor: T) -> T {
///     x * factor
/// }
///
/// type Scaled = scaled<f32>;
/// assert_eq!((Scaled::NAME, Scaled::ARGUMENTS), ("scaled_f32", &[ScalarType::F32; 2][..]));
///
/// let (x, factor, mut y) = ([1.0_f32, 2.0, 3.0], [0.5_f32, 2.0, 4.0], [0.0_f32; 3]);
/// // SAFETY: two arrays of three `f32`, and a third for the results.
/// unsafe { Scaled::run([x.as_ptr().cast(), factor.as_ptr().cast()].as_ptr(), y.as_mut_ptr().cast(), 3) };
/// assert_eq!(y, [0.5, 4.0, 12.0]);
/// ```
///
/// # Safety
///
/// The PTX function `NAME` of package `PACKAGE` in version `VERSION`, if it carries `SIGNATURE`, takes exactly `Arguments` and
/// gives an `Output`, each in its [`Register`](Scalar::Register), and so does `run` in arrays.
#[diagnostic::on_unimplemented(
    message = "there is no device function `{Self}`",
    note = "a device function exists for the types that its #[device_fn(…)] lists"
)]
pub unsafe trait DeviceFn: 'static {
    /// The types of the arguments, as a tuple.
    type Arguments: Scalars;
    /// The type of the result.
    type Output: Scalar;
    /// The name of the PTX function.
    const NAME: &'static str;
    /// The package that the function belongs to.
    const PACKAGE: &'static str;
    /// That package's version.
    const VERSION: &'static str;
    /// A hash of the function as it is written.
    const SOURCE: u64;
    /// A hash of that, the names and the types, which the PTX function carries too.
    const SIGNATURE: u64 = signature::of_function(
        Self::PACKAGE,
        Self::VERSION,
        Self::NAME,
        Self::SOURCE,
        Self::ARGUMENTS,
        Self::Output::TYPE,
    );
    /// The types of the arguments as values.
    const ARGUMENTS: &'static [ScalarType] = <Self::Arguments as Scalars>::TYPES;

    /// Applies the function to each of `len` elements, on the host.
    ///
    /// # Safety
    ///
    /// `arguments` points to as many addresses as there are arguments; each is that of an array of `len` elements of the
    /// argument's type (a `bool` is a byte that is 0 or 1), aligned as that is. `output` is the address of room for `len`
    /// results, so aligned too, which overlaps none of the arrays and nobody else uses meanwhile; it may be uninitialised.
    unsafe fn run(arguments: *const *const (), output: *mut (), len: usize);
}

/// A tuple of up to six [`Scalar`]s.
pub trait Scalars: 'static {
    /// Their types as values.
    const TYPES: &'static [ScalarType];
}

macro_rules! scalars {
    ($($name:ident)*) => {
        impl<$($name: Scalar),*> Scalars for ($($name,)*) {
            const TYPES: &'static [ScalarType] = &[$($name::TYPE),*];
        }
    };
}

scalars!();
scalars!(A);
scalars!(A B);
scalars!(A B C);
scalars!(A B C D);
scalars!(A B C D E);
scalars!(A B C D E F);

/// Reads the arrays that [`DeviceFn::run`] is given, one after another.
#[doc(hidden)]
pub struct ArrayReader<'a> {
    next: *const *const (),
    len: usize,
    _arrays: PhantomData<&'a ()>,
}

impl<'a> ArrayReader<'a> {
    /// # Safety
    ///
    /// `arguments` points to the addresses of the arrays that will be read, each of `len` elements, which nobody writes
    /// during `'a`.
    #[inline]
    pub unsafe fn new(arguments: *const *const (), len: usize) -> Self {
        Self {
            next: arguments,
            len,
            _arrays: PhantomData,
        }
    }

    /// # Safety
    ///
    /// The next array is one of the scalar `T`, aligned as that is.
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub unsafe fn next<T>(&mut self) -> &'a [T] {
        // SAFETY: by the contracts of `new` and this function, the next address is that of `len` elements `T`.
        unsafe {
            let array = core::slice::from_raw_parts(self.next.read().cast(), self.len);
            self.next = self.next.add(1);
            array
        }
    }
}

/// Room for `len` results, scalars `T`, at that address.
///
/// # Safety
///
/// It is there, aligned as `T` is, and nobody else uses it during `'a`.
#[doc(hidden)]
#[inline]
pub unsafe fn output<'a, T>(address: *mut (), len: usize) -> &'a mut [MaybeUninit<T>] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(address.cast(), len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use half::f16;

    #[device_fn]
    fn seven() -> u8 {
        7
    }

    #[device_fn(T = [f32, f64], N = [2, 3]; T = [f32], N = [5])]
    fn times<T: Float, const N: u32>(x: T) -> T {
        x * T::from_f64(N as f64)
    }

    #[device_fn]
    fn pick(which: bool, a: f16, b: u64, c: i8, d: u16, e: f64) -> f64 {
        if which {
            f64::from(a) + b as f64
        } else {
            f64::from(c) + f64::from(d) + e
        }
    }

    fn run<F: DeviceFn>(arguments: &[*const ()], len: usize) -> Vec<F::Output> {
        assert_eq!(arguments.len(), F::ARGUMENTS.len());
        let mut output = Vec::<F::Output>::with_capacity(len);
        // SAFETY: the tests' arrays are of the arguments' types, and `run` writes all `len` results.
        unsafe {
            F::run(arguments.as_ptr(), output.as_mut_ptr().cast(), len);
            output.set_len(len);
        }
        output
    }

    #[test]
    fn a_function_is_applied_to_each_element() {
        let which = [true, false, true];
        let (a, b, c) = ([f16::ONE; 3], [1_u64, 2, 3], [-1_i8, -2, -3]);
        let (d, e) = ([10_u16, 20, 30], [0.5, 0.25, 0.125]);
        let arrays: [*const (); 6] = [
            which.as_ptr().cast(),
            a.as_ptr().cast(),
            b.as_ptr().cast(),
            c.as_ptr().cast(),
            d.as_ptr().cast(),
            e.as_ptr().cast(),
        ];
        assert_eq!(run::<pick>(&arrays, 3), [2.0, 18.25, 4.0]);
        assert_eq!(run::<pick>(&arrays, 0), []);
        assert_eq!(run::<seven>(&[], 4), [7; 4]);
        assert_eq!(run::<times<f64, 3>>(&[e.as_ptr().cast()], 3), [1.5, 0.75, 0.375]);
    }

    #[test]
    fn instances_have_names_types_and_signatures_of_their_own() {
        assert_eq!(
            (<times<f32, 5>>::NAME, <times<f64, 3>>::NAME),
            ("times_f32_5", "times_f64_3")
        );
        assert_eq!(<times<f64, 3>>::ARGUMENTS, [ScalarType::F64]);
        assert_eq!(seven::ARGUMENTS, []);
        assert_eq!(
            pick::ARGUMENTS.iter().map(|ty| ty.name()).collect::<Vec<_>>(),
            ["bool", "f16", "u64", "i8", "u16", "f64"]
        );
        let signatures = [
            seven::SIGNATURE,
            pick::SIGNATURE,
            <times<f32, 2>>::SIGNATURE,
            <times<f32, 3>>::SIGNATURE,
            <times<f32, 5>>::SIGNATURE,
            <times<f64, 2>>::SIGNATURE,
        ];
        for (i, signature) in signatures.iter().enumerate() {
            assert!(!signatures[..i].contains(signature), "{i}");
        }
    }

    #[test]
    fn the_function_stays_a_function() {
        assert_eq!((times::<f32, 3>(2.0), seven()), (6.0, 7));
    }
}
