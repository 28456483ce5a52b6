// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where: the axes that are combined, and those that are kept; and by which kernel they are read so.

use std::cmp::Reverse;

use ndarray::{Axis, IxDyn};

use crate::array::Element;
use crate::error::Result;
use crate::view::DeviceView;

/// Axes along which elements go on in even steps, as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    length: usize,
    stride: usize,
}

/// How a kernel reads elements where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As rows of elements that lie side by side, and so do the rows.
    Rows { rows: usize, length: usize },
    /// As columns: an array of shape (outer, length, inner) along its middle axis, in which what is neighbours along the
    /// last lies side by side.
    Columns {
        outer: usize,
        outer_stride: usize,
        length: usize,
        stride: usize,
        inner: usize,
    },
}

impl Way {
    /// The number of results.
    pub(super) fn results(&self) -> usize {
        match *self {
            Self::Rows { rows, .. } => rows,
            Self::Columns { outer, inner, .. } => outer * inner,
        }
    }
}

/// How elements lie of which those along some axes are combined. There is at least one element.
///
/// The results are made in the order of the memory, which is not that of the kept axes if these are permuted; then they
/// are put in order, and not the elements, which are more. Nor is the direction of an axis of any account, where the
/// operator does not ask for places, nor a repetition along an axis that is kept.
#[derive(Debug)]
pub(super) struct Lie<'a> {
    shape: &'a [usize],
    strides: &'a [isize],
    /// The kept axes, and in the order of the memory, from the outermost.
    kept: Vec<usize>,
    kept_in_memory: Vec<usize>,
    /// The combined axes, in the order in which they are read.
    combined: Vec<usize>,
    /// Whether the combined elements are to be read in C order.
    is_ordered: bool,
}

impl<'a> Lie<'a> {
    pub(super) fn new(
        (shape, strides): (&'a [usize], &'a [isize]),
        is_combined: impl Fn(usize) -> bool,
        is_ordered: bool,
    ) -> Self {
        let (mut combined, kept): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(|&axis| is_combined(axis));
        let step = |axis: usize| {
            if shape[axis] == 1 {
                0
            } else {
                strides[axis].unsigned_abs()
            }
        };
        let mut kept_in_memory = kept.clone();
        kept_in_memory.sort_by_key(|&axis| Reverse(step(axis)));
        if !is_ordered {
            // Repetitions around what is repeated.
            combined.sort_by_key(|&axis| Reverse(if step(axis) == 0 { usize::MAX } else { step(axis) }));
        }
        Self {
            shape,
            strides,
            kept,
            kept_in_memory,
            combined,
            is_ordered,
        }
    }

    /// The axes but for those of length 1, those together along which elements go on in even steps.
    fn runs(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        let stride = |axis: usize| self.strides[axis].unsigned_abs();
        let mut runs: Vec<Vec<usize>> = Vec::new();
        for &axis in axes.iter().filter(|&&axis| self.shape[axis] != 1) {
            let end = stride(axis).checked_mul(self.shape[axis]);
            match runs.last_mut() {
                Some(run) if run.last().map(|&outer| stride(outer)) == end => run.push(axis),
                _ => runs.push(vec![axis]),
            }
        }
        runs
    }

    /// The axes as few groups.
    fn groups(&self, axes: &[usize]) -> Vec<Group> {
        let group = |run: &Vec<usize>| Group {
            length: run.iter().map(|&axis| self.shape[axis]).product(),
            stride: run.last().map_or(0, |&axis| self.strides[axis].unsigned_abs()),
        };
        self.runs(axes).iter().map(group).collect()
    }

    /// Whether the elements along a kept axis are one, again and again.
    fn is_repeated(&self, axis: usize) -> bool {
        self.shape[axis] != 1 && self.strides[axis] == 0
    }

