// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of few channels or outputs, of small groups, and of pieces: those that networks begin and end with.

use super::*;

/// On tensor cores, by `bf16`; every fifth by `f16`, too, of which instructions and conversions differ, and nothing else.
fn check_halves(cases: Vec<Case>) {
    for (number, case) in cases.into_iter().enumerate() {
        if number % 5 == 0 {
            case.clone().check_of_tensor_cores::<warpsmith::f16>();
        }
        case.check_of_tensor_cores::<bf16>();
    }
}

/// Few channels or outputs, for which tensor cores multiply what lies in a patch: odd numbers of channels, a step along k and more, tiles
/// of each number of outputs, those of the end, boxes along each axis, strides, dilation, and gradients of as few outputs.
fn few_channels<T: Convolve + FloatNumber>() {
    case([9, 11], [3, 33], [3, 3])
        .stride([2, 2])
        .padding([1, 1])
        .images(3)
        .check_16_bits::<T>();
    case([20, 17], [3, 64], [7, 7])
        .stride([2, 2])
        .padding([3, 3])
        .check_16_bits::<T>();
    case([12, 13], [1, 32], [3, 3])
        .padding([1, 1])
        .images(2)
        .check_16_bits::<T>();
    case([300], [1, 9], [10]).stride([5]).check_16_bits::<T>();
    case([140], [5, 12], [3])
        .dilation([2])
        .padding([2])
        .check_16_bits::<T>();
    case([4, 9, 10], [3, 72], [3, 2, 2])
        .stride([1, 2, 2])
        .padding([1, 1, 0])
        .images(2)
        .check_16_bits::<T>();
    case([9, 10], [24, 3], [3, 3])
        .padding([1, 1])
        .images(2)
        .check_16_bits::<T>();
    case([9, 10], [72, 2], [2, 3]).stride([1, 2]).check_16_bits::<T>();
    case([6, 19], [32, 32], [3, 3]).padding([1, 1]).check_16_bits::<T>();
    case([5, 6], [2, 136], [5, 1]).padding([2, 0]).check_16_bits::<T>();
    // More columns of the weights' gradient than a block has.
    case([5, 6], [72, 3], [3, 3]).padding([1, 1]).check_16_bits::<T>();
    case([4, 5, 6], [32, 20], [3, 3, 3])
        .padding([1, 1, 1])
        .check_16_bits::<T>();
    // One tap, which is no product where there is padding, or few outputs.
    case([6, 7], [16, 8], [1, 1]).padding([1, 0]).check_16_bits::<T>();
    case([6, 7], [16, 3], [1, 1]).check_16_bits::<T>();
}

for_types!(few_channels: f16 bf16);

/// Groups of several channels and few outputs: several of them in a block, a warp for each, units of 8 channels that two groups do not share,
/// and numbers of groups and channels that go by ones.
fn small_groups<T: Convolve + FloatNumber>() {
    for (groups, channels, outputs) in [
        (8, 4, 4),
        (4, 8, 8),
        (8, 16, 16),
        (3, 3, 5),
        (4, 2, 16),
        (4, 8, 20),
        (6, 12, 1),
    ] {
        case([7, 9], [groups * channels, groups * outputs], [3, 3])
            .groups(groups)
            .padding([1, 1])
            .images(2)
            .check_16_bits::<T>();
    }
    case([9, 8], [32, 32], [3, 3])
        .groups(4)
        .stride([2, 2])
        .padding([1, 1])
        .check_16_bits::<T>();
    case([5, 5, 6], [16, 32], [2, 2, 3]).groups(4).check_16_bits::<T>();
}

for_types!(small_groups: f16 bf16);

