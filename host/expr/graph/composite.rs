// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that are made of others, such as softmax: each is one part until kernels are looked for, and *expanded* then.
//!
//! Most are evaluated again and again, by a plan that is kept: that one is found by what the operation is of, and nothing else of it
//! is put together.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::parts::{Parts, Shape};
use super::problem::Problem;
use super::walk::{Depth, insert_axis, rewrite};
use super::{Has, Kind, Node, common_home, with_type};

/// Puts together what a composite gives. It depends on the settings, on types and shapes of the parts, and on how these are made;
/// on no number: one may be an argument by then.
pub(in crate::expr) type Expand = for<'a> fn(&Composite<'a>) -> Result<Parts<'a>, Problem>;

/// An operation that is made of others.
pub(in crate::expr) struct Composite<'a> {
    pub(in crate::expr) expand: Expand,
    /// What it is of.
    pub(in crate::expr) parts: Parts<'a>,
    /// Axes or lengths: what else there is to say of the operation.
    pub(in crate::expr) settings: Shape,
}

/// One of the results of a composite.
#[derive(Clone)]
pub(in crate::expr) struct Composed<'a> {
    pub(in crate::expr) composite: Arc<Composite<'a>>,
    /// Which one.
    pub(in crate::expr) number: usize,
    /// The axes of length 1 that were inserted, one after the other.
    pub(in crate::expr) inserted: Vec<usize>,
}

impl Composed<'_> {
    /// With another axis ahead of axis `at`.
    pub(super) fn with_axis(&self, at: usize) -> Self {
        let mut inserted = Vec::with_capacity(self.inserted.len() + 1);
        inserted.extend(self.inserted.iter().copied().chain([at]));
        Self {
            composite: Arc::clone(&self.composite),
            number: self.number,
            inserted,
        }
    }
}

impl<'a> Composite<'a> {
    /// The results, of these types and shapes, of an operation called `name` whose parts and settings are checked.
    pub(in crate::expr) fn results<const N: usize>(
        self,
        name: &'static str,
        results: [(ScalarType, Shape); N],
    ) -> Result<[Arc<Node<'a>>; N], Problem> {
        let home = common_home(name, &self.parts)?;
        let sizes = self.parts.iter().map(|part| part.size);
        let size = sizes.fold(1, usize::saturating_add);
        let has = Has {
            composites: true,
            ..Has::of(&self.parts)
        };
        let composite = Arc::new(self);
        let mut number = 0;
        Ok(results.map(|(ty, shape)| {
            let composed = Composed {
                composite: Arc::clone(&composite),
                number,
                inserted: Vec::new(),
            };
            number += 1;
            Arc::new(Node {
                kind: Kind::Composed(composed),
                ty,
                shape,
                home: home.clone(),
                size,
                has,
            })
        }))
    }

    /// The result of an operation that has one.
    pub(in crate::expr) fn result(
        self,
        name: &'static str,
        ty: ScalarType,
        shape: Shape,
    ) -> Result<Arc<Node<'a>>, Problem> {
        let [result] = self.results(name, [(ty, shape)])?;
        Ok(result)
    }
}

impl<'a> Node<'a> {
    /// The same result of a composite that takes the place of its own.
    pub(super) fn with_composite(&self, composed: &Composed<'a>, composite: &Arc<Composite<'a>>) -> Arc<Self> {
        let composed = Composed {
            composite: Arc::clone(composite),
            ..composed.clone()
        };
        Arc::new(self.with_kind(Kind::Composed(composed)))
    }
}

/// The part without composites in it.
pub(in crate::expr) fn expanded<'a>(root: &Arc<Node<'a>>) -> Result<Arc<Node<'a>>, Problem> {
    match root.has.composites {
        true => Ok(all_expanded(&[root])?.pop().expect("one root")),
        false => Ok(Arc::clone(root)),
    }
}

/// The roots without composites in them.
pub(in crate::expr) fn all_expanded<'a>(roots: &[&Arc<Node<'a>>]) -> Result<Vec<Arc<Node<'a>>>, Problem> {
    if !roots.iter().any(|root| root.has.composites) {
        return Ok(roots.iter().map(|&root| Arc::clone(root)).collect());
    }
    let mut of_composites: FxHashMap<*const Composite<'a>, (Arc<Composite<'a>>, Parts<'a>)> = FxHashMap::default();
    let mut problem = None;
    let mut expand = |composed: &Composed<'a>| -> Result<Arc<Node<'a>>, Problem> {
        let composite = &composed.composite;
        let (_, results) = match of_composites.entry(Arc::as_ptr(composite)) {
            Entry::Occupied(known) => known.into_mut(),
            // Kept, so that its address is no other's.
            Entry::Vacant(place) => place.insert((Arc::clone(composite), (composite.expand)(composite)?)),
        };
        let result = Arc::clone(&results[composed.number]);
        let inserted = composed.inserted.iter();
        Ok(inserted.fold(result, |result, &at| insert_axis(&result, at)))
    };
    let roots = rewrite(
        roots,
        |node| node.parts(Depth::All),
        |_, node| match &node.kind {
            Kind::Composed(composed) => match expand(composed) {
                Ok(new) => {
                    debug_assert_eq!(new.shape, node.shape);
                    with_type(new, node.ty)
                }
                Err(error) => {
                    problem = Some(error);
                    node
                }
            },
            _ if node.has.composites => of_expanded(node),
            _ => node,
        },
    );
    problem.map_or(Ok(roots), Err)
}

