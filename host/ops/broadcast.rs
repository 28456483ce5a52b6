// SPDX-License-Identifier: MIT OR Apache-2.0
//! What elementwise operations on several operands share: the shape of the result, the operands along its axes, and the
//! launches, of the dense kernel where every operand lies as the result does and of the strided one otherwise.

use cuda_std::Slice;
use cuda_std::launch::Abi;
use kernels_gpu::broadcast::{AXES, MOST, OutputAxes, Strides, THREADS};
use ndarray::{DimMax, Dimension, IxDyn};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{Arg, InPlace, LaunchConfig, Words};
use crate::stream::Stream;

/// The dimension that two operands have together.
pub(super) type Common<D, E> = <D as DimMax<E>>::Output;

/// The shape that two operands on one device are repeated to.
pub(super) fn common<T: Element, U: Element, D: DimMax<E> + Dimension, E: Dimension>(
    operation: &'static str,
    a: &DeviceArrayRef<T, D>,
    b: &DeviceArrayRef<U, E>,
) -> Result<Common<D, E>> {
    a.stream().check_device(operation, b.stream())?;
    common_dim(operation, &a.raw_dim(), &b.raw_dim())
}

/// The shape that two shapes are repeated to, by NumPy's rules: axes are matched from the last, and one of length 1 is
/// repeated, as one that is missing.
pub(super) fn common_dim<D: DimMax<E> + Dimension, E: Dimension>(
    operation: &'static str,
    a: &D,
    b: &E,
) -> Result<Common<D, E>> {
    let (a, b) = (a.slice(), b.slice());
    let mut dim = Common::<D, E>::zeros(a.len().max(b.len()));
    let at = |shape: &[usize], back: usize| shape.iter().rev().nth(back).copied().unwrap_or(1);
    let mut fits = true;
    for (back, to) in dim.slice_mut().iter_mut().rev().enumerate() {
        let lengths = (at(a, back), at(b, back));
        *to = if lengths.0 == 1 { lengths.1 } else { lengths.0 };
        fits &= lengths.1 == 1 || lengths.1 == *to;
    }
    if fits && dim.size_checked().is_some() {
        return Ok(dim);
    }
    Err(Error::Shape {
        operation,
        given: format!("shapes {a:?} and {b:?}"),
        wanted: if fits {
            "fewer than 2^63 elements together".into()
        } else {
            "shapes that broadcast together: along each axis, from the last, equal lengths or a 1".into()
        },
    })
}

/// An error unless the output has the shape of the result, and is on the device of the stream that computes it.
pub(super) fn check_out<T: Element, D: Dimension>(
    operation: &'static str,
    stream: &Stream,
    result: &[usize],
    out: &DeviceArrayRef<T, D>,
) -> Result<()> {
    if result == out.shape() {
        return stream.check_device(operation, out.stream());
    }
    Err(unfit(operation, result, out.shape()))
}

fn unfit(operation: &'static str, result: &[usize], out: &[usize]) -> Error {
    Error::Shape {
        operation,
        given: format!("an output of shape {out:?}"),
        wanted: format!("one of the result's shape, {result:?}"),
    }
}

