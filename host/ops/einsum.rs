// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums of products over labelled axes, by the products of matrices, multiplications and sums that there are.

use kernels_gpu::compiled::Number;
use ndarray::{Axis, Dimension, Ix3, IxDyn};

use super::MatMul;
use super::transpose::Ordered;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::view::DeviceView;

/// Sums of products over axes that have labels: NumPy's `einsum`. `"bij,bjk->bik"` is the product of two batches of matrices: an axis is
/// a letter, what a letter names has one length wherever it occurs, and over what the result does not name the sum is taken. Without
/// `->` the result has the letters that occur once, in alphabetic order. A letter twice in one operand is its diagonal: `"ii->"` is a
/// trace. Spaces are left out. `...` is not understood.
///
/// Operands are treated from the first on, two at a time: the result of two has the axes that the result or a later operand names. So
/// in which order they are given says what three or more of them cost.
///
/// # Cost
///
/// What one operand alone names, and the result does not, is summed first. What two have and is summed over makes them a
/// [product of matrices](crate::DeviceArrayRef::batched_matmul), whose rows are the axes that the first alone has, and whose columns are those
/// that the second alone has; an operand is copied only where those axes do not lie like one. Otherwise they are multiplied element by
/// element, the shorter ones repeated, and that is summed. The axes are put in the order of the result by another copy, unless they have
/// it: a product of two is computed with its operands the other way round where that gives it.
///
/// # Errors
///
/// [`Error::Parameter`] if the text is none of these, [`Error::Shape`] if it does not fit the operands, [`Error::DifferentDevices`]; those
/// of an allocation and a launch.
///
/// # Examples
///
/// ```
/// use ndarray::{arr0, array};
/// use warpsmith::{Device, DeviceArray, ops};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
/// let v = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 10.0])?;
/// let (a, v) = (a.view().into_dyn(), v.view().into_dyn());
///
/// assert_eq!(ops::einsum("ij,j->i", &[a.view(), v.view()])?.to_ndarray()?, array![21.0, 43.0].into_dyn());
/// assert_eq!(ops::einsum("ij->ji", &[a.view()])?.to_ndarray()?, array![[1.0, 3.0], [2.0, 4.0]].into_dyn());
/// assert_eq!(ops::einsum("ii->", &[a.view()])?.to_ndarray()?, arr0(5.0).into_dyn());
/// assert_eq!(ops::einsum("i,ij,j->", &[v.view(), a, v])?.to_ndarray()?, arr0(451.0).into_dyn());
/// # Ok(())
/// # }
/// ```
#[doc(alias = "tensordot")]
pub fn einsum<T>(subscripts: &str, operands: &[DeviceView<'_, T, IxDyn>]) -> Result<DeviceArray<T, IxDyn>>
where
    T: MatMul + Number<Total = T>,
{
    let shapes: Vec<&[usize]> = operands.iter().map(|operand| operand.shape()).collect();
    let Subscripts { inputs, output } = parse(subscripts, &shapes)?;
    let [first, others @ ..] = operands else {
        return Err(refused(
            subscripts,
            "a term for each of the operands, one at least".into(),
        ));
    };
    for other in others {
        first.stream().check_device("einsum", other.stream())?;
    }
    let terms = operands
        .iter()
        .zip(&inputs)
        .map(|(operand, labels)| Term::diagonal(operand, labels));
    let mut terms: Vec<Term<'_, T>> = terms.collect();
    let mut product = terms.remove(0);
    for number in 0..terms.len() {
        let (next, later) = (&terms[number], &terms[number + 1..]);
        let is_kept = |label: &char| output.contains(label) || later.iter().any(|term| term.labels.contains(label));
        product = product.times(next, &is_kept, &output)?;
    }
    match product.labels.iter().all(|label| output.contains(label)) {
        true => product.in_order(&output),
        false => product.summed(&|label| output.contains(label))?.in_order(&output),
    }
}

/// The labels of the operands' axes, and of the result's.
#[derive(Debug, PartialEq, Eq)]
struct Subscripts {
    inputs: Vec<Vec<char>>,
    output: Vec<char>,
}

/// The error of a text that is not understood.
fn refused(subscripts: &str, wanted: String) -> Error {
    Error::Parameter {
        operation: "einsum",
        parameter: "subscripts",
        given: format!("{subscripts:?}"),
        wanted,
    }
}

/// What the text says, for operands of these shapes.
fn parse(subscripts: &str, shapes: &[&[usize]]) -> Result<Subscripts> {
    let text: String = subscripts.split_whitespace().collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (&text[..], None),
    };
    let letters = |term: &str| -> Result<Vec<char>> {
        match term.chars().find(|letter| !letter.is_ascii_alphabetic()) {
            Some(other) => Err(refused(
                subscripts,
                format!("letters, of which {other:?} is none, `,` and one `->`"),
            )),
            None => Ok(term.chars().collect()),
        }
    };
    let inputs = inputs.split(',').map(letters).collect::<Result<Vec<_>>>()?;
    let output = output.map(letters).transpose()?;
    if inputs.len() != shapes.len() {
        return Err(refused(
            subscripts,
            format!("a term for each of the {} operands", shapes.len()),
        ));
    }
    let mut lengths: Vec<(char, usize)> = Vec::new();
    for (labels, &shape) in inputs.iter().zip(shapes) {
        let shape_error = |wanted: String| Error::Shape {
            operation: "einsum",
            given: format!("shape {shape:?}"),
            wanted,
        };
        if labels.len() != shape.len() {
            return Err(shape_error(format!(
                "{} axes, as {:?} says",
                labels.len(),
                String::from_iter(labels)
            )));
        }
        for (&label, &length) in labels.iter().zip(shape) {
            match lengths.iter().find(|known| known.0 == label) {
                Some(&(_, known)) if known != length => {
                    return Err(shape_error(format!("{known} elements along {label:?}, as elsewhere")));
                }
                Some(_) => {}
                None => lengths.push((label, length)),
            }
        }
    }
    let output = output.unwrap_or_else(|| {
        let count = |label: char| inputs.iter().flatten().filter(|&&other| other == label).count();
        let mut once: Vec<char> = lengths
            .iter()
            .map(|&(label, _)| label)
            .filter(|&label| count(label) == 1)
            .collect();
        once.sort_unstable();
        once
    });
    for (place, label) in output.iter().enumerate() {
        if output[..place].contains(label) || !lengths.iter().any(|known| known.0 == *label) {
            return Err(refused(
                subscripts,
                format!("a result with letters of the operands, once each, unlike {label:?}"),
            ));
        }
    }
    Ok(Subscripts { inputs, output })
}

/// An array whose axes have labels, each another one.
struct Term<'a, T: Element> {
    labels: Vec<char>,
    array: Ordered<'a, T, IxDyn>,
}

