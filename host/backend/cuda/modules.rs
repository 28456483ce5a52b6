// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels on the GPU: modules loaded on first use, and the functions in them.

use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::hash::Hash;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use cuda_driver::sys::{self, FunctionAttribute, JitOption, Limit, Status};

use super::context::Context;
use super::dependent;
use crate::backend::{DeviceFnInfo, KernelInfo};
use crate::device::Properties;
use crate::error::{Error, Result};
use crate::ptx::{PtxModules, PtxVersion, Registry, function_of};

/// Bytes of stack a thread gets where a kernel calls through pointers.
const STACK_FOR_POINTER_CALLS: usize = 8 << 10;

/// Room for what the PTX compiler says of a module that it refuses.
const LOG_BYTES: usize = 8192;

/// A kernel that is loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) raw: sys::CUfunction,
    /// Whether it [waits](dependent::waiting) for the kernel before it.
    pub(super) waits: bool,
    module: sys::CUmodule,
    /// Bytes of static shared memory.
    static_shared: usize,
}

/// What was registered and what is loaded.
#[derive(Debug, Default)]
pub(super) struct Modules {
    registry: Mutex<Registry>,
    /// By the type of the kernel's handle.
    loaded: OnceMap<TypeId, Function>,
}

impl Modules {
    /// With what was registered with `self`, and nothing loaded.
    pub(super) fn unloaded(&self) -> Self {
        Self {
            registry: Mutex::new(self.registry().clone()),
            loaded: OnceMap::default(),
        }
    }

