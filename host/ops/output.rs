// SPDX-License-Identifier: MIT OR Apache-2.0
//! What operations write to: elements as they lie where the kernels can, else by way of an array in C order. Closures are
//! called once; they are `dyn` so that this is compiled once for all operations on a type.

use ndarray::{Dimension, Ix1};

use super::transpose::copy_to;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// A new array, whose elements `make` writes.
    pub(crate) fn made(
        stream: &Stream,
        dim: D,
        make: &mut dyn FnMut(&mut DeviceArrayRef<T, D>) -> Result<()>,
    ) -> Result<Self> {
        let mut array = Self::uninit(stream, dim)?;
        make(&mut array)?;
        Ok(array)
    }
}

impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Has `write` write all elements, whatever they were, in C order: these themselves if they lie so, else an array that
    /// is then copied to them. That is made, and copied, on `stream`, which `write` launches on.
    pub(crate) fn write_in_order(
        &mut self,
        stream: &Stream,
        write: &mut dyn FnMut(&mut DeviceArrayRef<T, D>) -> Result<()>,
    ) -> Result<()> {
        if self.is_standard_layout() {
            return write(self);
        }
        let mut ordered = DeviceArray::uninit(stream, self.raw_dim())?;
        write(&mut ordered)?;
        copy_to(&ordered, stream, self)
    }

    /// Has `change` change the elements, in C order, on their stream: these themselves if they lie so, else a copy, which is
    /// then copied back.
    pub(super) fn change_in_order(
        &mut self,
        change: &mut dyn FnMut(&mut DeviceArrayRef<T, D>) -> Result<()>,
    ) -> Result<()> {
        if self.is_standard_layout() {
            return change(self);
        }
        let mut ordered = self.to_array()?;
        change(&mut ordered)?;
        copy_to(&ordered, &self.stream().clone(), self)
    }

    /// [`change_in_order`](Self::change_in_order) of each element by itself: in the order of the memory, if they have no
    /// gap between them.
    pub(super) fn change_each(
        &mut self,
        change: &mut dyn FnMut(&mut DeviceArrayRef<T, Ix1>) -> Result<()>,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        if let Some(mut line) = self.in_memory_order_mut() {
            return change(&mut line);
        }
        let mut line = self.to_array()?.into_shape(self.len())?;
        change(&mut line)?;
        copy_to(&line.in_shape(self.raw_dim()), &self.stream().clone(), self)
    }
}
