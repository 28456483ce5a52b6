// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planning, and its launches in many small pieces, as arrays beyond 2^31 elements have them.

use ndarray::{Array, ArrayD, IxDyn};

use kernels_gpu::transpose::Way;

use super::join::join_two_by;
use super::*;
use crate::Device;

fn axis(len: usize, x: isize, out: usize) -> Axis {
    Axis { len, x, out }
}

/// The strides of C order.
fn standard(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i] as isize;
    }
    strides
}

/// The plan for a view of that shape and those strides into C order.
fn into_standard(shape: &[usize], x: &[isize], bytes: usize) -> Plan {
    Plan::new(&Lie {
        shape,
        x,
        out: &standard(shape),
        bytes,
        addresses: [256, 512],
    })
}

/// The plan for an array of that shape in C order, with its axes permuted.
fn plan(shape: &[usize], axes: &[usize], bytes: usize) -> Plan {
    let strides = standard(shape);
    let permuted: Vec<usize> = axes.iter().map(|&axis| shape[axis]).collect();
    let strides: Vec<isize> = axes.iter().map(|&axis| strides[axis]).collect();
    into_standard(&permuted, &strides, bytes)
}

#[test]
fn plans() {
    let tiles = |word, batch: &[Axis], a, b| Plan::Tiles {
        word,
        batch: batch.to_vec(),
        a,
        b,
    };
    let strided = |word, axes: &[Axis]| Plan::Strided {
        word,
        axes: axes.to_vec(),
    };
    assert_eq!(plan(&[30, 40], &[0, 1], 4), Plan::Contiguous);
    assert_eq!(plan(&[], &[], 3), Plan::Contiguous);
    // Axes of length 1 do not matter, wherever they go.
    assert_eq!(plan(&[30, 1, 40, 1], &[1, 0, 3, 2], 4), Plan::Contiguous);
    assert_eq!(
        plan(&[30, 40], &[1, 0], 4),
        tiles(4, &[], axis(30, 40, 1), axis(40, 1, 30))
    );
    // Channels last to channels first: rows and columns are one axis.
    assert_eq!(
        plan(&[30, 40, 3], &[2, 0, 1], 1),
        tiles(1, &[], axis(1200, 3, 1), axis(3, 1, 1200))
    );
    assert_eq!(
        plan(&[3, 30, 40], &[1, 2, 0], 1),
        tiles(1, &[], axis(3, 1200, 1), axis(1200, 1, 3))
    );
    // The first three of four channels, which are too thin for a tile, with a gap behind them.
    assert_eq!(
        into_standard(&[3, 1200], &[1, 4], 1),
        strided(1, &[axis(1200, 4, 1), axis(3, 1, 1200)])
    );
    // What stays together moves as one word, and wider where the axis is longer.
    assert_eq!(
        plan(&[30, 40, 4], &[1, 0, 2], 2),
        tiles(8, &[], axis(30, 40, 1), axis(40, 1, 30))
    );
    assert_eq!(
        plan(&[5, 7, 64], &[1, 0, 2], 1),
        strided(16, &[axis(7, 4, 20), axis(5, 28, 4), axis(4, 1, 1)])
    );
    assert_eq!(
        plan(&[5, 7], &[1, 0], 12),
        strided(4, &[axis(7, 3, 15), axis(5, 21, 3), axis(3, 1, 1)])
    );
    // A stack of matrices, large and small.
    assert_eq!(
        plan(&[6, 30, 40], &[0, 2, 1], 4),
        tiles(4, &[axis(6, 1200, 1200)], axis(30, 40, 1), axis(40, 1, 30))
    );
    assert_eq!(
        plan(&[6, 9, 9], &[0, 2, 1], 4),
        strided(4, &[axis(6, 81, 81), axis(9, 1, 9), axis(9, 9, 1)])
    );
    // Repeated along the last axis, and along another.
    assert_eq!(
        into_standard(&[50, 60], &[1, 0], 4),
        strided(4, &[axis(50, 1, 60), axis(60, 0, 1)])
    );
    assert_eq!(
        into_standard(&[5, 30, 40], &[0, 1, 30], 4),
        tiles(4, &[axis(5, 0, 1200)], axis(40, 30, 1), axis(30, 1, 40))
    );
    // Backwards along the last axis, and along another, whose rows are words as wide as they can be.
    assert_eq!(
        into_standard(&[50, 60], &[60, -1], 2),
        strided(2, &[axis(50, 60, 60), axis(60, -1, 1)])
    );
    assert_eq!(
        into_standard(&[50, 64], &[-64, 1], 2),
        strided(16, &[axis(50, -8, 8), axis(8, 1, 1)])
    );
}

