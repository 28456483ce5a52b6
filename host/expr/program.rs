// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an expression is when it is evaluated: a list of steps, each of which gives one number of one element.
//!
//! A program has no values and no shapes, but for the number of axes along which its inputs lie; so one program serves
//! all expressions of one form, and finds its kernel by comparison.

use cuda_std::scalar::ScalarType;

use crate::backend::DeviceFnInfo;

/// The number of a step.
pub(crate) type Value = u16;

/// How a number comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The element of that input.
    Input(u16),
    /// That number of those that go with a launch.
    Scalar(u16),
    /// The element's place along that axis of the result, a `u64`.
    Index(u8),
    /// That function of the program's, of the numbers that these steps gave: as many as it takes.
    Call(u16, [Value; MAX_ARGUMENTS]),
}

/// The most numbers that a function takes.
pub(crate) const MAX_ARGUMENTS: usize = 6;

/// An array that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    pub ty: ScalarType,
    pub layout: Layout,
}

/// How the elements of an array lie along the axes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// One element for all.
    Single,
    /// Side by side along the last axis, at any distances along the others.
    Rows,
    /// The same element all along the last axis.
    Columns,
    /// At any distances along all axes.
    Strided,
}

/// The steps that give the elements of the outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    /// The axes of the results, where neighbouring ones are joined that all arrays go through as through one. At least 1; with
    /// 1 axis and no `Strided` input all arrays lie densely.
    pub axes: u8,
    /// Whether vectors of [`vector_len`](super::ptx::vector_len) elements begin at multiples of their size in all arrays that
    /// lie in rows, the outputs too, and rows are as many vectors.
    pub aligned: bool,
    /// Whether an input has its neighbours along the last axis but one, and threads share the elements by tiles of several rows,
    /// so that they find neighbours of that input too.
    pub transposed: bool,
    pub inputs: Vec<Input>,
    pub scalars: Vec<ScalarType>,
    pub functions: Vec<&'static DeviceFnInfo>,
    pub steps: Vec<Step>,
    /// The type of each step.
    pub types: Vec<ScalarType>,
    /// What is stored: into arrays in C order, as many as these.
    pub outputs: Vec<Value>,
}
