// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long files, reduced along an axis in pieces.
//!
//! Whatever its axes, a file is here an array of three, in the order of its elements: *slabs* (what lies before the axis),
//! each of *rows* (the axis, along which is reduced), each of *columns* (what lies behind it). Where a slab fits into a
//! piece, a piece is some slabs, reduced as an array of their own, and the results follow one another. A longer slab is
//! cut into parts of rows and, where rows are long, of columns; the parts' results are combined, columns by columns.

use std::marker::PhantomData;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use ndarray::{Axis, IxDyn};
use warpsmith::ops::{self, CastTo};
use warpsmith::{Chunk, Device, DeviceArray, Element, PinnedArray, Pipeline};

use crate::job::DynArray;
use crate::npy::NpyFile;
use crate::pieces::{Elements, Sink, piece_len};
use crate::scalar::Scalar;

/// The axis of the rows.
const ROWS: Axis = Axis(1);

/// Results of parts that are combined at a time, and the rows of a part at least, if there are as many: so results that
/// wait take no more memory than a piece does.
const FAN: usize = 64;

/// Parts of a slab one below the other, from its first row to its last, of shape (1, rows, columns).
pub type Parts<'a, T> = &'a mut dyn Iterator<Item = Result<DynArray<T>>>;

/// The elements of a long file.
pub struct Slabs<T> {
    pipeline: Pipeline<'static>,
    elements: Arc<Elements>,
    slabs: usize,
    rows: usize,
    columns: usize,
    /// The elements of a piece.
    len: usize,
    _element: PhantomData<T>,
}

impl<T: Scalar> Slabs<T> {
    /// None unless the input is a file, and long. What is made of an element has up to `size` bytes.
    pub fn of(file: &NpyFile, device: &Device, axis: usize, size: usize) -> Result<Option<Self>> {
        let Some(elements) = file.open_elements()? else {
            return Ok(None);
        };
        let pipeline = Pipeline::new(device);
        let Some(len) = piece_len(&pipeline, &elements, size.max(size_of::<T>()))? else {
            return Ok(None);
        };
        let (shape, product) = (file.shape(), |axes: &[usize]| axes.iter().product());
        let (before, behind) = (product(&shape[..axis]), product(&shape[axis + 1..]));
        let (slabs, columns) = match file.is_fortran_order() {
            false => (before, behind),
            true => (behind, before),
        };
        Ok(Some(Self {
            pipeline,
            elements: Arc::new(elements),
            slabs,
            rows: shape[axis],
            columns,
            len,
            _element: PhantomData,
        }))
    }

    /// The file's bytes, widened.
    pub fn bytes(&self) -> u64 {
        (self.elements.len * size_of::<T>()) as u64
    }

