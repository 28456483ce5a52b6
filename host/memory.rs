// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device's memory is used for: every allocation is counted here, held to the limit, and tried once more when
//! the device has not enough.
//!
//! Between the library and the backend's allocator lies a list of freed blocks for each stream. A program that makes
//! and drops arrays of the same sizes, as most loops do, finds them there again: a lock and a look-up, some tens of
//! nanoseconds, where the driver's allocator takes up to a microsecond for each of the two calls. A block is used again
//! on the stream that freed it only, which needs no event, and the list is short: what does not fit goes to the
//! driver's pool, which other streams share.

use std::backtrace::Backtrace;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::backend::{Backend, RawStream};
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::pinned::PinnedCache;

/// The environment variable that has every allocation remembered with the place that made it, if it is `1`; see
/// [`Device::live_allocations`](crate::Device::live_allocations). What a checked simulator finds in an array then says where the
/// array was allocated.
pub const TRACE_VARIABLE: &str = "WARPSMITH_TRACE_ALLOC";

/// The largest block that a stream keeps. Larger ones are used for work beside which an allocation takes no time.
const LARGEST: usize = 1 << 20;

/// Sizes of blocks are multiples of this, as those of the driver's pool are.
const GRANULE: usize = 512;

/// The most that a stream keeps, in bytes. When it is full, all goes to the pool, and it begins anew: so it has the
/// sizes that are in use.
const MOST: usize = 16 << 20;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// What a device's memory is used for, in bytes; see [`Device::memory`](crate::Device::memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// What the device has.
    pub total: u64,
    /// What the system has left for any process. What the pool reserves and nobody uses is not in it: the next
    /// allocations take that first.
    pub free: u64,
    /// What this process's arrays hold on the device, and what its streams keep for their launches.
    pub allocated: u64,
    /// The most that was ever allocated at a time, or since [`Device::reset_peak`](crate::Device::reset_peak).
    pub peak: u64,
    /// What the library has taken from the system for it: what is allocated, and what was freed and is kept.
    pub reserved: u64,
    /// The most that may be allocated, by [`Device::set_memory_limit`](crate::Device::set_memory_limit).
    pub limit: Option<u64>,
}

/// An allocation that is alive; see [`Device::live_allocations`](crate::Device::live_allocations).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveAllocation {
    /// Its size.
    pub bytes: u64,
    /// The calls that led to it, the innermost outside of this library first.
    pub backtrace: String,
}

impl fmt::Display for LiveAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, allocated by\n{}", self.bytes, self.backtrace)
    }
}

/// The accounts of a device's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    allocated: AtomicU64,
    peak: AtomicU64,
    limit: AtomicU64,
    kept: Mutex<FxHashMap<RawStream, Kept>>,
    /// What could not be given back in a stream's order, until [`trim`](Memory) does it behind all work of the device.
    stranded: Mutex<Vec<Stranded>>,
    /// Memory of the host for this device's copies.
    pub(crate) pinned: PinnedCache,
    /// By address; none where nobody asked for it.
    ledger: Option<Mutex<FxHashMap<u64, Made>>>,
}

/// Freed blocks that one stream may use again.
#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    /// By size.
    blocks: FxHashMap<usize, Vec<u64>>,
}

/// What nobody uses any more but work that is queued, and no stream is known to be behind that.
#[derive(Debug)]
enum Stranded {
    /// Memory of that size, which is still allocated.
    Block(u64, usize),
    /// Who owns memory of another library's.
    Owner(Owner),
}

/// How an allocation came about.
#[derive(Debug)]
struct Made {
    bytes: usize,
    backtrace: Backtrace,
}

impl Default for Memory {
    fn default() -> Self {
        let traced = std::env::var_os(TRACE_VARIABLE).is_some_and(|value| value == "1");
        Self {
            allocated: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            limit: AtomicU64::new(UNLIMITED),
            kept: Mutex::default(),
            stranded: Mutex::default(),
            pinned: PinnedCache::default(),
            ledger: traced.then(Mutex::default),
        }
    }
}

/// What holds these locks asks the device at most to free something.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The size of the block for that many bytes.
fn block_size(bytes: usize) -> usize {
    match bytes <= LARGEST {
        true => bytes.next_multiple_of(GRANULE),
        false => bytes,
    }
}

