// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators on the bits of integers and of `bool`.

use core::ops;

use super::{BinaryOp, UnaryOp};

macro_rules! bit_ops {
    ($($(#[$doc:meta])* $name:ident = $operator:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: ops::$name<Output = T> + 'static> BinaryOp<T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                a $operator b
            }
        }
    )*};
}

bit_ops! {
    /// The bits that are set in `a` and in `b`.
    BitAnd = &;
    /// The bits that are set in `a` or in `b`.
    BitOr = |;
    /// The bits that are set in one of `a` and `b`.
    BitXor = ^;
}

/// The bits that are not set.
#[derive(Clone, Copy, Debug)]
pub struct Not;

impl<T: ops::Not<Output = T>> UnaryOp<T> for Not {
    #[inline(always)]
    fn apply(x: T) -> T {
        !x
    }
}

/// An integer whose bits can be shifted.
pub trait Width: Copy + 'static {
    /// `self · 2^places`, without the bits that do not fit.
    fn shifted_left(self, places: Self) -> Self;
    /// `self / 2^places`, rounded down.
    fn shifted_right(self, places: Self) -> Self;
}

macro_rules! widths {
    ($($type:ident: $unsigned:ident, |$x:ident| $beyond:expr;)*) => {$(
        impl Width for $type {
            #[inline(always)]
            fn shifted_left(self, places: Self) -> Self {
                let places = places as $unsigned;
                if places < $unsigned::BITS as $unsigned { self << places } else { 0 }
            }

            #[inline(always)]
            fn shifted_right(self, places: Self) -> Self {
                let ($x, places) = (self, places as $unsigned);
                if places < $unsigned::BITS as $unsigned { $x >> places } else { $beyond }
            }
        }
    )*};
}

widths! {
    u8: u8, |x| 0;
    u16: u16, |x| 0;
    u32: u32, |x| 0;
    u64: u64, |x| 0;
    i32: u32, |x| x >> 31;
    i64: u64, |x| x >> 63;
}

macro_rules! shifts {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Width> BinaryOp<T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                a.$method(b)
            }
        }
    )*};
}

shifts! {
    /// `a` shifted to the left by `b` places, as NumPy's: 0 from as many places on as there are bits, and for negative `b`.
    Shl = shifted_left;
    /// `a` shifted to the right by `b` places, as NumPy's: from as many places on as there are bits, and for negative `b`, what
    /// is left is 0, or −1 of negative numbers.
    Shr = shifted_right;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_beyond_the_width_leave_the_sign() {
        assert_eq!(
            (Shl::apply(3_u8, 7), Shl::apply(3_u8, 8), Shl::apply(3_u8, 255)),
            (128, 0, 0)
        );
        assert_eq!((Shr::apply(200_u8, 7), Shr::apply(200_u8, 8)), (1, 0));
        assert_eq!(
            (Shl::apply(-1_i32, 31), Shl::apply(1_i32, 32), Shl::apply(1_i32, -1)),
            (i32::MIN, 0, 0)
        );
        assert_eq!(
            (Shr::apply(-9_i64, 2), Shr::apply(-9_i64, 64), Shr::apply(9_i64, -1)),
            (-3, -1, 0)
        );
        assert_eq!((Shr::apply(u64::MAX, 63), Shr::apply(u64::MAX, 64)), (1, 0));
    }

    #[test]
    fn bits_of_booleans_and_integers() {
        assert!(BitAnd::apply(true, true) && !BitXor::apply(true, true) && !<Not as UnaryOp<bool>>::apply(true));
        assert_eq!((BitOr::apply(5_u16, 2), BitXor::apply(7_i32, -1)), (7, -8));
        assert_eq!(<Not as UnaryOp<u8>>::apply(1), 254);
    }
}
