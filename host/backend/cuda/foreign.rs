// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modules of other compilers, and what the driver knows of their kernels. The device's context is current in all.

use std::ffi::{CString, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use cuda_driver::sys::{self, FunctionAttribute, Status};

use super::context::Context;
use super::dependent;
use super::modules::load_image;
use crate::backend::{Code, FunctionInfo, RawFunction, RawModule};
use crate::device::Properties;
use crate::error::{Error, Result};

/// `cuFuncGetParamInfo`: where a parameter lies, and its size.
type GetParamInfo = unsafe extern "C" fn(sys::CUfunction, usize, *mut usize, *mut usize) -> Status;

/// The CUDA version that brought it.
const PARAM_INFO_SINCE: (u32, u32) = (12, 4);

fn failed(module: &str, message: String) -> Error {
    Error::ForeignModule {
        module: module.into(),
        message,
    }
}

/// # Safety
///
/// That of [`load_image`].
pub(super) unsafe fn load(
    context: &Context,
    device: &Properties,
    name: &str,
    code: Code,
    image: &[u8],
) -> Result<RawModule> {
    let own = str::from_utf8(image).ok().filter(|_| code == Code::Own);
    let waiting = own.and_then(|ptx| dependent::waiting(device, ptx));
    let image = waiting.as_ref().map_or(image, String::as_bytes);
    // SAFETY: the caller's promise.
    let module = unsafe { load_image(context, device, image, |message| failed(name, message)) }?;
    Ok(RawModule {
        raw: module.expose_provenance() as u64,
        waits: waiting.is_some(),
    })
}

/// Waits for the device, and unloads the module. Errors are those of earlier work, which later calls report too.
///
/// # Safety
///
/// [`load`] made it; its functions are launched no more.
pub(super) unsafe fn unload(module: RawModule) {
    // SAFETY: the caller's promise; nothing of the module runs after the wait.
    unsafe {
        if sys::cuCtxSynchronize().is_success() {
            let _ = sys::cuModuleUnload(ptr::with_exposed_provenance_mut(module.raw as usize));
        }
    }
}

pub(super) fn raw(function: RawFunction) -> sys::CUfunction {
    ptr::with_exposed_provenance_mut(function.raw as usize)
}

/// The kernel of that name.
///
/// # Safety
///
/// The module is loaded.
pub(super) unsafe fn function(
    context: &Context,
    module: RawModule,
    module_name: &str,
    name: &str,
) -> Result<(RawFunction, FunctionInfo)> {
    let symbol = CString::new(name).map_err(|error| failed(module_name, error.to_string()))?;
    let mut function = ptr::null_mut();
    let waits = module.waits;
    let module = ptr::with_exposed_provenance_mut(module.raw as usize);
    // SAFETY: a loaded module, a name that ends with a zero, and a place for a handle.
    let status = unsafe { sys::cuModuleGetFunction(&mut function, module, symbol.as_ptr()) };
    if status == Status::NOT_FOUND {
        return Err(failed(module_name, format!("there is no kernel `{name}` in it")));
    }
    context.check("cuModuleGetFunction", status)?;
    let attribute = |attribute| -> Result<u32> {
        let mut value = 0;
        // SAFETY: the function just found, and a place for a number.
        let status = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
        context.check("cuFuncGetAttribute", status)?;
        Ok(u32::try_from(value).unwrap_or(0)) // none of those that are asked for is negative
    };
    let info = FunctionInfo {
        parameters: parameters(context, function)?.map(Into::into),
        max_threads: attribute(FunctionAttribute::MAX_THREADS_PER_BLOCK)?,
        registers: attribute(FunctionAttribute::NUM_REGS)?,
        static_shared: attribute(FunctionAttribute::SHARED_SIZE_BYTES)? as usize,
    };
    let raw = function.expose_provenance() as u64;
    Ok((RawFunction { raw, waits }, info))
}

/// The size of each parameter of the function, if the driver tells.
fn parameters(context: &Context, function: sys::CUfunction) -> Result<Option<Vec<usize>>> {
    let Some(get) = get_param_info() else {
        return Ok(None);
    };
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a function of the current context, and places for two sizes.
        match unsafe { get(function, sizes.len(), &mut offset, &mut size) } {
            Status::SUCCESS => sizes.push(size),
            // What it says of a number that is not that of a parameter.
            Status::INVALID_VALUE => return Ok(Some(sizes)),
            status => context.check("cuFuncGetParamInfo", status)?,
        }
    }
}

/// The function, of drivers that have it.
fn get_param_info() -> Option<GetParamInfo> {
    static FUNCTION: OnceLock<Option<GetParamInfo>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let found = cuda_driver::address(c"cuFuncGetParamInfo", PARAM_INFO_SINCE)?;
        // SAFETY: the driver's function of that name and version, which has that type in cuda.h.
        Some(unsafe { mem::transmute::<NonNull<c_void>, GetParamInfo>(found) })
    })
}
