// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is computed later, together with others: many small arrays by one launch.

use std::fmt;
use std::sync::Arc;

use ndarray::Dimension;

use super::Expr;
use super::eval::check_shape;
use super::graph::{Elements, Node};
use super::kernel::together::{Work, can_be_together, launch_all};
use super::plan;
use super::plan::run::{addresses, in_order, reads_in_order};
use super::update::{Target, Update};
use super::value::Value;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

/// Arrays, and the expressions that their elements will be replaced by: nothing is computed before [`run_all`], or
/// [`run`](Self::run). They are borrowed until then. Made by [`defer_update`] and [`Expr::defer_into`].
#[must_use = "nothing is computed before `run_all`"]
pub struct Deferred<'a> {
    stream: Stream,
    roots: Vec<Arc<Node<'a>>>,
    outputs: Vec<Box<dyn Output + 'a>>,
}

/// An array whose elements are replaced, of whichever type.
trait Output {
    fn elements(&self) -> &dyn Elements;
    fn finish(self: Box<Self>, stream: &Stream) -> Result<()>;
}

impl<T: Value<Element = T> + Element, D: Dimension> Output for Target<'_, T, D> {
    fn elements(&self) -> &dyn Elements {
        Target::elements(self)
    }

    fn finish(self: Box<Self>, stream: &Stream) -> Result<()> {
        Target::finish(*self, stream)
    }
}

/// [`update`](super::update()) that is done later, by [`run_all`].
///
/// # Errors
///
/// Those of [`update`](super::update()) that are known before anything is launched.
pub fn defer_update<'a, U: Update<'a>>(arrays: U, function: impl FnOnce(U::Exprs) -> U::Exprs) -> Result<Deferred<'a>> {
    arrays.defer(function)
}