/// The part as one of what its parts have become.
fn of_expanded<'a>(node: Arc<Node<'a>>) -> Arc<Node<'a>> {
    let parts = node.parts(Depth::Reductions);
    let sizes = parts.iter().map(|part| part.size);
    let size = sizes.fold(1, usize::saturating_add);
    let has = Has::of(parts);
    let mut new = node.with_kind(node.kind.clone());
    new.has = match &node.kind {
        Kind::Reduced(_) => Has {
            reductions: true,
            ..has
        },
        Kind::Applied(_) => Has {
            composites: false,
            ..node.has
        },
        _ => has,
    };
    if !parts.is_empty() {
        new.size = size;
    }
    Arc::new(new)
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis, Ix2};

    use crate::expr::{self, Expr};
    use crate::ops::Sum;
    use crate::{Device, DeviceArray, Result};

    /// Numbers of which sums and squares are exact.
    fn numbers(device: &Device) -> Result<DeviceArray<f32, Ix2>> {
        let numbers = Array2::from_shape_fn((5, 37), |(row, column)| ((row * 7 + column * 3) % 11) as f32 * 0.25);
        DeviceArray::from_ndarray(device.default_stream(), &numbers)
    }

    #[test]
    fn a_composite_is_what_it_gives_wherever_it_stands() -> Result<()> {
        let device = Device::simulator();
        let x = numbers(&device)?;
        let softmax = || x.expr().softmax(Axis(1));
        let (alone, variance) = (softmax().eval()?, x.expr().variance_axis(Axis(1), 1).eval()?);
        let wanted = alone.to_ndarray()?;
        let twice = expr::compile(|x: Expr<f32, Ix2>| x.softmax(Axis(1)) * 2.0);
        // What is evaluated once has no plan, what is evaluated twice one.
        for _ in 0..3 {
            assert_eq!(softmax().eval()?.to_ndarray()?, wanted);
            assert_eq!((softmax() * 2.0 + softmax()).eval()?.to_ndarray()?, &wanted * 3.0);
            assert_eq!(softmax().fast_math().eval()?.to_ndarray()?, wanted);
            assert_eq!(twice.call(&x)?.to_ndarray()?, &wanted * 2.0);
            let distances = &x - x.expr().variance_axis(Axis(1), 1).insert_axis(Axis(1));
            let of_array = (&x - variance.expr().insert_axis(Axis(1))).eval()?;
            assert_eq!(distances.eval()?.to_ndarray()?, of_array.to_ndarray()?);
            // What an operation on whole arrays is of, and one of what that gives.
            let sums = softmax().inclusive_scan_axis::<Sum>(Axis(1)).eval()?;
            assert_eq!(
                sums.to_ndarray()?,
                alone.inclusive_scan_axis::<Sum>(Axis(1))?.to_ndarray()?
            );
            let of_sums = x
                .expr()
                .inclusive_scan_axis::<Sum>(Axis(1))
                .variance_axis(Axis(1), 1)
                .eval()?;
            let sums = x.inclusive_scan_axis::<Sum>(Axis(1))?;
            assert_eq!(
                of_sums.to_ndarray()?,
                sums.expr().variance_axis(Axis(1), 1).eval()?.to_ndarray()?
            );
        }
        let text = (softmax() + 1.0).explain()?;
        assert!(text.contains("max along [1]") && text.contains("kernel 1"), "{text}");
        Ok(())
    }

    #[test]
    fn axes_are_inserted_one_after_the_other() -> Result<()> {
        let device = Device::simulator();
        let x = numbers(&device)?;
        let total = || x.expr().log_sum_exp_axis(Axis(1));
        let wanted = total().eval()?.to_ndarray()?;
        let (of_rows, of_columns) = (total().insert_axis(Axis(1)), total().insert_axis(Axis(0)));
        let table = (of_rows.insert_axis(Axis(0)) - of_columns.insert_axis(Axis(1)))
            .eval()?
            .to_ndarray()?;
        for ((_, row, column), difference) in table.indexed_iter() {
            assert_eq!(*difference, wanted[row] - wanted[column]);
        }
        Ok(())
    }

    #[test]
    fn results_of_one_composite_are_those_of_each() -> Result<()> {
        let device = Device::simulator();
        let x = numbers(&device)?;
        let gradients = || x.expr().layer_norm_backward(&[1], &x, 1e-5, &x);
        for _ in 0..3 {
            let (_, of_weight, of_bias) = gradients();
            let (weight, bias) = expr::eval((&of_weight, &of_bias))?;
            assert_eq!(of_weight.eval()?.to_ndarray()?, weight.to_ndarray()?);
            assert_eq!(gradients().2.eval()?.to_ndarray()?, bias.to_ndarray()?);
            assert_eq!(bias.to_ndarray()?, x.to_ndarray()?);
        }
        Ok(())
    }

    #[test]
    fn composites_may_be_as_deep_as_memory_is_large() -> Result<()> {
        let device = Device::simulator();
        let x = numbers(&device)?;
        let mut deep = x.expr();
        for _ in 0..100_000 {
            deep = deep.softmax(Axis(1));
        }
        assert_eq!(format!("{deep:?}"), "Expr(f32, shape=[5, 37], not computed: see eval)");
        Ok(())
    }
}
