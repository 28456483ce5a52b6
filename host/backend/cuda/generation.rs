// SPDX-License-Identifier: MIT OR Apache-2.0
//! A GPU's primary context from its making to its end, which all devices of the GPU in this process share.
//!
//! What fails in a context fails for all of them, and a reset ends it under all of them. A context that is made then is
//! of the next *generation*; what belongs to an earlier one reaches the driver no more.

use std::alloc::{Layout, dealloc};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::thread;
use std::time::Duration;

use cuda_driver::sys::{self, Status};

use super::panics::Panics;
use super::status::{Failure, call_failed, ends_context, unrecoverable};
use crate::backend::system::HUGE_PAGE;
use crate::error::{Error, Result};

/// A GPU as this process uses it; there is one for each, which is never dropped.
#[derive(Debug, Default)]
pub(super) struct Gpu {
    /// Read by who is in a call of the driver; written while a context is ended, so that none is then.
    calls: RwLock<()>,
    current: Mutex<Option<Current>>,
    /// Held from a launch to the end of its kernel, where each is waited for.
    one_kernel: Mutex<()>,
}

/// The generation that devices are opened in.
#[derive(Debug)]
struct Current {
    generation: Arc<Generation>,
    /// How many devices are open in it.
    devices: usize,
}

/// A context. This library retains it once, however many devices there are.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) raw: sys::CUcontext,
    /// What ended the context's use, the first time.
    failure: OnceLock<Failure>,
    /// What its kernels say of their panics.
    pub(super) panics: Panics,
    /// Whether the context is destroyed. Written where no call is under way.
    ended: AtomicBool,
    /// Page-locked memory that work may have used when it was given back: freed when no work is left.
    stranded: Mutex<Vec<(u64, usize)>>,
}

// SAFETY: the driver's handles may be used on every thread.
unsafe impl Send for Generation {}
// SAFETY: as above; all else is behind locks.
unsafe impl Sync for Generation {}

fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU of that number.
pub(super) fn gpu(device: sys::CUdevice) -> &'static Gpu {
    static GPUS: Mutex<Vec<(sys::CUdevice, &'static Gpu)>> = Mutex::new(Vec::new());
    let mut gpus = lock(&GPUS);
    if let Some((_, gpu)) = gpus.iter().find(|(of, _)| *of == device) {
        return gpu;
    }
    let gpu = Box::leak(Box::default());
    gpus.push((device, gpu));
    gpu
}

impl Gpu {
    /// Keeps the context from being ended meanwhile. A thread may hold several.
    pub(super) fn call(&self) -> RwLockReadGuard<'_, ()> {
        self.calls.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no call is under way, and lets none begin. It does not queue for that: a thread that is in a call may
    /// begin another one inside, and would wait for who waits for it.
    fn no_call(&self) -> RwLockWriteGuard<'_, ()> {
        loop {
            match self.calls.try_write() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    pub(super) fn one_kernel(&self) -> MutexGuard<'_, ()> {
        lock(&self.one_kernel)
    }

    /// The generation that devices are opened in; a new one where there is none.
    pub(super) fn join(&self, device: sys::CUdevice, id: &str) -> Result<Arc<Generation>> {
        let mut current = lock(&self.current);
        if let Some(current) = &mut *current {
            current.devices += 1;
            return Ok(Arc::clone(&current.generation));
        }
        let generation = Arc::new(Generation {
            raw: retain(device, id)?,
            failure: OnceLock::new(),
            panics: Panics::default(),
            ended: AtomicBool::new(false),
            stranded: Mutex::default(),
        });
        *current = Some(Current {
            generation: Arc::clone(&generation),
            devices: 1,
        });
        Ok(generation)
    }

    /// To be called when a device is closed: ends the generation with the last of its devices.
    pub(super) fn leave(&self, device: sys::CUdevice, generation: &Arc<Generation>) {
        let mut table = lock(&self.current);
        let Some(current) = table.as_mut().filter(|of| Arc::ptr_eq(&of.generation, generation)) else {
            return; // ended already
        };
        current.devices -= 1;
        if current.devices == 0 {
            *table = None;
            // SAFETY: retained once by `retain`. An error would be one of earlier work; there is nothing left to be done.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
            if !lock(&generation.stranded).is_empty() && is_active(device) == Ok(false) {
                generation.ended.store(true, Ordering::Release);
            }
        }
    }

