// SPDX-License-Identifier: MIT OR Apache-2.0
//! Initialisation, discovery, and the primary context of a GPU.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Arc, MutexGuard, RwLockReadGuard};

use cuda_driver::sys::{self, DeviceAttribute, Status};
use cuda_sim::Dim3;

use super::generation::{Generation, Gpu, gpu};
use super::status::{Failure, call_failed, check_driver};
use crate::backend::RawContext;
use crate::device::Properties;
use crate::error::{Error, Result};

/// The number of GPUs; 0 where there is no driver, or where the driver says that there is no GPU. Whatever else the
/// driver says is an error: a driver that fails is not a machine without a GPU.
pub(crate) fn count() -> Result<u32> {
    if cuda_driver::is_missing() {
        return Ok(0);
    }
    if let Some(reason) = cuda_driver::load_error() {
        return Err(Error::Driver {
            call: "dlopen",
            message: format!("libcuda.so.1 is there and cannot be loaded: {reason}"),
        });
    }
    // SAFETY: takes no flags; may be called any number of times, on any thread.
    match unsafe { sys::cuInit(0) } {
        Status::NO_DEVICE => return Ok(0),
        // What a process gets that was forked after its parent had initialised the driver.
        status @ Status::NOT_INITIALIZED => {
            return Err(Error::Driver {
                call: "cuInit",
                message: format!("{status}: CUDA cannot be used in a process whose parent used it before the fork"),
            });
        }
        status => check_driver("cuInit", status)?,
    }
    let mut count = 0;
    // SAFETY: writes one number.
    match unsafe { sys::cuDeviceGetCount(&mut count) } {
        Status::NO_DEVICE => Ok(0),
        status => check_driver("cuDeviceGetCount", status).map(|()| u32::try_from(count).unwrap_or(0)),
    }
}

/// GPU `ordinal`, of those that the driver counts.
fn device(ordinal: u32) -> Result<sys::CUdevice> {
    let missing = |reason| Err(Error::NoDevice { ordinal, reason });
    match count()? {
        count if ordinal < count => {}
        0 => match cuda_driver::load_error() {
            Some(reason) => return missing(format!("there is no NVIDIA driver: {reason}")),
            None => return missing("this machine has no GPU that the NVIDIA driver can use".into()),
        },
        1 => return missing("this machine has one GPU, cuda:0".into()),
        count => return missing(format!("this machine has {count} GPUs, cuda:0 to cuda:{}", count - 1)),
    }
    let mut device = 0;
    // SAFETY: writes one number. The ordinal is below a `c_int`.
    check_driver("cuDeviceGet", unsafe {
        sys::cuDeviceGet(&mut device, ordinal as c_int)
    })?;
    Ok(device)
}

