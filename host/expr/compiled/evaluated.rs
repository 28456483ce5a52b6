// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions that are evaluated: for those that are the same but for where their arrays are and for their numbers, what is launched
//! is kept from the second time on. A plan takes five to ten times as long to make as it takes to launch what it would have, and
//! what has another shape each time is there once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::inputs::{Argument, Given};
use super::plan::{Call, Plan, Slot};
use super::trace::{Trace, without_elements};
use crate::error::Result;
use crate::expr::graph::description::{Description, alignment};
use crate::expr::graph::walk::{Depth, rewrite};
use crate::expr::graph::{Array, Elements, Kind, Node};
use crate::expr::plan;
use crate::expr::plan::run::{Runner, dense};
use crate::stream::Stream;

/// What a device knows at most, of some thousand bytes each where there is a plan. With more all is forgotten, and what is in use is
/// planned again.
const MOST: usize = if cfg!(test) { 8 } else { 1024 };

/// How outputs are computed of roots: what is launched depends on what [describes](Description) these.
#[derive(Clone, Copy)]
pub(in crate::expr) struct Procedure {
    pub(in crate::expr) compute: Compute,
    /// Along which it goes, if that matters.
    pub(in crate::expr) axis: usize,
}

/// Given the axis, roots and outputs.
type Compute = for<'a> fn(&dyn Runner, usize, &[&Arc<Node<'a>>], &[&dyn Elements]) -> Result<()>;

/// Each output is a root, all of one shape, computed by as many kernels as it takes.
pub(in crate::expr) const KERNELS: Procedure = Procedure {
    compute: |runner, _, roots, outputs| plan::run(runner, roots, outputs),
    axis: 0,
};

impl Procedure {
    pub(in crate::expr) fn run(
        self,
        runner: &dyn Runner,
        roots: &[&Arc<Node<'_>>],
        outputs: &[&dyn Elements],
    ) -> Result<()> {
        (self.compute)(runner, self.axis, roots, outputs)
    }
}

/// What is known of what was evaluated before.
#[derive(Clone)]
enum Before {
    /// That it was, once.
    Once,
    Plan(Arc<Plan<'static>>),
}

/// What a device knows, by what [describes](Description) roots and outputs, and what computes them.
#[derive(Default)]
pub(in crate::expr) struct Plans(Mutex<FxHashMap<Box<[u64]>, Before>>);

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plans").finish_non_exhaustive()
    }
}

impl Plans {
    fn find(&self, words: &[u64]) -> Option<Before> {
        let plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.get(words).cloned()
    }

    /// Plans what is described, and keeps that.
    fn trace(
        &self,
        stream: &Stream,
        by: Procedure,
        description: &Description<'_, '_>,
        roots: &[&Arc<Node<'_>>],
        outputs: &[&dyn Elements],
    ) -> Result<Arc<Plan<'static>>> {
        let plan = Arc::new(trace(stream, by, description, roots, outputs)?);
        self.keep(&description.words, Before::Plan(Arc::clone(&plan)));
        Ok(plan)
    }

    fn keep(&self, words: &[u64], known: Before) {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = match plans.len() < MOST || plans.contains_key(words) {
            true => FxHashMap::default(),
            false => std::mem::take(&mut *plans),
        };
        plans.insert(words.into(), known);
        // Without the lock: some thousand plans.
        drop(plans);
        drop(old);
    }
}

