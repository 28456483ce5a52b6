// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel copies one view to another, with elements of what size, and along which axes.

use std::ops::Range;

use kernels_gpu::transpose::{Way, stretch_len, tile_side};

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
    /// Line by line, in bytes; the last axis is that along the lines, which are one stretch on both sides.
    Lines { axes: Vec<Axis> },
    /// Word by word; the last axis is the innermost.
    Strided { word: usize, axes: Vec<Axis> },
}

/// The widest access.
const WIDEST: usize = 16;

/// An axis shorter than this is too thin for square tiles: most lanes would idle along it.
const THIN: usize = 8;

/// So many words that lie together are a line: of fewer, the ends take longer than the words between them.
const LINE: usize = 64;

/// A matrix with fewer elements than this is too small for a tile of its own; its lines stay in the cache meanwhile.
const SMALL: usize = 512;

impl Plan {
    /// For elements that lie so, at least one.
    pub fn new(lie: &Lie<'_>) -> Self {
        let (word, axes) = widened(merged(lie), lie.addresses);
        let order = order(&axes);
        match order {
            Order::Contiguous => Self::Contiguous,
            Order::AsOutput if has_lines(word, &axes) => Self::Lines {
                axes: in_bytes(word, axes),
            },
            Order::AsOutput => Self::Strided { word, axes },
            Order::Transposed(b) => {
                let mut batch = axes;
                let a = batch.remove(batch.len() - 1);
                let b = batch.remove(b);
                if Tiling::new(word, &a, &b).is_some() {
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

    /// The axes of the same copy by lines, in bytes, if these have at least `least` bytes.
    pub fn into_lines(self, least: usize) -> Option<Vec<Axis>> {
        match self {
            Self::Lines { axes } => Some(axes),
            Self::Strided { word, mut axes } => {
                if !matches!(axes[..], [.., Axis { x: 1, out: 1, .. }]) {
                    // A line may be a single word, which is no axis any more.
                    axes.push(Axis { len: 1, x: 1, out: 1 });
                }
                let len = axes.last()?.len * word;
                (len >= least).then(|| in_bytes(word, axes))
            }
            Self::Contiguous | Self::Tiles { .. } => None,
        }
    }
}

/// Whether so many words lie together on both sides that it pays to move them as wider ones.
fn has_lines(word: usize, axes: &[Axis]) -> bool {
    word < WIDEST
        && matches!(
            axes,
            [
                ..,
                Axis {
                    len: LINE..,
                    x: 1,
                    out: 1
                }
            ]
        )
}

/// Axes in words, the last of which is along a line, in bytes.
fn in_bytes(word: usize, mut axes: Vec<Axis>) -> Vec<Axis> {
    if let Some((line, others)) = axes.split_last_mut() {
        line.len *= word;
        for axis in others {
            axis.x *= word as isize;
            axis.out *= word;
        }
    }
    axes
}

/// What the tiles of a transposition are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiling {
    /// One of [`Way`].
    pub way: u32,
    /// The words of a tile along `a` and along `b`.
    pub sides: [usize; 2],
    /// Whether a stretch has a word left free behind each 32 in shared memory.
    pub padded: bool,
}

impl Tiling {
    /// For words of `word` bytes and those axes; `None` if the matrix is too thin, or too small for a tile of its own.
    pub fn new(word: usize, a: &Axis, b: &Axis) -> Option<Self> {
        if a.len * b.len < SMALL {
            return None;
        }
        // It would leave half of a square tile empty.
        let short = |axis: &Axis| 2 * axis.len <= tile_side(word);
        if short(b) && a.x == b.len as isize {
            let sides = [stretch_side(word, b.len, a.len), b.len];
            return Some(Self::stretches(Way::STRETCHES_OF_INPUT, sides, b.len));
        }
        if short(a) && b.out == a.len {
            let sides = [a.len, stretch_side(word, a.len, b.len)];
            return Some(Self::stretches(Way::STRETCHES_OF_OUTPUT, sides, a.len));
        }
        (a.len.min(b.len) >= THIN).then_some(Self {
            way: Way::SQUARES,
            sides: [tile_side(word); 2],
            padded: false,
        })
    }

    /// Lanes take every `short`-th word of a stretch: it is padded where they meet fewer of the others in a bank so.
    fn stretches(way: u32, sides: [usize; 2], short: usize) -> Self {
        let most_in_a_bank = |padded: usize| {
            let mut lanes = [0; 32];
            (0..32).for_each(|lane| lanes[(lane * short + padded * (lane * short / 32)) % 32] += 1);
            lanes.into_iter().max()
        };
        Self {
            way,
            sides,
            padded: most_in_a_bank(1) < most_in_a_bank(0),
        }
    }
}

/// How far a stretch goes along a long axis, where the other one is `short`: as far as there is room, in whole lines of
/// memory where it is longer than one.
fn stretch_side(word: usize, short: usize, long: usize) -> usize {
    let (room, line) = (stretch_len(word) / short, tile_side(word));
    long.min(if room > line { room / line * line } else { room })
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