/// The methods of operations on two operands: `result by function of two arrays, function of an array and a number;`, and
/// a line for each operation: `formula: operator => with array, into array, with number, into number`. The functions
/// compute into an output of the result's shape.
macro_rules! two_operand_methods {
    ($result:ident by $arrays:ident, $number:ident; $($rows:tt)*) => {
        two_operand_methods! { @rows [$result $arrays $number] $($rows)* }
    };
    (@rows $of:tt $($(#[$doc:meta])* $formula:literal: $op:ident => $($method:ident)*;)*) => {
        $(two_operand_methods! { @row $of [$(#[$doc])*] $formula $op $($method)* })*
    };
    (@row [$result:ident $arrays:ident $number:ident] [$(#[$doc:meta])*] $formula:literal $op:ident
     $array:ident $array_into:ident $scalar:ident $scalar_into:ident) => {
        #[doc = concat!("`", $formula, "`, element by element, broadcast as in NumPy.\n")]
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// [`Error::Shape`](crate::Error::Shape) if the shapes do not broadcast together,
        /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
        pub fn $array<E: Dimension>(&self, other: &DeviceArrayRef<T, E>) -> Result<DeviceArray<$result, Common<D, E>>>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self, other);
            let dim = common(stringify!($array), a, b)?;
            DeviceArray::made(a.stream(), dim, &mut |out| $arrays::<$op, _, _, _, _>(a, b, out))
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") into an existing array or view, which has the \
                         shape of the result.\n\n# Errors\n\n")]
        #[doc = concat!("As [`", stringify!($array), "`](Self::", stringify!($array), ").")]
        pub fn $array_into<E: Dimension>(
            &self,
            other: &DeviceArrayRef<T, E>,
            out: &mut DeviceArrayRef<$result, Common<D, E>>,
        ) -> Result<()>
        where
            D: DimMax<E>,
        {
            let (a, b) = (self, other);
            let dim = common(stringify!($array), a, b)?;
            check_out(stringify!($array), a.stream(), dim.slice(), out)?;
            $arrays::<$op, _, _, _, _>(a, b, out)
        }

        #[doc = concat!("[`", stringify!($array), "`](Self::", stringify!($array), ") with one number for every element.\n\n# Errors\n\n")]
        /// Those of an allocation and a launch.
        pub fn $scalar(&self, scalar: T) -> Result<DeviceArray<$result, D>> {
            DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| $number::<$op, _, _>(self, scalar, out))
        }

        #[doc = concat!("[`", stringify!($scalar), "`](Self::", stringify!($scalar), ") into an existing array or view of the same \
                         shape.\n\n# Errors\n\n")]
        /// [`Error::Shape`](crate::Error::Shape) if the shapes differ, and those of a launch.
        pub fn $scalar_into(&self, scalar: T, out: &mut DeviceArrayRef<$result, D>) -> Result<()> {
            check_out(stringify!($scalar), self.stream(), self.shape(), out)?;
            $number::<$op, _, _>(self, scalar, out)
        }
    };
}

pub(super) use two_operand_methods;

/// An operand along the result's axes: the argument for a kernel's [`Slice`].
pub(super) struct Operand<'a, T> {
    memory: Memory<'a, T>,
    /// The first element's place in the memory.
    pub(super) start: usize,
    pub(super) strides: Vec<isize>,
}

enum Memory<'a, T> {
    Array(Words<'a, T>),
    Copied(DeviceArray<T, IxDyn>),
    Output(InPlace<T>),
}

impl<'a, T: Element> Operand<'a, T> {
    /// The elements repeated to the shape of the result, which they fit. Where they go backwards along its last axis, it is
    /// a copy of them: the kernels go forwards along rows, and would need more registers otherwise. So it is where they
    /// interlace with the result.
    pub(super) fn new<D: Dimension, U: Element, E: Dimension>(
        elements: &'a DeviceArrayRef<T, D>,
        out: &DeviceArrayRef<U, E>,
    ) -> Result<Self> {
        let strides = elements.layout.broadcast_strides(out.shape())?;
        if goes_backwards(out.shape(), &strides) || elements.interlaces(out) {
            return Self::copied(elements.to_array()?.into_dyn(), out.shape());
        }
        Ok(Self {
            start: elements.layout.offset() - elements.layout.extent().start,
            strides,
            memory: Memory::Array(Words::of(elements)),
        })
    }

    fn copied(elements: DeviceArray<T, IxDyn>, shape: &[usize]) -> Result<Self> {
        Ok(Self {
            start: 0,
            strides: elements.layout.broadcast_strides(shape)?,
            memory: Memory::Copied(elements),
        })
    }

    /// The output itself, which is in C order.
    ///
    /// # Safety
    ///
    /// That of [`InPlace::of`].
    pub(super) unsafe fn in_place<D: Dimension>(out: &DeviceArrayRef<T, D>) -> Self {
        Self {
            start: 0,
            strides: out.strides().to_vec(),
            // SAFETY: the caller's promise.
            memory: Memory::Output(unsafe { InPlace::of(out) }),
        }
    }
}

/// Whether the innermost axis that is longer than 1 goes backwards.
fn goes_backwards(shape: &[usize], strides: &[isize]) -> bool {
    let columns = shape.iter().rposition(|&length| length != 1);
    columns.is_some_and(|axis| strides[axis] < 0)
}

// SAFETY: that of the kinds: the memory of elements that are borrowed or owned, or the output, which is an argument itself.
unsafe impl<T: Element> Arg<Slice<'static, T>> for &Operand<'_, T> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        match &self.memory {
            Memory::Array(words) => words.prepare(kernel, stream),
            Memory::Copied(array) => Arg::<Slice<'static, T>>::prepare(&array, kernel, stream),
            Memory::Output(out) => out.prepare(kernel, stream),
        }
    }

    fn is_part(&self) -> bool {
        match &self.memory {
            Memory::Array(words) => words.is_part(),
            Memory::Copied(_) | Memory::Output(_) => false,
        }
    }

    fn abi(&self) -> Abi<Slice<'static, T>> {
        match &self.memory {
            Memory::Array(words) => {
                let Abi { head, tail } = words.abi();
                Abi { head, tail }
            }
            Memory::Copied(array) => Arg::<Slice<'static, T>>::abi(&array),
            Memory::Output(out) => out.abi(),
        }
    }
}

