// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a pipeline takes: anything that can be brought into page-locked memory.

use ndarray::{ArrayBase, Data, Dimension};

use crate::array::Element;
use crate::device::Device;
use crate::error::Error;
use crate::pinned::PinnedArray;

/// A part of the host's data, which one of a [`Pipeline`](super::Pipeline)'s threads brings into page-locked memory.
///
/// Arrays and views of ndarray are chunks, of any layout, parts of files
/// ([`NpyPart`](crate::npy::NpyPart)), page-locked arrays, which are taken as they are, and results of chunks, whose
/// error ends the pipeline. A type of your own does in [`load`](Self::load) what should be done by several threads side
/// by side, such as to decode a picture; an iterator's `next` is called by one thread at a time.
///
/// # Examples
///
/// ```
/// use ndarray::Ix1;
/// use warpsmith::{Chunk, Device, Error, PinnedArray, Pipeline};
///
/// /// So many numbers from there on.
/// struct Count(u32, usize);
///
/// impl Chunk for Count {
///     type Elem = u32;
///     type Dim = Ix1;
///     type Error = Error;
///
///     fn load(self, device: &Device) -> Result<PinnedArray<u32, Ix1>, Error> {
///         let mut array = PinnedArray::zeros(device, self.1)?;
///         array.view_mut().iter_mut().zip(self.0..).for_each(|(to, number)| *to = number);
///         Ok(array)
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator();
/// let mut last = 0;
/// for x in Pipeline::new(&device).load((0..10).map(|i| Count(100 * i, 100))) {
///     last = x?.max()?;
/// }
/// assert_eq!(last, 999);
/// # Ok(())
/// # }
/// ```
pub trait Chunk: Send {
    /// The type of the elements.
    type Elem: Element;
    /// The type of the shape.
    type Dim: Dimension;
    /// What goes wrong: the library's error, or one that can hold it.
    type Error: From<Error> + Send;

    /// Brings the elements into page-locked memory of that device.
    ///
    /// # Errors
    ///
    /// Any; the first one ends the pipeline.
    fn load(self, device: &Device) -> Result<PinnedArray<Self::Elem, Self::Dim>, Self::Error>;
}

impl<S: Data<Elem: Element>, D: Dimension> Chunk for ArrayBase<S, D>
where
    Self: Send,
{
    type Elem = S::Elem;
    type Dim = D;
    type Error = Error;

    fn load(self, device: &Device) -> Result<PinnedArray<S::Elem, D>, Error> {
        PinnedArray::from_ndarray(device, &self)
    }
}

impl<T: Element, D: Dimension> Chunk for PinnedArray<T, D> {
    type Elem = T;
    type Dim = D;
    type Error = Error;

    fn load(self, _: &Device) -> Result<Self, Error> {
        Ok(self)
    }
}

impl<C: Chunk, E: From<C::Error> + From<Error> + Send> Chunk for Result<C, E> {
    type Elem = C::Elem;
    type Dim = C::Dim;
    type Error = E;

    fn load(self, device: &Device) -> Result<PinnedArray<C::Elem, C::Dim>, E> {
        Ok(self?.load(device)?)
    }
}