    pub(super) fn register(&self, modules: PtxModules) -> Result<()> {
        self.registry().register(modules)
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel's function; its module is loaded on first use. The device's context is current.
    pub(super) fn function(&self, kernel: &KernelInfo, context: &Context, device: &Properties) -> Result<Function> {
        self.loaded.get_or_make(kernel.id, || {
            let capability = device.compute_capability.unwrap_or_default();
            let packed = self.registry().find(kernel, capability)?;
            load(kernel, packed, context, device)
        })
    }

    /// The PTX of a device function, with what it uses.
    pub(super) fn function_text(&self, function: &DeviceFnInfo, device: &Properties) -> Result<String> {
        let capability = device.compute_capability.unwrap_or_default();
        let packed = self.registry().find(function, capability)?;
        let failed = |message: String| Error::Module {
            kernel: function.name,
            package: function.package,
            message,
        };
        let text = ptx_pack::unpack(packed).map_err(|error| failed(error.to_string()))?;
        let found = function_of(&text, function.name);
        found
            .map(str::to_owned)
            .ok_or_else(|| failed("it is a kernel's, and no device function's".into()))
    }

    /// The PTX of a kernel, with what it uses.
    pub(super) fn kernel_text(&self, kernel: &KernelInfo, device: &Properties) -> Result<String> {
        let packed = self
            .registry()
            .find(kernel, device.compute_capability.unwrap_or_default())?;
        ptx_pack::unpack(packed).map_err(|error| Error::Module {
            kernel: kernel.name,
            package: kernel.package,
            message: error.to_string(),
        })
    }

    /// Unloads all.
    ///
    /// # Safety
    ///
    /// Nothing uses the functions any more, and the device's context is current.
    pub(super) unsafe fn unload(&mut self) {
        for function in self.loaded.drain() {
            // SAFETY: loaded by `load`, and used no more. An error would be one of earlier work.
            let _ = unsafe { sys::cuModuleUnload(function.module) };
        }
    }
}

impl Function {
    /// As [`allow_shared`], for this kernel.
    pub(super) fn allow_shared(
        &self,
        dynamic: usize,
        kernel: &str,
        context: &Context,
        device: &Properties,
    ) -> Result<()> {
        allow_shared(self.raw, self.static_shared, dynamic, kernel, context, device)
    }
}

/// Lets launches of a function have so much dynamic shared memory, if that takes more than being launched.
///
/// What is allowed is the most that the device can give this function, whatever this launch asks for: threads that
/// launch one kernel with different sizes then tell the driver the same.
pub(super) fn allow_shared(
    function: sys::CUfunction,
    static_shared: usize,
    dynamic: usize,
    kernel: &str,
    context: &Context,
    device: &Properties,
) -> Result<()> {
    let left = |of: u32| (of as usize).saturating_sub(static_shared);
    if dynamic <= left(device.shared_memory_per_block) {
        return Ok(());
    }
    let most = left(device.shared_memory_per_block_optin);
    if dynamic > most {
        return Err(Error::LaunchConfig {
            kernel: kernel.into(),
            what: "dynamic shared memory",
            given: format!("{dynamic} bytes"),
            wanted: format!("at most {most}, beside {static_shared} of the kernel's own"),
        });
    }
    let attribute = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: a function of the current context. `most` is at most a `u32` of the device, some hundred KiB.
    let status = unsafe { sys::cuFuncSetAttribute(function, attribute, most as c_int) };
    context.check("cuFuncSetAttribute", status)
}

/// Loads the module with packed text `packed`, and finds the kernel in it. The device's context is current.
fn load(kernel: &KernelInfo, packed: &[u8], context: &Context, device: &Properties) -> Result<Function> {
    let failed = |message| Error::Module {
        kernel: kernel.name,
        package: kernel.package,
        message,
    };
    let ptx = ptx_pack::unpack(packed).map_err(|error| failed(error.to_string()))?;
    #[cfg(feature = "nvtx")]
    let _range = crate::backend::nvtx::Range::new("load_kernel");
    #[cfg(feature = "tracing")]
    let _span =
        tracing::debug_span!(target: "warpsmith", "load_kernel", kernel = kernel.name, bytes = ptx.len()).entered();
    reserve_stack(ptx.as_bytes(), context)?;
    let waiting = dependent::waiting(device, &ptx);
    let waits = waiting.is_some();
    let ptx = waiting.unwrap_or(ptx);
    let ptx = CString::new(ptx).map_err(|error| failed(error.to_string()))?;
    let name = CString::new(kernel.name).map_err(|error| failed(error.to_string()))?;
    // SAFETY: text that ends with a zero.
    let module = unsafe { load_image(context, device, ptx.as_bytes_with_nul(), failed) }?;
    let mut raw = ptr::null_mut();
    let mut static_shared = 0;
    // SAFETY: a loaded module and a zero-terminated name; then the function, and a place for a number.
    let found = unsafe {
        let status = sys::cuModuleGetFunction(&mut raw, module, name.as_ptr());
        context.check("cuModuleGetFunction", status).and_then(|()| {
            let attribute = FunctionAttribute::SHARED_SIZE_BYTES;
            let status = sys::cuFuncGetAttribute(&mut static_shared, attribute, raw);
            context.check("cuFuncGetAttribute", status)
        })
    };
    let panics = &context.generation().panics;
    let found = found.and_then(|()| panics.tell(context, module, ptx.as_bytes(), kernel.name));
    if let Err(error) = found {
        // SAFETY: loaded just now, and known to nobody.
        let _ = unsafe { sys::cuModuleUnload(module) };
        return Err(error);
    }
    Ok(Function {
        raw,
        waits,
        module,
        static_shared: usize::try_from(static_shared).unwrap_or(0),
    })
}

/// Has the driver load code, and compile it if it is PTX; what it says of code that it refuses is for `failed`. The
/// device's context is current.
///
/// # Safety
///
/// The image is text that ends with a zero, or whole as a compiler has made it.
pub(super) unsafe fn load_image(
    context: &Context,
    device: &Properties,
    image: &[u8],
    failed: impl FnOnce(String) -> Error,
) -> Result<sys::CUmodule> {
    let mut log = vec![0u8; LOG_BYTES];
    let mut options = [JitOption::ERROR_LOG_BUFFER, JitOption::ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [
        log.as_mut_ptr().cast::<c_void>(),
        ptr::without_provenance_mut(LOG_BYTES),
    ];
    let mut module = ptr::null_mut();
    // SAFETY: the caller's promise; two options and their two values, a buffer of the size that is said.
    let status = unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if status.is_success() {
        return Ok(module);
    }
    if status == Status::UNSUPPORTED_PTX_VERSION
        && let Some(version) = PtxVersion::of(image)
    {
        version.check(device)?;
    }
    match context.check("cuModuleLoadDataEx", status) {
        Err(Error::Cuda { .. }) | Ok(()) => {}
        fatal => fatal?,
    }
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]);
    Err(failed(format!("{status} {}", log.trim())))
}

