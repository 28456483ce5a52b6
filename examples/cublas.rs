// SPDX-License-Identifier: MIT OR Apache-2.0
//! A C library on arrays of this one: cuBLAS, by a binding of a few lines, multiplies two matrices on the same stream
//! as the library's own operations before and behind it.
//!
//! `cargo run --release --example cublas`, on a machine with a GPU and libcublas

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::{mem, ptr};

use ndarray::Array2;
use warpsmith::{Device, DeviceArray};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// `cublasOperation_t`: a matrix as it is.
const OP_N: c_int = 0;

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type SetStream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
#[rustfmt::skip]
type Sgemm = unsafe extern "C" fn(
    *mut c_void, c_int, c_int, c_int, c_int, c_int, *const f32,
    *const f32, c_int, *const f32, c_int, *const f32, *mut f32, c_int,
) -> c_int;

/// Four functions of cuBLAS.
struct Cublas {
    create: Create,
    destroy: Destroy,
    set_stream: SetStream,
    sgemm: Sgemm,
}

impl Cublas {
    /// `None` where there is no cuBLAS.
    fn load() -> Option<Self> {
        let names = [
            c"libcublas.so.13",
            c"libcublas.so.12",
            c"libcublas.so.11",
            c"libcublas.so",
        ];
        // SAFETY: names that end with a zero.
        let library = names.iter().map(|name| unsafe { dlopen(name.as_ptr(), RTLD_NOW) });
        let library = library.into_iter().find(|library| !library.is_null())?;
        let symbol = |name: &CStr| {
            // SAFETY: a library that is loaded, and a name that ends with a zero.
            let address = unsafe { dlsym(library, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        // SAFETY: the functions' types are those of cublas_v2.h.
        unsafe {
            Some(Self {
                create: mem::transmute::<*mut c_void, Create>(symbol(c"cublasCreate_v2")?),
                destroy: mem::transmute::<*mut c_void, Destroy>(symbol(c"cublasDestroy_v2")?),
                set_stream: mem::transmute::<*mut c_void, SetStream>(symbol(c"cublasSetStream_v2")?),
                sgemm: mem::transmute::<*mut c_void, Sgemm>(symbol(c"cublasSgemm_v2")?),
            })
        }
    }
}

fn check(call: &str, status: c_int) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status => Err(format!("{call}: status {status}")),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::auto()?;
    if device.is_simulator() {
        println!("no GPU: cuBLAS has none to work on");
        return Ok(());
    }
    let Some(cublas) = Cublas::load() else {
        println!("libcublas was not found");
        return Ok(());
    };
    let stream = device.default_stream();
    let (m, k, n) = (1000, 700, 900);
    let a = Array2::from_shape_fn((m, k), |(i, j)| ((i * 7 + j * 3) % 11) as f32 - 5.0);
    let b = Array2::from_shape_fn((k, n), |(i, j)| ((i * 5 + j) % 13) as f32 - 6.0);
    let (a, b) = (
        DeviceArray::from_ndarray(stream, &a)?,
        DeviceArray::from_ndarray(stream, &b)?,
    );
    let mut c = DeviceArray::<f32, _>::zeros(stream, (m, n))?;

    // The pointers order the stream behind whatever made the arrays, and later uses of `c` behind what it queues here.
    let (pa, pb, pc) = (
        a.as_device_ptr(stream)?,
        b.as_device_ptr(stream)?,
        c.as_device_mut_ptr(stream)?,
    );
    let (one, zero) = (1.0f32, 0.0f32);
    let (rows, inner, columns) = (m as c_int, k as c_int, n as c_int);
    // SAFETY: matrices of the shapes given. cuBLAS's are in column-major order: for it, these are their transposes, and
    // cᵀ = bᵀ aᵀ.
    unsafe {
        let mut handle = ptr::null_mut();
        check("cublasCreate", (cublas.create)(&mut handle))?;
        check("cublasSetStream", (cublas.set_stream)(handle, stream.as_raw()))?;
        let status = (cublas.sgemm)(
            handle, OP_N, OP_N, columns, rows, inner, &one, pb, columns, pa, inner, &zero, pc, columns,
        );
        check("cublasSgemm", status)?;
        check("cublasDestroy", (cublas.destroy)(handle))?;
    }

    let difference = c.sub(&a.matmul(&b)?)?.abs()?.max()?;
    println!("the largest difference between cuBLAS's product and Warpsmith's: {difference}");
    assert_eq!(difference, 0.0, "whole numbers below 2^24 are multiplied exactly");
    Ok(())
}
