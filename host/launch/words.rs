// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory as the argument of kernels that are told how its elements lie.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use cuda_std::SliceMut;
use cuda_std::launch::Abi;
use ndarray::Dimension;

use super::{Arg, address};
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::expr::Reading;
use crate::stream::Stream;

/// The memory of an array or view from its first byte to its last, as a kernel's input: for kernels that are told the
/// strides. Its words may be of another type than the elements, for kernels that only move bits.
pub(crate) struct Words<'a, W> {
    buffer: &'a Arc<Buffer>,
    bytes: Range<usize>,
    stream: &'a Stream,
    _word: PhantomData<W>,
}

impl<'a, W: Element> Words<'a, W> {
    /// The memory that the elements extend over.
    pub(crate) fn of<T: Element, D: Dimension>(elements: &'a DeviceArrayRef<T, D>) -> Self {
        Self::new(elements.buffer(), elements.bytes(), elements.stream())
    }

    fn new(buffer: &'a Arc<Buffer>, bytes: Range<usize>, stream: &'a Stream) -> Self {
        Self {
            buffer,
            bytes,
            stream,
            _word: PhantomData,
        }
    }

    /// The same memory in other words.
    pub(crate) fn cast<V: Element>(&self) -> Words<'a, V> {
        Words::new(self.buffer, self.bytes.clone(), self.stream)
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        start(self.buffer, &self.bytes)
    }

    /// To be called before `stream` reads the bytes.
    pub(crate) fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.reads_part_on(stream, self.bytes.clone())
    }
}

// SAFETY: the memory of elements on the stream's device, borrowed shared like the slice, from the first to the last: no
// more, since what is beside them may be written meanwhile. As many words as it has bytes for, aligned as `words` asserts,
// and both types are plain bytes.
unsafe impl<W: Element> Arg<&'static [W]> for Words<'_, W> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        stream.check_device(kernel, self.stream)?;
        match self.buffer.reading() {
            Some(_) => Ok(()),
            None => self.reads_on(stream),
        }
    }

    fn is_part(&self) -> bool {
        self.bytes.len() < self.buffer.bytes()
    }

    fn reading(&self) -> Option<&Reading> {
        self.buffer.reading()
    }

    fn abi(&self) -> Abi<&'static [W]> {
        Abi {
            head: std::ptr::with_exposed_provenance(address::<W>(self.address())),
            tail: words::<W>(self.address(), &self.bytes),
        }
    }
}

// SAFETY: the memory, or none.
unsafe impl<W: Element> Arg<&'static [W]> for Option<Words<'_, W>> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        self.as_ref().map_or(Ok(()), |words| words.prepare(kernel, stream))
    }

    fn is_part(&self) -> bool {
        self.as_ref().is_some_and(Arg::is_part)
    }

    fn abi(&self) -> Abi<&'static [W]> {
        self.as_ref().map_or_else(
            || Abi {
                head: std::ptr::without_provenance(align_of::<W>()),
                tail: 0,
            },
            Arg::abi,
        )
    }
}

/// As [`Words`], as a kernel's output.
pub(crate) struct WordsMut<'a, W> {
    buffer: &'a Arc<Buffer>,
    bytes: Range<usize>,
    stream: &'a Stream,
    _word: PhantomData<W>,
}

impl<'a, W: Element> WordsMut<'a, W> {
    /// The memory that the elements extend over.
    pub(crate) fn of<T: Element, D: Dimension>(elements: &'a mut DeviceArrayRef<T, D>) -> Self {
        Self::new(elements.buffer(), elements.bytes(), elements.stream())
    }

    fn new(buffer: &'a Arc<Buffer>, bytes: Range<usize>, stream: &'a Stream) -> Self {
        Self {
            buffer,
            bytes,
            stream,
            _word: PhantomData,
        }
    }

    /// The same memory in other words.
    pub(crate) fn cast<V: Element>(&mut self) -> WordsMut<'_, V> {
        WordsMut::new(self.buffer, self.bytes.clone(), self.stream)
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        start(self.buffer, &self.bytes)
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// To be called before `stream` writes the bytes.
    pub(crate) fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.writes_part_on(stream, self.bytes.clone())
    }
}

// SAFETY: the memory of elements on the stream's device, from the first to the last, borrowed mutably like the slice
// (`of` took them so). What lies between the elements is not written, and nobody else uses it during the launch: who
// has it is ordered by the bytes that it extends over, and copies within an array go by way of another. As many words as
// it has bytes for, aligned as `words` asserts; every bit pattern that the kernel writes is a value of the element.
unsafe impl<W: Element> Arg<SliceMut<'static, W>> for WordsMut<'_, W> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        stream.check_device(kernel, self.stream)?;
        self.writes_on(stream)
    }

    fn is_part(&self) -> bool {
        self.bytes.len() < self.buffer.bytes()
    }

    fn abi(&self) -> Abi<SliceMut<'static, W>> {
        Abi {
            head: std::ptr::with_exposed_provenance_mut(address::<W>(self.address())),
            tail: words::<W>(self.address(), &self.bytes),
        }
    }
}

/// The address of the first of the bytes.
fn start(buffer: &Buffer, bytes: &Range<usize>) -> u64 {
    match buffer.address() {
        0 => 0,
        address => address + bytes.start as u64,
    }
}

/// The number of words that there is room for.
///
/// # Panics
///
/// If the bytes are not aligned for such words: who chooses the words looks at the place of the first one.
fn words<W>(address: u64, bytes: &Range<usize>) -> usize {
    const { assert!(size_of::<W>() > 0) };
    assert!(address.is_multiple_of(align_of::<W>() as u64), "words that are aligned");
    bytes.len() / size_of::<W>()
}