/// An axis of the result, with the stride of each operand along it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis<const M: usize> {
    length: usize,
    strides: [isize; M],
}

/// The axes of a result that is not empty, as few as there can be: those of length 1 are dropped, and neighbours along
/// which every operand goes on in even steps are one.
pub(super) struct Axes<const M: usize>(Vec<Axis<M>>);

impl<const M: usize> Axes<M> {
    /// The axes of a result of that shape, with the operands' strides along them.
    pub(super) fn new(shape: &[usize], strides: [&[isize]; M]) -> Self {
        let mut axes: Vec<Axis<M>> = Vec::with_capacity(shape.len());
        for (i, &length) in shape.iter().enumerate().filter(|&(_, &length)| length != 1) {
            let inner = Axis {
                length,
                strides: strides.map(|strides| strides[i]),
            };
            match axes.last_mut() {
                Some(outer)
                    if (0..M).all(|m| inner.strides[m].checked_mul(length as isize) == Some(outer.strides[m])) =>
                {
                    outer.length *= length;
                    outer.strides = inner.strides;
                }
                _ => axes.push(inner),
            }
        }
        Self(axes)
    }

    /// The number of elements of the result.
    pub(super) fn len(&self) -> usize {
        length(&self.0)
    }

    /// Whether every operand lies as the result does.
    pub(super) fn are_dense(&self) -> bool {
        match self.0[..] {
            [] => true,
            [Axis { strides, .. }] => strides == [1; M],
            _ => false,
        }
    }

    /// The arguments of each launch of a strided kernel, where the largest element type has `bytes` bytes, and the
    /// operands' first elements are at `starts`. There is one,
    /// unless there are more than [`AXES`] axes or [`MOST`] elements: then each has as many of the last axes as it may,
    /// with a piece of the axis before, and the others are looped over.
    pub(super) fn launches(
        &self,
        bytes: usize,
        starts: [usize; M],
    ) -> impl Iterator<Item = (LaunchConfig, OutputAxes, [Strides; M])> {
        let (folded, kept) = self.0.split_at(self.0.len().saturating_sub(self.whole() + 1));
        let strides: [Vec<isize>; M] = std::array::from_fn(|m| kept.iter().map(|axis| axis.strides[m]).collect());
        let cuts = kept.split_first().map(|(cut, whole)| (cut, length(whole)));
        let pieces = cuts.into_iter().flat_map(move |(cut, part)| {
            let piece = MOST / part;
            let starts = (0..cut.length).step_by(piece);
            (0..length(folded)).flat_map(move |number| starts.clone().map(move |from| (number, cut, part, from, piece)))
        });
        pieces.map(move |(number, cut, part, from, piece)| {
            let mut lengths: Vec<usize> = kept.iter().map(|axis| axis.length).collect();
            lengths[0] = Ord::min(piece, cut.length - from);
            let start = (number * cut.length + from) * part;
            let shape = OutputAxes::new(start, &lengths, bytes, self.is_transposed());
            let steps = place(folded, number);
            let first = |m: usize| starts[m].wrapping_add_signed(steps[m] + from as isize * cut.strides[m]);
            let strides = std::array::from_fn(|m| Strides::new(first(m), &strides[m]));
            let blocks = shape.threads().div_ceil(THREADS) as u32;
            (LaunchConfig::new(blocks, THREADS as u32), shape, strides)
        })
    }

