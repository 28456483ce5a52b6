// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions and their gradients against sums in f64.

mod few_channels;
mod many_channels;
mod patches;

use std::any::TypeId;

use crate::common::*;
use ndarray::{Array3, ArrayD, Axis, Dimension, IxDyn};
use proptest::prelude::RngExt;
use test_reference::convolve::{Sum, add_channels};
use warpsmith::ops::{Convolution, Convolve, PaddingMode};
use warpsmith::{Checks, Device, DeviceArray, DeviceArrayRef, Error, bf16};

/// A convolution.
#[derive(Clone, Debug)]
struct Case {
    images: usize,
    places: Vec<usize>,
    channels: usize,
    outputs: usize,
    taps: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    dilation: Vec<usize>,
    groups: usize,
    mode: PaddingMode,
}

/// One of so many channels and outputs, by all taps of an input, of one image.
fn case<const N: usize>(places: [usize; N], [channels, outputs]: [usize; 2], taps: [usize; N]) -> Case {
    Case {
        images: 1,
        places: places.to_vec(),
        channels,
        outputs,
        taps: taps.to_vec(),
        stride: vec![1; N],
        padding: vec![0; N],
        dilation: vec![1; N],
        groups: 1,
        mode: PaddingMode::Zeros,
    }
}

/// An input, weights, a gradient of the result.
type Operands<T> = [ArrayD<T>; 3];

impl Case {
    fn images(self, images: usize) -> Self {
        Self { images, ..self }
    }

    fn stride<const N: usize>(self, stride: [usize; N]) -> Self {
        let stride = stride.to_vec();
        Self { stride, ..self }
    }

    fn padding<const N: usize>(self, padding: [usize; N]) -> Self {
        let padding = padding.to_vec();
        Self { padding, ..self }
    }

    fn dilation<const N: usize>(self, dilation: [usize; N]) -> Self {
        let dilation = dilation.to_vec();
        Self { dilation, ..self }
    }

    fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    fn mode(self, mode: PaddingMode) -> Self {
        Self { mode, ..self }
    }

    fn shape(first: usize, middle: &[usize], last: usize) -> IxDyn {
        IxDyn(&[&[first], middle, &[last]].concat())
    }

    fn out_places(&self) -> Vec<usize> {
        let of = |axis: usize| {
            let padded = self.places[axis] + 2 * self.padding[axis];
            (padded - self.dilation[axis] * (self.taps[axis] - 1) - 1) / self.stride[axis] + 1
        };
        (0..self.places.len()).map(of).collect()
    }

    fn operands<T: FloatNumber>(&self) -> Operands<T> {
        let mut rng = rng((self.images * 1000 + self.channels * 100 + self.outputs) as u64);
        let array = |shape: IxDyn| ArrayD::from_shape_simple_fn(shape, || T::of(rng.random::<f64>() * 2.0 - 1.0));
        self.shapes().map(array)
    }

    /// Of input, weights and output.
    fn shapes(&self) -> [IxDyn; 3] {
        [
            Self::shape(self.images, &self.places, self.channels),
            Self::shape(self.outputs, &self.taps, self.channels / self.groups),
            Self::shape(self.images, &self.out_places(), self.outputs),
        ]
    }

    /// The place of the input that a place of the output reads with a tap.
    fn source(&self, place: &[usize], tap: &[usize]) -> Option<Vec<usize>> {
        let of = |axis: usize| {
            let at = (place[axis] * self.stride[axis] + tap[axis] * self.dilation[axis]) as isize;
            let (at, n) = (at - self.padding[axis] as isize, self.places[axis] as isize);
            let at = match self.mode {
                _ if (0..n).contains(&at) => at,
                PaddingMode::Zeros => return None,
                PaddingMode::Reflect if at < 0 => -at,
                PaddingMode::Reflect => 2 * (n - 1) - at,
                PaddingMode::Replicate => at.clamp(0, n - 1),
                PaddingMode::Circular => at.rem_euclid(n),
            };
            Some(at as usize)
        };
        (0..place.len()).map(of).collect()
    }

