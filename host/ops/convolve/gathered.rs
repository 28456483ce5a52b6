// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions by products of matrices in memory: the input's elements that taps read are brought into a matrix with a line for each
//! place of the output (im2col), chunk by chunk, and multiplied with the weights, or with a gradient.

use std::ops::Range;

use ndarray::{Axis, Ix3, Ix5, IxDyn, Slice};

use super::geometry::Problem;
use super::padding::{PaddingMode, pad};
use super::{Convolve, forward::Task};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// The most bytes of a chunk's matrix, unless one line of places has more.
const CHUNK: usize = 128 << 20;

/// Places of the output: some images, or of one image some places along the first axis that has several.
struct Chunk {
    images: Range<usize>,
    axis: Axis,
    places: Range<usize>,
}

/// The chunks, of matrices of elements of so many bytes.
fn chunks(problem: &Problem, element: usize) -> impl Iterator<Item = Chunk> + use<> {
    let axis = problem.output.iter().position(|&length| length > 1).unwrap_or(0);
    let length = problem.output[axis];
    let line = problem.output[axis + 1..].iter().product::<usize>();
    let bytes = line * problem.taps() * problem.groups * problem.channels * element;
    let lines = (CHUNK / bytes.max(1)).max(1);
    let (images, places) = ((lines / length).max(1), lines.min(length));
    let all = problem.images;
    (0..all).step_by(images).flat_map(move |image| {
        (0..length).step_by(places).map(move |place| Chunk {
            images: image..(image + images).min(all),
            axis: Axis(axis + 1),
            places: place..(place + places).min(length),
        })
    })
}

/// An input in which all taps find an element, and the convolution of it.
struct Whole<'a, T> {
    x: Ordered<'a, T, Ix5>,
    problem: Problem,
}

impl<'a, T: Element> Whole<'a, T> {
    fn new(problem: &Problem, x: &'a DeviceArrayRef<T, Ix5>) -> Result<Self> {
        let missing = problem.all_missing();
        let x = match missing {
            [[0, 0], [0, 0], [0, 0]] => Ordered::AsIs(x.view()),
            _ => Ordered::Copied(pad(x, missing, PaddingMode::Zeros)?),
        };
        Ok(Self {
            x,
            problem: problem.padded(missing),
        })
    }

    /// The matrix of a chunk: groups, places, taps with their channels. Themselves where elements lie so, as those of one tap do.
    fn matrix(&self, chunk: &Chunk) -> Result<Ordered<'_, T, Ix3>> {
        let of = &self.problem;
        let mut x = self.x.slice_axis(Axis(0), range(&chunk.images))?;
        let mut output = of.output;
        for (axis, output) in output.iter_mut().enumerate() {
            let mut first = of.first[axis] as usize;
            if chunk.axis == Axis(axis + 1) {
                first += chunk.places.start * of.stride[axis];
                *output = chunk.places.len();
            }
            x = x.slice_axis(Axis(axis + 1), Slice::from(first..))?;
        }
        let steps = x.steps();
        let [o0, o1, o2] = output;
        let [t0, t1, t2] = of.window;
        let shape = [of.groups, chunk.images.len(), o0, o1, o2, t0, t1, t2, of.channels];
        let along = |axis: usize, by: [usize; 3]| steps[axis + 1] * by[axis];
        let strides = vec![
            of.channels * steps[4],
            steps[0],
            along(0, of.stride),
            along(1, of.stride),
            along(2, of.stride),
            along(0, of.dilation),
            along(1, of.dilation),
            along(2, of.dilation),
            steps[4],
        ];
        let places = chunk.images.len() * o0 * o1 * o2;
        let matrix = Ix3(of.groups, places, of.taps() * of.channels);
        let view = x.into_laid_out(IxDyn(&shape), strides);
        Ok(match view.is_standard_layout() {
            true => Ordered::AsIs(view.into_dim(matrix)),
            false => Ordered::Copied(view.to_array()?.into_shape(matrix)?),
        })
    }
}

fn range(range: &Range<usize>) -> Slice {
    Slice::from(range.clone())
}

