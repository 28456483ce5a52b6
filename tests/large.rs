// SPDX-License-Identifier: MIT OR Apache-2.0
//! More elements than 32 bits can count: 2^32 + 5 of u8. That is for a GPU; the simulator, for which it would take an
//! hour, does the same with 2^18 + 5.

use std::ops::Range;

use crate::common::device;
use cuda_std::random::Philox4x32;
use ndarray::Array1;
use warpsmith::ops::{ScanAlgorithm, Sum};
use warpsmith::{DeviceArray, Generator};

fn len() -> usize {
    if device().is_simulator() {
        (1 << 18) + 5
    } else {
        (1 << 32) + 5
    }
}

/// Element `i`: no period of a power of two, and never 255.
fn element(i: usize) -> u8 {
    (((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) % 255) as u8
}

/// What `f` gives for pieces of the indices below `len`, which all cores share; in their order.
fn in_pieces<R: Send>(len: usize, f: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let pieces = std::thread::available_parallelism().map_or(1, usize::from);
    let piece = len.div_ceil(pieces);
    let range = |number: usize| Ord::min(number * piece, len)..Ord::min((number + 1) * piece, len);
    std::thread::scope(|scope| {
        let f = &f;
        let threads: Vec<_> = (0..pieces)
            .map(|number| scope.spawn(move || f(range(number))))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The first index of which `is_right` does not hold.
fn first_wrong(len: usize, is_right: impl Fn(usize) -> bool + Sync) -> Option<usize> {
    let of_piece = |mut piece: Range<usize>| piece.find(|&i| !is_right(i));
    in_pieces(len, of_piece).into_iter().flatten().next()
}

#[test]
fn arrays_beyond_32_bits() {
    let len = len();
    let mut host = in_pieces(len, |piece| piece.map(element).collect::<Vec<u8>>()).concat();
    // One element that is larger than all others, where a 32-bit index would have wrapped around.
    let last = len - 2;
    host[last] = 255;
    let host = Array1::from_vec(host);
    let x = DeviceArray::from_ndarray(device().default_stream(), &host).unwrap();
    let host = host.as_slice().unwrap();

    let counts_of_pieces = in_pieces(len, |piece| {
        let mut counts = [0u64; 256];
        host[piece].iter().for_each(|&x| counts[usize::from(x)] += 1);
        counts
    });
    let counts: [u64; 256] = std::array::from_fn(|value| counts_of_pieces.iter().map(|counts| counts[value]).sum());
    let total: u64 = (0..).zip(counts).map(|(value, count)| value * count).sum();

    assert_eq!(x.sum().unwrap(), total, "sum");
    assert_eq!(x.max().unwrap(), 255, "max");
    assert_eq!(x.argmax().unwrap(), last as u64, "argmax");
    let mean = total as f64 / len as f64;
    assert!((x.mean().unwrap() - mean).abs() <= 1e-12 * mean, "mean");
    assert_eq!(
        x.histogram(256, 0.0..=256.0).unwrap().to_ndarray().unwrap().to_vec(),
        counts,
        "histogram"
    );
    assert_eq!(x.bincount().unwrap().to_ndarray().unwrap().to_vec(), counts, "bincount");

    let negative = x.neg().unwrap().to_ndarray().unwrap().to_vec();
    assert_eq!(first_wrong(len, |i| negative[i] == host[i].wrapping_neg()), None, "neg");
    drop(negative);

    for algorithm in [ScanAlgorithm::LookBack, ScanAlgorithm::Blelloch] {
        let sums = x
            .inclusive_scan_by::<Sum>(algorithm)
            .unwrap()
            .to_ndarray()
            .unwrap()
            .to_vec();
        let before = |i: usize| if i == 0 { 0 } else { sums[i - 1] };
        let is_right = |i: usize| sums[i] == before(i) + u64::from(host[i]);
        assert_eq!(first_wrong(len, is_right), None, "{algorithm:?} scan");
    }
}

#[test]
fn arrays_that_are_made_beyond_32_bits() {
    let (len, stream) = (len(), device().default_stream());
    let mut x = DeviceArray::from_elem(stream, len, 3u8).unwrap();
    assert_eq!((x.sum().unwrap(), x.min().unwrap()), (3 * len as u64, 3), "fill");

    Generator::new(1).bernoulli_into(0.25, &mut x).unwrap();
    let off = x.sum().unwrap() as f64 - len as f64 / 4.0;
    assert!(
        off.abs() < 4.0 * (len as f64 * 3.0 / 16.0).sqrt(),
        "bernoulli: {off} from the mean"
    );
    let x = x.to_ndarray().unwrap().to_vec();
    let random = Philox4x32::new(1);
    let wanted = |i: usize| u8::from(random.block(i as u64 / 4)[i % 4] < 1 << 30);
    let ends = (0..5000).chain(len - 5000..len);
    assert_eq!(ends.into_iter().find(|&i| x[i] != wanted(i)), None, "bernoulli");
}
