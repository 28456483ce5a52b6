// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies where: the axes that are combined, and those that are kept.

/// An array as (outer, length, inner), of which the middle axis is combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) outer: usize,
    pub(super) length: usize,
    pub(super) inner: usize,
}

impl Extent {
    /// All axes of an array of `len` elements.
    pub(super) fn whole(len: usize) -> Self {
        Self {
            outer: 1,
            length: len,
            inner: 1,
        }
    }

    /// One axis, which the shape has.
    pub(super) fn axis(shape: &[usize], axis: usize) -> Self {
        Self::of([
            shape[..axis].iter().product(),
            shape[axis],
            shape[axis + 1..].iter().product(),
        ])
    }

    /// The same, by rows where the middle axis has less than two elements: nothing lies between them.
    fn of([outer, length, inner]: [usize; 3]) -> Self {
        if length < 2 {
            Self {
                outer: outer * inner,
                length,
                inner: 1,
            }
        } else {
            Self { outer, length, inner }
        }
    }

    /// The number of results.
    pub(super) fn results(&self) -> usize {
        self.outer * self.inner
    }
}

/// An array whose axes are to be combined, some of them.
///
/// Neighbouring axes are one where both are combined, or both are kept, and axes of length 1 are none; so the axes that
/// are left are combined and kept in turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    /// The length of each axis, and whether it is combined.
    axes: Vec<(usize, bool)>,
}

impl Axes {
    /// The axes of `shape`, of which those in `combined` are combined. The array is not empty.
    pub(super) fn new(shape: &[usize], combined: &[usize]) -> Self {
        let mut axes: Vec<(usize, bool)> = Vec::new();
        for (axis, &length) in shape.iter().enumerate().filter(|&(_, &length)| length != 1) {
            let is_combined = combined.contains(&axis);
            match axes.last_mut() {
                Some(last) if last.1 == is_combined => last.0 *= length,
                _ => axes.push((length, is_combined)),
            }
        }
        Self { axes }
    }

    /// The lengths of the axes.
    pub(super) fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|axis| axis.0).collect()
    }

    /// The order of the axes in which all that are combined are neighbours, if they are not: in front of the last one if
    /// that is kept, which stays where it is, so that a copy in that order moves whole runs of elements.
    pub(super) fn together(&self) -> Option<Vec<usize>> {
        let number =
            |wanted: bool| move |&(number, axis): &(usize, &(usize, bool))| (axis.1 == wanted).then_some(number);
        let combined: Vec<usize> = self
            .axes
            .iter()
            .enumerate()
            .filter_map(|axis| number(true)(&axis))
            .collect();
        if combined.len() < 2 {
            return None;
        }
        let mut order: Vec<usize> = self
            .axes
            .iter()
            .enumerate()
            .filter_map(|axis| number(false)(&axis))
            .collect();
        let before = order.len() - usize::from(self.axes.last().is_some_and(|last| !last.1));
        order.splice(before..before, combined);
        Some(order)
    }

    /// The array with all axes that are combined together.
    pub(super) fn extent(&self) -> Extent {
        let inner = match self.axes.last() {
            Some(&(length, false)) => length,
            _ => 1,
        };
        let length = |combined: bool| -> usize {
            let axes = self.axes.iter().filter(|axis| axis.1 == combined);
            axes.map(|axis| axis.0).product()
        };
        Extent::of([length(false) / inner, length(true), inner])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_merged_and_brought_together() {
        let axes = Axes::new(&[2, 3, 1, 5, 7, 11], &[1, 2, 4]);
        assert_eq!(axes.axes, [(2, false), (3, true), (5, false), (7, true), (11, false)]);
        assert_eq!(axes.together(), Some(vec![0, 2, 1, 3, 4]));
        let extent = Extent {
            outer: 10,
            length: 21,
            inner: 11,
        };
        assert_eq!(axes.extent(), extent);
        let ends = Axes::new(&[3, 5, 7], &[0, 2]);
        assert_eq!(ends.together(), Some(vec![1, 0, 2]));
        assert_eq!(ends.extent(), Extent::of([5, 21, 1]));
    }

    #[test]
    fn neighbouring_axes_need_no_copy() {
        for (combined, extent) in [
            (&[][..], [24, 1, 1]),
            (&[0], [1, 2, 12]),
            (&[1, 0], [1, 6, 4]),
            (&[2, 1], [2, 12, 1]),
            (&[2, 0, 1], [1, 24, 1]),
        ] {
            let axes = Axes::new(&[2, 3, 4], combined);
            assert_eq!(axes.together(), None, "{combined:?}");
            let [outer, length, inner] = extent;
            assert_eq!(axes.extent(), Extent { outer, length, inner }, "{combined:?}");
        }
        assert_eq!(Axes::new(&[1, 1], &[0]).extent().length, 1);
    }
}