impl<'a, T: MatMul + Number<Total = T>> Term<'a, T> {
    /// An operand, without an axis whose label comes before: of two the elements are those of the diagonal.
    fn diagonal(operand: &'a DeviceView<'_, T, IxDyn>, labels: &[char]) -> Self {
        let (mut own, mut shape, mut strides) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, &label) in labels.iter().enumerate() {
            match own.iter().position(|&other| other == label) {
                Some(place) => strides[place] += operand.strides()[axis],
                None => {
                    own.push(label);
                    shape.push(operand.shape()[axis]);
                    strides.push(operand.strides()[axis]);
                }
            }
        }
        Self {
            labels: own,
            array: Ordered::AsIs(laid_out(operand.view(), IxDyn(&shape), &strides)),
        }
    }

    /// The axes that have these labels.
    fn axes(&self, labels: &[char]) -> Vec<usize> {
        let axis = |label: &char| self.labels.iter().position(|own| own == label);
        labels.iter().filter_map(axis).collect()
    }

    /// The length of the axis, if there is such.
    fn length(&self, label: char) -> Option<usize> {
        self.axes(&[label]).first().map(|&axis| self.array.shape()[axis])
    }

    /// Its labels that are so.
    fn labels_that(&self, are: impl Fn(&char) -> bool) -> Vec<char> {
        self.labels.iter().copied().filter(are).collect()
    }

    /// The sums along the axes whose labels are not kept.
    fn summed(&self, is_kept: &dyn Fn(&char) -> bool) -> Result<Term<'_, T>> {
        let lost = self.labels_that(|label| !is_kept(label));
        Ok(Term {
            labels: self.labels_that(is_kept),
            array: match lost.is_empty() {
                true => Ordered::AsIs(self.array.view()),
                false => Ordered::Copied(self.array.sum_axes(&self.axes(&lost))?),
            },
        })
    }

    /// An array of its own, with the axes in that order.
    fn in_order(self, order: &[char]) -> Result<DeviceArray<T, IxDyn>> {
        let axes = self.axes(order);
        match self.array {
            Ordered::Copied(array) if axes.is_sorted() => Ok(array),
            array => array.view().permuted_axes(IxDyn(&axes))?.to_array(),
        }
    }

    /// The product with another, summed over what is not kept; `order` is that of the result.
    fn times(&self, other: &Self, is_kept: &dyn Fn(&char) -> bool, order: &[char]) -> Result<Term<'static, T>> {
        let a = self.summed(&|label| is_kept(label) || other.labels.contains(label))?;
        let b = other.summed(&|label| is_kept(label) || self.labels.contains(label))?;
        let shared = |label: &char| b.labels.contains(label);
        let summed = a.labels_that(|label| shared(label) && !is_kept(label));
        let batch = a.labels_that(|label| shared(label) && is_kept(label));
        let rows = a.labels_that(|label| !shared(label));
        let columns = b.labels_that(|label| !a.labels.contains(label));
        if summed.is_empty() || rows.is_empty() && columns.is_empty() {
            return a.times_elements(&b, [batch, rows, columns].concat(), &summed);
        }
        let place = |labels: &[char]| {
            labels
                .iter()
                .map(|label| order.iter().position(|other| other == label))
                .min()
        };
        match place(&columns) < place(&rows) {
            true => b.times_matrices(&a, [&batch, &columns, &summed, &rows]),
            false => a.times_matrices(&b, [&batch, &rows, &summed, &columns]),
        }
    }

    /// By a multiplication of elements, whose sums are taken then.
    fn times_elements(&self, other: &Term<'_, T>, labels: Vec<char>, summed: &[char]) -> Result<Term<'static, T>> {
        let all = [&labels[..], summed].concat();
        let product = self.with_axes(&all).mul(&other.with_axes(&all))?;
        let axes: Vec<usize> = (labels.len()..all.len()).collect();
        Ok(Term {
            labels,
            array: Ordered::Copied(if axes.is_empty() {
                product
            } else {
                product.sum_axes(&axes)?
            }),
        })
    }

    /// With an axis for each label, of length 1 for one that it has not.
    fn with_axes(&self, labels: &[char]) -> DeviceView<'_, T, IxDyn> {
        let axes = labels
            .iter()
            .map(|label| self.labels.iter().position(|own| own == label));
        let shape: Vec<usize> = axes
            .clone()
            .map(|axis| axis.map_or(1, |axis| self.array.shape()[axis]))
            .collect();
        let strides: Vec<isize> = axes
            .map(|axis| axis.map_or(0, |axis| self.array.strides()[axis]))
            .collect();
        laid_out(self.array.view(), IxDyn(&shape), &strides)
    }

    /// By a product of matrices, with axes for the batch, the rows, the sum and the columns.
    fn times_matrices(&self, other: &Term<'_, T>, labels: [&[char]; 4]) -> Result<Term<'static, T>> {
        let [batch, rows, summed, columns] = labels;
        let (a, b) = (
            self.matrices([batch, rows, summed])?,
            other.matrices([batch, summed, columns])?,
        );
        let labels = [batch, rows, columns].concat();
        let shape: Vec<usize> = labels
            .iter()
            .map(|&label| self.length(label).or(other.length(label)).unwrap_or(1))
            .collect();
        let product = match batch.is_empty() {
            true => a
                .index_axis(Axis(0), 0)?
                .matmul(&b.index_axis(Axis(0), 0)?)?
                .into_shape(IxDyn(&shape))?,
            false => a.batched_matmul(&b)?.into_shape(IxDyn(&shape))?,
        };
        Ok(Term {
            labels,
            array: Ordered::Copied(product),
        })
    }

    /// The axes of each group as one: as they lie, if they lie so, else copied.
    fn matrices(&self, groups: [&[char]; 3]) -> Result<Ordered<'_, T, Ix3>> {
        let view = self.array.view().permuted_axes(IxDyn(&self.axes(&groups.concat())))?;
        let mut first = 0;
        let merged = groups.map(|group| {
            let axes = first..first + group.len();
            first = axes.end;
            merged(&view.shape()[axes.clone()], &view.strides()[axes])
        });
        let shape = groups.map(|group| group.iter().filter_map(|&label| self.length(label)).product::<usize>());
        Ok(match merged {
            [Some(a), Some(b), Some(c)] => Ordered::AsIs(laid_out(view, Ix3(shape[0], shape[1], shape[2]), &[a, b, c])),
            _ => Ordered::Copied(view.to_array()?.into_shape(shape)?),
        })
    }
}

