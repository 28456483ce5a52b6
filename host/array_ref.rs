// SPDX-License-Identifier: MIT OR Apache-2.0
//! What arrays and views have in common.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};
use std::sync::Arc;

use ndarray::Dimension;

use crate::array::Element;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::stream::Stream;

/// Elements in the memory of a device, with a shape and strides: what a [`DeviceArray`](crate::DeviceArray), a
/// [`DeviceView`](crate::DeviceView) and a [`DeviceViewMut`](crate::DeviceViewMut) are, as ndarray's `ArrayRef`. All
/// three dereference to it, and it has the operations and is what they take: so all of them take arrays and views alike.
/// What may be written, a [`DeviceArray`](crate::DeviceArray) and a [`DeviceViewMut`](crate::DeviceViewMut), dereferences
/// to it mutably, and is an output or changed in place as `&mut DeviceArrayRef`.
///
/// An operation reads the elements of a view where they lie if they are in C order without a gap, wherever the first is;
/// copies read any strides, and so do casts, comparisons, selections, arithmetic on two operands or with a number, products of
/// matrices but for operands that go backwards, reductions but for few, and scans along an axis of parts. Other operations
/// first bring the elements of other views in order, by one copy ([`to_array`](DeviceArrayRef::to_array)).
///
/// Results are written where they belong if that is in C order without a gap, or by a copy. Else they are computed in an
/// array of their own, which is then copied to the view; operations in place compute in a copy. An operand that interlaces
/// with the output, as even and odd columns of one array do, is copied first where a kernel reads it that is not made for it.
///
/// # Examples
///
/// ```
/// use ndarray::array;
/// use ndarray::s;
/// use warpsmith::{Device, DeviceArray, DeviceArrayRef, Result};
///
/// fn norm(x: &DeviceArrayRef<f64, ndarray::Ix1>) -> Result<f64> {
///     Ok(x.square()?.sum()?.sqrt())
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3.0, 4.0, 12.0])?;
/// assert_eq!(norm(&x)?, 13.0);
/// let part = x.slice(s![..2])?;
/// assert_eq!(norm(&part)?, 5.0);
///
/// let mut y = DeviceArray::zeros(device.default_stream(), (3, 2))?;
/// x.sqrt_into(&mut y.slice_mut(s![.., 1])?)?;
/// y.slice_mut(s![0, ..])?.add_assign_scalar(1.0)?;
/// assert_eq!(y.to_ndarray()?, array![[1.0, 1.0 + f64::sqrt(3.0)], [0.0, 2.0], [0.0, f64::sqrt(12.0)]]);
/// # Ok(())
/// # }
/// ```
// Owners and borrowers share the memory by count; that nobody writes what others use is what the types around it say:
// none gives a copy away that outlives its borrow, and mutable references only with the right to write. Elements have no
// size, so that such references cannot be swapped, by which a view's elements would outlive its borrow; and so that the
// compiler converts `&f()?` as it converts `&x`.
pub struct DeviceArrayRef<T, D, Size: ?Sized = [()]> {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) stream: Stream,
    pub(crate) layout: Layout<D>,
    pub(crate) _element: PhantomData<T>,
    pub(crate) _size: Size,
}

/// What arrays and views hold: a [`DeviceArrayRef`] that has a size.
pub(crate) type Held<T, D> = DeviceArrayRef<T, D, [(); 0]>;

impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The distance between neighbours along each axis, in elements, as ndarray has it: negative along an axis that was
    /// reversed, 0 along one that was broadcast.
    pub fn strides(&self) -> &[isize] {
        self.layout.strides()
    }

    /// The shape as ndarray's dimension type.
    pub fn raw_dim(&self) -> D {
        self.layout.dim().clone()
    }

    /// The number of axes.
    pub fn ndim(&self) -> usize {
        self.layout.ndim()
    }

    /// The number of elements.
    #[doc(alias("size", "numel"))]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The stream that the operations run on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Whether the elements lie in C order without a gap. Axes of length 1 do not count, and an empty view does.
    pub fn is_standard_layout(&self) -> bool {
        self.layout.is_standard()
    }

    /// The distances between neighbours along each axis, where they do not matter for axes of length 1 and are not
    /// negative for others.
    pub(crate) fn steps(&self) -> Vec<usize> {
        self.strides().iter().map(|stride| stride.unsigned_abs()).collect()
    }

    /// The memory that the elements lie in.
    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    /// The bytes of the memory from the first element to the last.
    pub(crate) fn bytes(&self) -> Range<usize> {
        let extent = self.layout.extent();
        extent.start * size_of::<T>()..extent.end * size_of::<T>()
    }

    /// The address of the lowest byte of the elements; 0 where there is none.
    pub(crate) fn address(&self) -> u64 {
        match self.buffer.address() {
            0 => 0,
            address => address + self.bytes().start as u64,
        }
    }

    /// Whether the memory has other elements beside these.
    pub(crate) fn is_part(&self) -> bool {
        self.bytes().len() < self.buffer.bytes()
    }

    /// Whether these and `other` lie in the same memory, and one of them begins before the other ends: then they may
    /// interlace, and kernels want memory that nobody else writes.
    pub(crate) fn interlaces<U: Element, E: Dimension>(&self, other: &DeviceArrayRef<U, E>) -> bool {
        let (own, others) = (self.bytes(), other.bytes());
        Arc::ptr_eq(&self.buffer, &other.buffer) && own.start < others.end && others.start < own.end
    }

    /// To be called before `stream` reads the elements; of a [part](Self::is_part), also when the read is queued.
    pub(crate) fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.reads_part_on(stream, self.bytes())
    }

    /// To be called before `stream` writes the elements; of a [part](Self::is_part), also when the write is queued.
    pub(crate) fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.writes_part_on(stream, self.bytes())
    }

    /// The same memory with another layout, which is within it.
    pub(crate) fn with_layout<E>(&self, layout: Layout<E>) -> Held<T, E> {
        DeviceArrayRef {
            buffer: Arc::clone(&self.buffer),
            stream: self.stream.clone(),
            layout,
            _element: PhantomData,
            _size: [],
        }
    }

    /// An error if `other`, an operand of `operation`, has another shape or is on another device.
    pub(crate) fn fits<U: Element>(&self, operation: &'static str, other: &DeviceArrayRef<U, D>) -> Result<()> {
        if self.shape() == other.shape() {
            return self.stream.check_device(operation, other.stream());
        }
        Err(unequal(operation, self.shape(), other.shape()))
    }
}

fn unequal(operation: &'static str, a: &[usize], b: &[usize]) -> Error {
    Error::Shape {
        operation,
        given: format!("shapes {a:?} and {b:?}"),
        wanted: "equal shapes".into(),
    }
}

/// Elements that the host can borrow. Those in a device's memory are none.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "elements in a device's memory cannot be borrowed, as an index would do",
    label = "`get([i])?` copies one element to the host, `to_ndarray()?` all; `set([i], value)?` writes one"
)]
pub trait Places<I, T> {
    fn place(&self, index: I) -> &T;
    fn place_mut(&mut self, index: I) -> &mut T;
}

/// For the sake of what the compiler says of `x[i]`, which does not compile.
#[doc(hidden)]
#[diagnostic::do_not_recommend]
impl<I, T, D> Index<I> for DeviceArrayRef<T, D>
where
    Self: Places<I, T>,
{
    type Output = T;

    fn index(&self, index: I) -> &T {
        self.place(index)
    }
}

#[doc(hidden)]
#[diagnostic::do_not_recommend]
impl<I, T, D> IndexMut<I> for DeviceArrayRef<T, D>
where
    Self: Places<I, T>,
{
    fn index_mut(&mut self, index: I) -> &mut T {
        self.place_mut(index)
    }
}
