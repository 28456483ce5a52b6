// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory: one store a worker, handed to its blocks one after another.
//!
//! A static array gets its place when a block first asks for it, in the order of
//! asking, and is filled with a poison byte then: on a GPU shared memory starts
//! with whatever the last block left, and a kernel that counts on zeros must
//! fail here as well. So a block pays only for the arrays it uses.

use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::ptr;

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
}

impl SharedSite {
    /// An array of `bytes` bytes at an address that is a multiple of `align`.
    ///
    /// # Panics
    ///
    /// If `align` is not a power of two up to 128; in a `static` the panic is a
    /// compile error.
    pub const fn new(bytes: usize, align: usize) -> Self {
        assert!(
            align.is_power_of_two() && align <= MAX_ALIGN,
            "the alignment of a shared array must be a power of two up to 128"
        );
        SharedSite { bytes, align }
    }
}

#[repr(align(128))]
struct Line {
    _bytes: [u8; MAX_ALIGN],
}

const _: () = assert!(align_of::<Line>() == MAX_ALIGN && size_of::<Line>() == MAX_ALIGN);

/// Aligned bytes that a block's threads share by raw pointer.
struct Arena(Box<[UnsafeCell<Line>]>);

impl Arena {
    fn new(bytes: usize) -> Arena {
        let lines = bytes.div_ceil(MAX_ALIGN);
        let line = || {
            UnsafeCell::new(Line {
                _bytes: [POISON; MAX_ALIGN],
            })
        };
        Arena(std::iter::repeat_with(line).take(lines).collect())
    }

    /// The address of byte `offset`, with `bytes` from there on poisoned if
    /// `poison`.
    fn at(&self, offset: usize, bytes: usize, poison: bool) -> *mut u8 {
        assert!(offset + bytes <= self.0.len() * MAX_ALIGN);
        let base = UnsafeCell::raw_get(self.0.as_ptr()).cast::<u8>();
        // SAFETY: the assertion keeps `offset` and `offset + bytes` within the
        // allocation. `UnsafeCell` allows the write through a shared reference,
        // and the arena is not `Sync`: no other OS thread touches it.
        unsafe {
            let start = base.add(offset);
            if poison {
                start.write_bytes(POISON, bytes);
            }
            start
        }
    }
}

/// The shared memory of the block that a worker runs.
pub(crate) struct Shared {
    /// The static arrays placed so far, with their offsets.
    placed: RefCell<Vec<(*const SharedSite, usize)>>,
    used: Cell<usize>,
    fixed: OnceCell<Arena>,
    dynamic_bytes: usize,
    dynamic: OnceCell<Arena>,
    dynamic_poisoned: Cell<bool>,
}

impl Shared {
    pub(crate) fn new(dynamic_bytes: usize) -> Shared {
        Shared {
            placed: RefCell::default(),
            used: Cell::new(0),
            fixed: OnceCell::new(),
            dynamic_bytes,
            dynamic: OnceCell::new(),
            dynamic_poisoned: Cell::new(false),
        }
    }

    /// Forgets the arrays of the last block.
    #[inline]
    pub(crate) fn reset(&self) {
        self.used.set(0);
        self.placed.borrow_mut().clear();
        self.dynamic_poisoned.set(false);
    }

    /// The array of `site`, or why it does not fit.
    pub(crate) fn array(&self, site: &'static SharedSite) -> Result<*mut u8, String> {
        let fixed = (self.fixed).get_or_init(|| Arena::new(LIMITS.max_static_shared));
        let mut placed = self.placed.borrow_mut();
        if let Some(&(_, offset)) = placed.iter().find(|(known, _)| ptr::eq(*known, site)) {
            return Ok(fixed.at(offset, site.bytes, false));
        }
        let before = self.used.get();
        let offset = before.next_multiple_of(site.align);
        let end = offset.saturating_add(site.bytes);
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
        placed.push((site, offset));
        Ok(fixed.at(offset, site.bytes, true))
    }

    /// The dynamic memory and its size.
    pub(crate) fn dynamic(&self) -> (*mut u8, usize) {
        let bytes = self.dynamic_bytes;
        let arena = self.dynamic.get_or_init(|| Arena::new(bytes));
        let poison = !self.dynamic_poisoned.replace(true);
        (arena.at(0, bytes, poison), bytes)
    }
}
