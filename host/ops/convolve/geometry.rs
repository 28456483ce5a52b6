// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which places a convolution reads: extents along up to three axes, and whether they fit.

use kernels_gpu::convolve::ConvolveShape;
use ndarray::{Dim, Dimension, Ix5};

use super::{OPERATION, PaddingMode};
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::per_axis::PerAxis;
use crate::view::DeviceView;

/// The most places along an axis, with its padding.
const MAX_LENGTH: usize = PerAxis::MOST;

/// What a convolution was told beside its operands.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) stride: PerAxis,
    pub(super) padding: PerAxis,
    pub(super) dilation: PerAxis,
    pub(super) groups: usize,
    pub(super) mode: PaddingMode,
}

/// A convolution whose operands fit, of three axes; those in front that there are not have the length 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)]
pub struct Problem {
    pub(super) images: usize,
    pub(super) input: [usize; 3],
    pub(super) output: [usize; 3],
    pub(super) window: [usize; 3],
    pub(super) stride: [usize; 3],
    pub(super) dilation: [usize; 3],
    /// Where in the input the first tap of the first place of the output is.
    pub(super) first: [isize; 3],
    pub(super) groups: usize,
    /// Channels of a group.
    pub(super) channels: usize,
    /// Outputs of a group.
    pub(super) outputs: usize,
}

impl Problem {
    /// That of operands of these shapes.
    pub(super) fn new(x: &[usize], weights: &[usize], settings: &Settings) -> Result<Self> {
        let refuse = |wanted: String| Error::Shape {
            operation: OPERATION,
            given: format!("an input of shape {x:?} and weights of shape {weights:?}"),
            wanted,
        };
        let axes = x.len().saturating_sub(2);
        if !(1..=3).contains(&axes) || weights.len() != x.len() {
            return Err(refuse(
                "(images, 1 to 3 axes, channels), and (outputs, as many axes, channels of a group)".into(),
            ));
        }
        let (groups, channels, outputs) = (settings.groups, x[axes + 1], weights[0]);
        let divides = groups > 0 && channels.is_multiple_of(groups) && outputs.is_multiple_of(groups);
        if !divides || weights[axes + 1] != channels / groups {
            return Err(refuse(format!(
                "channels and outputs that are multiples of {groups} groups, and weights with the channels of one"
            )));
        }
        let three = |shape: &[usize]| {
            let mut lengths = [1; 3];
            lengths[3 - axes..].copy_from_slice(&shape[1..=axes]);
            lengths
        };
        let padding = settings.padding.of(OPERATION, "padding", axes, [0, 0])?;
        let mut problem = Self {
            images: x[0],
            input: three(x),
            output: [1; 3],
            window: three(weights),
            stride: settings.stride.of(OPERATION, "stride", axes, [1, 1])?,
            dilation: settings.dilation.of(OPERATION, "dilation", axes, [1, 1])?,
            first: padding.map(|padding| -(padding as isize)),
            groups,
            channels: channels / groups,
            outputs: outputs / groups,
        };
        let counted = |length: &usize| *length <= MAX_LENGTH;
        let all = x.iter().chain(weights).all(counted);
        if !all || problem.window.contains(&0) {
            return Err(refuse(format!(
                "lengths of at most {MAX_LENGTH}, and weights of at least 1 along each axis"
            )));
        }
        for (axis, padding) in padding.into_iter().enumerate() {
            let padded = problem.input[axis] + 2 * padding;
            if padded > MAX_LENGTH {
                return Err(refuse(format!(
                    "at most {MAX_LENGTH} places with the padding, not {padded}"
                )));
            }
            let reach = (problem.window[axis] - 1)
                .checked_mul(problem.dilation[axis])
                .filter(|&reach| reach < padded)
                .ok_or_else(|| {
                    refuse(format!(
                        "weights that reach no further than the input: with dilation {} over {padded} with its padding \
                         along axis {}",
                        problem.dilation[axis],
                        axis + axes - 2,
                    ))
                })?;
            problem.output[axis] = (padded - reach - 1) / problem.stride[axis] + 1;
            settings.mode.check(problem.input[axis], padding)?;
        }
        Ok(problem)
    }

