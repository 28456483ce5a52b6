// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be multiplied: the element types of operands, and which of them go together.

use bytemuck::Pod;
use half::{bf16, f16};

use super::layout::Layout;
use super::sealed::Sealed;
use crate::float8::{F8E4M3, F8E5M2};
use crate::machine::{self, Registers};

/// An element type of the operands: [`bf16`], [`f16`](struct@f16), [`Tf32`], [`F8E4M3`], [`F8E5M2`] or [`i8`].
pub trait Operand: Sealed + Copy + 'static {
    /// The element as memory has it.
    type Element: Pod;

    /// The extent K of one instruction: 32 bytes.
    const K: u32 = 32 / size_of::<Self::Element>() as u32;
}

/// An element type of A, with elements of type `U` in B, whose products are added in f32: the same type, or any two of the
/// 8-bit floats.
#[diagnostic::on_unimplemented(
    message = "the tensor cores have no products of `{Self}` and `{U}` that are added in f32"
)]
pub trait MultiplyBy<U: Operand = Self>: Operand {
    /// One instruction.
    ///
    /// # Safety
    ///
    /// As for [`Batch::mma`](super::Batch::mma).
    #[doc(hidden)]
    #[track_caller]
    unsafe fn multiply<R: Registers, A: Layout<Self>, B: Layout<U>, const ADD: i32>(
        d: &mut R,
        a: machine::MatrixDescriptor,
        b: machine::MatrixDescriptor,
    );
}

/// TensorFloat-32: an f32 of whose digits ten count. In memory it is an `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Tf32;

macro_rules! operands {
    ($($type:ident $element:ident)*) => {$(
        impl Sealed for $type {}

        impl Operand for $type {
            type Element = $element;
        }
    )*};
}

operands! {
    bf16 bf16
    f16 f16
    Tf32 f32
    F8E4M3 F8E4M3
    F8E5M2 F8E5M2
    i8 i8
}

macro_rules! products {
    ($($type:ident $by:ident $multiply:ident)*) => {$(
        impl MultiplyBy<$by> for $type {
            #[inline(always)]
            unsafe fn multiply<R: Registers, A: Layout<Self>, B: Layout<$by>, const ADD: i32>(
                d: &mut R,
                a: machine::MatrixDescriptor,
                b: machine::MatrixDescriptor,
            ) {
                // SAFETY: the caller's promise.
                unsafe { d.$multiply::<A, B, ADD>(a, b) }
            }
        }
    )*};
}

products! {
    bf16 bf16 multiply_bf16
    f16 f16 multiply_f16
    Tf32 Tf32 multiply_tf32
    F8E4M3 F8E4M3 multiply_e4m3_e4m3
    F8E4M3 F8E5M2 multiply_e4m3_e5m2
    F8E5M2 F8E4M3 multiply_e5m2_e4m3
    F8E5M2 F8E5M2 multiply_e5m2_e5m2
}

/// An element type of an A that comes from registers: [`bf16`], [`f16`](struct@f16) or [`Tf32`].
#[diagnostic::on_unimplemented(message = "the tensor cores take no `{Self}` from registers")]
pub trait FromRegisters: Operand {
    /// One instruction.
    ///
    /// # Safety
    ///
    /// As for [`Batch::mma_fragment`](super::Batch::mma_fragment).
    #[doc(hidden)]
    #[track_caller]
    unsafe fn multiply_fragment<R: Registers, B: Layout<Self>, const ADD: i32>(
        d: &mut R,
        a: [u32; 4],
        b: machine::MatrixDescriptor,
    );
}

macro_rules! fragments {
    ($($type:ident $multiply:ident [$($major:ident)?])*) => {$(
        impl FromRegisters for $type {
            #[inline(always)]
            unsafe fn multiply_fragment<R: Registers, B: Layout<$type>, const ADD: i32>(
                d: &mut R,
                a: [u32; 4],
                b: machine::MatrixDescriptor,
            ) {
                // SAFETY: the caller's promise.
                unsafe { d.$multiply::<$($major,)? ADD>(a, b) }
            }
        }
    )*};
}

fragments! {
    bf16 multiply_bf16_fragment [B]
    f16 multiply_f16_fragment [B]
    Tf32 multiply_tf32_fragment []
}
