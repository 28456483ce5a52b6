// SPDX-License-Identifier: MIT OR Apache-2.0
//! Few queries, whose keys are divided among blocks.

use super::*;

#[test]
fn one_query() {
    for keys in [1, 7, 33, 255, 256, 257, 1100] {
        case(1, keys, 16).check::<f32>();
        case(1, keys, 128).check::<bf16>();
    }
    case(1, 700, 64).check::<f16>();
}

#[test]
fn head_dimensions() {
    for dim in [8, 24, 64, 72, 128, 136, 256] {
        case(1, 300, dim).check::<f32>();
        case(2, 300, dim).check::<f16>();
    }
    // Of no whole accesses: not by these kernels.
    case(1, 300, 12).check::<f32>();
}

/// Blocks of four queries, and rests of them, of heads that share keys.
#[test]
fn several_queries() {
    for queries in [2, 3, 4, 5, 16] {
        case(queries, 300, 16).check::<f32>();
    }
    case(1, 600, 64).heads(2, 8, 2).check::<bf16>();
    case(2, 300, 32).heads(1, 6, 1).check::<f32>();
    case(1, 9, 64).heads(3, 2, 2).check::<f16>();
}

/// One matrix of 16 rows, full and not, and keys around those that a warp and a block take at a time.
#[test]
fn several_queries_on_tensor_cores() {
    for keys in [1, 16, 17, 65] {
        case(2, keys, 64).check::<bf16>();
    }
    case(2, 600, 128).heads(1, 8, 1).check::<bf16>();
    case(9, 80, 64).causal().check::<f16>();
    case(4, 9, 128).heads(1, 4, 1).causal().check::<bf16>();
    // More rows than warps, which bring several of them together at a time, of several parts.
    for (queries, dim) in [(4, 64), (3, 64), (3, 128), (4, 128)] {
        case(queries, 700, dim).heads(1, 4, 1).check::<bf16>();
    }
    let lengths = seen::Sequences::First(&[0, 270, 17]);
    Case {
        sequences: lengths,
        ..case(2, 280, 64).heads(3, 2, 1).causal()
    }
    .check::<f16>();
    Case {
        scale: Some(-0.5),
        ..case(3, 30, 128)
    }
    .check::<bf16>();
}

/// As many heads as there are multiprocessors, or half as many: twice as many warps have all keys of one on tensor cores, some of them none; of more than
/// eight rows there are as many as else.
#[test]
fn as_many_heads_as_multiprocessors() {
    let multiprocessors = device().properties().multiprocessors as usize;
    for heads in [multiprocessors, multiprocessors.div_ceil(2)] {
        for (keys, dim) in [(129, 64), (300, 128), (1025, 64)] {
            case(1, keys, dim).heads(1, heads, heads).check::<bf16>();
        }
        case(4, 200, 128).heads(1, 2 * heads, heads).causal().check::<f16>();
        case(9, 200, 64).heads(1, heads, heads).check::<bf16>();
    }
    let lengths = seen::Sequences::First(&[200, 0, 17]);
    let heads = multiprocessors.div_ceil(3);
    Case {
        sequences: lengths,
        ..case(1, 280, 64).heads(3, 2 * heads, heads)
    }
    .check::<bf16>();
}

#[test]
fn causal() {
    case(4, 600, 16).causal().check::<f32>();
    case(3, 258, 64).heads(1, 4, 1).causal().check::<bf16>();
    // The first queries see no key.
    case(7, 3, 16).causal().check::<f32>();
}

