// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans and histograms of expressions.

use std::any::type_name;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_std::scalar::Scalar;
use kernels_gpu::compiled::{Number, Scan, ScanTree};
use kernels_gpu::op::{Product, ReduceOp, Sum};
use ndarray::{Axis, Dimension, Ix1, Ix2, Ix3, IxDyn};

use super::Expr;
use super::graph::apply::{Compute, Told, of_one};
use super::graph::{Node, Part, check_axes};
use super::value::Value;
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::ops::{Histogram, ScanAlgorithm, bins_of_edges, check_histogram, check_histogram_channels};

/// Scans: kernels of their own, with the results of those of arrays ([`inclusive_scan`](DeviceArrayRef::inclusive_scan) and its
/// kind). Arrays are read where they lie, if they are in C order, else copied. Other expressions are computed by the scan where it
/// would read an array, if they have at most 16 operations, no reductions, no transposed operand, at most 2^30 elements, and are
/// needed nowhere else; else they are an array first. [`explain`](Expr::explain) tells.
///
/// The first such scan of a form takes the driver some 0.3 to 1 s to compile, and the next process that of its cache; by
/// [`ScanAlgorithm::Blelloch`] elements are computed twice.
impl<'a, T: Value<Element = T> + Element, D: Dimension> Expr<'a, T, D> {
    /// The inclusive scan of all elements in C order: element `i` combines elements `0 ..= i` by that operator.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::ops::{Max, Sum};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3, 1, -4, 1, 5])?;
    /// // How far each sum of squares is below the largest element so far, cubed.
    /// let sums = x.expr().square().inclusive_scan::<Sum>();
    /// let rest = x.expr().inclusive_scan::<Max>().cast::<i64>().powi(3) - sums;
    /// assert_eq!(rest.eval()?.to_ndarray()?, array![18i64, 17, 1, 0, 73]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op>,
    {
        self.scanned::<Op, _>("inclusive_scan", None, (), |(), x, out| {
            x.inclusive_scan_into::<Op>(out)
        })
    }

    /// The exclusive scan of all elements in C order: element `i` combines elements `0 .. i`, and element 0 is the operator's
    /// identity.
    pub fn exclusive_scan<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op>,
    {
        self.scanned::<Op, _>("exclusive_scan", None, (), |(), x, out| {
            x.exclusive_scan_into::<Op>(out)
        })
    }

    /// [`inclusive_scan`](Self::inclusive_scan) by the given algorithm: by [`ScanAlgorithm::Blelloch`] floats have the same bits
    /// on every run.
    pub fn inclusive_scan_by<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
        algorithm: ScanAlgorithm,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        self.scanned::<Op, _>("inclusive_scan", None, algorithm, |algorithm, x, out| {
            x.inclusive_scan_by_into::<Op>(*algorithm, out)
        })
    }

    /// [`exclusive_scan`](Self::exclusive_scan) by the given algorithm.
    pub fn exclusive_scan_by<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
        algorithm: ScanAlgorithm,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        self.scanned::<Op, _>("exclusive_scan", None, algorithm, |algorithm, x, out| {
            x.exclusive_scan_by_into::<Op>(*algorithm, out)
        })
    }

    /// The inclusive scan along `axis`: each line of elements along it is scanned by itself.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis.
    pub fn inclusive_scan_axis<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
        axis: Axis,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op>,
    {
        self.scanned::<Op, _>("inclusive_scan_axis", Some(axis), axis, |axis, x, out| {
            x.inclusive_scan_axis_into::<Op>(*axis, out)
        })
    }

    /// The exclusive scan along `axis`.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_axis`](Self::inclusive_scan_axis).
    pub fn exclusive_scan_axis<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>>(
        &self,
        axis: Axis,
    ) -> Expr<'a, Op::Output, D>
    where
        T: Scan<Op>,
    {
        self.scanned::<Op, _>("exclusive_scan_axis", Some(axis), axis, |axis, x, out| {
            x.exclusive_scan_axis_into::<Op>(*axis, out)
        })
    }

    fn scanned<Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>, P: Told>(
        &self,
        name: &'static str,
        axis: Option<Axis>,
        parameters: P,
        compute: impl Compute<P, T, IxDyn, Op::Output, IxDyn>,
    ) -> Expr<'a, Op::Output, D> {
        Expr::of(self.part.clone().and_then(|x| {
            let operator = type_name::<Op>().rsplit("::").next().unwrap_or_default();
            scan(name, Some(operator), x, axis, parameters, compute)
        }))
    }
}

