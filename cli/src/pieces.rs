// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long files go through the device in pieces, so that neither it nor the host has to have memory for all elements, and
//! so that reading, copies and kernels run side by side.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use ndarray::{Axis, Ix0, Ix1};
use warpsmith::{Chunk, Device, DeviceArray, Element, PinnedArray, Pipeline, ops};

use crate::npy::NpyFile;
use crate::scalar::Scalar;
use crate::stored::Stored;

/// The bytes of a piece, for tests; without it, they follow from the device's memory.
const VARIABLE: &str = "WARPSMITH_PIECE_BYTES";

/// Files of no more pieces are read as a whole: the copies of so few would hide little. The device has memory for them
/// and their results, as a piece is at most a twelfth of what is free.
const WHOLE: usize = 4;

/// Elements, one after the other.
pub type Vector<T> = DeviceArray<T, Ix1>;

/// A single number on the device.
type Number<T> = DeviceArray<T, Ix0>;

/// The elements of a file, in its order, as numbers of type `T`, in pieces of one length but for the last.
pub struct Pieces<T> {
    pipeline: Pipeline<'static>,
    elements: Arc<Elements>,
    /// The elements of a piece.
    len: usize,
    _element: std::marker::PhantomData<T>,
}

/// An open file.
#[derive(Debug)]
pub struct Elements {
    pub file: File,
    pub stored: Stored,
    pub is_big_endian: bool,
    /// Where they begin.
    pub start: u64,
    pub len: usize,
}

impl<T: Scalar> Pieces<T> {
    /// None unless the input is a file, and long. Of as many elements there are results of up to `result` bytes each.
    pub fn of(file: &NpyFile, device: &Device, result: usize) -> Result<Option<Self>> {
        let Some(elements) = file.open_elements()? else {
            return Ok(None);
        };
        let pipeline = Pipeline::new(device);
        let Some(len) = piece_len(&pipeline, &elements, result.max(size_of::<T>()))? else {
            return Ok(None);
        };
        Ok(Some(Self {
            pipeline,
            elements: Arc::new(elements),
            len,
            _element: std::marker::PhantomData,
        }))
    }

    /// The file's bytes, widened.
    pub fn bytes(&self) -> u64 {
        (self.elements.len * size_of::<T>()) as u64
    }