    /// How many of the last axes a launch has as they are, beside a piece of one more.
    fn whole(&self) -> usize {
        let mut elements: usize = 1;
        let fits = |axis: &&Axis<M>| {
            elements = elements.saturating_mul(axis.length);
            elements <= MOST
        };
        self.0.iter().rev().take(AXES - 1).take_while(fits).count()
    }

    /// Whether an operand has its neighbours along the last axis but one.
    fn is_transposed(&self) -> bool {
        match self.0[..] {
            [.., rows, columns] => {
                let [rows, columns] = [rows, columns].map(|axis| axis.strides.map(isize::unsigned_abs));
                (0..M).any(|m| (1..columns[m]).contains(&rows[m]))
            }
            _ => false,
        }
    }
}

/// How far from the first each operand has the element with that number in C order.
fn place<const M: usize>(axes: &[Axis<M>], number: usize) -> [isize; M] {
    let (mut places, mut rest) = ([0; M], number);
    for axis in axes.iter().rev() {
        for (place, stride) in places.iter_mut().zip(axis.strides) {
            *place += (rest % axis.length) as isize * stride;
        }
        rest /= axis.length;
    }
    places
}

/// The number of elements along all of the axes.
fn length<const M: usize>(axes: &[Axis<M>]) -> usize {
    axes.iter().map(|axis| axis.length).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes<const M: usize>(shape: &[usize], strides: [&[isize]; M]) -> Vec<(usize, [isize; M])> {
        Axes::new(shape, strides)
            .0
            .iter()
            .map(|axis| (axis.length, axis.strides))
            .collect()
    }

    #[test]
    fn axes_that_go_on_evenly_are_merged() {
        assert_eq!(axes(&[2, 3, 4], [&[12, 4, 1], &[12, 4, 1]]), [(24, [1, 1])]);
        assert_eq!(axes(&[2, 3, 4], [&[12, 4, 1], &[0, 0, 1]]), [(6, [4, 0]), (4, [1, 1])]);
        assert_eq!(
            axes(&[2, 3, 4], [&[12, 4, 1], &[0, 4, 1]]),
            [(2, [12, 0]), (12, [1, 1])]
        );
        assert_eq!(axes(&[2, 3], [&[3, 1], &[1, 2]]), [(2, [3, 1]), (3, [1, 2])]);
        assert_eq!(axes(&[2, 1, 3], [&[3, 99, 1]]), [(6, [1])]);
        assert!(axes(&[1, 1], [&[5, 7], &[0, 0]]).is_empty());
    }

    #[test]
    fn only_arrays_in_the_order_of_the_result_are_dense() {
        assert!(Axes::new(&[], [&[], &[]]).are_dense());
        assert!(Axes::new(&[2, 3], [&[3, 1], &[3, 1]]).are_dense());
        assert!(!Axes::new(&[2, 3], [&[3, 1], &[0, 0]]).are_dense());
        assert!(!Axes::new(&[2, 3], [&[1, 2], &[1, 2]]).are_dense());
    }

    #[test]
    fn launches_have_every_element_once() {
        for (shape, count) in [
            ([1000, 7], 1),
            ([1 << 15, 1 << 15], 1),
            ([1 << 16, 1 << 17], 8),
            ([3, 1 << 33], 24),
            ([1 << 33, 3], 25),
            ([(1 << 29) + 1, 2], 2),
            ([1, (1 << 30) + 1], 2),
        ] {
            let axes = Axes::new(&shape, [&[shape[1] as isize, 1], &[0, 1]]);
            let (mut launches, mut elements) = (0, 0);
            for (_, given, _) in axes.launches(4, [0, 0]) {
                assert_eq!(given.start(), elements, "{shape:?}");
                launches += 1;
                elements += given.elements();
            }
            assert_eq!((launches, elements), (count, shape[0] * shape[1]), "{shape:?}");
        }
    }
}
