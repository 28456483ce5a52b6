// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is computed later, together with others: many small arrays by one launch.

use std::fmt;
use std::sync::Arc;

use ndarray::Dimension;

use super::Expr;
use super::compiled::evaluated::Planned;
use super::compiled::plan::Call;
use super::eval::check_shape;
use super::graph::{Elements, Node};
use super::kernel::together::{Work, launch_all};
use super::plan::run::in_order;
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
/// order; whatever their lengths are, and the numbers beside the arrays. Of reductions those are together whose rows as many threads
/// have, such as sums of arrays of similar lengths; of the longest ones what several blocks have, and then what combines that. What
/// has scans or products in it is computed for itself, reductions along others than the last axes are, and so are arrays that the
/// device's cache does not hold, which take longer than a launch. Each has the bits that it has when it is computed alone. Launches
/// are queued on the stream that the arrays' are; those of several streams are not put together.
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
    let all: Vec<Deferred<'a>> = all.into_iter().collect();
    let (alone, together): (Vec<_>, Vec<_>) = all.iter().partition(|deferred| deferred.has_applications());
    alone.into_iter().try_for_each(Deferred::run_alone)?;
    let together: Vec<_> = together.into_iter().filter(|deferred| !deferred.is_empty()).collect();
    let planned: Vec<_> = together.iter().map(|deferred| deferred.plan()).collect::<Result<_>>()?;
    let streams = together.iter().map(|deferred| &deferred.stream);
    let mut calls: Vec<(&Stream, Call<'_>)> = streams.zip(planned.iter().map(Planned::call)).collect();
    let steps = calls.iter().map(|(_, call)| call.steps()).max();
    (0..steps.unwrap_or_default()).try_for_each(|step| run_together(&mut calls, step))?;
    drop(calls);
    drop(planned);
    all.into_iter().try_for_each(Deferred::finish)
}

/// Launches a step of all that have it, those of a stream together.
fn run_together(calls: &mut [(&Stream, Call<'_>)], step: usize) -> Result<()> {
    let mut works = Vec::with_capacity(calls.len());
    for (number, (stream, call)) in calls.iter_mut().enumerate() {
        if step < call.steps() {
            // SAFETY: the plan of what is deferred, and its arrays, on its stream, as in `evaluated::run`: it was described so.
            let work = unsafe { call.begin(stream, step)? };
            works.extend(work.map(|work| (number, work)));
        }
    }
    let mut streams: Vec<&Stream> = Vec::new();
    for (number, _) in &works {
        let stream = calls[*number].0;
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }
    for stream in streams {
        let own = works.iter().filter(|(number, _)| calls[*number].0 == stream);
        let all: Vec<&Work<'_>> = own.clone().map(|(_, work)| work).collect();
        let reads = own.clone().flat_map(|(number, _)| calls[*number].1.reads(step));
        let writes = own.clone().flat_map(|(number, _)| calls[*number].1.writes(step));
        // SAFETY: the arrays' elements and the outputs', in memory of the stream's device, as in `Runner::run` of a stream, which was
        // just ordered behind their other uses. What one deferred work writes is borrowed mutably by it, or made for it, so that no
        // other one reads or writes it; what it reads of that it reads element by element, which the trace has looked for.
        let launch = || unsafe { launch_all(stream, &all) };
        in_order(stream, reads, writes, launch)?;
    }
    works.iter().for_each(|(number, _)| calls[*number].1.end(step));
    Ok(())
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
        let root = by.into_part()?;
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

    fn has_applications(&self) -> bool {
        self.roots.iter().any(|root| root.has.applications)
    }

    /// How it is computed, one kernel after another, if it has elements and no operations that have kernels of their own.
    fn plan(&self) -> Result<Planned<'_>> {
        let roots: Vec<_> = self.roots.iter().collect();
        Planned::of(&self.stream, &roots, &self.elements())
    }

    fn is_empty(&self) -> bool {
        self.elements().iter().any(|output| output.shape().contains(&0))
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