/// Groups of 4, 8 and 16 channels and as many outputs, which have a kernel of their own: several items and slices of blocks, and the
/// gradients of weights of several groups to a warp, of as many outputs or others.
#[test]
fn groups_of_few_channels() {
    let mut cases = Vec::new();
    for (groups, channels, outputs) in [
        (4, 4, 4),
        (32, 4, 4),
        (48, 4, 4),
        (6, 8, 8),
        (24, 8, 8),
        (1, 16, 16),
        (8, 16, 16),
        (16, 4, 2),
        (32, 2, 4),
        (16, 8, 5),
    ] {
        cases.push(
            case([7, 9], [groups * channels, groups * outputs], [3, 3])
                .groups(groups)
                .padding([1, 1])
                .images(2),
        );
    }
    check_halves(cases);
}

/// Of that kernel, which is one for both types but for the product's instruction: taps that fill their last step and do not, strides,
/// dilation, one axis and three.
#[test]
fn places_of_groups_of_few_channels() {
    for channels in [4, 8, 16] {
        let groups = 64 / channels;
        let case = |places: [usize; 2], taps: [usize; 2]| case(places, [64, 64], taps).groups(groups);
        case([6, 7], [1, 1]).check_of_tensor_cores::<bf16>();
        case([6, 18], [2, 2]).padding([1, 0]).check_of_tensor_cores::<bf16>();
        case([9, 10], [5, 5]).padding([2, 2]).check_of_tensor_cores::<bf16>();
        case([9, 17], [3, 3])
            .stride([2, 2])
            .padding([1, 1])
            .images(3)
            .check_of_tensor_cores::<bf16>();
        case([9, 8], [3, 2])
            .dilation([2, 3])
            .padding([0, 2])
            .check_of_tensor_cores::<bf16>();
    }
    case([150], [32, 32], [3])
        .groups(4)
        .padding([1])
        .check_of_tensor_cores::<bf16>();
    case([4, 5, 6], [32, 32], [2, 3, 2])
        .groups(8)
        .padding([1, 1, 0])
        .check_of_tensor_cores::<bf16>();
}

/// Depthwise convolutions on tensor cores: blocks of one to four units of 8 channels, and several slices of them; lines of taps in panels of
/// each size, that fill them and do not, and several panels along each axis; strides, dilation, one axis and three; and channels that are
/// no units.
#[test]
fn depthwise_on_tensor_cores() {
    fn of<const N: usize>(places: [usize; N], channels: usize, taps: [usize; N]) -> Case {
        case(places, [channels, channels], taps).groups(channels)
    }
    let mut cases = Vec::new();
    for channels in [8, 16, 24, 32, 40, 64, 88] {
        cases.push(of([9, 17], channels, [3, 3]).padding([1, 1]).images(2));
    }
    for (taps, padding) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (9, 4)] {
        for stride in [1, 2] {
            cases.push(
                of([11, 19], 16, [taps, taps])
                    .padding([padding, padding])
                    .stride([stride, stride]),
            );
        }
    }
    cases.push(of([10, 12], 32, [2, 6]));
    cases.push(of([10, 12], 32, [7, 1]).padding([3, 0]));
    cases.push(of([17, 7], 16, [5, 3]).stride([3, 2]).padding([2, 1]));
    cases.push(of([12, 13], 16, [3, 3]).dilation([2, 3]).padding([2, 3]));
    cases.push(of([12, 13], 16, [3, 3]).dilation([1, 2]).padding([1, 2]));
    cases.push(of([150], 32, [4]).padding([3]).images(2));
    cases.push(of([40], 16, [31]).padding([15]));
    cases.push(of([4, 9, 10], 16, [2, 3, 3]).padding([1, 1, 1]).images(2));
    cases.push(of([5, 6, 7], 16, [3, 2, 3]).stride([2, 1, 2]));
    check_halves(cases);
}