impl Memory {
    /// Counts an allocation; not, if that is more than the limit.
    fn count(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |allocated: u64| allocated.checked_add(bytes as u64).filter(|&sum| sum <= limit);
        let order = Ordering::Relaxed;
        self.allocated.fetch_update(order, order, more).is_ok()
    }

    fn discount(&self, bytes: usize) {
        self.allocated.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// A block of that size that the stream has freed.
    fn take_kept(&self, stream: RawStream, size: usize) -> Option<u64> {
        if size > LARGEST {
            return None;
        }
        let mut kept = lock(&self.kept);
        let kept = kept.get_mut(&stream)?;
        let address = kept.blocks.get_mut(&size)?.pop()?;
        kept.bytes -= size;
        Some(address)
    }

    /// Keeps a block, and gives what is to be freed for it.
    fn keep(&self, stream: RawStream, address: u64, size: usize) -> Kept {
        let mut kept = lock(&self.kept);
        let kept = kept.entry(stream).or_default();
        let full = kept.bytes + size > MOST;
        let displaced = if full { std::mem::take(kept) } else { Kept::default() };
        kept.bytes += size;
        kept.blocks.entry(size).or_default().push(address);
        displaced
    }

    /// The bytes that streams keep.
    fn kept_bytes(&self) -> usize {
        lock(&self.kept).values().map(|kept| kept.bytes).sum()
    }

    pub(crate) fn reset_peak(&self) {
        self.peak
            .store(self.allocated.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|&limit| limit != UNLIMITED)
    }

    fn remember(&self, address: u64, bytes: usize) {
        if let Some(ledger) = &self.ledger {
            let backtrace = Backtrace::force_capture();
            lock(ledger).insert(address, Made { bytes, backtrace });
        }
    }

    fn forget(&self, address: u64) {
        if let Some(ledger) = &self.ledger {
            lock(ledger).remove(&address);
        }
    }

    /// The call by which the allocation at that address was made, the innermost outside of this library; `None` where nobody asked
    /// for the ledger.
    pub(crate) fn made_by(&self, address: u64) -> Option<String> {
        let calls = {
            let ledger = lock(self.ledger.as_ref()?);
            ledger.get(&address)?.backtrace.to_string()
        };
        first_call(&outside_of_library(&calls))
    }

    /// What is alive, the largest first; none where nobody asked for the ledger.
    pub(crate) fn live_allocations(&self) -> Option<Vec<LiveAllocation>> {
        let ledger = lock(self.ledger.as_ref()?);
        let live = ledger.values().map(|made| LiveAllocation {
            bytes: made.bytes as u64,
            backtrace: outside_of_library(&made.backtrace.to_string()),
        });
        let mut live: Vec<_> = live.collect();
        live.sort_by_key(|allocation| std::cmp::Reverse(allocation.bytes));
        Some(live)
    }
}

impl Kept {
    fn blocks(self) -> impl Iterator<Item = (u64, usize)> {
        let of_size = |(size, blocks): (usize, Vec<u64>)| blocks.into_iter().map(move |address| (address, size));
        self.blocks.into_iter().flat_map(of_size)
    }
}

/// Memory as the library takes it and gives it back.
impl dyn Backend {
    /// Memory of `bytes` bytes, at least one, aligned to 256, with unspecified contents.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if there is not enough, or it would be more than the limit, also after all that is kept
    /// has been given back.
    ///
    /// # Safety
    ///
    /// That of [`Backend::allocate`].
    pub(crate) unsafe fn acquire(&self, stream: RawStream, bytes: usize) -> Result<u64> {
        // SAFETY: this function's contract.
        if let Some(address) = unsafe { self.try_acquire(stream, bytes)? } {
            return Ok(address);
        }
        if bytes as u64 <= self.properties().total_memory {
            self.trim()?;
            // SAFETY: as above.
            if let Some(address) = unsafe { self.try_acquire(stream, bytes)? } {
                return Ok(address);
            }
        }
        Err(self.out_of_memory(bytes))
    }

    /// `None` where there is not enough, or the limit does not allow it.
    ///
    /// # Safety
    ///
    /// That of [`Backend::allocate`].
    unsafe fn try_acquire(&self, stream: RawStream, bytes: usize) -> Result<Option<u64>> {
        let (memory, size) = (self.memory(), block_size(bytes));
        if !memory.count(bytes) {
            return Ok(None);
        }
        let address = match memory.take_kept(stream, size) {
            Some(address) => Ok(Some(address)),
            // SAFETY: this function's contract.
            None => unsafe { self.allocate(stream, size) },
        };
        match address {
            Ok(Some(address)) => {
                let allocated = memory.allocated.load(Ordering::Relaxed);
                memory.peak.fetch_max(allocated, Ordering::Relaxed);
                self.acquired(address, bytes);
                memory.remember(address, bytes);
            }
            Ok(None) | Err(_) => memory.discount(bytes),
        }
        address
    }

