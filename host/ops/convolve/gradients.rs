// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of convolutions.

use ndarray::{Axis, Dimension, Ix2, Ix5, Ix6, IxDyn, Slice};

use super::forward::Task;
use super::geometry::{Problem, with_three_axes};
use super::padding::Fold;
use super::{Convolution, Convolve, PaddingMode, depthwise, gathered};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::view::DeviceViewMut;

/// The gradient of the weights, as groups, outputs, and taps with their channels.
pub(super) fn of_weights<T: Convolve, D: Dimension>(
    of: &Convolution<'_, T, D>,
    problem: &Problem,
    out: &DeviceArrayRef<T, D>,
) -> Result<DeviceArray<T, ndarray::Ix3>> {
    let (x, problem) = of.input(problem)?;
    let out = out.in_order()?;
    let out = out.in_shape(problem.out_dim());
    let is_product = problem.is_product() && x.is_standard_layout();
    if !is_product && let Some(gradient) = T::weights_by_tensor_cores(&problem, &x, &out)? {
        return Ok(gradient);
    }
    if let Some(gradient) = depthwise::weight_gradient(&problem, &x, &out)? {
        return Ok(gradient);
    }
    gathered::weight_gradient(&problem, &x, &out)
}

/// The gradient of the input.
pub(super) fn of_input<T: Convolve, D: Dimension>(
    of: &Convolution<'_, T, D>,
    problem: &Problem,
    out: &DeviceArrayRef<T, D>,
) -> Result<DeviceArray<T, Ix5>> {
    let mode = of.settings.mode;
    let missing = match mode {
        PaddingMode::Zeros => [[0; 2]; 3],
        _ => problem.all_missing(),
    };
    let padded = problem.padded(missing);
    let weights = of.weights.in_order()?;
    let weights = weights.in_shape(padded.weights_dim());
    let out = out.forwards::<Ix5>(None)?;
    let gradient = transposed(&padded, &weights, &with_three_axes(&out), of)?;
    match mode {
        PaddingMode::Zeros => Ok(gradient),
        _ => T::folded(gradient, &Fold::new(with_three_axes(of.x).raw_dim(), missing, mode)),
    }
}

/// Along one axis, places of the input that are as far from a multiple of the stride, and the taps that read them: with stride 1,
/// all.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Phase {
    /// The first such place; the others follow in steps of the stride.
    pub(super) place: usize,
    pub(super) places: usize,
    /// The first such tap, and from one to the next.
    pub(super) tap: usize,
    pub(super) tap_step: usize,
    pub(super) taps: usize,
    /// What the convolution of the output's gradient has along the axis: the first place that its first tap reads, and its dilation.
    pub(super) first: isize,
    pub(super) dilation: usize,
}

/// The places of a gradient that have these remainders.
pub(super) fn phase_of<'a, T: Convolve>(
    mut gradient: DeviceViewMut<'a, T, Ix5>,
    problem: &Problem,
    phases: &[Phase; 3],
) -> Result<DeviceViewMut<'a, T, Ix5>> {
    for (axis, phase) in phases.iter().enumerate() {
        let slice = Slice::new(phase.place as isize, None, problem.stride[axis] as isize);
        gradient = gradient.into_slice_axis(Axis(axis + 1), slice)?;
    }
    Ok(gradient)
}