/// Computes all of these. Those of one form, such as steps of an optimiser, are computed by one launch for some tens of them,
/// instead of one each: what takes the time of many small arrays is their launches.
///
/// Expressions are of one form where they are made by the same operations, of arrays of the same types that lie alike, such as in C
/// order; whatever their lengths are, and the numbers beside the arrays. What has reductions, scans or products in it is computed for itself, and so
/// are arrays that the device's cache does not hold, which take longer than a launch. Each has the bits that it has when it is computed
/// alone. Launches are queued on the stream that the arrays' are; those of several streams are not put together.
///
/// # Errors
///
/// Those of [`update`](super::update()), and of a launch. Other arrays may be replaced then, or may not.
///
/// # Examples
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, expr};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut weights = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
/// let mut bias = DeviceArray::from_ndarray(stream, &array![10.0f32, 20.0, 30.0])?;
/// let mut sums = DeviceArray::zeros(stream, 3)?;
/// let twice = bias.try_clone()?;
/// expr::run_all([
///     expr::defer_update(&mut weights, |w| w * 0.5)?,
///     expr::defer_update(&mut bias, |b| b * 0.25)?,
///     (&twice + 1.0).defer_into(&mut sums)?,
/// ])?;
/// assert_eq!(weights.to_ndarray()?, array![[0.5, 1.0], [1.5, 2.0]]);
/// assert_eq!(bias.to_ndarray()?, array![2.5, 5.0, 7.5]);
/// assert_eq!(sums.to_ndarray()?, array![11.0, 21.0, 31.0]);
/// # Ok(())
/// # }
/// ```
pub fn run_all<'a>(all: impl IntoIterator<Item = Deferred<'a>>) -> Result<()> {
    let mut outputs = Vec::new();
    let mut of_streams: Vec<(Stream, Vec<Work<'a>>)> = Vec::new();
    let all: Vec<Deferred<'a>> = all.into_iter().collect();
    for deferred in &all {
        let Some(work) = deferred.work()? else { continue };
        match of_streams.iter_mut().find(|(stream, _)| *stream == deferred.stream) {
            Some((_, works)) => works.push(work),
            None => of_streams.push((deferred.stream.clone(), vec![work])),
        }
        outputs.push((&deferred.stream, deferred.elements()));
    }
    for (stream, works) in &of_streams {
        let reads = works
            .iter()
            .flat_map(|(lowered, _)| lowered.arrays.iter())
            .map(|array| &**array);
        let of_stream = outputs.iter().filter(|(own, _)| *own == stream);
        let writes = of_stream.flat_map(|(_, outputs)| outputs.iter().copied());
        // SAFETY: the arrays' elements and the outputs', in memory of the stream's device, as in `Runner::run` of a stream, which was
        // just ordered behind their other uses. What one deferred work writes is borrowed mutably by it, so that no other one reads
        // or writes it; what it reads of that it reads element by element, as `work` has asked.
        in_order(stream, reads, writes, || unsafe { launch_all(stream, works) })?;
    }
    all.into_iter().try_for_each(Deferred::finish)
}

impl<'a> Deferred<'a> {
    /// Of no array yet.
    pub(crate) fn on(stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            roots: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// With one more array, of the shape of the others. `by` may have it, too, so that it is not a mutable reference here.
    ///
    /// # Safety
    ///
    /// The caller has borrowed the array mutably for `'a`, and reads it by nothing but what replaces it and others of this.
    pub(crate) unsafe fn replace<T: Value<Element = T> + Element, D: Dimension, E>(
        mut self,
        elements: &'a DeviceArrayRef<T, D>,
        by: Expr<'a, T, E>,
    ) -> Result<Self> {
        let root = by.part?;
        if let Some(first) = self.roots.first() {
            check_shape("update", &root.shape, &first.shape)?;
        }
        if let Some(array) = &root.home {
            array.stream().check_device("update", &self.stream)?;
        }
        // SAFETY: the caller's promise.
        let target = unsafe { Target::new(elements, &root, &self.stream)? };
        self.outputs.push(Box::new(target));
        self.roots.push(root);
        Ok(self)
    }

    /// Computes it now, for itself.
    ///
    /// # Errors
    ///
    /// Those of [`update`](super::update()).
    pub fn run(self) -> Result<()> {
        self.run_alone()?;
        self.finish()
    }

    fn elements(&self) -> Vec<&dyn Elements> {
        self.outputs.iter().map(|output| output.elements()).collect()
    }

    fn run_alone(&self) -> Result<()> {
        super::eval::run(&self.stream, &self.roots.iter().collect::<Vec<_>>(), &self.elements())
    }

    fn finish(self) -> Result<()> {
        self.outputs
            .into_iter()
            .try_for_each(|output| output.finish(&self.stream))
    }

    /// What is launched together with others; what cannot be, or has no elements, is done.
    fn work(&self) -> Result<Option<Work<'a>>> {
        let outputs = self.elements();
        let addresses = addresses(&outputs);
        let roots: Vec<_> = self.roots.iter().collect();
        let is_empty = outputs.iter().any(|output| output.shape().contains(&0));
        let lowered = plan::elementwise(&roots, &addresses).filter(|lowered| {
            !is_empty
                && can_be_together(&lowered.program)
                && lowered.later.is_empty()
                && reads_in_order(lowered, &outputs)
        });
        match lowered {
            Some(lowered) => Ok(Some((lowered, addresses))),
            None => self.run_alone().map(|()| None),
        }
    }
}

impl fmt::Debug for Deferred<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = self.roots.first().map(|root| &root.shape);
        write!(
            f,
            "Deferred({} arrays, shape={shape:?}, not computed: see run_all)",
            self.roots.len()
        )
    }
}

impl<'a, T: Value<Element = T> + Element, D: Dimension> Expr<'a, T, D> {
    /// [`eval_into`](Self::eval_into) that is done later, by [`run_all`].
    ///
    /// # Errors
    ///
    /// Those of [`eval_into`](Self::eval_into) that are known before anything is launched.
    pub fn defer_into(&self, out: &'a mut DeviceArrayRef<T, D>) -> Result<Deferred<'a>> {
        let out = &*out;
        // SAFETY: borrowed mutably for `'a`, which this expression cannot have.
        unsafe { Deferred::on(out.stream()).replace(out, self.clone()) }
    }
}