    /// How a kernel reads the elements where they lie; `None` if none does.
    pub(super) fn way(&self) -> Option<Way> {
        let is_reversed = |&axis: &usize| self.shape[axis] != 1 && self.strides[axis] < 0;
        if self.is_ordered && self.combined.iter().any(is_reversed) {
            return None;
        }
        let kept = self.kept_in_memory.iter().copied();
        let kept: Vec<usize> = kept.filter(|&axis| !self.is_repeated(axis)).collect();
        let Group { length, stride } = match self.groups(&self.combined)[..] {
            [] => Group { length: 1, stride: 1 },
            [one] => one,
            _ => return None,
        };
        let rows = |rows: usize| Some(Way::Rows { rows, length });
        let columns = |outer: usize, outer_stride: usize, inner: usize| {
            Some(Way::Columns {
                outer,
                outer_stride,
                length,
                stride,
                inner,
            })
        };
        match self.groups(&kept)[..] {
            [] if stride == 1 => rows(1),
            [row] if stride == 1 && row.stride == length => rows(row.length),
            [] => columns(1, 0, 1),
            [Group { length, stride: 1 }] => columns(1, 0, length),
            [column] => columns(column.length, column.stride, 1),
            [outer, Group { length, stride: 1 }] => columns(outer.length, outer.stride, length),
            _ => None,
        }
    }

    /// The combined axes that are to be combined first, if the others can be after them: the most elements that lie evenly.
    pub(super) fn first(&self) -> Option<Vec<usize>> {
        let mut runs = self.runs(&self.combined);
        let length = |run: &Vec<usize>| -> usize { run.iter().map(|&axis| self.shape[axis]).product() };
        // Of equal ones the innermost, as rows: what is left of columns then are few.
        runs.reverse();
        runs.sort_by_key(|run| Reverse(length(run)));
        (runs.len() > 1).then(|| runs.swap_remove(0))
    }

    /// The order of the axes in which a copy of the elements has a [way](Self::way): all that are combined are neighbours,
    /// in front of the last one if that is kept and innermost in memory, so that whole runs of elements are moved.
    pub(super) fn together(&self) -> Vec<usize> {
        let (mut order, step) = (self.kept_in_memory.clone(), |axis: &usize| {
            self.strides[*axis].unsigned_abs()
        });
        let least = self.combined.iter().map(step).min();
        let is_innermost = order.last().map(step) < least;
        let before = order.len() - usize::from(is_innermost && !order.is_empty());
        order.splice(before..before, self.combined.iter().copied());
        order
    }

    /// The shape in which the results are made.
    pub(super) fn results(&self) -> Vec<usize> {
        let length = |&axis: &usize| if self.is_repeated(axis) { 1 } else { self.shape[axis] };
        self.kept_in_memory.iter().map(length).collect()
    }

    /// Whether the results are made in C order, each once.
    pub(super) fn is_in_order(&self) -> bool {
        let is_long = |axis: &&usize| self.shape[**axis] != 1;
        let in_memory = self.kept_in_memory.iter().filter(is_long);
        self.kept.iter().filter(is_long).eq(in_memory)
            && self.kept.iter().filter(is_long).all(|&axis| self.strides[axis] > 0)
    }

