// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the lines of a scan along an axis lie, and so who reads them where they are.

use kernels_gpu::scan::Lines;

/// Rows of at most so many elements that do not lie one behind the other are scanned by a thread each.
const SHORT_ROW: usize = 32;

/// Tiles of a warp that has several rows, at most: the more, the less of the last one is left over, and the fewer warps. Of
/// rows longer than a tile twice as many.
const WARP_TILES: usize = 4;

/// As many warps are enough for any device, to have fewer tiles each.
const WARPS: usize = 4096;

/// By which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows that lie one behind the other, each by many blocks.
    LookBack,
    /// Rows, by a warp each, or several by a warp.
    Rows,
    /// Columns, or rows that are as short.
    Columns,
    /// A few columns that lie side by side, by tiles of whole rows.
    Few,
}

/// The lines along `axis` of elements in C order.
pub(super) fn in_order(shape: &[usize], axis: usize) -> Lines {
    let inner = shape[axis + 1..].iter().product();
    Lines::of_array(shape[..axis].iter().product::<usize>() * inner, shape[axis], inner)
}

/// Who scans lines of elements in C order. A row of `tile` elements is worth a block, and a longer one several; so are a few
/// columns of `tile_rows` elements, if that is not 0.
pub(super) fn way(lines: Lines, tile: usize, tile_rows: usize) -> Way {
    match lines {
        Lines { count: 1, .. } => Way::LookBack,
        Lines { n, inner: 1, .. } if n >= tile => Way::LookBack,
        Lines { inner: 1, .. } => Way::Rows,
        Lines { n, .. } if tile_rows > 0 && n >= tile_rows => Way::Few,
        _ => Way::Columns,
    }
}

/// The rows that a warp scans, whose tiles have `tile` elements and begin at most a vector of `vector` before the rows: one,
/// if it leaves nothing of its tiles, or of several tiles little, or as many that lie one behind the other as fill some.
pub(super) fn rows_of_warp(lines: Lines, tile: usize, vector: usize) -> usize {
    let Lines { count, n, outer, .. } = lines;
    let room = n.next_multiple_of(tile);
    let few = if n > tile { room / 7 } else { 0 };
    if outer != n || room - n <= few {
        return 1;
    }
    let most = if n > tile { 2 * WARP_TILES } else { WARP_TILES };
    let tiles = (count * n / (tile * WARPS)).clamp(1, most);
    ((tiles * tile - (vector - 1)) / n).max(1)
}

/// Who scans lines of a view, and reads them where they lie; `None` if nobody does. With `warps` rows, one for each warp is
/// enough for the device, however long they are.
pub(super) fn way_of_view(lines: Lines, tile: usize, warps: usize) -> Option<Way> {
    if lines.inner > 1 || lines.n <= SHORT_ROW {
        return Some(Way::Columns);
    }
    let is_rows = lines.along == 1 && (lines.n <= tile || lines.count >= warps);
    is_rows.then_some(Way::Rows)
}

/// Where the lines along `axis` lie, the first element at `first`; `None` if the elements of lines that are neighbours do
/// not lie side by side, or the outer axes are not one.
pub(super) fn lines(shape: &[usize], strides: &[isize], axis: usize, first: usize) -> Option<Lines> {
    let inner = as_one(&shape[axis + 1..], &strides[axis + 1..])?;
    if inner.is_some_and(|stride| stride != 1) {
        return None;
    }
    let outer = as_one(&shape[..axis], &strides[..axis])?;
    Some(Lines {
        first,
        outer: outer.unwrap_or(0) as usize,
        along: strides[axis] as usize,
        ..in_order(shape, axis)
    })
}