    /// Calls `see` with the numbers of the elements of input, weights and output, in C order, of the first of the products that
    /// channels side by side have with their weights, which are `channels / groups`.
    fn each_line(&self, mut see: impl FnMut(usize, usize, usize)) {
        let (inner, outer) = (self.channels / self.groups, self.outputs / self.groups);
        let all = |lengths: &[usize]| {
            let of = ndarray::indices(IxDyn(lengths)).into_iter();
            of.map(|index| index.slice().to_vec()).collect::<Vec<_>>()
        };
        let number =
            |at: &[usize], lengths: &[usize]| at.iter().zip(lengths).fold(0, |n, (&i, &length)| n * length + i);
        let (out_places, taps) = (self.out_places(), self.taps.iter().product::<usize>());
        let [of_x, of_out] = [&self.places, &out_places].map(|places| places.iter().product::<usize>());
        for place in all(&out_places) {
            for tap in all(&self.taps) {
                let Some(source) = self.source(&place, &tap) else {
                    continue;
                };
                let (x, w, out) = (
                    number(&source, &self.places),
                    number(&tap, &self.taps),
                    number(&place, &out_places),
                );
                for image in 0..self.images {
                    for output in 0..self.outputs {
                        let x = (image * of_x + x) * self.channels + output / outer * inner;
                        let w = (output * taps + w) * inner;
                        let out = (image * of_out + out) * self.outputs + output;
                        see(x, w, out);
                    }
                }
            }
        }
    }

