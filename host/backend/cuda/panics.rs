// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel has said of its panic. The device's context cannot be asked for it, since it is of no use any more; so
//! kernels write it to page-locked memory of the host, whose address a module is told when it is loaded.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys::{self, Status};
use cuda_sim::{Dim3, Fault, SourceLocation};
use cuda_std::panics::{HOST, Panic, PanicRecord};

use super::context::Context;
use super::generation::{Generation, pinned_layout};
use super::modules::contains;
use crate::error::Result;

/// What stands for a message with arguments.
const FORMATTED: &str =
    "panic (its message has arguments, which only the simulated GPU formats; cuda_std::panic_with has numbers)";

/// The bytes that are locked: a page of the system's, all of it this one's.
const PAGE_BYTES: usize = 4096;

const _: () = assert!(size_of::<Page>() <= PAGE_BYTES);

/// A call of the driver, or which one failed.
type Call<T> = std::result::Result<T, (&'static str, Status)>;

fn call(name: &'static str, status: Status) -> Call<()> {
    match status {
        Status::SUCCESS => Ok(()),
        status => Err((name, status)),
    }
}

/// One for each context.
#[derive(Debug, Default)]
pub(super) struct Panics(Mutex<Option<Known>>);

/// The memory, once a module has wanted it, and who may write there.
#[derive(Debug)]
struct Known {
    page: *const Page,
    /// The page's address on the device.
    address: u64,
    /// The kernels whose modules were told of it; the place is the module's number.
    kernels: Vec<&'static str>,
}

// SAFETY: the page is read and written by atomics, and is there as long as this.
unsafe impl Send for Known {}

#[derive(Debug)]
#[repr(C)]
struct Page {
    record: PanicRecord,
    /// What is copied to a module's variable.
    told: [AtomicU64; 2],
}

impl Panics {
    /// The first panic that a kernel has written.
    pub(super) fn first(&self) -> Option<Box<Fault>> {
        let known = self.lock();
        let known = known.as_ref()?;
        known.page().record.read(|panic| Box::new(known.fault(&panic)))
    }

    /// Tells a module where its kernel is to write a panic, if its PTX says that it can panic. The context is current,
    /// and is that of the generation that has `self`.
    pub(super) fn tell(
        &self,
        context: &Context,
        module: sys::CUmodule,
        ptx: &[u8],
        kernel: &'static str,
    ) -> Result<()> {
        if !contains(ptx, HOST.as_bytes()) {
            return Ok(());
        }
        // Checked when the lock is gone: a status that ends the context has this asked for the first panic.
        let told = self.tell_unchecked(context.generation(), module, kernel);
        told.or_else(|(call, status)| context.check(call, status))
    }

    fn tell_unchecked(&self, generation: &Generation, module: sys::CUmodule, kernel: &'static str) -> Call<()> {
        let mut known = self.lock();
        if known.is_none() {
            *known = Known::new(generation)?;
        }
        match &mut *known {
            Some(known) => known.tell(module, kernel),
            // There is no memory that both can reach: a panic is told by its status alone.
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Locks a page of memory for a context; `None` where the device cannot reach memory of the host.
    fn new(generation: &Generation) -> Call<Option<Self>> {
        let layout = pinned_layout(PAGE_BYTES).expect("a page");
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: memory of that size, which lives as long as its context if the call succeeds.
        let status =
            unsafe { sys::cuMemHostRegister_v2(memory.cast(), layout.size(), sys::CU_MEMHOSTREGISTER_DEVICEMAP) };
        if !status.is_success() {
            // SAFETY: allocated just now, by that layout.
            unsafe { dealloc(memory, layout) };
            return match status {
                Status::NOT_SUPPORTED => Ok(None),
                status => Err(("cuMemHostRegister", status)),
            };
        }
        // SAFETY: allocated so, and freed by nobody else; a kernel may write it until the context ends.
        unsafe { generation.strand(memory.expose_provenance() as u64, layout.size()) };
        let mut address = 0;
        // SAFETY: memory that is locked; writes an address.
        let status = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, memory.cast(), 0) };
        call("cuMemHostGetDevicePointer", status)?;
        let page = memory.cast::<Page>();
        // SAFETY: room for a page, at an address that is a multiple of its alignment.
        unsafe {
            page.write(Page {
                record: PanicRecord::new(),
                told: Default::default(),
            })
        };
        Ok(Some(Self {
            page,
            address,
            kernels: Vec::new(),
        }))
    }

    fn page(&self) -> &Page {
        // SAFETY: made by `new`, and freed with the generation that has `self`.
        unsafe { &*self.page }
    }

    /// Copies the page's address and the kernel's number to the module's variable, from page-locked memory: of such a
    /// copy the driver promises that it is done when the call returns.
    fn tell(&mut self, module: sys::CUmodule, kernel: &'static str) -> Call<()> {
        let name = CString::new(HOST).expect("a name without zeros");
        let (mut variable, mut bytes) = (0, 0);
        // SAFETY: a loaded module and a zero-terminated name; writes an address and a size.
        let status = unsafe { sys::cuModuleGetGlobal_v2(&mut variable, &mut bytes, module, name.as_ptr()) };
        call("cuModuleGetGlobal", status)?;
        let told = &self.page().told;
        if bytes != size_of_val(told) {
            return Ok(()); // another's variable of that name
        }
        told[0].store(self.address, Ordering::Relaxed);
        told[1].store(self.kernels.len() as u64, Ordering::Relaxed);
        // SAFETY: a variable of that size, of a module of which nothing runs yet; the words are written only here, with a
        // lock held.
        let status = unsafe { sys::cuMemcpyHtoD_v2(variable, told.as_ptr().cast(), bytes) };
        call("cuMemcpyHtoD", status)?;
        self.kernels.push(kernel);
        Ok(())
    }

    fn fault(&self, panic: &Panic<'_>) -> Fault {
        let dim3 = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
        Fault {
            kernel: self
                .kernels
                .get(panic.module as usize)
                .copied()
                .unwrap_or_default()
                .into(),
            block: dim3(panic.block),
            thread: dim3(panic.thread),
            location: Some(SourceLocation {
                file: panic.file.into(),
                line: panic.line,
                column: panic.column,
            }),
            message: panic.message.unwrap_or(FORMATTED).into(),
            finding: None,
        }
    }
}
