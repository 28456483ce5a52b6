// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of channels and outputs enough for Hopper's tensor cores.

use super::*;

/// Channels and outputs enough for Hopper's tensor cores: several steps of a tap, tiles of each width, all axes, taps that read beyond
/// the ends, and gradients that are written to every other place.
fn many_channels<T: Convolve + FloatNumber>() {
    case([9], [64, 16], [3]).padding([1]).check_16_bits::<T>();
    case([5, 6], [40, 72], [3, 3])
        .padding([1, 1])
        .images(3)
        .check_16_bits::<T>();
    case([3, 3, 3], [64, 16], [2, 1, 2]).check_16_bits::<T>();
    case([7, 6], [72, 136], [1, 2]).dilation([1, 2]).check_16_bits::<T>();
    case([7, 6], [48, 48], [3, 3])
        .stride([2, 2])
        .padding([1, 1])
        .check_16_bits::<T>();
    case([6], [64, 16], [3]).padding([5]).check_16_bits::<T>();
    // With strides: tiles that are shorter for it, and one that is too long for a tensor map.
    case([9, 10], [40, 72], [3, 2])
        .stride([1, 2])
        .padding([1, 1])
        .images(2)
        .check_16_bits::<T>();
    case([200], [64, 16], [3]).stride([3]).padding([2]).check_16_bits::<T>();
    case([5, 4, 6], [40, 16], [2, 1, 3])
        .stride([2, 2, 4])
        .dilation([1, 1, 2])
        .check_16_bits::<T>();
    case([30], [40, 16], [2]).stride([9]).check_16_bits::<T>();
}

for_types!(many_channels: f16 bf16);

/// Gradients of inputs of strided convolutions: remainders of several lengths in one launch, and in several; some that no tap has, which
/// are zeros; axes shorter than the stride; taps in steps of their own.
fn gradients_of_strided<T: Convolve + FloatNumber>() {
    case([7, 10], [72, 40], [1, 1]).stride([2, 2]).check_16_bits::<T>();
    case([5, 4, 7], [16, 48], [3, 3, 3])
        .stride([2, 2, 2])
        .padding([1, 1, 1])
        .check_16_bits::<T>();
    case([11], [136, 72], [4])
        .stride([3])
        .padding([2])
        .images(3)
        .check_16_bits::<T>();
    case([1, 9], [24, 64], [1, 2])
        .stride([3, 4])
        .dilation([1, 2])
        .check_16_bits::<T>();
    case([9, 9], [264, 40], [3, 3])
        .stride([2, 2])
        .padding([1, 1])
        .check_16_bits::<T>();
}

for_types!(gradients_of_strided: f16 bf16);

/// What is infinite in the gradient of a result is NaN in no place that no tap reads.
#[test]
fn places_that_no_tap_reads_are_zeros() {
    let case = case([6, 6], [72, 40], [1, 1]).stride([2, 2]);
    let mut operands = case.operands::<bf16>();
    operands[2].fill(bf16::INFINITY);
    operands[1].fill(bf16::INFINITY);
    for device in devices::<bf16>() {
        let [_, gradient, _] = case.run(&device, &operands);
        for (at, value) in gradient.indexed_iter() {
            let is_read = at[1] % 2 == 0 && at[2] % 2 == 0;
            assert_eq!(*value == bf16::ZERO, !is_read, "gradient at {at:?}");
        }
    }
}

/// Gradients of weights by tensor cores: chunks of channels that are not whole, in tiles that are not; several tiles of outputs; boxes of
/// places along each axis, with steps and dilation; more places than one part has; and what goes another way: outputs that are no multiple
/// of 8, one tap of each place, and too few channels.
fn gradients_of_many_channels<T: Convolve + FloatNumber>() {
    case([70], [64, 16], [1]).stride([2]).images(5).check_16_bits::<T>();
    case([6, 5], [136, 264], [2, 3]).padding([1, 2]).check_16_bits::<T>();
    case([17, 9], [40, 40], [5, 1])
        .dilation([3, 1])
        .padding([6, 0])
        .stride([1, 3])
        .images(7)
        .check_16_bits::<T>();
    case([5, 9, 6], [72, 16], [3, 1, 2])
        .stride([3, 1, 2])
        .padding([1, 0, 1])
        .images(2)
        .check_16_bits::<T>();
    case([9], [64, 12], [3]).padding([1]).check_16_bits::<T>();
    case([9], [16, 64], [3]).padding([1]).images(2).check_16_bits::<T>();
    // More padding than taps reach: no tap of some places finds any.
    case([3, 4], [64, 16], [2, 2]).padding([4, 5]).check_16_bits::<T>();
}

for_types!(gradients_of_many_channels: f16 bf16);

/// What is infinite or NaN in one channel is in no other's gradients, and those of outputs stay theirs.
#[test]
fn infinity_stays_in_its_channel() {
    let case = case([4, 5], [64, 16], [3, 3]).padding([1, 0]).images(2);
    let mut operands = case.operands::<bf16>();
    operands[0][[0, 3, 4, 17]] = bf16::INFINITY;
    operands[2][[1, 2, 2, 5]] = bf16::NAN;
    for device in devices::<bf16>() {
        let [_, _, weights] = case.run(&device, &operands);
        for (at, value) in weights.indexed_iter() {
            let (output, channel) = (at[0], at[3]);
            if output != 5 && channel != 17 {
                assert!(value.is_finite(), "weights at {at:?}");
            } else if output == 5 {
                assert!(value.is_nan(), "weights at {at:?}");
            }
        }
    }
}

/// More tiles than blocks on Hopper, of one step or two along k each: a tile's result is put where the last one's is still read from.
#[test]
fn several_tiles_for_a_block() {
    let images = 2 * device().properties().multiprocessors as usize + 1;
    case([16, 8], [40, 16], [1, 1])
        .padding([0, 1])
        .images(images)
        .check::<bf16>();
}

/// Boxes of 7 × 28 and 14 × 14 places, and of others that are no powers of 2, as columns on Hopper: with outputs that are no whole tile,
/// several chunks of channels, a stride, taps beyond the ends, and gradients in several remainders of places. There are as many tiles as the
/// device has multiprocessors, for which those of 128 places are too many for one each.
fn places_as_columns<T: Convolve + FloatNumber>() {
    let beside = device().properties().multiprocessors as usize;
    case([14, 14], [72, 136], [2, 1])
        .padding([1, 0])
        .images(beside)
        .check_of_tensor_cores::<T>();
    case([7, 28], [136, 72], [1, 2])
        .padding([0, 1])
        .images(beside)
        .check_of_tensor_cores::<T>();
    case([28, 13], [136, 104], [1, 1])
        .stride([2, 1])
        .images(beside)
        .check_of_tensor_cores::<T>();
    case([200], [40, 104], [3])
        .padding([1])
        .images(beside)
        .check_of_tensor_cores::<T>();
}

for_types!(places_as_columns: f16 bf16);