/// The phases of an axis.
fn phases(problem: &Problem, axis: usize) -> Vec<Phase> {
    let (stride, dilation) = (problem.stride[axis], problem.dilation[axis]);
    let (length, window) = (problem.input[axis], problem.window[axis]);
    let padding = -problem.first[axis];
    let common = gcd(stride, dilation);
    let tap_step = stride / common;
    let of_phase = |place: usize| {
        let places = (length - place).div_ceil(stride);
        // Place `o` of the output reads, with tap `t`, place `o · stride + t · dilation − padding`.
        let remainder = (place as isize + padding).rem_euclid(stride as isize) as usize;
        let tap = (0..tap_step.min(window)).find(|tap| tap * dilation % stride == remainder);
        let taps = tap.map_or(0, |tap| window.saturating_sub(tap).div_ceil(tap_step));
        let tap = tap.unwrap_or(0);
        let step = dilation / common;
        let newest = (place as isize + padding - (tap * dilation) as isize).div_euclid(stride as isize);
        Phase {
            place,
            places,
            tap,
            tap_step,
            taps,
            first: newest - (taps.max(1) - 1) as isize * step as isize,
            dilation: step,
        }
    };
    (0..stride.min(length)).map(of_phase).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Weights, in C order, with the taps backwards, and channels and outputs of each group exchanged.
fn reversed<T: Convolve>(problem: &Problem, weights: &DeviceArrayRef<T, Ix5>) -> Result<DeviceArray<T, Ix5>> {
    let (groups, channels, outputs) = (problem.groups, problem.channels, problem.outputs);
    let [t0, t1, t2] = problem.window;
    let mut weights = weights.in_shape(Ix6(groups, outputs, t0, t1, t2, channels));
    for axis in 2..5 {
        weights = weights.flip(Axis(axis))?;
    }
    let weights = weights.permuted_axes([0, 5, 2, 3, 4, 1])?.to_array()?;
    weights.into_shape(Ix5(groups * channels, t0, t1, t2, outputs))
}

/// The gradient of an input that is cut into pieces, each of which is read by one place of the output: a product of matrices, whose
/// lines are those of a place, and then in another order.
fn of_pieces<T: Convolve>(
    problem: &Problem,
    weights: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<DeviceArray<T, Ix5>> {
    let out = out.in_order()?;
    let depth = problem.taps() * problem.channels;
    let out = out.in_shape(Ix2(problem.places(), problem.outputs));
    let pieces = out.matmul(&weights.in_shape(Ix2(problem.outputs, depth)))?;
    let ([a, b, c], [p, q, r]) = (problem.output, problem.window);
    let pieces = pieces.in_shape(IxDyn(&[problem.images, a, b, c, p, q, r, problem.channels]));
    let pieces = pieces.permuted_axes(IxDyn(&[0, 1, 4, 2, 5, 3, 6, 7]))?;
    pieces.to_array()?.into_shape(problem.x_dim())
}

/// The gradient of the input of a convolution that is a product of matrices, of a gradient of the result in C order.
fn of_product<T: Convolve>(
    problem: &Problem,
    weights: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<DeviceArray<T, Ix5>> {
    let out = out.in_shape(Ix2(problem.places(), problem.outputs));
    let gradient = out.matmul(&weights.in_shape(Ix2(problem.outputs, problem.channels)))?;
    gradient.into_shape(problem.x_dim())
}

/// The gradient of the input of a convolution of zeros beyond its ends.
fn transposed<T: Convolve, D: Dimension>(
    problem: &Problem,
    weights: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
    of: &Convolution<'_, T, D>,
) -> Result<DeviceArray<T, Ix5>> {
    if problem.cuts() && !out.is_empty() && problem.channels > 0 {
        return of_pieces(problem, weights, out);
    }
    let stream = of.x.stream();
    let is_empty = out.is_empty() || problem.x_dim().size() == 0;
    if !is_empty && problem.is_product() && out.is_standard_layout() {
        return of_product(problem, weights, out);
    }
    let phases = [0, 1, 2].map(|axis| phases(problem, axis));
    if !is_empty && let Some(gradient) = T::input_by_tensor_cores(problem, &phases, weights, out)? {
        return Ok(gradient);
    }
    let all_are_written = phases.iter().flatten().all(|phase| phase.taps > 0) && !out.is_empty();
    let mut gradient = match all_are_written {
        true => DeviceArray::uninit(stream, problem.x_dim())?,
        false => DeviceArray::zeros(stream, problem.x_dim())?,
    };
    if is_empty {
        return Ok(gradient);
    }
    let weights = reversed(problem, weights)?;
    let [of0, of1, of2] = phases;
    for &a in &of0 {
        for &b in &of1 {
            for &c in &of2 {
                let phase = [a, b, c];
                if phase.iter().any(|phase| phase.taps == 0) {
                    continue;
                }
                let mut taps = weights.view();
                let mut part = phase_of(gradient.view_mut(), problem, &phase)?;
                for (axis, phase) in phase.iter().enumerate() {
                    // They are in the order from the last to the first.
                    let last = phase.tap + (phase.taps - 1) * phase.tap_step;
                    let first = problem.window[axis] - 1 - last;
                    let slice = Slice::new(first as isize, None, phase.tap_step as isize);
                    taps = taps.slice_axis(Axis(axis + 1), slice)?;
                }
                let of_phase = Problem {
                    images: problem.images,
                    input: problem.output,
                    output: phase.map(|phase| phase.places),
                    window: phase.map(|phase| phase.taps),
                    stride: [1; 3],
                    dilation: phase.map(|phase| phase.dilation),
                    first: phase.map(|phase| phase.first),
                    groups: problem.groups,
                    channels: problem.outputs,
                    outputs: problem.channels,
                };
                let task = Task {
                    problem: &of_phase,
                    x: out,
                    weights: &taps,
                    stream,
                    out: &mut part,
                };
                task.run()?;
            }
        }
    }
    Ok(gradient)
}