/// The properties of GPU `ordinal`, without using it.
pub(crate) fn properties(ordinal: u32) -> Result<Properties> {
    use DeviceAttribute as A;
    let device = device(ordinal)?;
    let get = |attribute| attribute_of(device, attribute);
    let mut version = 0;
    // SAFETY: writes one number.
    check_driver("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    let version = u32::try_from(version).unwrap_or(0);
    let capability = (get(A::COMPUTE_CAPABILITY_MAJOR)?, get(A::COMPUTE_CAPABILITY_MINOR)?);
    let mut total_memory = 0;
    // SAFETY: writes one size; the device exists.
    check_driver("cuDeviceTotalMem", unsafe {
        sys::cuDeviceTotalMem_v2(&mut total_memory, device)
    })?;
    Ok(Properties {
        id: format!("cuda:{ordinal}"),
        name: name_of(device)?,
        compute_capability: Some(capability),
        tensor_cores: match capability {
            // Older drivers have no tensor maps.
            (9, 0) if version >= 12000 => Some((9, 0)),
            // Or know no products of 8-bit floats.
            _ if capability >= (8, 9) && version >= 12040 => Some((8, 9)),
            _ => [(8, 0), (7, 5)].into_iter().find(|&since| capability >= since),
        },
        driver_version: Some((version / 1000, version % 1000 / 10)),
        total_memory: total_memory as u64,
        multiprocessors: get(A::MULTIPROCESSOR_COUNT)?,
        warp_size: get(A::WARP_SIZE)?,
        max_threads_per_block: get(A::MAX_THREADS_PER_BLOCK)?,
        max_threads_per_multiprocessor: get(A::MAX_THREADS_PER_MULTIPROCESSOR)?,
        max_block: Dim3 {
            x: get(A::MAX_BLOCK_DIM_X)?,
            y: get(A::MAX_BLOCK_DIM_Y)?,
            z: get(A::MAX_BLOCK_DIM_Z)?,
        },
        max_grid: Dim3 {
            x: get(A::MAX_GRID_DIM_X)?,
            y: get(A::MAX_GRID_DIM_Y)?,
            z: get(A::MAX_GRID_DIM_Z)?,
        },
        registers_per_block: Some(get(A::MAX_REGISTERS_PER_BLOCK)?),
        shared_memory_per_block: get(A::MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_memory_per_block_optin: get(A::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_memory_per_multiprocessor: Some(get(A::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?),
        constant_memory: Some(get(A::TOTAL_CONSTANT_MEMORY)?),
        l2_cache: Some(get(A::L2_CACHE_SIZE)?),
        clock_khz: Some(get(A::CLOCK_RATE)?),
        memory_clock_khz: Some(get(A::MEMORY_CLOCK_RATE)?),
        memory_bus_bits: Some(get(A::GLOBAL_MEMORY_BUS_WIDTH)?),
        copy_engines: Some(get(A::ASYNC_ENGINE_COUNT)?),
        ecc: Some(get(A::ECC_ENABLED)? != 0),
        pci: Some((get(A::PCI_DOMAIN_ID)?, get(A::PCI_BUS_ID)?, get(A::PCI_DEVICE_ID)?)),
    })
}

fn attribute_of(device: sys::CUdevice, attribute: DeviceAttribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: writes one number; the device exists.
    let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
    check_driver("cuDeviceGetAttribute", status)?;
    Ok(u32::try_from(value).unwrap_or(0)) // none of those that are asked for is negative
}

fn name_of(device: sys::CUdevice) -> Result<String> {
    let mut name = [0u8; 256];
    // SAFETY: writes at most as many bytes as it is told, the last of them 0.
    let status = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as c_int, device) };
    check_driver("cuDeviceGetName", status)?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

/// The primary context of a GPU, kept alive.
///
/// It is the one that the CUDA runtime and most libraries use as well, so that memory and streams can be shared with
/// them. All devices of the GPU that this library has open share it; the driver destroys it when nobody keeps it any
/// more.
#[derive(Debug)]
pub(super) struct Context {
    /// The device's name, for errors.
    id: String,
    device: sys::CUdevice,
    gpu: &'static Gpu,
    generation: Arc<Generation>,
}

impl Context {
    /// The primary context of GPU `ordinal`, whose name is `id`.
    pub(super) fn retain(ordinal: u32, id: &str) -> Result<Self> {
        let device = device(ordinal)?;
        let gpu = gpu(device);
        Ok(Self {
            id: id.into(),
            device,
            gpu,
            generation: gpu.join(device, id)?,
        })
    }

    /// Whether that is this context's handle.
    pub(super) fn is(&self, raw: sys::CUcontext) -> bool {
        self.generation.raw == raw
    }

    pub(super) fn raw(&self) -> sys::CUcontext {
        self.generation.raw
    }

    /// The driver's handle, as other devices' copies name it.
    pub(super) fn handle(&self) -> RawContext {
        RawContext(self.generation.raw.expose_provenance() as u64)
    }

    pub(super) fn generation(&self) -> &Generation {
        &self.generation
    }

    /// An error of a call for this device, if it is one; one that ends the context is remembered for all later calls.
    pub(super) fn check(&self, call: &'static str, status: Status) -> Result<()> {
        self.check_kernel(call, status, None)
    }

    /// [`check`](Self::check) of a call that can only report what this kernel did.
    pub(super) fn check_kernel(&self, call: &'static str, status: Status, kernel: Option<&str>) -> Result<()> {
        if status.is_success() {
            return Ok(());
        }
        Err(match Failure::of(status, call, kernel) {
            Some(failure) => self.generation.fail(failure).error(&self.id),
            None => call_failed(&self.id, call, status),
        })
    }

    /// Destroys the context under all devices of the GPU; see [`Gpu::end`].
    pub(super) fn end(&self) -> Result<()> {
        self.gpu.end(self.device, &self.id, &self.generation)
    }

    /// Keeps the context from being destroyed, unless it is, or of no use any more: that is an error.
    pub(super) fn stay(&self) -> Result<RwLockReadGuard<'static, ()>> {
        let call = self.gpu.call();
        if self.generation.is_ended() {
            return Err(Error::DeviceReset {
                device: self.id.clone(),
            });
        }
        match self.generation.failure() {
            Some(failure) => Err(failure.error(&self.id)),
            None => Ok(call),
        }
    }

    /// Held from a launch to the end of its kernel, no other kernel of this process runs on the GPU.
    pub(super) fn one_kernel(&self) -> MutexGuard<'static, ()> {
        self.gpu.one_kernel()
    }

    /// The driver's number of the GPU.
    pub(super) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Whether the GPU has what `attribute` asks for; not, for a driver that does not know the attribute.
    pub(super) fn has(&self, attribute: DeviceAttribute) -> bool {
        attribute_of(self.device, attribute).is_ok_and(|value| value != 0)
    }

    /// Makes the context current on this thread until the guard is dropped, as the driver's calls need it.
    ///
    /// A thread with another context current, of another library or another device, has it back afterwards. A thread
    /// with none keeps this one, which saves it two calls the next time.
    ///
    /// Once the context has failed or was destroyed this is the error that says so, and the driver is not called. Until
    /// the guard is dropped nobody destroys it.
    pub(super) fn enter(&self) -> Result<Entered> {
        let call = self.stay()?;
        let raw = self.generation.raw;
        let mut current = ptr::null_mut();
        // SAFETY: writes a handle.
        self.check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        let foreign = !current.is_null() && current != raw;
        if foreign {
            // SAFETY: the context lives as long as the guard.
            self.check("cuCtxPushCurrent", unsafe { sys::cuCtxPushCurrent_v2(raw) })?;
        } else {
            // Also where it is current: since then the context may have been destroyed and made anew, at one address.
            // SAFETY: as above.
            self.check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(raw) })?;
        }
        Ok(Entered {
            pushed: foreign,
            _call: call,
            _this_thread: PhantomData,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.gpu.leave(self.device, &self.generation);
    }
}

/// A context that is current on this thread; what was current before comes back when this is dropped.
#[must_use = "the context is current only as long as this lives"]
pub(super) struct Entered {
    pushed: bool,
    /// Nobody destroys the context meanwhile.
    _call: RwLockReadGuard<'static, ()>,
    /// A thread's current context is its own, so this stays on its thread.
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut ours = ptr::null_mut();
            // SAFETY: writes a handle: of the context that `enter` pushed, since all guards since are dropped. It
            // cannot fail with a context there.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut ours) };
        }
    }
}