    fn on<'a, T: Convolve>(
        &self,
        x: &'a DeviceArrayRef<T, IxDyn>,
        weights: &'a DeviceArrayRef<T, IxDyn>,
    ) -> Convolution<'a, T, IxDyn> {
        let of = x.convolve(weights).stride(&self.stride[..]).padding(&self.padding[..]);
        of.dilation(&self.dilation[..])
            .groups(self.groups)
            .padding_mode(self.mode)
    }

    /// The result and both gradients.
    fn run<T: Convolve>(&self, device: &Device, operands: &Operands<T>) -> Operands<T> {
        let [x, weights, out] = operands
            .each_ref()
            .map(|x| DeviceArray::from_ndarray(device.default_stream(), x).unwrap());
        let of = self.on(&x, &weights);
        let all = [
            of.compute().unwrap(),
            of.input_gradient(&out).unwrap(),
            of.weight_gradient(&out).unwrap(),
        ];
        all.map(|x| x.to_ndarray().unwrap())
    }

    /// Checks the result and both gradients on all devices.
    fn check<T: Convolve + FloatNumber>(self) {
        self.check_on::<T>(devices::<T>());
    }

    /// Checks `bf16` on all devices, and `f16` on those with tensor cores, whose instructions are others for each. Without, the
    /// two differ by how a number is converted, which the cases show that each type has on all devices.
    fn check_16_bits<T: Convolve + FloatNumber>(self) {
        if TypeId::of::<T>() == TypeId::of::<bf16>() {
            self.check::<T>();
        } else {
            self.check_of_tensor_cores::<T>();
        }
    }

    /// Checks on those with tensor cores.
    fn check_of_tensor_cores<T: Convolve + FloatNumber>(self) {
        let mut devices = devices::<T>();
        devices.retain(|device| device.properties().tensor_cores.is_some());
        self.check_on::<T>(devices);
    }

    fn check_on<T: Convolve + FloatNumber>(self, devices: Vec<Device>) {
        assert!(!devices.is_empty(), "{self:?}: no device");
        let operands = self.operands::<T>();
        let sums = self.sums(&operands);
        for device in devices {
            let got = self.run(&device, &operands);
            self.compare(&sums, &got);
        }
    }

    /// What the result is, the input's gradient and the weights'.
    fn sums<T: FloatNumber>(&self, operands: &Operands<T>) -> [Vec<Sum>; 3] {
        let [x, w, g] = operands
            .each_ref()
            .map(|x| x.iter().map(|x| x.wide()).collect::<Vec<_>>());
        let [mut out, mut dx, mut dw] = [&g, &x, &w].map(|like| vec![[0.0; 3]; like.len()]);
        let channels = self.channels / self.groups;
        self.each_line(|xi, wi, oi| {
            let (of_x, of_w) = (xi..xi + channels, wi..wi + channels);
            let (dx, dw) = (&mut dx[of_x.clone()], &mut dw[of_w.clone()]);
            add_channels(&x[of_x], &w[of_w], g[oi], &mut out[oi], dx, dw);
        });
        [out, dx, dw]
    }

    /// A sum of `n` products is off by at most `n u Σ|x||w|` to first order, where `u` is that of the type that is summed in: of `f32`
    /// for 16 bits, `2⁻²³` where tensor cores truncate. It is rounded once. A gradient of padding that is folded has as many
    /// roundings more as places are added to one.
    #[track_caller]
    fn compare<T: FloatNumber>(&self, [out, dx, dw]: &[Vec<Sum>; 3], got: &Operands<T>) {
        let narrow = size_of::<T>() == 2;
        let unit = if narrow { 2f64.powi(-23) } else { T::UNIT_ROUNDOFF };
        let folded = if self.mode == PaddingMode::Zeros { 0.0 } else { 8.0 };
        let [x, w, g] = self.shapes();
        for (name, shape, got, wanted) in [
            ("result", g, &got[0], out),
            ("input", x, &got[1], dx),
            ("weights", w, &got[2], dw),
        ] {
            assert_eq!(got.shape(), shape.slice(), "{self:?}: {name}");
            for ((at, got), &[wanted, magnitude, count]) in got.indexed_iter().zip(wanted) {
                let bound = 2.0 * (count + 1.0) * unit * magnitude;
                let roundings = if name == "input" { 1.0 + folded } else { 1.0 };
                let bound = bound
                    + if narrow {
                        // Below the least normal number as there.
                        roundings * T::UNIT_ROUNDOFF * (magnitude + bound).max(T::LEAST_NORMAL)
                    } else {
                        0.0
                    };
                let error = (got.wide() - wanted).abs();
                assert!(
                    error <= bound,
                    "{self:?}: {name} at {at:?}: {got:?}, wanted {wanted}, bound {bound:e}"
                );
            }
        }
    }
}

/// Those on which elements of this type go through different kernels.
fn devices<T: 'static>() -> Vec<Device> {
    let device = device().clone();
    match (size_of::<T>(), device.is_simulator()) {
        (4.., _) => vec![device],
        (_, true) => vec![device, Device::simulated_hopper()],
        (_, false) => vec![device.as_generation((7, 5)).unwrap(), device],
    }
}

fn shapes<T: Convolve + FloatNumber>() {
    case([1], [1, 1], [1]).check::<T>();
    case([9], [3, 8], [3]).images(2).check::<T>();
    case([5, 6], [3, 9], [2, 3]).check::<T>();
    case([3, 4, 5], [2, 8], [2, 3, 1]).images(2).check::<T>();
}

for_types!(shapes: f32 f64 f16 bf16);

fn strides_padding_and_dilation<T: Convolve + FloatNumber>() {
    case([11], [4, 8], [3]).stride([2]).padding([1]).check::<T>();
    case([7, 9], [3, 8], [3, 2]).stride([2, 3]).padding([1, 2]).check::<T>();
    case([9, 8], [2, 8], [3, 3])
        .dilation([2, 3])
        .padding([2, 3])
        .check::<T>();
    case([10, 11], [2, 8], [3, 2])
        .stride([4, 2])
        .dilation([2, 3])
        .padding([1, 0])
        .check::<T>();
    case([4, 5, 4], [2, 8], [2, 2, 2])
        .stride([2, 1, 3])
        .padding([1, 0, 1])
        .check::<T>();
}

