// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small tables that launches of a stream only read, such as the weights of a filter.
//!
//! Who filters one picture filters another in the same way. To allocate a table, upload it and free it takes several
//! microseconds, a fifth of a small Gaussian blur. So a stream keeps the last few, and finds them again by their
//! contents.
//!
//! A table is on its stream alone: it was uploaded there ahead of every launch that reads it, and is freed there behind
//! them. No lock is held while the device is asked for anything.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Backend, RawStream};
use crate::error::Result;

/// Tables that are kept.
const MOST: usize = 8;

/// The largest that is kept, in bytes. A larger one is uploaded for its launches.
const LARGEST: usize = 16 << 10;

/// The tables of a stream, those that were asked for last at the end.
#[derive(Debug)]
pub(crate) struct Constants {
    backend: Arc<dyn Backend>,
    stream: RawStream,
    tables: Mutex<Vec<Arc<Table>>>,
}

/// A table in the memory of the stream's device.
#[derive(Debug)]
struct Table {
    backend: Arc<dyn Backend>,
    stream: RawStream,
    address: u64,
    contents: Box<[u8]>,
}

impl Constants {
    /// Those of that stream of the backend, which outlives them.
    pub(crate) fn new(backend: &Arc<dyn Backend>, stream: RawStream) -> Self {
        Self {
            backend: Arc::clone(backend),
            stream,
            tables: Mutex::default(),
        }
    }

    /// The values, at least one, on the device, for launches on the stream.
    pub(crate) fn get<W: bytemuck::Pod>(&self, values: &[W]) -> Result<Constant<'_, W>> {
        let contents = bytemuck::cast_slice(values);
        let table = match self.find(contents) {
            Some(table) => table,
            None => self.upload(contents)?,
        };
        Ok(Constant {
            constants: self,
            table,
            len: values.len(),
            _value: PhantomData,
        })
    }

    fn find(&self, contents: &[u8]) -> Option<Arc<Table>> {
        let mut tables = self.tables();
        let index = tables.iter().rposition(|table| *table.contents == *contents)?;
        let table = tables.remove(index);
        tables.push(Arc::clone(&table));
        Some(table)
    }

    fn upload(&self, contents: &[u8]) -> Result<Arc<Table>> {
        // SAFETY: the backend's own stream, and at least one byte.
        let address = unsafe { self.backend.acquire(self.stream, contents.len())? };
        let table = Arc::new(Table {
            backend: Arc::clone(&self.backend),
            stream: self.stream,
            address,
            contents: contents.into(),
        });
        // SAFETY: just allocated on this stream, with that many bytes.
        unsafe { self.backend.upload(self.stream, address, contents)? };
        if contents.len() <= LARGEST {
            let mut tables = self.tables();
            tables.push(Arc::clone(&table));
            let dropped = (tables.len() > MOST).then(|| tables.remove(0));
            drop(tables);
            drop(dropped);
        }
        Ok(table)
    }

    /// The device is not asked for anything while the guard lives.
    fn tables(&self) -> MutexGuard<'_, Vec<Arc<Table>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: allocated by this backend on this stream for as many bytes, used on it alone by launches that are
        // queued.
        unsafe { self.backend.release(self.stream, self.address, self.contents.len()) };
    }
}

/// Values on the device, for launches on one stream.
#[derive(Debug)]
pub(crate) struct Constant<'a, W> {
    constants: &'a Constants,
    table: Arc<Table>,
    len: usize,
    _value: PhantomData<W>,
}

impl<W> Constant<'_, W> {
    /// What keeps them there.
    pub(crate) fn keeper(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.table) as _
    }

    /// Where the values lie.
    pub(crate) fn address(&self) -> u64 {
        self.table.address
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The stream that the values are for.
    pub(crate) fn stream(&self) -> RawStream {
        self.constants.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sim::Simulator;

    fn constants() -> Constants {
        let backend: Arc<dyn Backend> = Arc::new(Simulator::new());
        let stream = backend.create_stream(0).unwrap();
        Constants::new(&backend, stream)
    }

    #[test]
    fn tables_are_found_by_their_contents() {
        let constants = constants();
        let first = constants.get(&[1.0f32, 2.0]).unwrap();
        let other = constants.get(&[1.0f32, 3.0]).unwrap();
        let again = constants.get(&[1.0f32, 2.0]).unwrap();
        assert_eq!((first.address(), first.len()), (again.address(), 2));
        assert_ne!(first.address(), other.address());
        assert_eq!(constants.tables().len(), 2);
    }

    #[test]
    fn the_last_few_are_kept_and_large_ones_are_not() {
        let constants = constants();
        let first = constants.get(&[0u32]).unwrap();
        for value in 1..=MOST as u32 {
            constants.get(&[0u32]).unwrap();
            constants.get(&[value]).unwrap();
        }
        assert_eq!(constants.tables().len(), MOST);
        assert_eq!(
            constants.get(&[0u32]).unwrap().address(),
            first.address(),
            "it was asked for last but one"
        );
        assert!(
            constants.find(bytemuck::bytes_of(&1u32)).is_none(),
            "nobody asked for it again"
        );
        let large = constants.get(&[0u8; LARGEST + 1]).unwrap();
        assert_eq!(large.len(), LARGEST + 1);
        assert_eq!(constants.tables().len(), MOST);
    }
}