/// Depthwise convolutions of pictures, whose patches are in shared memory: lines of each number of taps, of which there are fewer and more
/// than taps; tiles that are not whole, items of one line; channels that no block has all of; no padding, and more than the taps reach.
#[test]
fn depthwise_pictures() {
    fn of(places: [usize; 2], channels: usize, taps: [usize; 2]) -> Case {
        case(places, [channels, channels], taps).groups(channels)
    }
    let mut cases = Vec::new();
    for taps in [3, 5, 7] {
        for stride in [1, 2] {
            for lines in [1, 2, taps, 9] {
                cases.push(
                    of([19, 37], 8, [lines, taps])
                        .padding([lines / 2, taps / 2])
                        .stride([stride, stride]),
                );
            }
            cases.push(of([taps + stride, taps], 48, [taps, taps]).stride([stride, stride]));
        }
        cases.push(of([5, 3], 56, [taps, taps]).padding([taps, taps + 1]).images(2));
        cases.push(of([14, 14], 72, [taps, taps]).padding([taps / 2, taps / 2]));
    }
    // One line of taps has no dilation.
    cases.push(of([9, 17], 16, [1, 3]).dilation([2, 1]).padding([0, 1]));
    check_halves(cases);
}

/// They are the sums, in the same order, of channels that lie elsewhere, to the bit.
#[test]
fn depthwise_pictures_are_the_same_wherever_they_lie() {
    for (taps, stride, channels) in [(3, 1, 32), (3, 2, 24), (5, 1, 40), (7, 1, 16), (7, 2, 32)] {
        let images = 2 * device().properties().multiprocessors as usize;
        let case = case([17, 19], [channels, channels], [taps, taps])
            .groups(channels)
            .stride([stride, stride])
            .padding([taps / 2, taps / 2])
            .images(if taps == 3 { images } else { 2 });
        let operands = case.operands::<bf16>();
        for device in devices::<bf16>() {
            let stream = device.default_stream();
            let [x, weights] = [0, 1].map(|i| DeviceArray::from_ndarray(stream, &operands[i]).unwrap());
            let front = x.view().permuted_axes(IxDyn(&[0, 3, 1, 2])).unwrap();
            let front = front.to_array().unwrap();
            let front = front.view().permuted_axes(IxDyn(&[0, 2, 3, 1])).unwrap();
            let last = case.on(&x, &weights).compute().unwrap().to_ndarray().unwrap();
            let front = case.on(&front, &weights).compute().unwrap().to_ndarray().unwrap();
            assert_eq!(last, front, "{case:?}");
        }
    }
}

/// More tiles than blocks and parts, so that each block has several, the last of which are not whole.
#[test]
fn several_tiles_of_few_channels_for_a_block() {
    let images = 6 * device().properties().multiprocessors as usize + 5;
    case([9, 17], [3, 8], [3, 3])
        .padding([1, 1])
        .images(images)
        .check::<bf16>();
    case([130], [8, 32], [2]).groups(4).images(images).check::<bf16>();
    case([130], [16, 16], [2]).groups(4).images(images).check::<bf16>();
    case([130], [16, 16], [2]).groups(16).images(images).check::<bf16>();
    case([9, 17], [16, 16], [3, 3])
        .groups(16)
        .images(images)
        .check::<bf16>();
}

/// Channels in front, which lie far apart, and a part of an array that does not begin at a multiple of 16 bytes.
#[test]
fn few_channels_that_lie_elsewhere() {
    for (channels, outputs, groups) in [(3, 40, 1), (8, 40, 1), (64, 64, 16), (32, 32, 2), (32, 32, 32)] {
        let case = case([9, 11], [channels, outputs], [3, 3])
            .groups(groups)
            .padding([1, 1])
            .images(2);
        let operands = case.operands::<bf16>();
        for device in devices::<bf16>() {
            let stream = device.default_stream();
            let [x, weights, out] = operands
                .each_ref()
                .map(|x| DeviceArray::from_ndarray(stream, x).unwrap());
            let front = x
                .view()
                .permuted_axes(IxDyn(&[0, 3, 1, 2]))
                .unwrap()
                .to_array()
                .unwrap();
            let front = front.view().permuted_axes(IxDyn(&[0, 2, 3, 1])).unwrap();
            let mut shape = operands[0].shape().to_vec();
            shape[3] += 3;
            let mut wide = ArrayD::from_elem(IxDyn(&shape), bf16::NAN);
            wide.slice_axis_mut(Axis(3), (3..).into()).assign(&operands[0]);
            let wide = DeviceArray::from_ndarray(stream, &wide).unwrap();
            let part = wide.slice_axis(Axis(3), (3..).into()).unwrap();
            let sums = case.sums(&operands);
            for x in [&front, &part] {
                let of = case.on(x, &weights);
                let got = [
                    of.compute().unwrap(),
                    of.input_gradient(&out).unwrap(),
                    of.weight_gradient(&out).unwrap(),
                ];
                case.compare(&sums, &got.map(|x| x.to_ndarray().unwrap()));
            }
        }
    }
}