    /// Places of the output, in all images.
    pub(super) fn places(&self) -> usize {
        self.output.iter().product::<usize>() * self.images
    }

    /// Taps.
    pub(super) fn taps(&self) -> usize {
        self.window.iter().product()
    }

    /// Whether each output is of one place: where the input is in C order, that is a matrix then, and the convolution a product.
    pub(super) fn is_product(&self) -> bool {
        self.taps() == 1
            && self.groups == 1
            && self.stride == [1; 3]
            && self.first == [0; 3]
            && self.output == self.input
    }

    /// Whether each element of the input is read by one place of the output, and one tap: pieces, as of a picture for a transformer.
    pub(super) fn cuts(&self) -> bool {
        self.groups == 1
            && self.taps() > 1
            && self.first == [0; 3]
            && (0..3).all(|axis| {
                let window = self.window[axis];
                (self.dilation[axis] == 1 || window == 1)
                    && self.stride[axis] == window
                    && self.output[axis].checked_mul(window) == Some(self.input[axis])
            })
    }

    /// The shape of the input.
    pub(super) fn x_dim(&self) -> Ix5 {
        let [a, b, c] = self.input;
        Dim([self.images, a, b, c, self.groups * self.channels])
    }

    /// The shape of the weights.
    pub(super) fn weights_dim(&self) -> Ix5 {
        let [a, b, c] = self.window;
        Dim([self.groups * self.outputs, a, b, c, self.channels])
    }

    /// The shape of the output.
    pub(super) fn out_dim(&self) -> Ix5 {
        let [a, b, c] = self.output;
        Dim([self.images, a, b, c, self.groups * self.outputs])
    }

    /// How far from its first tap a place of the output reaches along an axis.
    pub(super) fn reach(&self, axis: usize) -> usize {
        (self.window[axis] - 1) * self.dilation[axis]
    }

    /// The places that the input lacks, before it and behind it, along an axis.
    pub(super) fn missing(&self, axis: usize) -> [usize; 2] {
        let last = self.first[axis] + ((self.output[axis] - 1) * self.stride[axis] + self.reach(axis)) as isize;
        let behind = last + 1 - self.input[axis] as isize;
        [(-self.first[axis]).max(0) as usize, behind.max(0) as usize]
    }

    /// [`missing`](Self::missing) along each axis.
    pub(super) fn all_missing(&self) -> [[usize; 2]; 3] {
        [0, 1, 2].map(|axis| self.missing(axis))
    }

    /// The same convolution of an input with so many places more.
    pub(super) fn padded(mut self, missing: [[usize; 2]; 3]) -> Self {
        for (axis, [before, behind]) in missing.into_iter().enumerate() {
            self.input[axis] += before + behind;
            self.first[axis] += before as isize;
        }
        self
    }

    /// The shape as kernels take it, of elements that lie so.
    pub(super) fn to_kernel(self, x: [usize; 5], out: [usize; 5]) -> ConvolveShape {
        let all = |numbers: [usize; 3]| numbers.map(|number| number as u32);
        ConvolveShape {
            images: self.images as u32,
            input: all(self.input),
            output: all(self.output),
            window: all(self.window),
            stride: all(self.stride),
            dilation: all(self.dilation),
            first: self.first.map(|first| first as i32 as u32),
            groups: self.groups as u32,
            channels: self.channels as u32,
            outputs: self.outputs as u32,
            x,
            out,
        }
    }
}

/// The elements, of one to three axes between the first and the last, with three of them.
pub(super) fn with_three_axes<'a, T: Element, D: Dimension>(
    elements: &'a DeviceArrayRef<T, D>,
) -> DeviceView<'a, T, Ix5> {
    let axes = elements.ndim() - 2;
    let spread = |of: &[usize], missing: usize| {
        let mut all = [missing; 5];
        all[0] = of[0];
        all[4 - axes..].copy_from_slice(&of[1..]);
        all
    };
    let steps = spread(&elements.steps(), 0);
    elements.laid_out(Dim(spread(elements.shape(), 1)), steps.to_vec())
}