/// Running sums and products: inclusive scans by [`Sum`] and [`Product`], as [`cumsum`](DeviceArrayRef::cumsum) and its kind of
/// arrays.
impl<'a, T: Value<Element = T> + Number, D: Dimension> Expr<'a, T, D>
where
    T::Total: Value<Element = T::Total> + Element,
{
    /// The sum of all elements up to each one, in C order.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[0.5, 0.25, 0.25], [0.125, 0.5, 0.375]])?;
    /// let are_most = x.expr().cumsum_axis(Axis(1)).less_equal(0.75);
    /// assert_eq!(are_most.eval()?.to_ndarray()?, array![[1, 1, 0], [1, 1, 0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cumsum(&self) -> Expr<'a, T::Total, D> {
        self.inclusive_scan::<Sum>()
    }

    /// The sum of the elements of each line along an axis up to each one.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis.
    pub fn cumsum_axis(&self, axis: Axis) -> Expr<'a, T::Total, D> {
        self.inclusive_scan_axis::<Sum>(axis)
    }

    /// The product of all elements up to each one, in C order.
    pub fn cumprod(&self) -> Expr<'a, T::Total, D> {
        self.inclusive_scan::<Product>()
    }

    /// The product of the elements of each line along an axis up to each one.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there is no such axis.
    pub fn cumprod_axis(&self, axis: Axis) -> Expr<'a, T::Total, D> {
        self.inclusive_scan_axis::<Product>(axis)
    }
}

/// A scan of all elements, or along an axis, by an operator, if the name does not say it.
pub(super) fn scan<'a, P: Told, T: Element, R: Value<Element = R> + Element>(
    name: &'static str,
    operator: Option<&str>,
    x: Arc<Node<'a>>,
    axis: Option<Axis>,
    parameters: P,
    compute: impl Compute<P, T, IxDyn, R, IxDyn>,
) -> Part<'a> {
    let mut description = name.to_string();
    if let Some(operator) = operator {
        description += &format!(" by {operator}");
    }
    if let Some(axis) = axis {
        check_axes(name, &x.shape, &[axis.0])?;
        description += &format!(" along axis {}", axis.0);
    }
    let shape = x.shape.clone();
    Node::apply(name, of_one(description, parameters, compute), vec![x], R::TYPE, &shape)
}

/// Histograms: kernels of their own, with the counts of those of arrays. What is counted is computed by them or an array first, as
/// with scans.
impl<'a, T: Value<Element = T> + Histogram, D: Dimension> Expr<'a, T, D> {
    /// The number of elements in each of `bins` bins of equal width in `range`, as [`histogram`](DeviceArrayRef::histogram) of
    /// arrays.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) for a number of bins or a range that is not possible.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.0f32, 0.5, -1.5, 2.0])?;
    /// let counts = x.expr().square().histogram(4, 0.0..=4.0);
    /// let share = counts.cast::<f64>() / 4.0;
    /// assert_eq!(share.eval()?.to_ndarray()?, array![0.5, 0.0, 0.25, 0.25]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram(&self, bins: usize, range: RangeInclusive<f64>) -> Expr<'a, u64, Ix1> {
        Expr::of(self.part.clone().and_then(|x| {
            check_histogram(bins, &range)?;
            let description = format!("histogram of {bins} bins in {range:?}");
            let count = |range: &RangeInclusive<f64>, x: &DeviceArrayRef<T, IxDyn>, counts: &mut _| {
                x.histogram_into(range.clone(), counts)
            };
            let counted = of_one(description, range, count);
            Node::apply("histogram", counted, vec![x], u64::TYPE, &[bins])
        }))
    }

    /// The number of elements between any two neighbouring `edges`, as [`histogram_edges`](DeviceArrayRef::histogram_edges) of
    /// arrays.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) for edges that are not possible.
    pub fn histogram_edges(&self, edges: &[f64]) -> Expr<'a, u64, Ix1> {
        Expr::of(self.part.clone().and_then(|x| {
            let bins = bins_of_edges(edges)?;
            let description = format!("histogram of {bins} bins between edges");
            let count =
                |edges: &Vec<f64>, x: &DeviceArrayRef<T, IxDyn>, counts: &mut _| x.histogram_edges_into(edges, counts);
            let counted = of_one(description, edges.to_vec(), count);
            Node::apply("histogram_edges", counted, vec![x], u64::TYPE, &[bins])
        }))
    }
}

/// Histograms of pictures.
impl<'a, T: Value<Element = T> + Histogram> Expr<'a, T, Ix3> {
    /// The histogram of each channel of a picture, rows × columns × channels, as
    /// [`histogram_channels`](DeviceArrayRef::histogram_channels) of arrays: channels × bins counts.
    ///
    /// # Errors
    ///
    /// As [`histogram`](Self::histogram), and [`Error::Parameter`](crate::Error::Parameter) for more than 2^31 counts in all.
    pub fn histogram_channels(&self, bins: usize, range: RangeInclusive<f64>) -> Expr<'a, u64, Ix2> {
        Expr::of(self.part.clone().and_then(|x| {
            let channels = x.shape[2];
            check_histogram_channels(channels, bins, &range)?;
            let description = format!("histogram of {channels} channels of {bins} bins in {range:?}");
            let count = |range: &RangeInclusive<f64>, x: &DeviceArrayRef<T, Ix3>, counts: &mut _| {
                x.histogram_channels_into(range.clone(), counts)
            };
            let counted = of_one(description, range, count);
            Node::apply("histogram_channels", counted, vec![x], u64::TYPE, &[channels, bins])
        }))
    }
}