    /// Destroys the context of `generation`, or if it is destroyed already the one since, if that has failed. Waits for
    /// calls of the driver that are under way; other calls wait for this, and are then refused.
    ///
    /// The context is released, not reset by force: who else has retained it, be it a library or the CUDA runtime, keeps
    /// it, and then nothing has changed and it is an error.
    pub(super) fn end(&self, device: sys::CUdevice, id: &str, generation: &Arc<Generation>) -> Result<()> {
        let _no_call = self.no_call();
        let mut current = lock(&self.current);
        let generation = match (&*current, generation.is_ended()) {
            (_, false) => Arc::clone(generation),
            (Some(current), true) if current.generation.failure().is_some() => Arc::clone(&current.generation),
            _ => return Ok(()),
        };
        // SAFETY: retained once by `retain`; no call is under way, and none of this generation will be. The status may be
        // one of earlier work, as that of each call; whether the context is destroyed is asked for.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
        let refused = match is_active(device) {
            Ok(false) => {
                *current = None;
                generation.ended.store(true, Ordering::Release);
                return Ok(());
            }
            Ok(true) => Error::ContextInUse { device: id.into() },
            Err(status) if ends_context(status) => unrecoverable(id, STATE, status),
            Err(status) => call_failed(id, STATE, status),
        };
        // It is another's still, so this gives the same one back.
        if !retain(device, id).is_ok_and(|raw| raw == generation.raw) {
            *current = None;
            lock(&generation.stranded).clear(); // never freed: nothing tells whether the context is destroyed
            generation.ended.store(true, Ordering::Release);
        }
        Err(refused)
    }
}

/// Retains the primary context.
///
/// A driver may go on to report what ended the context before, though nobody keeps that any more. Then what is left of it
/// is destroyed by force. Where nobody keeps a context this takes nothing from other libraries that they have a right to;
/// where one does, it would have their safe functions hand the driver what is gone, and it is not done.
fn retain(device: sys::CUdevice, id: &str) -> Result<sys::CUcontext> {
    const CALL: &str = "cuDevicePrimaryCtxRetain";
    let status = match retain_once(device) {
        Err(status) if ends_context(status) => status,
        retained => return retained.map_err(|status| call_failed(id, CALL, status)),
    };
    match is_active(device) {
        Ok(false) => {}
        Ok(true) => return Err(call_failed(id, CALL, status)),
        Err(status) => return Err(unrecoverable(id, STATE, status)),
    }
    // SAFETY: the device exists, and no context of it is in use.
    let reset = unsafe { sys::cuDevicePrimaryCtxReset_v2(device) };
    retain_once(device).map_err(|status| match reset.is_success() {
        true => unrecoverable(id, CALL, status),
        false => unrecoverable(id, "cuDevicePrimaryCtxReset", reset),
    })
}

fn retain_once(device: sys::CUdevice) -> std::result::Result<sys::CUcontext, Status> {
    let mut raw = ptr::null_mut();
    // SAFETY: writes a handle; the device exists.
    match unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device) } {
        Status::SUCCESS => Ok(raw),
        status => Err(status),
    }
}

/// The call of [`is_active`].
const STATE: &str = "cuDevicePrimaryCtxGetState";

/// Whether anybody in this process keeps the primary context; else what the driver says.
fn is_active(device: sys::CUdevice) -> std::result::Result<bool, Status> {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: writes two numbers; the device exists.
    match unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) } {
        Status::SUCCESS => Ok(active != 0),
        status => Err(status),
    }
}

impl Generation {
    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// What ended the context's use, if anything has.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Remembers what ended the context's use, with what a kernel has said of it; what was the first.
    pub(super) fn fail(&self, failure: Failure) -> &Failure {
        self.failure.get_or_init(|| failure.of_panic(self.panics.first()))
    }

    /// Takes page-locked memory that work may still use.
    ///
    /// # Safety
    ///
    /// It was allocated with [`pinned_layout`], and nobody else uses it or frees it.
    pub(super) unsafe fn strand(&self, address: u64, bytes: usize) {
        lock(&self.stranded).push((address, bytes));
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if self.is_ended() {
            for (address, bytes) in lock(&self.stranded).drain(..) {
                // SAFETY: by the contract of `strand` it is this function's, and no work is left in a context that is
                // destroyed.
                unsafe { free_pinned(address, bytes) };
            }
        }
    }
}

/// Of page-locked memory: whole pages, so that nothing else is locked with it, and huge ones where it has such.
pub(super) fn pinned_layout(bytes: usize) -> Option<Layout> {
    let page = if bytes < HUGE_PAGE { 4096 } else { HUGE_PAGE };
    Layout::from_size_align(bytes, page).ok()
}

/// # Safety
///
/// It was allocated with [`pinned_layout`], and nobody uses it any more.
pub(super) unsafe fn free_pinned(address: u64, bytes: usize) {
    let layout = pinned_layout(bytes).expect("it was allocated by this layout");
    // SAFETY: this function's contract.
    unsafe { dealloc(ptr::with_exposed_provenance_mut(address as usize), layout) };
}
