// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions that have what a tile reads in shared memory on Hopper.

use super::*;

/// Planes of channels and tiles of outputs that are not whole, several columns of outputs, parts along one axis and along two, taps
/// beyond the ends, and more taps than places.
fn patches<T: Convolve + FloatNumber>() {
    case([9], [16, 16], [3]).padding([1]).check_16_bits::<T>();
    case([150], [24, 40], [5])
        .padding([3])
        .dilation([2])
        .images(2)
        .check_16_bits::<T>();
    case([17, 19], [32, 32], [3, 3])
        .padding([1, 1])
        .images(2)
        .check_16_bits::<T>();
    case([5, 9, 10], [16, 24], [3, 2, 3])
        .padding([1, 0, 1])
        .check_16_bits::<T>();
    case([20, 9], [40, 72], [3, 1])
        .dilation([2, 1])
        .padding([4, 2])
        .check_16_bits::<T>();
    case([70], [80, 136], [2]).check_16_bits::<T>();
    // Gradients of inputs into every other place, by every other tap.
    case([9, 20], [24, 32], [3, 4])
        .stride([2, 2])
        .padding([1, 1])
        .images(2)
        .check_16_bits::<T>();
    case([2, 3, 2], [24, 16], [2, 3, 2])
        .padding([1, 2, 1])
        .check_16_bits::<T>();
}

for_types!(patches: f16 bf16);

/// Each block has several tiles, in more rounds than it has patches.
#[test]
fn several_patches_for_a_block() {
    let images = 4 * device().properties().multiprocessors as usize + 1;
    case([3, 9], [16, 16], [1, 3])
        .padding([0, 1])
        .images(images)
        .check_16_bits::<bf16>();
}

/// What is infinite is in no output whose taps do not read it.
#[test]
fn infinity_stays_in_reach() {
    let case = case([12, 12], [32, 16], [3, 3]).padding([1, 1]);
    let mut operands = case.operands::<bf16>();
    operands[0][[0, 3, 4, 17]] = bf16::INFINITY;
    for device in devices::<bf16>() {
        let [out, _, _] = case.run(&device, &operands);
        for (at, value) in out.indexed_iter() {
            let is_near = at[1].abs_diff(3) < 2 && at[2].abs_diff(4) < 2;
            assert_eq!(value.is_finite(), !is_near, "output at {at:?}");
        }
    }
}