/// The view of the same memory with a shape and strides of its own, which stay within it.
fn laid_out<'a, T: Element, D: Dimension>(
    view: DeviceView<'a, T, IxDyn>,
    dim: D,
    strides: &[isize],
) -> DeviceView<'a, T, D> {
    // As layouts keep them.
    view.into_laid_out(dim, strides.iter().map(|&stride| stride as usize).collect())
}

/// The stride of axes taken as one, if they lie so.
fn merged(shape: &[usize], strides: &[isize]) -> Option<isize> {
    let mut axes = shape.iter().zip(strides).filter(|(length, _)| **length != 1).rev();
    let Some((&length, &stride)) = axes.next() else {
        return Some(1);
    };
    let mut next = stride.checked_mul(length as isize)?;
    for (&length, &stride) in axes {
        if stride != next {
            return None;
        }
        next = next.checked_mul(length as isize)?;
    }
    Some(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood() {
        let of = |text, shapes: &[&[usize]]| {
            let Subscripts { inputs, output } = parse(text, shapes).unwrap();
            let inputs: Vec<String> = inputs.into_iter().map(String::from_iter).collect();
            (inputs.join(","), String::from_iter(output))
        };
        assert_eq!(of("ij, jk -> ik", &[&[2, 3], &[3, 4]]), ("ij,jk".into(), "ik".into()));
        assert_eq!(of("kj,ji", &[&[2, 3], &[3, 4]]), ("kj,ji".into(), "ik".into()));
        assert_eq!(of("ii", &[&[2, 2]]), ("ii".into(), "".into()));
        assert_eq!(of(",i->i", &[&[], &[0]]), (",i".into(), "i".into()));
    }

    #[test]
    fn texts_are_refused() {
        let of = |text, shapes: &[&[usize]]| parse(text, shapes).unwrap_err().to_string();
        for text in ["i.,j", "i->k", "i->ii", "ij->i->j", "i,j->ij", "é"] {
            let error = of(text, &[&[2]]);
            assert!(error.contains("einsum") && error.contains(text), "{error}");
        }
        assert!(of("ij,jk", &[&[2, 3], &[4, 2]]).contains("3 elements along 'j'"));
        assert!(of("ii", &[&[2, 3]]).contains("2 elements along 'i'"));
        assert!(of("ij", &[&[2]]).contains("2 axes"));
    }

    #[test]
    fn axes_that_lie_like_one() {
        assert_eq!(merged(&[], &[]), Some(1));
        assert_eq!(merged(&[1, 1], &[7, 8]), Some(1));
        assert_eq!(merged(&[2, 3], &[3, 1]), Some(1));
        assert_eq!(merged(&[2, 1, 3], &[30, 9, 10]), Some(10));
        assert_eq!(merged(&[2, 3], &[-3, -1]), Some(-1));
        assert_eq!(merged(&[2, 3], &[1, 2]), None);
        assert_eq!(merged(&[2, 3], &[4, 1]), None);
    }
}