    /// Gives back what `acquire` gave for as many bytes, in the stream's order.
    ///
    /// # Safety
    ///
    /// Nobody uses the memory any more but work that was queued on `stream`, or that it waits for.
    pub(crate) unsafe fn release(&self, stream: RawStream, address: u64, bytes: usize) {
        let (memory, size) = (self.memory(), block_size(bytes));
        memory.forget(address);
        memory.discount(bytes);
        let to_free = match size <= LARGEST {
            true => memory.keep(stream, address, size),
            false => Kept {
                bytes: size,
                blocks: [(size, vec![address])].into_iter().collect(),
            },
        };
        // SAFETY: the stream that they were given back on, by this function's contract.
        unsafe { self.free_all(stream, to_free) };
    }

    /// Gives back memory whose last uses no stream is known to be behind. It is freed by the next [`trim`](Self::trim).
    ///
    /// # Safety
    ///
    /// `acquire` gave it for as many bytes, and nobody uses it any more but work that is queued.
    pub(crate) unsafe fn strand(&self, address: u64, bytes: usize) {
        let memory = self.memory();
        memory.forget(address);
        lock(&memory.stranded).push(Stranded::Block(address, bytes));
    }

    /// Has the owner of another library's memory dropped by the next [`trim`](Self::trim), behind all that is queued now.
    pub(crate) fn strand_owner(&self, owner: Owner) {
        lock(&self.memory().stranded).push(Stranded::Owner(owner));
    }

    /// Frees blocks behind what the stream has queued. Those that cannot be freed so are stranded, and count as
    /// allocated again.
    ///
    /// # Safety
    ///
    /// They are nobody's, and their last uses are on the stream or before its work.
    unsafe fn free_all(&self, stream: RawStream, blocks: Kept) {
        for (address, size) in blocks.blocks() {
            // SAFETY: this function's contract.
            if unsafe { self.free(stream, address) }.is_err() {
                let memory = self.memory();
                memory.allocated.fetch_add(size as u64, Ordering::Relaxed);
                lock(&memory.stranded).push(Stranded::Block(address, size));
            }
        }
    }

    /// To be called before a stream is destroyed: what it keeps goes to the pool.
    ///
    /// # Safety
    ///
    /// The stream lives. Who else uses it, as one may that was adopted more than once, calls this too when it is done.
    pub(crate) unsafe fn leave(&self, stream: RawStream) {
        let kept = lock(&self.memory().kept).remove(&stream);
        // SAFETY: these were given back on this stream.
        unsafe { self.free_all(stream, kept.unwrap_or_default()) };
    }

    /// Waits for the device, and gives all memory back to the system that nobody uses.
    pub(crate) fn trim(&self) -> Result<()> {
        {
            // Locked meanwhile, so that no stream of these is destroyed: `leave` comes first.
            let mut kept = lock(&self.memory().kept);
            for (stream, kept) in kept.drain() {
                // SAFETY: the stream lives, and these were given back on it.
                unsafe { self.free_all(stream, kept) };
            }
        }
        self.free_stranded()?;
        self.memory().pinned.trim(self);
        self.trim_pool()
    }

    /// Waits for the device, and gives back what was stranded before.
    fn free_stranded(&self) -> Result<()> {
        let memory = self.memory();
        let mut stranded = std::mem::take(&mut *lock(&memory.stranded));
        let mut result = self.synchronize_all();
        while result.is_ok()
            && let Some(next) = stranded.pop()
        {
            match next {
                Stranded::Owner(owner) => drop(owner),
                Stranded::Block(address, bytes) => {
                    // SAFETY: nobody's, and all work was waited for that was queued when it was stranded.
                    result = unsafe { self.free_now(address) };
                    match result {
                        Ok(()) => memory.discount(bytes),
                        Err(_) => stranded.push(next),
                    }
                }
            }
        }
        lock(&memory.stranded).append(&mut stranded);
        result
    }