/// The stride of all these axes as one, if elements go on in even steps along them; the inner `None` if there is no step.
fn as_one(shape: &[usize], strides: &[isize]) -> Option<Option<isize>> {
    let mut steps = shape.iter().zip(strides).filter(|axis| *axis.0 != 1).rev();
    let Some((&length, &stride)) = steps.next() else {
        return Some(None);
    };
    let mut end = length as isize * stride;
    for (&length, &outer) in steps {
        if outer != end {
            return None;
        }
        end *= length as isize;
    }
    Some(Some(stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shape: &[usize], strides: &[isize], axis: usize) -> Option<(isize, isize)> {
        let Lines { outer, along, .. } = lines(shape, strides, axis, 7)?;
        Some((outer as isize, along as isize))
    }

    #[test]
    fn arrays_are_lines() {
        assert_eq!(of(&[2, 3, 4], &[12, 4, 1], 0), Some((0, 12)));
        assert_eq!(of(&[2, 3, 4], &[12, 4, 1], 1), Some((12, 4)));
        assert_eq!(of(&[2, 3, 4], &[12, 4, 1], 2), Some((4, 1)));
        assert_eq!(of(&[5], &[1], 0), Some((0, 1)));
        assert_eq!(lines(&[5], &[1], 0, 7).map(|lines| lines.first), Some(7));
    }

    #[test]
    fn parts_and_reversed_axes_are_lines() {
        // Some columns, some rows of each picture, upside down, every other row, repeated.
        assert_eq!(of(&[5, 3], &[8, 1], 0), Some((0, 8)));
        assert_eq!(of(&[5, 3], &[8, 1], 1), Some((8, 1)));
        assert_eq!(of(&[2, 3, 4], &[40, 4, 1], 1), Some((40, 4)));
        assert_eq!(of(&[2, 5, 3], &[40, 8, 1], 2), Some((8, 1)));
        assert_eq!(of(&[5, 4], &[-4, 1], 0), Some((0, -4)));
        assert_eq!(of(&[5, 4], &[8, 1], 0), Some((0, 8)));
        assert_eq!(of(&[5, 4], &[0, 1], 1), Some((0, 1)));
        assert_eq!(of(&[5, 1, 4], &[9, 77, 1], 0), Some((0, 9)));
    }

    #[test]
    fn others_are_not() {
        // A transpose along its first axis, some columns of pictures along theirs, every other column.
        assert_eq!(of(&[4, 3], &[1, 4], 0), None);
        assert_eq!(of(&[2, 5, 3], &[40, 8, 1], 0), None);
        assert_eq!(of(&[5, 3], &[8, 2], 0), None);
        assert_eq!(of(&[2, 3, 4], &[-12, 4, 1], 2), None);
    }

    #[test]
    fn warps_have_rows_that_fill_their_tiles() {
        let rows = |count, n| rows_of_warp(Lines::of_array(count, n, 1), 512, 4);
        assert_eq!(rows(10, 1), 509);
        assert_eq!(rows(10, 100), 5);
        assert_eq!(rows(10, 300), 1);
        assert_eq!(rows(10, 400), 1);
        assert_eq!(rows(10, 5000), 1);
        // Where there are many, several tiles.
        assert_eq!(rows(1 << 20, 100), 20);
        assert_eq!(rows(1 << 20, 300), 6);
        assert_eq!(rows(1 << 20, 500), 4);
        assert_eq!(rows(1 << 20, 513), 7);
        // One that has most of its tiles, or all of one.
        assert_eq!(rows(1 << 20, 512), 1);
        assert_eq!(rows(1 << 20, 1000), 1);
        assert_eq!(rows(1 << 20, 1280), 3);
        let apart = Lines {
            outer: 101,
            ..Lines::of_array(1 << 20, 100, 1)
        };
        assert_eq!(rows_of_warp(apart, 512, 4), 1);
    }

    #[test]
    fn rows_of_views_are_for_warps() {
        let rows = |count, n, along| Lines {
            along,
            ..Lines::of_array(count, n, 1)
        };
        let way = |lines| way_of_view(lines, 4096, 3000);
        assert_eq!(way(rows(100, 1000, 1)), Some(Way::Rows));
        assert_eq!(way(rows(100, 5000, 1)), None);
        assert_eq!(way(rows(3000, 5000, 1)), Some(Way::Rows));
        assert_eq!(way(rows(3000, 32, 1)), Some(Way::Columns));
        assert_eq!(way(rows(100, 1000, 3)), None);
        assert_eq!(way(rows(100, 32, 3)), Some(Way::Columns));
        assert_eq!(way(Lines::of_array(4, 9000, 2)), Some(Way::Columns));
    }
}
