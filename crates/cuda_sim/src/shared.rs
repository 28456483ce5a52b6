// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory: one store a worker, handed to its blocks one after another.
//!
//! A static array gets its place when a block first asks for it, in the order of
//! asking, and is filled with a poison byte then: on a GPU shared memory starts
//! with whatever the last block left, and a kernel that counts on zeros must
//! fail here as well. So a block pays only for the arrays it uses.

use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::Array;
use crate::config::LIMITS;

/// What shared memory holds before it is written.
const POISON: u8 = 0xA5;

/// The alignment of the whole store, and the largest an array may ask for.
const MAX_ALIGN: usize = 128;

/// One static shared array in the source: its size and alignment. The address of
/// this value is the array's identity, so it must be a `static` of its own.
#[derive(Debug)]
pub struct SharedSite {
    bytes: usize,
    align: usize,
    /// Where it is declared.
    at: &'static Location<'static>,
}

impl SharedSite {
    /// An array of `bytes` bytes at an address that is a multiple of `align`.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two up to 128; in a `static` the panic is a
    /// compile error.
    #[track_caller]
    pub const fn new(bytes: usize, align: usize) -> Self {
        assert!(
            align.is_power_of_two() && align <= MAX_ALIGN,
            "the alignment of a shared array must be a power of two up to 128"
        );
        SharedSite {
            bytes,
            align,
            at: Location::caller(),
        }
    }
}

#[repr(align(128))]
struct Line {
    _bytes: [u8; MAX_ALIGN],
}

const _: () = assert!(align_of::<Line>() == MAX_ALIGN && size_of::<Line>() == MAX_ALIGN);

/// A place in the shared memory of one block: not an address, but the block's
/// identity and an offset, so that one kept beyond the block leads nowhere.
///
/// [`shared_memory`](crate::shared_memory) gives the address, to the threads of
/// that block alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedPtr {
    /// See [`Shared::owner`].
    owner: u64,
    offset: usize,
    /// A block's threads are all on one OS thread: no other has a use for it.
    _not_send: PhantomData<*mut u8>,
}

impl SharedPtr {
    /// The place `bytes` bytes further on.
    #[inline(always)]
    pub fn byte_add(self, bytes: usize) -> SharedPtr {
        SharedPtr {
            offset: self.offset.wrapping_add(bytes),
            ..self
        }
    }

    /// Where it is in the memory of the block, in bytes: what an instruction that
    /// permutes addresses, such as a swizzled copy, computes with.
    #[inline(always)]
    pub fn offset(self) -> usize {
        self.offset
    }

    /// Whether [`offset`](Self::offset) is a multiple of `align`, a power of two.
    #[inline]
    pub fn is_aligned_to(self, align: usize) -> bool {
        self.offset & (align - 1) == 0
    }
}

/// Aligned bytes that a block's threads share by raw pointer.
struct Store(Box<[UnsafeCell<Line>]>);

impl Store {
    fn new(bytes: usize) -> Store {
        let lines = bytes.div_ceil(MAX_ALIGN);
        let line = || {
            UnsafeCell::new(Line {
                _bytes: [POISON; MAX_ALIGN],
            })
        };
        Store(std::iter::repeat_with(line).take(lines).collect())
    }

    /// The address of byte `offset`, if `bytes` bytes from there on are in it.
    #[inline(always)]
    fn at(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let len = self.0.len() * MAX_ALIGN;
        if offset > len || bytes > len - offset {
            return None;
        }
        let base = UnsafeCell::raw_get(self.0.as_ptr()).cast::<u8>();
        // SAFETY: the offset is within the allocation, as just checked.
        Some(unsafe { base.add(offset) })
    }

    fn contains(&self, address: usize) -> bool {
        let start = self.0.as_ptr().addr();
        (start..start + self.0.len() * MAX_ALIGN).contains(&address)
    }

    /// Fills bytes with the poison.
    fn poison(&self, offset: usize, bytes: usize) {
        if let Some(start) = self.at(offset, bytes) {
            // SAFETY: within the allocation, as `at` has checked. `UnsafeCell`
            // allows the write through a shared reference, and the store is not
            // `Sync`: no other OS thread touches it.
            unsafe { start.write_bytes(POISON, bytes) };
        }
    }
}

/// What `bytes` bytes at `offset` are, in an array of elements of that size.
pub(crate) fn element(offset: usize, bytes: usize) -> String {
    match (bytes, offset.checked_rem(bytes)) {
        (1, _) => format!("byte {offset}"),
        (_, Some(0)) => format!("element {} (of {bytes} bytes)", offset / bytes),
        _ => format!("{bytes} bytes from byte {offset} on"),
    }
}

/// The shared memory of the block that a worker runs: the dynamic memory first,
/// then the static arrays.
pub(crate) struct Shared {
    store: OnceCell<Store>,
    /// The identity of the block, which no other block of the process has; zero
    /// until the block asks for memory.
    owner: Cell<u64>,
    /// The static arrays placed so far, with their offsets.
    placed: RefCell<Vec<(*const SharedSite, usize)>>,
    /// The bytes that the static arrays take.
    used: Cell<usize>,
    dynamic_bytes: usize,
    dynamic_poisoned: Cell<bool>,
}