for_types!(strides_padding_and_dilation: f32 f64 f16 bf16);

fn groups<T: Convolve + FloatNumber>() {
    // Depthwise, with one output for each channel, several channels to a thread and one, and with several outputs; few outputs; tiles
    // of several groups.
    case([6, 5], [8, 8], [3, 3])
        .groups(8)
        .padding([1, 1])
        .stride([1, 2])
        .check::<T>();
    case([6, 5], [5, 5], [3, 3]).groups(5).padding([1, 1]).check::<T>();
    case([6, 5], [3, 6], [2, 2]).groups(3).stride([2, 1]).check::<T>();
    case([7], [6, 4], [3]).groups(2).check::<T>();
    case([5, 4], [6, 18], [2, 2])
        .groups(2)
        .padding([1, 0])
        .images(2)
        .check::<T>();
}

for_types!(groups: f32 f64 f16 bf16);

/// One of as many groups as channels, with an output each.
fn depthwise<const N: usize>(places: [usize; N], channels: usize, taps: [usize; N]) -> Case {
    case(places, [channels; 2], taps).groups(channels)
}

/// Groups of one channel: lines of fewer places than a thread has, as many, and more; runs of taps of each length, with each stride;
/// channels that are a vector, or not; more of them than neighbouring threads have; several outputs for each.
fn one_channel_in_a_group<T: Convolve + FloatNumber>() {
    for (length, channels, taps) in [(7, 4, 1), (8, 1, 2), (9, 6, 3), (17, 3, 4), (24, 4, 5), (30, 2, 7)] {
        let of = || depthwise([length], channels, [taps]).padding([taps / 2]);
        of().images(2).check::<T>();
        of().stride([2]).check::<T>();
        of().stride([3]).check::<T>();
        of().dilation([2]).padding([taps - 1]).check::<T>();
    }
    depthwise([5, 18], 4, [3, 3]).padding([1, 1]).check::<T>();
    depthwise([6, 19], 8, [5, 4])
        .padding([3, 2])
        .stride([2, 2])
        .check::<T>();
    depthwise([3, 4, 9], 4, [2, 3, 3])
        .padding([1, 1, 0])
        .images(2)
        .check::<T>();
    depthwise([4, 3], 132, [3, 3]).padding([1, 1]).check::<T>();
    depthwise([2, 3], 70, [2, 1]).check::<T>();
    case([5, 9], [3, 21], [3, 3]).groups(3).padding([1, 1]).check::<T>();
    case([9], [1, 5], [3]).images(3).check::<T>();
}

for_types!(one_channel_in_a_group: f32 f64 f16 bf16);

/// More taps than a block has threads, and more images than a grid has blocks along its other axes.
#[test]
fn many_taps_or_images_of_one_channel() {
    case([19, 20], [1, 1], [17, 18]).check::<f32>();
    case([9, 40], [32, 32], [9, 2]).groups(32).check::<f32>();
    case([1, 2], [1, 1], [1, 1]).images(70_000).check::<f32>();
}

/// What is infinite is in the results of places that read it, and of gradients in those of taps that do: not in those of others by
/// way of zeros.
#[test]
fn infinity_stays_where_it_belongs() {
    let case = case([1, 4], [4, 4], [1, 3]).groups(4);
    let mut operands = case.operands::<f32>();
    operands[0][[0, 0, 3, 2]] = f32::INFINITY;
    let [out, _, weights] = case.run(device(), &operands);
    for (at, value) in out.indexed_iter() {
        assert_eq!(value.is_finite(), at[2] == 0 || at[3] != 2, "result at {at:?}");
    }
    for (at, value) in weights.indexed_iter() {
        assert_eq!(value.is_finite(), at[2] < 2 || at[0] != 2, "weights at {at:?}");
    }
}