/// Of every short axis: the tile has room, is whole lines along the long one, and does not meet one bank over and over.
#[test]
fn stretches() {
    let short = |short: usize| [axis(1 << 20, short as isize, 1), axis(short, 1, 1 << 20)];
    let tiling = |word: usize, len: usize| {
        let [a, b] = short(len);
        Tiling::new(word, &a, &b).unwrap()
    };
    for word in [1, 2, 4, 8, 16] {
        for len in 2..=kernels::tile_side(word) / 2 {
            let tiling = tiling(word, len);
            let [a_side, b_side] = tiling.sides;
            assert_eq!((tiling.way, b_side), (Way::STRETCHES_OF_INPUT, len));
            assert!(a_side * len <= kernels::stretch_len(word), "{word} {len}");
            assert!(2 * a_side * len > kernels::stretch_len(word), "{word} {len}");
            assert!(a_side < kernels::tile_side(word) || a_side.is_multiple_of(kernels::tile_side(word)));
        }
    }
    let padded: Vec<usize> = (2..=64).filter(|&len| tiling(1, len).padded).collect();
    assert!(padded.contains(&8) && padded.contains(&64), "{padded:?}");
    assert!(!padded.contains(&31) && !padded.contains(&62), "{padded:?}");
}

#[test]
fn plans_of_copies_into_parts() {
    let plan = |shape: &[usize], x: &[isize], out: &[isize], addresses| {
        Plan::new(&Lie {
            shape,
            x,
            out,
            bytes: 4,
            addresses,
        })
    };
    let strided = |word, axes: &[Axis]| Plan::Strided {
        word,
        axes: axes.to_vec(),
    };
    // Both sides backwards: forwards.
    assert_eq!(plan(&[50, 60], &[-60, 1], &[-60, 1], [256, 512]), Plan::Contiguous);
    // The output in another order of the axes, and the input in the same.
    assert_eq!(plan(&[50, 60], &[1, 50], &[1, 50], [256, 516]), Plan::Contiguous);
    // Rows of a larger array, which are aligned, and which begin between words of 16 bytes.
    assert_eq!(
        plan(&[50, 8], &[8, 1], &[24, 1], [256, 512]),
        strided(16, &[axis(50, 2, 6), axis(2, 1, 1)])
    );
    assert_eq!(
        plan(&[50, 8], &[8, 1], &[24, 1], [256, 520]),
        strided(8, &[axis(50, 4, 12), axis(4, 1, 1)])
    );
    assert_eq!(
        plan(&[50, 8], &[8, 1], &[24, -1], [260, 520]),
        strided(4, &[axis(50, 8, 24), axis(8, -1, 1)])
    );
    // Lines that begin between such words, and shorter ones.
    assert_eq!(
        plan(&[50, 64], &[67, 1], &[64, 1], [260, 512]),
        Plan::Lines {
            axes: vec![axis(50, 268, 256), axis(256, 1, 1)]
        }
    );
    assert_eq!(
        plan(&[50, 63], &[67, 1], &[63, 1], [260, 512]),
        strided(4, &[axis(50, 67, 63), axis(63, 1, 1)])
    );
}

/// The pieces cover every step once, are within the limits, and not smaller than they must be.
#[test]
fn pieces_of_iterations() {
    for (lens, most, keep) in [
        (&[7][..], 100, 8),
        (&[7], 3, 8),
        (&[1, 1], 1, 2),
        (&[3, 4, 5], 60, 3),
        (&[3, 4, 5], 59, 3),
        (&[3, 4, 5], 12, 3),
        (&[3, 4, 5], 4, 3),
        (&[3, 4, 5], 1000, 2),
        (&[3, 4, 5], 1000, 1),
        (&[2; 7], 9, 4),
    ] {
        let mut seen = Array::zeros(IxDyn(lens));
        let mut last: usize = 0;
        let mut count = 0;
        for ranges in pieces(lens, most, keep) {
            let steps: usize = ranges.iter().map(|range| range.len()).product();
            assert!(0 < steps && steps <= most, "{lens:?} {most} {keep}: {ranges:?}");
            assert!(
                ranges[..lens.len().saturating_sub(keep)]
                    .iter()
                    .all(|range| range.len() == 1)
            );
            let mut part = seen.view_mut();
            part.slice_each_axis_inplace(|axis| ranges[axis.axis.index()].clone().into());
            part += 1;
            last = last.max(steps);
            count += 1;
        }
        assert!(seen.iter().all(|&times| times == 1), "{lens:?} {most} {keep}: {seen}");
        if keep >= lens.len() {
            assert!(
                count <= 1 || 2 * last > most,
                "{lens:?} {most} {keep}: pieces of {last}"
            );
        }
    }
}