    /// Hands over the results in order: those that `kernel` writes of whole slabs, or those that `parts` makes of the parts
    /// of a longer one.
    pub fn reduce<U: Element>(
        &self,
        bar: &ProgressBar,
        sink: Sink<'_, U>,
        kernel: impl Fn(&DynArray<T>, Axis, &mut DynArray<U>) -> warpsmith::Result<()>,
        mut parts: impl FnMut(Parts<'_, T>) -> Result<Vec<U>>,
    ) -> Result<()> {
        let done = |elements: usize| bar.inc((elements * size_of::<T>()) as u64);
        let slab = self.rows * self.columns;
        if slab <= self.len {
            let results = self.pipeline.run(self.whole_slabs(self.len / slab), |x| -> Result<_> {
                let mut out = DeviceArray::zeros(x.stream(), IxDyn(&[x.shape()[0], x.shape()[2]]))?;
                kernel(&x, ROWS, &mut out)?;
                Ok(out)
            });
            for result in results {
                let result = result?;
                sink(result.view().as_slice().context("elements in C order")?)?;
                done(result.len() * self.rows);
            }
            return Ok(());
        }
        let (rows, columns) = self.part();
        let mut pieces = self
            .pipeline
            .load(self.parts(rows, columns))
            .inspect(|x| done(x.as_ref().map_or(0, |x| x.len())));
        for _ in 0..self.slabs * self.columns.div_ceil(columns) {
            sink(&parts(&mut pieces.by_ref().take(self.rows.div_ceil(rows)))?)?;
        }
        Ok(())
    }

    /// The rows and columns of a part.
    fn part(&self) -> (usize, usize) {
        let rows = (self.len / self.columns).max(FAN.min(self.len)).min(self.rows);
        (rows, (self.len / rows).clamp(1, self.columns))
    }

    /// So many slabs at a time.
    fn whole_slabs(&self, at_a_time: usize) -> impl Iterator<Item = Block<T>> + Send + use<T> {
        let (elements, total) = (Arc::clone(&self.elements), self.slabs);
        let (rows, columns) = (self.rows, self.columns);
        (0..total).step_by(at_a_time).map(move |first| Block {
            elements: Arc::clone(&elements),
            first: first * rows * columns,
            stride: columns,
            shape: [at_a_time.min(total - first), rows, columns],
            _element: PhantomData,
        })
    }

    /// Parts of so many rows and columns: those of a slab's first columns from top to bottom, then those of its next ones.
    fn parts(&self, rows: usize, columns: usize) -> impl Iterator<Item = Block<T>> + Send + use<T> {
        let (elements, whole) = (Arc::clone(&self.elements), (self.rows, self.columns));
        let (below, beside) = (whole.0.div_ceil(rows), whole.1.div_ceil(columns));
        (0..self.slabs * beside * below).map(move |i| {
            let (slab, column, row) = (i / below / beside, i / below % beside * columns, i % below * rows);
            Block {
                elements: Arc::clone(&elements),
                first: (slab * whole.0 + row) * whole.1 + column,
                stride: whole.1,
                shape: [1, rows.min(whole.0 - row), columns.min(whole.1 - column)],
                _element: PhantomData,
            }
        })
    }
}

/// Some of a file's elements: slabs, rows and columns.
struct Block<T> {
    elements: Arc<Elements>,
    first: usize,
    /// From a row to the next one.
    stride: usize,
    shape: [usize; 3],
    _element: PhantomData<T>,
}

impl<T: Scalar> Chunk for Block<T> {
    type Elem = T;
    type Dim = IxDyn;
    type Error = anyhow::Error;