    /// The elements of a piece; the last one may have fewer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The elements of the file.
    pub fn total(&self) -> usize {
        self.elements.len
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<T>> + Send + use<T> {
        let (elements, len) = (Arc::clone(&self.elements), self.len);
        (0..elements.len).step_by(len).map(move |start| Piece {
            range: start..start.saturating_add(len).min(elements.len),
            elements: Arc::clone(&elements),
            _element: std::marker::PhantomData,
        })
    }

    /// The pieces on the device, in order. The bar counts their bytes.
    pub fn load(&self, bar: &ProgressBar) -> impl Iterator<Item = Result<Vector<T>>> {
        bar.set_position(0);
        let pieces = self.pipeline.load(self.pieces());
        pieces.inspect(|x| bar.inc(x.as_ref().map_or(0, |x| (x.len() * size_of::<T>()) as u64)))
    }

    /// A number of each piece, together on the device; each byte is read once.
    pub fn each<U: Element>(
        &self,
        bar: &ProgressBar,
        mut function: impl FnMut(Vector<T>) -> warpsmith::Result<Number<U>>,
    ) -> Result<Vector<U>> {
        let numbers = self.load(bar).map(|x| Ok(function(x?)?));
        let numbers: Vec<Number<U>> = numbers.collect::<Result<_>>()?;
        let views: Vec<_> = numbers.iter().map(|number| number.view()).collect();
        Ok(ops::stack(Axis(0), &views)?)
    }

    /// Hands over what `kernel` makes of the elements, in order.
    pub fn run<U: Element>(
        &self,
        bar: &ProgressBar,
        sink: Sink<'_, U>,
        mut kernel: impl FnMut(&Vector<T>, &mut Vector<U>) -> Result<()>,
    ) -> Result<()> {
        let results = self.pipeline.run(self.pieces(), |x| -> Result<_> {
            let mut out = DeviceArray::zeros(x.stream(), x.raw_dim())?;
            kernel(&x, &mut out)?;
            Ok(out)
        });
        for result in results {
            let result = result?;
            sink(result.view().as_slice().context("elements in C order")?)?;
            bar.inc((result.len() * size_of::<T>()) as u64);
        }
        Ok(())
    }
}

/// What takes the elements of a long result, in order.
pub type Sink<'a, U> = &'a mut dyn FnMut(&[U]) -> Result<()>;

/// The elements of a piece, where all arrays that are made of it have elements of up to so many bytes; none if the file
/// is not long.
pub fn piece_len(pipeline: &Pipeline<'_>, elements: &Elements, size: usize) -> Result<Option<usize>> {
    let len = match std::env::var(VARIABLE) {
        Ok(bytes) => {
            let bytes: usize = bytes.parse().with_context(|| format!("{VARIABLE}={bytes}"))?;
            (bytes / size).max(1)
        }
        Err(_) => pipeline.chunk_len(size)?,
    };
    Ok((elements.len > len.saturating_mul(WHOLE)).then_some(len))
}

/// Some of a file's elements.
struct Piece<T> {
    elements: Arc<Elements>,
    range: Range<usize>,
    _element: std::marker::PhantomData<T>,
}

impl<T: Scalar> Chunk for Piece<T> {
    type Elem = T;
    type Dim = Ix1;
    type Error = anyhow::Error;

    fn load(self, device: &Device) -> Result<PinnedArray<T, Ix1>> {
        let mut array = PinnedArray::zeros(device, self.range.len())?;
        let mut view = array.view_mut();
        let bytes = bytemuck::cast_slice_mut(view.as_slice_mut().context("elements in C order")?);
        self.elements.read(self.range, bytes, size_of::<T>())?;
        Ok(array)
    }
}

impl Elements {
    /// Reads elements, widened to as many bytes each.
    pub fn read(&self, range: Range<usize>, into: &mut [u8], wide: usize) -> Result<()> {
        let size = self.stored.size();
        let at = self.start + (range.start * size) as u64;
        if size == wide {
            return self.read_bytes(at, into);
        }
        let mut narrow = vec![0; range.len() * size];
        self.read_bytes(at, &mut narrow)?;
        self.stored.widen(&narrow, wide, into);
        Ok(())
    }

    fn read_bytes(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        match self.file.read_exact_at(bytes, at) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => bail!("truncated while it was read"),
            other => other?,
        }
        if self.is_big_endian {
            bytes.chunks_exact_mut(self.stored.size()).for_each(<[u8]>::reverse);
        }
        self.stored.check(bytes)
    }
}

/// The mean of numbers, from those of parts, of which all have `len` but the last.
fn mean_of(means: &[f64], len: usize, total: usize) -> f64 {
    let sum: f64 = counts(means.len(), len, total)
        .zip(means)
        .map(|(count, mean)| count * mean)
        .sum();
    sum / total as f64
}

/// The numbers of elements of so many parts, of which all have `len` but the last.
fn counts(parts: usize, len: usize, total: usize) -> impl Iterator<Item = f64> {
    (0..parts).map(move |i| len.min(total - i * len) as f64)
}

/// A reduction of a file.
pub enum Total<T: Scalar> {
    Sum(T::Total),
    Element(T),
    Mean(f64),
    Index(u64),
    Truth(bool),
}