    /// To be called when the backend is dropped: frees what is left.
    pub(crate) fn close_memory(&self) {
        // Only then, as it waits for the work of other libraries too.
        if !lock(&self.memory().stranded).is_empty() {
            // An error is one of earlier work; the memory goes with the context. So does that of other libraries, and an
            // owner that is dropped afterwards would free what the next context has at that address.
            let _ = self.free_stranded();
            std::mem::forget(std::mem::take(&mut *lock(&self.memory().stranded)));
        }
        self.memory().pinned.close(self);
    }

    /// What the memory is used for.
    pub(crate) fn memory_info(&self) -> Result<MemoryInfo> {
        let memory = self.memory();
        let allocated = memory.allocated.load(Ordering::Relaxed);
        let reserved = match self.reserved_memory()? {
            Some(bytes) => bytes,
            None => allocated + memory.kept_bytes() as u64,
        };
        Ok(MemoryInfo {
            total: self.properties().total_memory,
            free: self.free_memory()?,
            allocated,
            peak: memory.peak.load(Ordering::Relaxed),
            reserved,
            limit: memory.limit(),
        })
    }

    /// The error of an allocation, with what is alive on standard error where the ledger was asked for.
    fn out_of_memory(&self, wanted: usize) -> Error {
        let (memory, properties) = (self.memory(), self.properties());
        for allocation in memory.live_allocations().unwrap_or_default() {
            eprintln!("{}: alive: {allocation}", properties.id);
        }
        Error::OutOfMemory {
            device: properties.id.clone(),
            wanted: wanted as u64,
            allocated: memory.allocated.load(Ordering::Relaxed),
            free: self.free_memory().unwrap_or(0),
            total: properties.total_memory,
            limit: memory.limit(),
        }
    }
}

/// A backtrace without its first frames, as long as they are this library's or the capture's: by the function's path, or
/// by its file's, for where the debug information has line tables alone, some functions have no path.
fn outside_of_library(backtrace: &str) -> String {
    let lines: Vec<_> = backtrace.lines().collect();
    let first = (0..lines.len()).find(|&i| {
        let location = lines.get(i + 1).copied().unwrap_or_default();
        function_of(lines[i]).is_some_and(|function| !is_ours(function, location))
    });
    lines[first.unwrap_or(0)..].join("\n")
}

/// The function that a line of a backtrace names, which has its number ahead.
fn function_of(line: &str) -> Option<&str> {
    let (number, function) = line.trim_start().split_once(": ")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(function)
}

/// The first function of a backtrace, and where it is, if the backtrace says that: without debug information it does not.
fn first_call(backtrace: &str) -> Option<String> {
    let mut lines = backtrace.lines();
    let function = function_of(lines.next()?)?;
    let location = lines.next().map(str::trim_start).filter(|line| line.starts_with("at "));
    Some(match location {
        Some(location) => format!("`{function}` {location}"),
        None => format!("`{function}`"),
    })
}

/// Whether a function is this library's, or the capture's. `location` is the line behind it, which may say where it is.
fn is_ours(function: &str, location: &str) -> bool {
    let sources = file!().trim_end_matches("memory.rs");
    let file = location.trim_start().strip_prefix("at ");
    let function = function.trim_start_matches(['<', '&']);
    ["warpsmith::", "dyn warpsmith::", "std::backtrace"]
        .iter()
        .any(|prefix| function.starts_with(prefix))
        || file.is_some_and(|file| file.trim_start_matches("./").starts_with(sources))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cuda_sim::Checks;

    use super::*;
    use crate::backend::sim::Simulator;

    fn device() -> (Box<dyn Backend>, RawStream) {
        let backend: Box<dyn Backend> = Box::new(Simulator::new());
        let stream = backend.create_stream(0).unwrap();
        (backend, stream)
    }

    #[test]
    fn a_stream_uses_its_own_blocks_again() {
        let (backend, one) = device();
        let other = backend.create_stream(0).unwrap();
        // SAFETY: streams of this backend; what is given back was given, and is not used.
        unsafe {
            let first = backend.acquire(one, 1000).unwrap();
            backend.release(one, first, 1000);
            let elsewhere = backend.acquire(other, 1000).unwrap();
            assert_ne!(elsewhere, first, "another stream's");
            assert_eq!(backend.acquire(one, 513).unwrap(), first, "of the same multiple of 512");
            backend.release(one, first, 513);
            backend.leave(one);
            assert_eq!(backend.memory().kept_bytes(), 0);
            backend.release(other, elsewhere, 1000);
        }
        let info = backend.memory_info().unwrap();
        assert_eq!(
            (info.allocated, info.reserved, info.peak),
            (0, 1024, 1513 + 1000 - 1000)
        );
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (backend, stream) = device();
        // SAFETY: as above.
        unsafe {
            let blocks: Vec<_> = (0..17).map(|_| backend.acquire(stream, LARGEST).unwrap()).collect();
            let large = backend.acquire(stream, LARGEST + 1).unwrap();
            for (i, block) in blocks.into_iter().enumerate() {
                backend.release(stream, block, LARGEST);
                assert_eq!(backend.memory().kept_bytes(), (i % 16 + 1) * LARGEST);
            }
            backend.release(stream, large, LARGEST + 1);
        }
        assert_eq!(backend.memory().kept_bytes(), LARGEST);
        backend.trim().unwrap();
        assert_eq!(backend.memory_info().unwrap().reserved, 0);
    }

    #[test]
    fn memory_that_has_another_owner_is_not_written() {
        let backend: Box<dyn Backend> = Box::new(Simulator::checked(Checks::ALL));
        let stream = backend.create_stream(0).unwrap();
        let read = |address| {
            let mut bytes = [0; 8];
            // SAFETY: eight bytes of the backend's memory.
            unsafe { backend.download(stream, bytes.as_mut_ptr(), address, 8) }
        };
        let refused = |address, byte: usize, array: usize| {
            let message = format!(
                "uninitialised: a copy of 8 bytes to the host reads byte {byte} of an array of {array} bytes, which nobody \
                 has written since it was allocated"
            );
            assert_eq!(read(address).unwrap_err().to_string(), message);
        };
        // SAFETY: a stream of this backend; what is given back was given, and is not used.
        unsafe {
            let x = backend.acquire(stream, 100).unwrap();
            backend.upload(stream, x, &[1; 12]).unwrap();
            read(x).unwrap();
            refused(x + 8, 12, 100);
            backend.fill_zero(stream, x + 12, 4).unwrap();
            read(x + 8).unwrap();
            // What was not written is not, where it is copied to.
            let y = backend.acquire(stream, 40).unwrap();
            backend.fill_zero(stream, y, 40).unwrap();
            backend.copy(stream, y, x + 8, 16).unwrap();
            refused(y + 7, 8, 40);
            backend.release(stream, x, 100);
            assert_eq!(backend.acquire(stream, 90).unwrap(), x);
            refused(x, 0, 90);
            backend.release(stream, x, 90);
            backend.release(stream, y, 40);
        }
    }

    #[test]
    fn what_is_stranded_is_given_back_by_the_next_trim() {
        let (backend, stream) = device();
        let owned = Arc::new(());
        backend.strand_owner(Owner::new(Arc::clone(&owned)));
        assert_eq!(Arc::strong_count(&owned), 2);
        // SAFETY: as above.
        unsafe {
            let address = backend.acquire(stream, 100).unwrap();
            backend.strand(address, 100);
        }
        assert_eq!(backend.memory_info().unwrap().allocated, 100);
        backend.trim().unwrap();
        assert_eq!(backend.memory_info().unwrap().allocated, 0);
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[test]
    fn a_backtrace_begins_where_the_library_was_called() {
        let backtrace = "   0: std::backtrace::Backtrace::create\n             at /rustc/x.rs:1:2\n   \
            1: <dyn warpsmith::backend::Backend>::acquire\n   2: <warpsmith::array::DeviceArray<T,D>>::zeros\n   \
            3: app::main\n             at ./app.rs:3:4\n   4: std::rt::lang_start";
        let expected = "   3: app::main\n             at ./app.rs:3:4\n   4: std::rt::lang_start";
        assert_eq!(outside_of_library(backtrace), expected);
        let here = format!("zeros\n             at ./{}:7:8", file!());
        let by_file = backtrace.replace("<warpsmith::array::DeviceArray<T,D>>::zeros", &here);
        assert_eq!(outside_of_library(&by_file), expected);
        assert_eq!(outside_of_library("disabled backtrace"), "disabled backtrace");
        assert_eq!(first_call(expected).as_deref(), Some("`app::main` at ./app.rs:3:4"));
        let without_locations = "   4: std::rt::lang_start\n   5: main";
        assert_eq!(first_call(without_locations).as_deref(), Some("`std::rt::lang_start`"));
        assert_eq!(first_call("disabled backtrace"), None);
    }
}
