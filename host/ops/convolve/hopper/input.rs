// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of inputs on Hopper's tensor cores: the convolutions of all remainders of places by the stride, in a launch or a few.

use kernels_gpu::compiled::HopperConvolve;
use kernels_gpu::matmul::wgmma::convolve::{CHANNELS, ConvolvePhase, PHASES};
use ndarray::Ix5;

use super::{Launch, is_taken, patches};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::gradients::{Phase, phase_of};
use crate::ops::convolve::{Convolve, ampere};
use crate::ops::matmul::is_hopper;
use crate::tensor_map::{Swizzle, TensorElement};

/// A place in front of all that a map has, whatever place of up to 2³⁰ is added.
const NOWHERE: i32 = -(3 << 29);

/// How many steps along k a convolution takes.
fn steps(phase: &ConvolvePhase) -> u32 {
    phase.window.iter().product::<u32>() * phase.steps
}

/// The taps of a remainder. Those of none are one chunk that is beyond the ends of the input and of the weights.
fn taps(of: &[Phase; 3], channels: usize) -> ConvolvePhase {
    if of.iter().any(|phase| phase.taps == 0) {
        return ConvolvePhase {
            window: [1; 3],
            tap: [-1; 3],
            first: [NOWHERE; 3],
            steps: 1,
        };
    }
    ConvolvePhase {
        window: of.map(|phase| phase.taps as u32),
        // From the last to the first.
        tap: of.map(|phase| (phase.tap + (phase.taps - 1) * phase.tap_step) as i32),
        first: of.map(|phase| phase.first as i32),
        steps: channels.div_ceil(CHANNELS) as u32,
    }
}

/// The gradient of the input of a convolution of zeros beyond its ends, of weights in C order: if the device has such tensor cores, and
/// the kernel is written for such operands. None of them is empty.
pub(in crate::ops::convolve) fn input_gradient<T: Convolve + HopperConvolve + TensorElement>(
    problem: &Problem,
    phases: &[Vec<Phase>; 3],
    weights: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<Option<DeviceArray<T, Ix5>>> {
    let stream = out.stream();
    // The axes have their most places with remainder 0.
    let [a, b, c] = [0, 1, 2].map(|axis| phases[axis][0]);
    let transposed = Problem {
        images: problem.images,
        input: problem.output,
        output: [a, b, c].map(|phase| phase.places),
        window: [1; 3],
        stride: [1; 3],
        dilation: [a, b, c].map(|phase| phase.dilation),
        first: [0; 3],
        groups: problem.groups,
        channels: problem.outputs,
        outputs: problem.channels,
    };
    if !is_hopper(stream) || !is_taken(&transposed) || ampere::is_meant(&transposed) {
        return Ok(None);
    }
    // Without stride it is one convolution, of all taps.
    let only = Problem {
        window: problem.window,
        ..transposed
    };
    if problem.stride == [1; 3] && patches::takes(&only, stream) {
        return Ok(None);
    }
    let tap_step = [a, b, c].map(|phase| -(phase.tap_step as i32));
    let [of0, of1, of2] = phases;
    let all = of0
        .iter()
        .flat_map(|a| of1.iter().flat_map(move |b| of2.iter().map(move |c| [*a, *b, *c])));
    let mut all: Vec<_> = all.map(|of| (of, taps(&of, problem.outputs))).collect();
    // The longest first: what is left in the end is short.
    all.sort_by_key(|(_, taps)| std::cmp::Reverse(steps(taps)));
    let launch = |of: &[([Phase; 3], ConvolvePhase)]| {
        let taps: Vec<_> = of.iter().map(|(_, taps)| *taps).collect();
        let columns = taps.iter().map(steps).sum::<u32>().div_ceil(of.len() as u32) as usize * CHANNELS;
        Launch::best(&transposed, &taps, tap_step, columns, true, stream)
    };
    let Some(launches) = all.chunks(PHASES).map(launch).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut gradient = DeviceArray::uninit(stream, problem.x_dim())?;
    for (launch, of) in launches.iter().zip(all.chunks(PHASES)) {
        let of_out = launch.of_out();
        let mut maps = Vec::with_capacity(PHASES);
        for number in 0..PHASES {
            // Those that there are not are never used.
            let (of, _) = of.get(number).unwrap_or(&of[0]);
            let mut part = phase_of(gradient.view_mut(), problem, of)?;
            let map = part.tensor_map_mut(&of_out, Swizzle::B128)?;
            // SAFETY: the launch takes the gradient mutably, and its convolutions write places of their own.
            maps.push(unsafe { map.in_place_mut() });
        }
        let Ok(maps) = <[_; PHASES]>::try_from(maps) else {
            unreachable!("there are as many");
        };
        let whole = gradient.tensor_map_mut(&of_out, Swizzle::B128)?.by(&maps[0]);
        launch.run(out, weights, whole, &maps)?;
    }
    Ok(Some(gradient))
}