/// Computes outputs in C order, which have elements, of roots of which no application is a part, on a stream of the arrays' device.
pub(in crate::expr) fn run(
    stream: &Stream,
    by: Procedure,
    roots: &[&Arc<Node<'_>>],
    outputs: &[&dyn Elements],
) -> Result<()> {
    let description = describe(by, roots, outputs)?;
    let plans = stream.backend().expressions().plans();
    let plan = match plans.find(&description.words) {
        None => {
            plans.keep(&description.words, Before::Once);
            return by.run(stream, roots, outputs);
        }
        Some(Before::Once) => plans.trace(stream, by, &description, roots, outputs)?,
        Some(Before::Plan(plan)) => plan,
    };
    let planned = Planned::new(plan, &description, outputs);
    // SAFETY: the plan of what is described so: the arrays lie as those that it was made for, on the stream's device, and the outputs
    // are of the types and shapes that the procedure gives, in C order. Those that begin where an array does did so too, and what is
    // read of that is read element by element by what writes it, or else goes to another array first.
    unsafe { planned.plan.run(stream, &planned.given, &planned.outputs) }
}

fn describe<'r, 'a>(
    by: Procedure,
    roots: &[&'r Arc<Node<'a>>],
    outputs: &[&dyn Elements],
) -> Result<Description<'r, 'a>> {
    let mut description = Description::new(roots, outputs).ok_or_else(without_elements)?;
    // Functions that are at one address do the same.
    description.words.extend([by.compute as usize as u64, by.axis as u64]);
    Ok(description)
}

/// A plan and what it is given.
pub(in crate::expr) struct Planned<'r> {
    plan: Arc<Plan<'static>>,
    given: Vec<Given<'r>>,
    outputs: Vec<Given<'r>>,
}

impl<'r> Planned<'r> {
    /// What computes the roots as [`run`] does by [kernels](KERNELS), one step after the other; planned at once, for many are
    /// launched together whose plans are made once.
    pub(in crate::expr) fn of(
        stream: &Stream,
        roots: &[&'r Arc<Node<'_>>],
        outputs: &[&'r dyn Elements],
    ) -> Result<Self> {
        let description = describe(KERNELS, roots, outputs)?;
        let plans = stream.backend().expressions().plans();
        let plan = match plans.find(&description.words) {
            None | Some(Before::Once) => plans.trace(stream, KERNELS, &description, roots, outputs)?,
            Some(Before::Plan(plan)) => plan,
        };
        Ok(Self::new(plan, &description, outputs))
    }

    fn new(plan: Arc<Plan<'static>>, description: &Description<'r, '_>, outputs: &[&'r dyn Elements]) -> Self {
        let arrays = description.arrays.iter().map(|array| Given::array(&***array));
        let numbers = description.numbers.iter().map(|bits| Given(Argument::Number(*bits)));
        Self {
            plan,
            given: arrays.chain(numbers).collect(),
            outputs: outputs.iter().map(|output| Given::array(*output)).collect(),
        }
    }

    pub(in crate::expr) fn call(&self) -> Call<'_> {
        Call::new(&self.plan, &self.given, &self.outputs)
    }
}