/// Computes the convolution.
pub(super) fn compute<T: Convolve>(task: &mut Task<'_, T>) -> Result<()> {
    let Task {
        problem,
        x,
        weights,
        stream,
        out,
    } = task;
    let whole = Whole::new(problem, x)?;
    let (groups, outputs) = (problem.groups, problem.outputs);
    let weights = weights.in_order()?;
    let weights = weights.in_shape(Ix3(groups, outputs, problem.taps() * problem.channels));
    let weights = weights.permuted_axes([0, 2, 1])?;
    out.write_in_order(stream, &mut |out| {
        for chunk in chunks(problem, size_of::<T>()) {
            let matrix = whole.matrix(&chunk)?;
            let mut images = out.slice_axis_mut(Axis(0), range(&chunk.images))?;
            let mut part = images.slice_axis_mut(chunk.axis, range(&chunk.places))?;
            let mut part = part
                .in_shape_mut(Ix3(matrix.shape()[1], groups, outputs))
                .permuted_axes([1, 0, 2])?;
            matrix.fused_batched_matmul(&weights).compute_into(&mut part)?;
        }
        Ok(())
    })
}

/// The gradient of the weights, of a gradient of the output in C order: groups, outputs, taps with their channels.
pub(super) fn weight_gradient<T: Convolve>(
    problem: &Problem,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<DeviceArray<T, Ix3>> {
    let whole = Whole::new(problem, x)?;
    let (groups, outputs) = (problem.groups, problem.outputs);
    let depth = problem.taps() * problem.channels;
    let parts = parts::<T>(problem, x.stream());
    let batch = groups * parts;
    // The product itself, where it is the only one.
    let mut all = chunks(problem, size_of::<T>());
    if let (1, Some(chunk), None) = (parts, all.next(), all.next()) {
        let matrix = whole.matrix(&chunk)?;
        let out = out.in_shape(Ix3(matrix.shape()[1], groups, outputs));
        let out = out.permuted_axes([1, 2, 0])?;
        return out.fused_batched_matmul(&matrix).compute();
    }
    let mut sums = DeviceArray::<T::Scalar, Ix3>::zeros(x.stream(), Ix3(batch, outputs, depth))?;
    for chunk in chunks(problem, size_of::<T>()) {
        let matrix = whole.matrix(&chunk)?;
        let images = out.slice_axis(Axis(0), range(&chunk.images))?;
        let part = images.slice_axis(chunk.axis, range(&chunk.places))?;
        let places = matrix.shape()[1] / parts;
        if parts > 1 {
            let part = part.in_shape(Ix3(parts, places, outputs)).permuted_axes([0, 2, 1])?;
            T::add_products(&part, &matrix.in_shape(Ix3(parts, places, depth)), &mut sums)?;
        } else {
            let part = part.in_shape(Ix3(places, groups, outputs)).permuted_axes([1, 2, 0])?;
            T::add_products(&part, &matrix, &mut sums)?;
        }
    }
    T::of_sums(sums, parts > 1)
}

/// Into how many parts the places are cut, each with sums of its own, so that there is work for all multiprocessors: where numbers
/// are summed in their own type, for products on tensor cores cut themselves.
fn parts<T: Convolve>(problem: &Problem, stream: &Stream) -> usize {
    const TILE: usize = 64;
    let is_wide = size_of::<T>() == size_of::<T::Scalar>();
    if !is_wide || problem.groups > 1 {
        return 1;
    }
    let tiles = problem.outputs.div_ceil(TILE) * (problem.taps() * problem.channels).div_ceil(TILE);
    let wanted = 2 * stream.backend().properties().multiprocessors as usize / tiles.max(1);
    let line = |chunk: Chunk| {
        let axis = chunk.axis.index() - 1;
        chunk.images.len() * chunk.places.len() * problem.output[axis + 1..].iter().product::<usize>()
    };
    // Each chunk has as many places a part.
    let zeros = chunks(problem, size_of::<T>())
        .map(|chunk| line(chunk).trailing_zeros())
        .min();
    1 << zeros.unwrap_or(0).min(wanted.max(1).ilog2())
}
