// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel copies one view to another, with elements of what size, and along which axes.

use std::ops::Range;

/// An axis of a copy: how many steps, and how many words further each is in the input (0 where an element is repeated,
/// negative where it is read backwards) and in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub len: usize,
    pub x: isize,
    pub out: usize,
}

/// How the elements of a copy lie on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lie<'a> {
    pub shape: &'a [usize],
    /// Strides of the input, in elements.
    pub x: &'a [isize],
    /// Strides of the output, in elements, in which no element is repeated.
    pub out: &'a [isize],
    /// The size of an element.
    pub bytes: usize,
    /// The addresses of the first bytes of both sides.
    pub addresses: [u64; 2],
}

/// How a view is copied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Both sides are alike, without a gap.
    Contiguous,
    /// Transposition, by tiles of words of `word` bytes, of the axes `a`, along which the output is contiguous, and
    /// `b`, along which the input is, for each step along the axes `batch`.
    Tiles {
        word: usize,
        batch: Vec<Axis>,
        a: Axis,
        b: Axis,
    },
    /// Word by word; the last axis is the innermost.
    Strided { word: usize, axes: Vec<Axis> },
}

/// The widest access.
const WIDEST: usize = 16;

/// An axis shorter than this is too thin for tiles: most lanes would idle along it.
const THIN: usize = 8;

/// A matrix with fewer elements than this is too small for a tile of its own; its lines stay in the cache meanwhile.
const SMALL: usize = 512;

impl Plan {
    /// For elements that lie so, at least one.
    pub fn new(lie: &Lie<'_>) -> Self {
        let (word, axes) = widened(merged(lie), lie.addresses);
        let order = order(&axes);
        match order {
            Order::Contiguous => Self::Contiguous,
            Order::AsOutput => Self::Strided { word, axes },
            Order::Transposed(b) => {
                let mut batch = axes;
                let a = batch.remove(batch.len() - 1);
                let b = batch.remove(b);
                if a.len.min(b.len) >= THIN && a.len * b.len >= SMALL {
                    return Self::Tiles { word, batch, a, b };
                }
                // Of a small matrix, or where `a` is short, threads go along the output; where `b` is short, they go
                // along the input, so that a warp meets that many runs of neighbours on the other side.
                let along_input = a.len * b.len >= SMALL && b.len < a.len;
                batch.extend(if along_input { [a, b] } else { [b, a] });
                Self::Strided { word, axes: batch }
            }
        }
    }
}

/// How the axes of input and output lie to each other.
enum Order {
    Contiguous,
    AsOutput,
    /// The output is contiguous along its last axis, the input along this one.
    Transposed(usize),
}

fn order(axes: &[Axis]) -> Order {
    match axes {
        [] | [Axis { x: 1, out: 1, .. }] => Order::Contiguous,
        // The kernel of tiles goes forwards along both.
        [.., Axis { x: 2.., out: 1, .. }] => match axes.iter().position(|axis| axis.x == 1) {
            Some(b) => Order::Transposed(b),
            None => Order::AsOutput,
        },
        _ => Order::AsOutput,
    }
}

/// The axes in bytes, in the order in which the output lies and forwards along it, an element's own bytes being the last:
/// without those of length 1, and with neighbours as one where they are one on both sides.
fn merged(lie: &Lie<'_>) -> Vec<Axis> {
    let strides = lie.x.iter().zip(lie.out);
    let mut given: Vec<Axis> = (lie.shape.iter().zip(strides))
        .filter(|&(&len, _)| len != 1)
        .map(|(&len, (&x, &out))| Axis {
            len,
            x: (if out < 0 { -x } else { x }) * lie.bytes as isize,
            out: out.unsigned_abs() * lie.bytes,
        })
        .collect();
    // Stable: an output in C order stays as it is.
    given.sort_by_key(|axis| std::cmp::Reverse(axis.out));
    let mut axes: Vec<Axis> = Vec::with_capacity(given.len() + 1);
    axes.push(Axis {
        len: lie.bytes,
        x: 1,
        out: 1,
    });
    for axis in given.into_iter().rev() {
        match axes.last_mut() {
            Some(inner) if axis.x == inner.x * inner.len as isize && axis.out == inner.out * inner.len => {
                inner.len *= axis.len;
            }
            _ => axes.push(axis),
        }
    }
    axes.reverse();
    axes
}

/// The axes in words that are as wide as the last axis, all distances and both addresses allow, and the width.
fn widened(mut axes: Vec<Axis>, addresses: [u64; 2]) -> (usize, Vec<Axis>) {
    let Some(last) = axes.pop() else {
        return (1, axes);
    };
    let distances = axes.iter().flat_map(|axis| [axis.x.unsigned_abs(), axis.out]);
    let places = addresses.map(|address| address as usize);
    let all = distances
        .chain(places)
        .fold(last.len | WIDEST, |all, distance| all | distance);
    let word = 1 << all.trailing_zeros();
    for axis in &mut axes {
        axis.x /= word as isize;
        axis.out /= word;
    }
    if last.len > word || axes.is_empty() {
        axes.push(Axis {
            len: last.len / word,
            ..last
        });
    }
    (word, axes)
}

/// How far behind the first byte of the input the first element is: along each axis that is read backwards, the last
/// one is the first.
pub(super) fn first(axes: &[Axis]) -> usize {
    let backwards = axes.iter().filter(|axis| axis.x < 0);
    backwards.map(|axis| (axis.len - 1) * axis.x.unsigned_abs()).sum()
}

/// Takes an iteration over axes of lengths `lens` (at least one; the last is the innermost) apart into pieces of at
/// most `most` steps and `keep` axes, each a range of each axis. The ranges of the axes before the last `keep` have
/// length 1. A piece that is not the last along its axis has more than half of `most` steps, if `keep` allows.
pub(super) fn pieces(lens: &[usize], most: usize, keep: usize) -> impl Iterator<Item = Vec<Range<usize>>> + use<> {
    let lens = lens.to_vec();
    // The first axis of a piece, and the steps along those behind it.
    let (mut first, mut inner) = (lens.len() - 1, 1);
    while first > 0 && lens.len() - first < keep && inner * lens[first] <= most {
        inner *= lens[first];
        first -= 1;
    }
    let chunk = (most / inner).clamp(1, lens[first]);
    let mut ranges: Vec<Range<usize>> = lens.iter().map(|&len| 0..len).collect();
    ranges[..first].iter_mut().for_each(|range| *range = 0..1);
    ranges[first] = 0..chunk;
    std::iter::successors(Some(ranges), move |ranges| {
        let mut next = ranges.clone();
        for axis in (0..=first).rev() {
            let step = if axis == first { chunk } else { 1 };
            let start = next[axis].end;
            if start < lens[axis] {
                next[axis] = start..(start + step).min(lens[axis]);
                return Some(next);
            }
            next[axis] = 0..step;
        }
        None
    })
}