/// Gives threads a larger stack if a kernel calls through pointers, as Rust's formatter does: how much that needs, the
/// assembler cannot tell, and the driver's default of 1 KiB is not enough for it.
///
/// Threads that come here at once set the same size.
fn reserve_stack(ptx: &[u8], context: &Context) -> Result<()> {
    if !contains(ptx, b".callprototype") {
        return Ok(());
    }
    let mut bytes = 0;
    // SAFETY: writes one size.
    let status = unsafe { sys::cuCtxGetLimit(&mut bytes, Limit::STACK_SIZE) };
    context.check("cuCtxGetLimit", status)?;
    if bytes >= STACK_FOR_POINTER_CALLS {
        return Ok(());
    }
    // SAFETY: sets a limit of the current context.
    let status = unsafe { sys::cuCtxSetLimit(Limit::STACK_SIZE, STACK_FOR_POINTER_CALLS) };
    context.check("cuCtxSetLimit", status)
}

/// Whether the words stand in the text.
pub(super) fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|part| part == words)
}

/// Values that are made once for each key, by whoever asks first.
///
/// Those who ask for the same key meanwhile wait for that one; for other keys they do not wait, so that two kernels are
/// compiled side by side. The table itself is locked for a look alone.
#[derive(Debug)]
struct OnceMap<K, V> {
    cells: RwLock<HashMap<K, Arc<Cell<V>>>>,
}

#[derive(Debug)]
struct Cell<V> {
    value: OnceLock<V>,
    /// Held by the thread that makes the value.
    making: Mutex<()>,
}

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        Self {
            cells: RwLock::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> OnceMap<K, V> {
    /// The value for `key`. Where there is none yet, `make` makes it; if it fails, the next who asks tries again.
    fn get_or_make(&self, key: K, make: impl FnOnce() -> Result<V>) -> Result<V> {
        let cell = self.cell(key);
        if let Some(value) = cell.value.get() {
            return Ok(*value);
        }
        let _making = cell.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = cell.value.get() {
            return Ok(*value);
        }
        let value = make()?;
        Ok(*cell.value.get_or_init(|| value))
    }

    fn cell(&self, key: K) -> Arc<Cell<V>> {
        let cells = self.cells.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = cells.get(&key) {
            return Arc::clone(cell);
        }
        drop(cells);
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.entry(key).or_insert_with(|| {
            Arc::new(Cell {
                value: OnceLock::new(),
                making: Mutex::new(()),
            })
        });
        Arc::clone(cell)
    }

    /// Takes out all values.
    fn drain(&mut self) -> Vec<V> {
        let cells = self.cells.get_mut().unwrap_or_else(PoisonError::into_inner);
        cells
            .drain()
            .filter_map(|(_, cell)| cell.value.get().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn different_kernels_load_side_by_side() {
        let map = OnceMap::default();
        // Each waits inside for the other: with a lock held across, this would never end.
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            for key in [1, 2] {
                let (map, both) = (&map, &both);
                scope.spawn(move || {
                    let make = || {
                        both.wait();
                        Ok(10 * key)
                    };
                    assert_eq!(map.get_or_make(key, make).unwrap(), 10 * key);
                });
            }
        });
    }

    #[test]
    fn one_kernel_loads_once() {
        const THREADS: usize = 8;
        let (mut map, made, start) = (OnceMap::default(), AtomicU32::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    let make = || {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(made.fetch_add(1, Ordering::Relaxed))
                    };
                    assert_eq!(map.get_or_make("kernel", make).unwrap(), 0);
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(map.drain(), [0]);
    }

    #[test]
    fn a_load_that_failed_is_tried_again() {
        let map = OnceMap::default();
        let fail = || {
            Err(Error::Module {
                kernel: "k",
                package: "p",
                message: "no".into(),
            })
        };
        assert!(map.get_or_make(0, fail).is_err());
        assert_eq!(map.get_or_make(0, || Ok(5)).unwrap(), 5);
    }
}