fn padding_modes<T: Convolve + FloatNumber>() {
    for mode in [PaddingMode::Reflect, PaddingMode::Replicate, PaddingMode::Circular] {
        case([4, 5], [2, 8], [3, 4]).padding([2, 3]).mode(mode).check::<T>();
        case([5, 6], [2, 2], [3, 3])
            .padding([1, 2])
            .stride([2, 2])
            .mode(mode)
            .groups(2)
            .check::<T>();
    }
    case([4], [1, 1], [3])
        .padding([4])
        .mode(PaddingMode::Circular)
        .check::<T>();
    case([1], [1, 1], [3])
        .padding([4])
        .mode(PaddingMode::Replicate)
        .check::<T>();
}

for_types!(padding_modes: f32 f64 bf16);

/// A place with many copies has the sum of their gradients, though a number of 16 bits has no room for one more of them.
fn gradients_of_many_copies<T: Convolve + FloatNumber>() {
    let (x, weights) = (
        Array3::from_elem((1, 3, 1), T::of(0.0)),
        Array3::from_elem((1, 1, 1), T::of(1.0)),
    );
    let (x, weights) = (upload(&x), upload(&weights));
    let out = upload(&Array3::from_elem((1, 6003, 1), T::of(1.0)));
    let convolution = x.convolve(&weights).padding(3000).padding_mode(PaddingMode::Replicate);
    let gradient = elements(&convolution.input_gradient(&out).unwrap());
    assert_eq!(gradient, [3001.0, 1.0, 3001.0].map(T::of));
}

for_types!(gradients_of_many_copies: f32 f64 f16 bf16);

/// One tap is a product of matrices, but with strides or padding.
fn one_tap<T: Convolve + FloatNumber>() {
    case([4, 3], [5, 9], [1, 1]).images(2).check::<T>();
    case([4, 3], [5, 9], [1, 1]).stride([2, 2]).check::<T>();
    case([4, 3], [5, 9], [1, 1]).padding([1, 2]).check::<T>();
}

for_types!(one_tap: f32 f64 bf16);

/// More places, outputs and products than a tile of either size has.
#[test]
fn more_than_a_tile() {
    case([9, 8], [2, 70], [3, 3]).padding([1, 1]).check::<f32>();
    case([9, 9], [4, 33], [3, 1]).images(2).check::<f64>();
    case([17, 8], [2, 130], [1, 2]).check::<f32>();
}

/// Both sizes of tiles, whatever the device would choose: as many tiles as make the large ones pay.
#[test]
fn large_tiles() {
    let places = 128 * device().properties().multiprocessors as usize;
    case([places + 1], [3, 65], [3]).padding([1]).check::<f32>();
    case([places / 2 + 1], [2, 33], [1]).padding([1]).check::<f64>();
}

/// More padding than taps reach: places of the output that read nothing but zeros, and a gradient that does not read all.
#[test]
fn more_padding_than_taps() {
    case([4], [2, 8], [2]).padding([5]).check::<f32>();
    case([3, 3], [2, 8], [1, 2])
        .padding([2, 3])
        .stride([3, 2])
        .check::<f32>();
    case([3, 3], [2, 8], [1, 2])
        .padding([2, 3])
        .stride([3, 2])
        .check::<bf16>();
}

/// A stride that leaves out places, whose gradient is 0.
#[test]
fn strides_beyond_the_taps() {
    case([11, 7], [2, 8], [2, 1]).stride([5, 9]).check::<f32>();
    case([11, 7], [2, 3], [2, 1]).stride([5, 3]).check::<f32>();
}