    /// The results, made in the shape of [`results`](Self::results), in the order and direction of the kept axes; what is
    /// repeated is there once.
    pub(super) fn in_order<'b, R: Element>(
        &self,
        results: DeviceView<'b, R, IxDyn>,
    ) -> Result<DeviceView<'b, R, IxDyn>> {
        let place = |axis: &usize| self.kept_in_memory.iter().position(|other| other == axis);
        let places: Vec<usize> = self.kept.iter().filter_map(place).collect();
        let mut results = results.permuted_axes(IxDyn(&places))?;
        for (number, &axis) in self.kept.iter().enumerate() {
            if self.strides[axis] < 0 {
                results = results.flip(Axis(number))?;
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(shape: &[usize], strides: &[isize], combined: &[usize]) -> Option<Way> {
        Lie::new((shape, strides), |axis| combined.contains(&axis), false).way()
    }

    fn rows(rows: usize, length: usize) -> Option<Way> {
        Some(Way::Rows { rows, length })
    }

    fn columns(outer: [usize; 2], column: [usize; 2], inner: usize) -> Option<Way> {
        Some(Way::Columns {
            outer: outer[0],
            outer_stride: outer[1],
            length: column[0],
            stride: column[1],
            inner,
        })
    }

    #[test]
    fn arrays_are_rows_and_columns() {
        let strides = [12, 4, 1];
        for (combined, wanted) in [
            (&[][..], rows(24, 1)),
            (&[0], columns([1, 0], [2, 12], 12)),
            (&[1, 0], columns([1, 0], [6, 4], 4)),
            (&[2, 1], rows(2, 12)),
            (&[1], columns([2, 12], [3, 4], 4)),
            (&[2, 0, 1], rows(1, 24)),
        ] {
            assert_eq!(way(&[2, 3, 4], &strides, combined), wanted, "{combined:?}");
        }
        assert_eq!(way(&[1, 1], &[1, 1], &[0]), rows(1, 1));
    }

    #[test]
    fn views_are_read_where_they_lie() {
        // A transpose, a part of the columns, every other row, every other column.
        assert_eq!(way(&[4, 3], &[1, 4], &[0]), rows(3, 4));
        assert_eq!(way(&[4, 3], &[1, 4], &[1]), columns([1, 0], [3, 4], 4));
        assert_eq!(way(&[3, 2], &[4, 1], &[1]), columns([3, 4], [2, 1], 1));
        assert_eq!(way(&[3, 2], &[4, 1], &[0]), columns([1, 0], [3, 4], 2));
        assert_eq!(way(&[2, 4], &[8, 1], &[1]), columns([2, 8], [4, 1], 1));
        assert_eq!(way(&[3, 2], &[4, 2], &[1]), columns([3, 4], [2, 2], 1));
        assert_eq!(way(&[6], &[3], &[0]), columns([1, 0], [6, 3], 1));
        // Repeated, and backwards.
        assert_eq!(way(&[9, 4], &[0, 1], &[1]), rows(1, 4));
        assert_eq!(way(&[9, 4], &[0, 1], &[0]), columns([1, 0], [9, 0], 4));
        assert_eq!(way(&[3, 4], &[-4, -1], &[0]), columns([1, 0], [3, 4], 4));
        // Groups that are not one.
        assert_eq!(way(&[5, 3, 7], &[21, 7, 1], &[0, 2]), None);
        assert_eq!(way(&[5, 2, 7], &[21, 7, 1], &[2]), None);
    }

    #[test]
    fn axes_are_brought_together() {
        let lie = |shape: &'static [usize], strides: &'static [isize], combined: &'static [usize]| {
            Lie::new((shape, strides), |axis| combined.contains(&axis), false)
        };
        assert_eq!(lie(&[2, 3, 5, 7], &[105, 35, 7, 1], &[0, 2]).together(), [1, 0, 2, 3]);
        assert_eq!(lie(&[2, 3, 5, 7], &[105, 35, 7, 1], &[0, 2]).first(), Some(vec![2]));
        assert_eq!(lie(&[2, 3, 5, 7], &[105, 35, 7, 1], &[0, 1, 3]).first(), Some(vec![3]));
        assert_eq!(
            lie(&[2, 4, 5, 7], &[140, 35, 7, 1], &[0, 1, 3]).first(),
            Some(vec![0, 1])
        );
        assert_eq!(lie(&[2, 3, 5, 7], &[105, 35, 7, 1], &[1, 2]).first(), None);
        assert_eq!(lie(&[3, 5, 7], &[35, 7, 1], &[0, 2]).together(), [1, 0, 2]);
        assert_eq!(lie(&[7, 5, 7], &[35, 7, 1], &[0, 2]).first(), Some(vec![2]));
        assert_eq!(lie(&[3, 5], &[5, 1], &[]).together(), [0, 1]);
    }

    #[test]
    fn results_are_made_in_the_order_of_the_memory() {
        let lie = Lie::new((&[4, 3, 9, 2], &[1, 4, 0, -12]), |axis| axis == 1, false);
        assert_eq!(lie.results(), [2, 4, 1]);
        assert!(!lie.is_in_order());
        assert!(Lie::new((&[4, 1, 3], &[9, 1, 2]), |_| false, false).is_in_order());
        assert!(!Lie::new((&[4], &[-1]), |_| false, false).is_in_order());
    }
}