/// The plan of what is described.
fn trace(
    stream: &Stream,
    by: Procedure,
    description: &Description<'_, '_>,
    roots: &[&Arc<Node<'_>>],
    outputs: &[&dyn Elements],
) -> Result<Plan<'static>> {
    let trace = Trace::new(stream);
    // Of arrays that begin at one address the places do.
    let mut addresses = FxHashMap::default();
    let mut stand = |slot: Slot, array: &dyn Elements, strides: &[isize]| -> Array<'static> {
        let address = array.first_address();
        let known = addresses.get(&address).copied();
        let stands = trace.array(slot, (array.shape(), strides), (known, alignment(address)));
        addresses.insert(address, stands.first_address());
        stands
    };
    let outputs = outputs.iter().enumerate();
    let outputs = outputs.map(|(number, output)| stand(Slot::Output(number), *output, &dense(output.shape())));
    let outputs: Vec<Array<'_>> = outputs.collect();
    let arrays = description.arrays.iter().enumerate();
    let arrays = arrays.map(|(number, array)| stand(Slot::Argument(number), &***array, array.strides()));
    let arrays: Vec<Array<'_>> = arrays.collect();
    let numbers = 0..description.numbers.len();
    let numbers = numbers.map(|number| trace.place(Slot::Argument(arrays.len() + number), Some(0), 0).0);
    let numbers: Vec<_> = numbers.collect();
    let roots = rewrite(
        roots,
        |node| node.parts(Depth::Reductions),
        |_, node| {
            let kind = match &node.kind {
                Kind::Array(array) => description.array(array).map(|at| Kind::Array(Arc::clone(&arrays[at]))),
                Kind::Scalar(bits) => description.number(*bits, node.ty).map(|at| Kind::Argument(numbers[at])),
                _ => None,
            };
            kind.map_or(node.clone(), |kind| Arc::new(node.with_kind(kind)))
        },
    );
    let roots: Vec<_> = roots.iter().collect();
    let outputs: Vec<&dyn Elements> = outputs.iter().map(|output| &**output).collect();
    by.run(&trace, &roots, &outputs)?;
    Ok(trace.plan())
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, Axis, Ix1, s};

    use super::*;
    use crate::ops::Sum;
    use crate::{Device, DeviceArray, expr};

    fn plans(device: &Device) -> usize {
        let backend = device.default_stream().backend();
        backend.expressions().plans().0.lock().unwrap().len()
    }

    fn numbers(device: &Device, len: usize, first: f32) -> Result<DeviceArray<f32, Ix1>> {
        DeviceArray::from_ndarray(
            device.default_stream(),
            &Array1::from_shape_fn(len, |k| first + k as f32),
        )
    }

    #[test]
    fn what_is_the_same_but_for_arrays_and_numbers_has_one_plan() -> Result<()> {
        let device = Device::simulator();
        let (x, y) = (numbers(&device, 41, 1.0)?, numbers(&device, 41, 7.0)?);
        let on_host = |a: f32, b: f32| Array1::from_shape_fn(41, |k| (1.0 + k as f32) * a + (7.0 + k as f32) * b);
        for (a, b) in [(2.0, 3.0), (-1.0, 0.5)] {
            assert_eq!((&x * a + &y * b).eval()?.to_ndarray()?, on_host(a, b));
            assert_eq!((&y * b + &x * a).eval()?.to_ndarray()?, on_host(a, b));
            assert_eq!(plans(&device), 1);
        }
        // Numbers that are one are one, and so are arrays.
        assert_eq!((&x * 2.0 + &y * 2.0).eval()?.to_ndarray()?, on_host(2.0, 2.0));
        assert_eq!(plans(&device), 2);
        let twice = (&x * 2.0 + &x * 3.0).eval()?.to_ndarray()?;
        assert_eq!(twice, x.to_ndarray()? * 5.0);
        assert_eq!(plans(&device), 3);
        // Another function, and arrays that lie otherwise, or begin elsewhere.
        let (even, behind) = (x.slice(s![..;2])?, x.slice(s![1..22])?);
        assert_eq!(
            (even.expr() + &behind).eval()?.to_ndarray()?,
            even.to_ndarray()? + behind.to_ndarray()?
        );
        assert_eq!(
            (even.expr() - &behind).eval()?.to_ndarray()?,
            even.to_ndarray()? - behind.to_ndarray()?
        );
        let (first, later) = (x.slice(s![..21])?, y.slice(s![2..23])?);
        assert_eq!(
            (first.expr() + &later).eval()?.to_ndarray()?,
            first.to_ndarray()? + later.to_ndarray()?
        );
        assert_eq!(plans(&device), 6);
        Ok(())
    }

    #[test]
    fn a_place_that_is_read_and_written_is_told_from_two() -> Result<()> {
        let device = Device::simulator();
        let mut x = numbers(&device, 33, 0.0)?;
        let mut out = DeviceArray::zeros(device.default_stream(), 33)?;
        for _ in 0..3 {
            let host = x.to_ndarray()?;
            (x.expr() + 1.0).eval_into(&mut out)?;
            x.update(|x| x + 1.0)?;
            assert_eq!((x.to_ndarray()?, out.to_ndarray()?), (&host + 1.0, host + 1.0));
            assert_eq!(plans(&device), 2);
        }
        // A number of all elements, and the elements themselves.
        for _ in 0..3 {
            let host = x.to_ndarray()?;
            x.update(|x| &x - x.max())?;
            assert_eq!(x.to_ndarray()?, &host - host.iter().copied().fold(f32::MIN, f32::max));
        }
        Ok(())
    }

    #[test]
    fn rows_that_are_at_hand_or_not_are_known() -> Result<()> {
        let device = Device::simulator();
        for round in 0..3 {
            // Along the first axis nothing has rows at hand.
            for axis in [1, 0] {
                let x = numbers(&device, 35, round as f32)?.into_shape((5, 7))?;
                let labels = DeviceArray::<i32, Ix1>::zeros(device.default_stream(), [7, 5][axis])?;
                let (loss, gradient) = x.expr().cross_entropy_with_gradient(Axis(axis), &labels, 1.0)?;
                let wanted = x.expr().cross_entropy(Axis(axis), &labels).eval()?;
                assert_eq!(loss.to_ndarray()?, wanted.to_ndarray()?);
                let wanted = x.expr().cross_entropy_backward(Axis(axis), &labels, 1.0).eval()?;
                assert_eq!(gradient.to_ndarray()?, wanted.to_ndarray()?);
                // What an operation on whole arrays gives is computed again each time.
                let sums = x.expr().inclusive_scan_axis::<Sum>(Axis(axis));
                let (loss, gradient) = sums.cross_entropy_with_gradient(Axis(axis), &labels, 1.0)?;
                let wanted = sums.cross_entropy(Axis(axis), &labels).eval()?;
                assert!((loss.to_ndarray()? - wanted.to_ndarray()?).into_scalar().abs() < 1e-5);
                let wanted = sums.cross_entropy_backward(Axis(axis), &labels, 1.0).eval()?;
                let distances = gradient.to_ndarray()? - wanted.to_ndarray()?;
                assert!(distances.iter().all(|distance| distance.abs() < 1e-6));
            }
        }
        Ok(())
    }

    #[test]
    fn what_is_computed_together_is_planned_once() -> Result<()> {
        let device = Device::simulator();
        let lengths = [33, 33, 40];
        let mut all: Vec<_> = lengths
            .map(|len| numbers(&device, len, 1.0))
            .into_iter()
            .collect::<Result<_>>()?;
        for factor in [2.0, 0.5, -1.0] {
            let hosts: Vec<_> = all.iter().map(|x| x.to_ndarray()).collect::<Result<_>>()?;
            let works = all.iter_mut().map(|x| expr::defer_update(x, |x| &x * factor + x.max()));
            expr::run_all(works.collect::<Result<Vec<_>>>()?)?;
            for (x, host) in all.iter().zip(hosts) {
                let largest = host.iter().copied().fold(f32::MIN, f32::max);
                assert_eq!(x.to_ndarray()?, host * factor + largest);
            }
            assert_eq!(plans(&device), 2);
        }
        Ok(())
    }

    #[test]
    fn what_is_made_of_many_operations_has_one_plan() -> Result<()> {
        let device = Device::simulator();
        for round in 0..3 {
            // Each is evaluated for the first time on a device of its own.
            let other = Device::simulator();
            let norm = |device: &Device| -> Result<_> {
                let x = numbers(device, 35, round as f32)?.into_shape((5, 7))?;
                let (weight, epsilon) = (1.5 + round as f32, 0.25 * f64::from(round));
                x.expr().layer_norm(&[1], weight, 8.0, epsilon).eval()?.to_ndarray()
            };
            assert_eq!(norm(&device)?, norm(&other)?);
            assert_eq!((plans(&device), plans(&other)), (1, 1));
        }
        let x = numbers(&device, 35, 1.0)?.into_shape((5, 7))?;
        for round in 0..3 {
            x.expr().softmax(Axis(1)).eval()?;
            x.expr().softmax(Axis(0)).eval()?;
            x.expr().log_softmax(Axis(1)).eval()?;
            x.expr().variance_axis(Axis(1), 0).eval()?;
            x.expr().variance_axis(Axis(1), 1).eval()?;
            assert_eq!(plans(&device), 6, "{round}");
        }
        Ok(())
    }

    #[test]
    fn there_are_not_too_many_plans() -> Result<()> {
        let device = Device::simulator();
        let x = numbers(&device, 40, 3.0)?;
        for len in 1..40 {
            let part = x.slice(s![..len])?;
            assert_eq!((part.expr() + 1.0).eval()?.to_ndarray()?, part.to_ndarray()? + 1.0);
            assert!(plans(&device) <= MOST);
        }
        Ok(())
    }
}
