// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies beyond an input's ends: copies of it around it, and what gradients make of those.

use kernels_gpu::compiled::Number;
use ndarray::{Axis, Ix5, Slice};

use super::OPERATION;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

/// What a convolution takes for the places beyond its input's ends; the examples are of places `a b c d`. The names are PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros, `0 0 | a b c d | 0 0`.
    #[default]
    Zeros,
    /// The input reflected about the place at its end, `c b | a b c d | c b`: fewer places than it has.
    Reflect,
    /// The place at the end, `a a | a b c d | d d`.
    Replicate,
    /// The input again, `c d | a b c d | a b`: no more places than it has.
    Circular,
}

impl PaddingMode {
    /// An error unless there are so many places to be had from an axis of that length.
    pub(super) fn check(self, length: usize, padding: usize) -> Result<()> {
        let most = match self {
            Self::Zeros => usize::MAX,
            Self::Reflect => length.saturating_sub(1),
            Self::Replicate if length == 0 => 0,
            Self::Replicate => usize::MAX,
            Self::Circular => length,
        };
        if padding <= most {
            return Ok(());
        }
        Err(Error::Parameter {
            operation: OPERATION,
            parameter: "padding",
            given: format!("{padding} along an axis of {length} places, with {self:?}"),
            wanted: format!("at most {most}"),
        })
    }

    /// The strips beside `length` places that begin at place `before` of a padded axis: each with where it is, what it is a copy
    /// of, and whether that is taken backwards.
    fn strips(self, length: usize, [before, behind]: [usize; 2]) -> Vec<Strip> {
        let end = before + length;
        let strip = |to: [usize; 2], from: [usize; 2], backwards: bool| Strip { to, from, backwards };
        let all = match self {
            Self::Zeros => vec![],
            Self::Reflect => vec![
                strip([0, before], [before + 1, 2 * before + 1], true),
                strip([end, end + behind], [(end - 1).saturating_sub(behind), end - 1], true),
            ],
            Self::Replicate => vec![
                strip([0, before], [before, before + 1], false),
                strip([end, end + behind], [end - 1, end], false),
            ],
            Self::Circular => vec![
                strip([0, before], [length, length + before], false),
                strip([end, end + behind], [before, before + behind], false),
            ],
        };
        all.into_iter().filter(|strip| strip.to[0] < strip.to[1]).collect()
    }
}

/// Places of a padded axis, and those that they are copies of: one for each, or one for all.
struct Strip {
    to: [usize; 2],
    from: [usize; 2],
    backwards: bool,
}

/// A range of places.
fn range([start, end]: [usize; 2]) -> Slice {
    Slice::from(start..end)
}

/// The elements with so many places before and behind them along each of the three axes.
pub(super) fn pad<T: Element>(
    x: &DeviceArrayRef<T, Ix5>,
    missing: [[usize; 2]; 3],
    mode: PaddingMode,
) -> Result<DeviceArray<T, Ix5>> {
    let mut dim = x.raw_dim();
    for (axis, [before, behind]) in missing.into_iter().enumerate() {
        dim[axis + 1] += before + behind;
    }
    let mut padded = DeviceArray::zeros(x.stream(), dim)?;
    let mut inside = padded.view_mut();
    for (axis, [before, _]) in missing.into_iter().enumerate() {
        inside = inside.into_slice_axis(Axis(axis + 1), range([before, before + x.shape()[axis + 1]]))?;
    }
    inside.assign(x)?;
    for (axis, strips) in strips(&x.raw_dim(), missing, mode) {
        for Strip { to, from, backwards } in strips {
            let part = padded.slice_axis(axis, range(from))?;
            let part = if backwards { part.flip(axis)? } else { part }.to_array()?;
            padded.slice_axis_mut(axis, range(to))?.assign(&part)?;
        }
    }
    Ok(padded)
}

/// What makes the gradient of what [`pad`] was given of that of what it made: each copy's is added to that of what it is a copy of.
#[doc(hidden)]
pub struct Fold {
    /// The elements' axes, without what is around them.
    dim: Ix5,
    missing: [[usize; 2]; 3],
    mode: PaddingMode,
}

impl Fold {
    pub(super) fn new(dim: Ix5, missing: [[usize; 2]; 3], mode: PaddingMode) -> Self {
        Self { dim, missing, mode }
    }

    /// The gradient, each step rounded to its type.
    pub(super) fn run<T: Element + Number<Total = T>>(
        &self,
        mut padded: DeviceArray<T, Ix5>,
    ) -> Result<DeviceArray<T, Ix5>> {
        for (axis, strips) in strips(&self.dim, self.missing, self.mode).into_iter().rev() {
            for Strip { to, from, backwards } in strips {
                let part = padded.slice_axis(axis, range(to))?;
                // Of copies of one place their sum.
                let part = match from[1] - from[0] == to[1] - to[0] {
                    true if backwards => part.flip(axis)?.to_array()?,
                    true => part.to_array()?,
                    false => part.sum_axis(axis)?.insert_axis(axis)?.to_array()?,
                };
                padded.slice_axis_mut(axis, range(from))?.add_assign(&part)?;
            }
        }
        let mut inside = padded.view();
        for (axis, [before, _]) in self.missing.into_iter().enumerate() {
            inside = inside.slice_axis(Axis(axis + 1), range([before, before + self.dim[axis + 1]]))?;
        }
        inside.to_array()
    }
}

/// The strips of each axis.
fn strips(dim: &Ix5, missing: [[usize; 2]; 3], mode: PaddingMode) -> Vec<(Axis, Vec<Strip>)> {
    (0..3)
        .map(|axis| (Axis(axis + 1), mode.strips(dim[axis + 1], missing[axis])))
        .collect()
}