/// What is infinite in one channel is in no other's results by way of the zeros that fill a step, and so are gradients of weights.
#[test]
fn infinity_stays_in_few_channels() {
    for (channels, outputs, groups) in [
        (3, 16, 1),
        (12, 16, 4),
        (24, 16, 1),
        (64, 64, 16),
        (32, 32, 4),
        (64, 64, 8),
        (32, 32, 2),
    ] {
        let case = case([9, 10], [channels, outputs], [3, 3])
            .padding([1, 1])
            .groups(groups);
        let mut operands = case.operands::<bf16>();
        operands[0][[0, 4, 4, 1]] = bf16::INFINITY;
        for device in devices::<bf16>() {
            let [out, _, weights] = case.run(&device, &operands);
            for (at, value) in out.indexed_iter() {
                let reads = at[1].abs_diff(4) < 2 && at[2].abs_diff(4) < 2 && at[3] < outputs / groups;
                assert_eq!(value.is_finite(), !reads, "{case:?}: result at {at:?}");
            }
            for (at, value) in weights.indexed_iter() {
                let is_of_channel = at[3] == 1 && at[0] < outputs / groups;
                assert!(is_of_channel || value.is_finite(), "{case:?}: weights at {at:?}");
            }
        }
    }
}

/// The same of depthwise convolutions, where 8 channels are multiplied together: each has its own results and gradients alone.
#[test]
fn infinity_stays_in_channels_of_their_own() {
    for value in [bf16::INFINITY, bf16::NAN] {
        let case = case([9, 10], [32, 32], [3, 3]).padding([1, 1]).groups(32);
        let mut operands = case.operands::<bf16>();
        operands[0][[0, 4, 4, 5]] = value;
        operands[2][[0, 3, 3, 18]] = value;
        for device in devices::<bf16>() {
            let [out, input, weights] = case.run(&device, &operands);
            for (at, value) in out.indexed_iter() {
                let reads = at[1].abs_diff(4) < 2 && at[2].abs_diff(4) < 2 && at[3] == 5;
                assert_eq!(value.is_finite(), !reads, "result at {at:?}");
            }
            for (at, value) in input.indexed_iter() {
                let reads = at[1].abs_diff(3) < 2 && at[2].abs_diff(3) < 2 && at[3] == 18;
                assert_eq!(value.is_finite(), !reads, "gradient of the input at {at:?}");
            }
            for (at, value) in weights.indexed_iter() {
                assert_eq!(value.is_finite(), ![5, 18].contains(&at[0]), "weights at {at:?}");
            }
        }
    }
}

/// An input that is cut into pieces, of which each is read by one place.
fn pieces<T: Convolve + FloatNumber>() {
    case([8, 12], [3, 10], [4, 4]).stride([4, 4]).images(2).check::<T>();
    case([6], [2, 3], [2]).stride([2]).check::<T>();
    case([4, 6, 3], [2, 9], [2, 3, 1]).stride([2, 3, 1]).check::<T>();
    // Places are left over, or between pieces.
    case([9, 12], [3, 10], [4, 4]).stride([4, 4]).check::<T>();
    case([8, 12], [3, 10], [3, 4]).stride([4, 4]).check::<T>();
}

for_types!(pieces: f32 f64 bf16);