#[test]
fn dividing_by_multiplying() {
    let lens = (1..300).chain([
        1000,
        4095,
        4096,
        4097,
        65_537,
        99_991,
        (1 << 30) - 1,
        1 << 30,
        (1 << 30) + 1,
    ]);
    for len in lens.chain([(1usize << 31) - 1, 1 << 31]) {
        let extent = Extent::new(len);
        let multiples = [1usize, 2, 3, 1000, (1 << 31) / len].map(|times| times * len);
        let near = multiples
            .into_iter()
            .flat_map(|index| [index.wrapping_sub(1), index, index + 1]);
        for index in (0..100)
            .chain(near)
            .chain([(1 << 31) - 1])
            .filter(|&index| index < 1 << 31)
        {
            let (quotient, remainder) = extent.div_rem(index as u32);
            assert_eq!(
                (quotient as usize, remainder as usize),
                (index / len, index % len),
                "{index} by {len}"
            );
        }
    }
}

/// Launches of few steps give what one launch gives.
#[test]
fn copies_in_pieces() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let cases: [(&[usize], &[usize]); 8] = [
        (&[70, 90], &[1, 0]),
        (&[3, 2, 40, 35], &[1, 0, 3, 2]),
        (&[1200, 3], &[1, 0]),
        (&[3, 1200], &[1, 0]),
        (&[9000, 3], &[1, 0]),
        (&[3, 9000], &[1, 0]),
        (&[5, 7, 65], &[1, 0, 2]),
        (&[2; 11], &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ];
    for (shape, axes) in cases {
        let len = shape.iter().product::<usize>() as u32;
        let x = ArrayD::from_shape_vec(shape, (0..len).collect()).unwrap();
        let wanted = x.view().permuted_axes(axes);
        let on_device = DeviceArray::from_ndarray(stream, &x).unwrap();
        let view = on_device.view().permuted_axes(axes).unwrap();
        for most in [1, 2, 5, 1000, MOST] {
            if most == 1 && len > 7000 {
                continue;
            }
            let mut out = DeviceArray::<u32, _>::zeros(stream, view.raw_dim()).unwrap();
            let plan = into_standard(view.shape(), view.strides(), size_of::<u32>());
            let mut part = out.view_mut();
            run(&plan, stream, &Words::of(&view), &mut WordsMut::of(&mut part), most).unwrap();
            assert_eq!(
                out.to_ndarray().unwrap(),
                wanted,
                "{shape:?} {axes:?}, at most {most} steps"
            );
        }
    }
}

/// So do short lines that are put side by side by several launches; what they cannot be put side by side of, is said.
#[test]
fn joined_in_pieces() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let of = |columns, first: u16| ndarray::Array2::from_shape_fn((101, columns), |(i, j)| (9 * i + j) as u16 + first);
    let (x, y) = (of(3, 1), of(2, 3000));
    let wanted = ndarray::concatenate![ndarray::Axis(1), x, y];
    let [on_x, on_y] = [x, y].map(|array| DeviceArray::from_ndarray(stream, &array).unwrap());
    for most in [1, 300, MOST] {
        let mut out = DeviceArray::<u16, _>::zeros(stream, (101, 5)).unwrap();
        assert!(join_two_by([&on_x, &on_y], 1, &mut out, most).unwrap());
        assert_eq!(out.to_ndarray().unwrap(), wanted, "at most {most} bytes");
    }
    let mut out = DeviceArray::<u16, _>::zeros(stream, (101, 5)).unwrap();
    assert!(!join_two_by([&on_x.flip(ndarray::Axis(0)).unwrap(), &on_y], 1, &mut out, MOST).unwrap());
    let mut out = DeviceArray::<u16, _>::zeros(stream, (202, 3)).unwrap();
    assert!(!join_two_by([&on_x, &on_x], 0, &mut out, MOST).unwrap());
    // Lines with gaps between them, one array below the other: as many lines of both, but of rows of their own.
    let part = on_x.slice(ndarray::s![.., ..2]).unwrap();
    let mut out = DeviceArray::<u16, _>::zeros(stream, (202, 2)).unwrap();
    assert!(!join_two_by([&part, &part], 0, &mut out, MOST).unwrap());
}