/// Reductions. Each piece is reduced as an array of its own, and so are the pieces' results, on the device: the sum of
/// floats has the error of a tree that is one level deeper. Means and variances are combined in `f64` (T. Chan,
/// G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
impl<T: Scalar> Pieces<T> {
    /// `operation`, computed in the type that `widen` makes of the elements.
    pub fn reduce<W: Scalar<Total: Scalar<Total = W::Total>>>(
        &self,
        operation: crate::ops::ReduceOp,
        ddof: usize,
        bar: &ProgressBar,
        widen: impl Fn(Vector<T>) -> warpsmith::Result<Vector<W>>,
    ) -> Result<Total<W>> {
        use crate::ops::ReduceOp::{All, Any, Argmax, Argmin, Max, Mean, Min, Prod, Std, Sum, Var};
        let axis = Axis(0);
        Ok(match operation {
            Sum => Total::Sum(self.each(bar, |x| widen(x)?.sum_axis(axis))?.sum()?),
            Prod => Total::Sum(self.each(bar, |x| widen(x)?.product_axis(axis))?.product()?),
            Min => Total::Element(self.each(bar, |x| widen(x)?.min_axis(axis))?.min()?),
            Max => Total::Element(self.each(bar, |x| widen(x)?.max_axis(axis))?.max()?),
            Any => Total::Truth(self.each(bar, |x| widen(x)?.any_axis(axis))?.any()?),
            All => Total::Truth(self.each(bar, |x| widen(x)?.all_axis(axis))?.all()?),
            Argmin => Total::Index(self.index(
                bar,
                |x| x.argmin_axis(axis),
                |x| x.min_axis(axis),
                |parts| parts.argmin(),
            )?),
            Argmax => Total::Index(self.index(
                bar,
                |x| x.argmax_axis(axis),
                |x| x.max_axis(axis),
                |parts| parts.argmax(),
            )?),
            Mean => {
                let means = self.each(bar, |x| x.cast::<f64>()?.mean_axis(axis))?.to_ndarray()?;
                Total::Mean(mean_of(&means.to_vec(), self.len(), self.total()))
            }
            Var => Total::Mean(self.variance(ddof, bar)?),
            Std => Total::Mean(self.variance(ddof, bar)?.sqrt()),
        })
    }

    /// The index of an element, by its index in each piece and by the pieces' values.
    fn index(
        &self,
        bar: &ProgressBar,
        index: impl Fn(&Vector<T>) -> warpsmith::Result<Number<u64>>,
        value: impl Fn(&Vector<T>) -> warpsmith::Result<Number<T>>,
        best: impl Fn(&Vector<T>) -> warpsmith::Result<u64>,
    ) -> Result<u64> {
        let mut indices = Vec::new();
        let values = self.each(bar, |x| {
            indices.push(index(&x)?);
            value(&x)
        })?;
        let piece = usize::try_from(best(&values)?)?;
        let inside = indices[piece].to_ndarray()?.first().copied();
        Ok((piece * self.len()) as u64 + inside.context("one index for each piece")?)
    }

    fn variance(&self, ddof: usize, bar: &ProgressBar) -> Result<f64> {
        let total = self.total();
        ensure!(
            ddof < total,
            "variance: ddof: given {ddof}, wanted less than the {total} elements"
        );
        let mut means = Vec::new();
        let variances = self.each(bar, |x| {
            let x = x.cast::<f64>()?;
            means.push(x.mean_axis(Axis(0))?);
            x.variance_axis(Axis(0), 0)
        })?;
        let means: Vec<f64> = means
            .iter()
            .map(|mean| mean.to_ndarray()?.first().copied().context("one mean for each piece"))
            .collect::<Result<_>>()?;
        let mean = mean_of(&means, self.len(), total);
        let (variances, counts) = (variances.to_ndarray()?, counts(means.len(), self.len(), total));
        let parts = variances.iter().zip(&means).zip(counts);
        let deviations: f64 = parts
            .map(|((variance, part), count)| count * (variance + (part - mean) * (part - mean)))
            .sum();
        Ok(deviations / (total - ddof) as f64)
    }
}