impl Shared {
    pub(crate) fn new(dynamic_bytes: usize) -> Shared {
        Shared {
            store: OnceCell::new(),
            owner: Cell::new(0),
            placed: RefCell::default(),
            used: Cell::new(0),
            dynamic_bytes,
            dynamic_poisoned: Cell::new(false),
        }
    }

    /// Forgets the last block.
    #[inline]
    pub(crate) fn reset(&self) {
        self.owner.set(0);
        self.used.set(0);
        self.placed.borrow_mut().clear();
        self.dynamic_poisoned.set(false);
    }

    /// The address of `bytes` bytes at `ptr`, if that is in the memory of the
    /// block that runs.
    #[inline(always)]
    pub(crate) fn at(&self, ptr: SharedPtr, bytes: usize) -> Option<*mut u8> {
        if ptr.owner != self.owner.get() {
            return None;
        }
        self.store.get()?.at(ptr.offset, bytes)
    }

    /// Whether it is in the memory of the block that runs, or ran last.
    pub(crate) fn holds(&self, ptr: SharedPtr) -> bool {
        ptr.owner == self.owner.get()
    }

    /// Whether it is the address of a byte of it.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.store.get().is_some_and(|store| store.contains(address))
    }

    /// The place in this block's memory that is where `ptr` is in that of another block of its cluster, all of which have
    /// their arrays at the same places.
    pub(crate) fn counterpart(&self, ptr: SharedPtr) -> SharedPtr {
        // Else it would be poisoned when this block first asks for it, which others may have written by then.
        self.dynamic();
        self.pointer(ptr.offset)
    }

    /// Why [`at`](Self::at) gave nothing.
    pub(crate) fn refusal(&self, ptr: SharedPtr, bytes: usize) -> String {
        if ptr.owner != self.owner.get() {
            return "shared memory of another block: it was kept beyond the block that it belongs to".into();
        }
        let offset = ptr.offset;
        format!("access out of bounds of the block's shared memory: {bytes} bytes at offset {offset}")
    }

    /// The array of `site`, or why it does not fit.
    pub(crate) fn array(&self, site: &'static SharedSite) -> Result<SharedPtr, String> {
        let mut placed = self.placed.borrow_mut();
        if let Some(&(_, offset)) = placed.iter().find(|(known, _)| ptr::eq(*known, site)) {
            return Ok(self.pointer(offset));
        }
        let before = self.used.get();
        let start = before.next_multiple_of(site.align);
        let end = start.saturating_add(site.bytes);
        let total = end.saturating_add(self.dynamic_bytes);
        if end > LIMITS.max_static_shared {
            return Err(format!(
                "static shared memory exhausted: an array of {} bytes on top of {before} is more \
                 than the {} bytes of a block",
                site.bytes, LIMITS.max_static_shared
            ));
        }
        if total > LIMITS.max_shared {
            return Err(format!(
                "shared memory exhausted: {end} bytes of static arrays and {} bytes of dynamic \
                 memory are more than the {} bytes of a block",
                self.dynamic_bytes, LIMITS.max_shared
            ));
        }
        self.used.set(end);
        let offset = self.static_start() + start;
        placed.push((site, offset));
        self.store().poison(offset, site.bytes);
        Ok(self.pointer(offset))
    }

    /// The dynamic memory and its size.
    pub(crate) fn dynamic(&self) -> (SharedPtr, usize) {
        if !self.dynamic_poisoned.replace(true) {
            self.store().poison(0, self.dynamic_bytes);
        }
        (self.pointer(0), self.dynamic_bytes)
    }

    /// The array that an address is in, and the offset there.
    pub(crate) fn array_of(&self, address: usize) -> (Array, usize) {
        let start = self.store().at(0, 0).map_or(0, <*mut u8>::addr);
        let offset = address.wrapping_sub(start);
        let placed = self.placed.borrow();
        let array = placed
            .iter()
            // SAFETY: a site is a static.
            .map(|&(site, start)| (unsafe { &*site }, start))
            .find(|(site, start)| (*start..start + site.bytes).contains(&offset));
        match array {
            Some((site, start)) => (Array::Shared(site.at.into()), offset - start),
            None => (Array::DynamicShared, offset),
        }
    }

    /// What `bytes` bytes at `address` are, in words.
    pub(crate) fn name_of(&self, address: usize, bytes: usize) -> String {
        let (array, offset) = self.array_of(address);
        let element = element(offset, bytes);
        match array {
            Array::Shared(at) => format!("{element} of the shared array at {at}"),
            _ => format!("{element} of the dynamic shared memory"),
        }
    }

    /// Where the static arrays begin.
    fn static_start(&self) -> usize {
        self.dynamic_bytes.next_multiple_of(MAX_ALIGN)
    }

    fn store(&self) -> &Store {
        let bytes = self.static_start() + LIMITS.max_static_shared;
        self.store.get_or_init(|| Store::new(bytes))
    }

    /// A place in the memory of the block that runs.
    fn pointer(&self, offset: usize) -> SharedPtr {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.owner.get() == 0 {
            // Each number is given once; nothing else is ordered by it.
            self.owner.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        SharedPtr {
            owner: self.owner.get(),
            offset,
            _not_send: PhantomData,
        }
    }
}