/// Gradients are what finite differences of `Σ out · result` give, which is linear in each operand.
#[test]
fn gradients_are_finite_differences() {
    let cases = [
        case([5, 6], [4, 8], [3, 2]).stride([2, 1]).padding([1, 1]).groups(2),
        case([4, 4], [2, 9], [2, 2]).padding([1, 2]).mode(PaddingMode::Reflect),
        case([7], [2, 3], [3]).dilation([2]).stride([2]).padding([2]),
    ];
    for case in cases {
        let operands = case.operands::<f64>();
        let [_, dx, dw] = case.run(device(), &operands);
        let total = |operands: &Operands<f64>| {
            let [x, weights, _] = operands.each_ref().map(upload);
            let out = case.on(&x, &weights).compute().unwrap().to_ndarray().unwrap();
            (&out * &operands[2]).sum()
        };
        for (operand, gradient) in [(0, &dx), (1, &dw)] {
            for (at, &gradient) in gradient.indexed_iter().step_by(7) {
                let moved = |by: f64| {
                    let mut operands = operands.clone();
                    operands[operand][&at] += by;
                    total(&operands)
                };
                let difference = (moved(0.5) - moved(-0.5)) / 1.0;
                assert!(
                    (difference - gradient).abs() < 1e-11,
                    "{case:?}, operand {operand} at {at:?}"
                );
            }
        }
    }
}

/// Channels in front, every other place, backwards; and a gradient that is a view.
#[test]
fn views() {
    fn of<T: Convolve + FloatNumber>(outputs: usize, groups: usize) {
        let case = case([5, 6], [4, outputs], [2, 3])
            .images(2)
            .padding([1, 1])
            .groups(groups);
        let operands = case.operands::<T>();
        let [x, weights, out] = &operands;
        let stream = device().default_stream();
        let front = |x: &ArrayD<T>| {
            x.view()
                .permuted_axes(IxDyn(&[0, 3, 1, 2]))
                .as_standard_layout()
                .to_owned()
        };
        let [a, b, c] = [x, weights, out].map(|x| DeviceArray::from_ndarray(stream, &front(x)).unwrap());
        let [a, b, c] = [&a, &b, &c].map(|x| x.view().permuted_axes(IxDyn(&[0, 2, 3, 1])).unwrap());
        let sums = case.sums(&operands);
        let compare = |of: Convolution<'_, T, IxDyn>| {
            let all = [
                of.compute().unwrap(),
                of.input_gradient(&c).unwrap(),
                of.weight_gradient(&c).unwrap(),
            ];
            case.compare(&sums, &all.map(|x| x.to_ndarray().unwrap()));
        };
        compare(case.on(&a, &b));

        let mut wide = ArrayD::from_elem(IxDyn(&[2, 5, 12, 5]), T::of(9.0));
        wide.slice_mut(ndarray::s![.., .., ..;2, 1..]).assign(x);
        let wide = DeviceArray::from_ndarray(stream, &wide).unwrap();
        let mut part = wide.slice_axis(Axis(2), ndarray::Slice::new(0, None, 2)).unwrap();
        part = part.slice_axis(Axis(3), ndarray::Slice::from(1..)).unwrap();
        let mut backwards = weights.clone();
        backwards.invert_axis(Axis(1));
        let backwards = DeviceArray::from_ndarray(stream, &backwards).unwrap();
        compare(case.on(&part, &backwards.flip(Axis(1)).unwrap()));

        let mut upside_down = x.clone();
        upside_down.invert_axis(Axis(1));
        let upside_down = DeviceArray::from_ndarray(stream, &upside_down).unwrap();
        compare(case.on(&upside_down.flip(Axis(1)).unwrap(), &b));
    }
    of::<f32>(8, 1);
    of::<bf16>(8, 1);
    of::<f32>(4, 4);
    of::<bf16>(8, 4);
}

/// Also where memory that nobody writes is found: it may be 0.
#[test]
fn empty_operands() {
    let none = |case: Case| {
        for device in [device(), &Device::checked_simulator(Checks::ALL)] {
            let [out, dx, dw] = case.run::<f32>(device, &case.operands());
            assert!(out.iter().chain(&dx).chain(&dw).all(|&x| x == 0.0), "{case:?}");
            assert_eq!(out.shape()[0], case.images);
            assert_eq!(dw.shape()[0], case.outputs);
        }
    };
    none(case([4, 4], [2, 8], [3, 3]).images(0));
    none(case([4, 4], [0, 8], [3, 3]));
    none(case([4, 4], [2, 0], [3, 3]));
    none(case([0], [2, 8], [2]).padding([1]));
    none(case([0], [4, 4], [2]).padding([1]).groups(4));
    none(case([3], [4, 4], [2]).images(0).groups(4));
}