    fn load(self, device: &Device) -> Result<PinnedArray<T, IxDyn>> {
        let mut array = PinnedArray::zeros(device, IxDyn(&self.shape))?;
        let mut view = array.view_mut();
        let elements = view.as_slice_mut().context("elements in C order")?;
        // Whole rows follow one another in the file.
        let run = match self.shape[2] == self.stride {
            true => elements.len(),
            false => self.shape[2],
        };
        for (row, elements) in elements.chunks_exact_mut(run).enumerate() {
            let first = self.first + row * self.stride;
            let bytes = bytemuck::cast_slice_mut(elements);
            self.elements.read(first..first + run, bytes, size_of::<T>())?;
        }
        Ok(array)
    }
}

/// The results of a slab's parts by `first`, and those of as many of them by `again`, until one is left: a tree, on the
/// device.
pub fn tree<T: Element, W: Element, A: Element>(
    parts: Parts<'_, T>,
    widen: impl Fn(DynArray<T>) -> warpsmith::Result<DynArray<W>>,
    first: impl Fn(&DynArray<W>, Axis) -> warpsmith::Result<DynArray<A>>,
    again: impl Fn(&DynArray<A>, Axis) -> warpsmith::Result<DynArray<A>>,
) -> Result<Vec<A>> {
    let combined = |results: &[DynArray<A>]| {
        let views: Vec<_> = results.iter().map(|result| result.view()).collect();
        again(&ops::stack(ROWS, &views)?, ROWS)
    };
    // What waits to be combined: results of parts, those of `FAN` results, and so on.
    let mut levels: Vec<Vec<DynArray<A>>> = Vec::new();
    for x in parts {
        let mut result = first(&widen(x?)?, ROWS)?;
        for level in 0.. {
            if level == levels.len() {
                levels.push(Vec::new());
            }
            levels[level].push(result);
            if levels[level].len() < FAN {
                break;
            }
            result = combined(&std::mem::take(&mut levels[level]))?;
        }
    }
    let mut last = Vec::new();
    for mut level in levels {
        level.append(&mut last);
        last = match level.len() {
            0 | 1 => level,
            _ => vec![combined(&level)?],
        };
    }
    elements(last.first().context("a long slab has parts")?)
}

/// The index of a row in each column, by those of the parts and the values there; of equal values the first counts.
pub fn index<T: Element>(
    parts: Parts<'_, T>,
    index: impl Fn(&DynArray<T>, Axis) -> warpsmith::Result<DynArray<u64>>,
    value: impl Fn(&DynArray<T>, Axis) -> warpsmith::Result<DynArray<T>>,
) -> Result<Vec<u64>> {
    let (mut best, mut rows) = (None::<(DynArray<T>, Vec<u64>)>, 0);
    for x in parts {
        let x = x?;
        let (there, inside) = (value(&x, ROWS)?, elements(&index(&x, ROWS)?)?);
        best = Some(match best {
            None => (there, inside),
            Some((here, mut indices)) => {
                let both = ops::stack(ROWS, &[here.view(), there.view()])?;
                let which = elements(&index(&both, ROWS)?)?;
                for ((index, which), inside) in indices.iter_mut().zip(which).zip(inside) {
                    if which == 1 {
                        *index = rows + inside;
                    }
                }
                (value(&both, ROWS)?, indices)
            }
        });
        rows += x.shape()[1] as u64;
    }
    best.map(|(_, indices)| indices).context("a long slab has parts")
}

/// The means of so many rows, by their sums in `f64`.
pub fn means<T: Scalar + CastTo<f64>>(parts: Parts<'_, T>, rows: usize) -> Result<Vec<f64>> {
    let cast = |x: DynArray<T>| x.cast::<f64>();
    let sums = tree(parts, cast, |x, axis| x.sum_axis(axis), |x, axis| x.sum_axis(axis))?;
    Ok(sums.into_iter().map(|sum| sum / rows as f64).collect())
}

/// The variances of so many rows, in `f64`, by the parts' means and variances; pieces.rs says whose method that is.
pub fn variances<T: Scalar + CastTo<f64>>(
    operation: &str,
    parts: Parts<'_, T>,
    rows: usize,
    ddof: usize,
) -> Result<Vec<f64>> {
    // In the words of the library.
    ensure!(
        ddof < rows,
        "{operation}: ddof: given {ddof}, wanted less than the number of elements that are combined, {rows}"
    );
    let (mut before, mut means, mut deviations) = (0.0, Vec::new(), Vec::new());
    for x in parts {
        let x = x?.cast::<f64>()?;
        let count = x.shape()[1] as f64;
        let (part_means, variances) = (elements(&x.mean_axis(ROWS)?)?, elements(&x.variance_axis(ROWS, 0)?)?);
        means.resize(part_means.len(), 0.0);
        deviations.resize(part_means.len(), 0.0);
        let total = before + count;
        let parts = part_means.into_iter().zip(variances);
        for ((mean, deviation), (part, variance)) in means.iter_mut().zip(&mut deviations).zip(parts) {
            let distance = part - *mean;
            *mean += distance * (count / total);
            // In this order: no product is infinite where nothing was before.
            *deviation += count * variance + distance * (before * count / total) * distance;
        }
        before = total;
    }
    let divisor = (rows - ddof) as f64;
    Ok(deviations.into_iter().map(|deviation| deviation / divisor).collect())
}

/// An array's elements, on the host.
fn elements<A: Element>(x: &DynArray<A>) -> Result<Vec<A>> {
    Ok(x.to_ndarray()?.into_iter().collect())
}