/// Parts of the keys that a window leaves, and caches that are filled up to various lengths.
#[test]
fn windows_and_lengths() {
    let of = |lengths, case: Case| Case {
        sequences: seen::Sequences::First(lengths),
        ..case
    };
    let window = |left, case: Case| Case {
        window: [Some(left), Some(0)],
        ..case
    };
    for left in [0, 7, 300] {
        window(left, case(1, 700, 16)).check::<f32>();
    }
    window(520, case(1, 700, 64).heads(1, 8, 2)).check::<bf16>();
    // Several queries, which do not see the same first key.
    window(30, case(3, 300, 16)).check::<f32>();
    of(&[700, 0, 1, 300], case(1, 700, 16).heads(4, 2, 1)).check::<f32>();
    of(&[130, 600], case(1, 600, 64).heads(2, 8, 2)).check::<f16>();
    of(&[2, 500], case(4, 600, 16).heads(2, 1, 1).causal()).check::<f32>();
    of(&[600, 20], window(300, case(1, 600, 16).heads(2, 2, 2))).check::<f32>();
}

#[test]
fn scales() {
    for scale in [0.0, 3.0, -0.5] {
        let case = Case {
            scale: Some(scale),
            ..case(2, 300, 16)
        };
        case.check::<f32>();
    }
}

/// Keys whose scores are −∞ are as if they were not there: those of a part, and all.
#[test]
fn parts_without_weight() {
    let case = case(2, 600, 16);
    for hidden in [0..300, 300..600, 0..600] {
        let [mut q, mut k, v] = case.operands::<f32>();
        q.fill(1.0);
        for key in hidden.clone() {
            k[[0, 0, key, 5]] = f32::NEG_INFINITY;
        }
        let (out, log_sums) = case.run(device(), &[q.clone(), k.clone(), v.clone()]);
        let left: Vec<usize> = (0..600).filter(|key| !hidden.contains(key)).collect();
        let others = Case {
            keys: left.len(),
            ..case
        };
        others.compare(
            &[q, k.select(Axis(2), &left), v.select(Axis(2), &left)],
            &out,
            &log_sums,
        );
    }
}

#[test]
fn nan_stays_where_it_belongs() {
    let case = case(2, 600, 16);
    let [mut q, k, mut v] = case.operands::<f32>();
    v[[0, 0, 500, 3]] = f32::NAN;
    let (out, log_sums) = case.run(device(), &[q.clone(), k.clone(), v.clone()]);
    for ((.., column), x) in out.indexed_iter() {
        assert_eq!(x.is_nan(), column == 3, "{column}: {x}");
    }
    assert!(log_sums.iter().all(|x| x.is_finite()));
    q[[0, 0, 1, 0]] = f32::NAN;
    v[[0, 0, 500, 3]] = 0.0;
    let (out, log_sums) = case.run(device(), &[q, k, v]);
    for ((_, _, row, _), x) in out.indexed_iter() {
        assert_eq!(x.is_nan(), row == 1, "{row}: {x}");
    }
    assert!(log_sums[[0, 0, 0]].is_finite() && log_sums[[0, 0, 1]].is_nan());
}

/// A cache of keys that has room for more positions, with the heads behind them, read where it lies; and one that does not lie at
/// multiples of 16 bytes.
#[test]
fn parts_of_a_cache() {
    let case = case(1, 300, 16).heads(2, 4, 2);
    let operands = case.operands::<bf16>();
    let [q, k, v] = &operands;
    for first in [0, 1] {
        let cache = |x: &Array4<bf16>| {
            let mut cache = Array4::from_elem((2, 320, 2, 16 + first), bf16::ZERO);
            let positions = x.view().permuted_axes([0, 2, 1, 3]);
            cache.slice_mut(s![.., 10..310, .., first..]).assign(&positions);
            upload(&cache)
        };
        let (q, k, v) = (upload(q), cache(k), cache(v));
        let view = |x| {
            let x: &DeviceArray<bf16, Ix4> = x;
            let view = x.slice(s![.., 10..310, .., first..]).unwrap();
            view.permuted_axes([0, 2, 1, 3]).unwrap()
        };
        let (out, log_sums) = case.on(&q, &view(&k), &view(&v));
        case.compare(&operands, &out.to_ndarray().unwrap(), &log_sums.to_ndarray().unwrap());
    }
}

#[test]
fn the_same_bits_each_time() {
    let case = case(3, 1100, 64);
    let operands = case.operands::<bf16>();
    let first = case.run(device(), &operands);
    assert_eq!(case.run(device(), &operands), first);
}