/// A NaN of the input is in what reads it, and nowhere else.
#[test]
fn nan_stays_where_it_belongs() {
    let case = case([6, 6], [3, 9], [3, 3]).padding([1, 1]);
    let mut operands = case.operands::<f32>();
    operands[0][[0, 2, 4, 1]] = f32::NAN;
    let [out, ..] = case.run(device(), &operands);
    for (at, value) in out.indexed_iter() {
        let near = at[1].abs_diff(2) <= 1 && at[2].abs_diff(4) <= 1;
        assert_eq!(value.is_nan(), near, "{at:?}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let of = |shape: &[usize]| DeviceArray::<f32, IxDyn>::zeros(device().default_stream(), IxDyn(shape)).unwrap();
    let shape = |x: &[usize], w: &[usize], wanted: &str| {
        let error = of(x).convolve(&of(w)).compute().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Shape {
                    operation: "convolve",
                    ..
                }
            ),
            "{error}"
        );
        let message = error.to_string();
        assert!(
            message.contains(&format!("{x:?}")) && message.contains(&format!("{w:?}")),
            "{message}"
        );
        assert!(message.contains(wanted), "{message}");
    };
    shape(&[3, 4], &[5, 4], "1 to 3 axes");
    shape(&[3], &[5], "1 to 3 axes");
    shape(&[1, 2, 2, 2, 2, 4], &[5, 1, 1, 1, 1, 4], "1 to 3 axes");
    shape(&[1, 9, 4], &[5, 3, 3, 4], "as many axes");
    shape(&[1, 9, 4], &[5, 3, 3], "the channels of one");
    shape(&[1, 2, 4], &[5, 3, 4], "over 2 with its padding along axis 1");
    shape(&[1, 4, 4, 4], &[5, 3, 0, 4], "at least 1");
    let (x, w) = (of(&[1, 5, 5, 4]), of(&[6, 3, 3, 4]));
    let refused = |of: Convolution<'_, f32, IxDyn>, wanted: &str| {
        let error = of.compute().unwrap_err().to_string();
        assert!(error.starts_with("convolve: ") && error.contains(wanted), "{error}");
    };
    refused(x.convolve(&w).stride(0), "stride: given [0, 0]");
    refused(x.convolve(&w).dilation([1, 0]), "dilation: given [1, 0]");
    refused(x.convolve(&w).padding([1, 1, 1]), "for each of 2 axes");
    refused(x.convolve(&w).groups(0), "multiples of 0 groups");
    refused(x.convolve(&w).groups(4), "multiples of 4 groups");
    refused(x.convolve(&w).dilation(3), "dilation 3 over 5");
    refused(
        x.convolve(&w).padding(5).padding_mode(PaddingMode::Reflect),
        "at most 4",
    );
    refused(
        x.convolve(&w).padding(6).padding_mode(PaddingMode::Circular),
        "at most 5",
    );
    for of in [x.convolve(&w).input_gradient(&x), x.convolve(&w).weight_gradient(&x)] {
        let error = of.unwrap_err().to_string();
        assert!(
            error.contains("given a gradient of shape [1, 5, 5, 4], wanted that of the result, [1, 3, 3, 6]"),
            "{error}"
        );
    }
    let elsewhere = DeviceArray::<f32, _>::zeros(Device::simulated_hopper().default_stream(), w.raw_dim()).unwrap();
    let error = x.convolve(&elsewhere).compute().unwrap_err();
    assert!(
        matches!(
            error,
            Error::DifferentDevices {
                operation: "convolve",
                ..
            }
        ),
        "{error}"
    );
}
