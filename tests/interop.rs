// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory, streams and kernels shared with other libraries. What needs a GPU is left out on the simulated one, but for
//! its errors.

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ndarray::{Array1, Array2, Ix1, Ix2, array, s};
use warpsmith::dlpack::{DLManagedTensor, DLManagedTensorVersioned, Managed};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Error, F8E4M3, LaunchConfig, Module, Stream};

use crate::common::device;

/// Counts how often it is dropped.
struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn memory_goes_out_and_comes_in_by_its_address() {
    let stream = device().default_stream();
    let numbers = Array1::from_iter((0..1000).map(|i| i as f32));
    let mut x = DeviceArray::from_ndarray(stream, &numbers).unwrap();
    let pointer = x.as_device_mut_ptr(stream).unwrap();
    assert_eq!(pointer.cast_const(), x.as_device_ptr(stream).unwrap());

    let drops = Arc::new(AtomicU32::new(0));
    let owner = (Counted(Arc::clone(&drops)), x);
    // SAFETY: the elements of `x`, which is in the owner, and which nobody else uses.
    let mut y = unsafe { DeviceArray::from_device_ptr(stream, pointer, (10, 100), owner) }.unwrap();
    assert_eq!(y.shape(), [10, 100]);
    y.add_assign_scalar(1.0).unwrap();
    assert_eq!(y.sum().unwrap(), (numbers + 1.0).sum());
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    drop(y);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

/// The address of a view is that of its first element, from which strides lead to the others.
#[test]
fn views_go_out_by_their_addresses() {
    let stream = device().default_stream();
    let mut x =
        DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((5, 7), |(i, j)| (10 * i + j) as i16)).unwrap();
    let first = x.as_device_ptr(stream).unwrap();
    let place = |view: &DeviceArrayRef<i16, Ix2>| view.as_device_ptr(stream).unwrap().addr() - first.addr();
    assert_eq!(place(&x.slice(s![2.., 3..]).unwrap()), 2 * (2 * 7 + 3));
    assert_eq!(place(&x.slice(s![..;-1, ..;-2]).unwrap()), 2 * (4 * 7 + 6));
    assert_eq!(place(&x.t()), 0);
    assert!(x.slice(s![3..3, ..]).unwrap().as_device_ptr(stream).unwrap().is_null());
    if device().is_simulator() {
        let view = x.slice(s![..;-1, 1..;3]).unwrap();
        let (pointer, strides) = (view.as_device_ptr(stream).unwrap(), view.strides());
        for ((i, j), &wanted) in view.to_ndarray().unwrap().indexed_iter() {
            let place = pointer.wrapping_offset(i as isize * strides[0] + j as isize * strides[1]);
            // SAFETY: an element of the view, in the host's memory; streams are idle.
            assert_eq!(unsafe { *place }, wanted);
        }
    }
    let mut part = x.slice_mut(s![1, 2..]).unwrap();
    assert_eq!(part.as_device_mut_ptr(stream).unwrap().addr() - first.addr(), 2 * 9);
}

#[test]
fn what_cannot_be_an_array_is_refused() {
    let stream = device().default_stream();
    let mut x = DeviceArray::<u8, _>::zeros(stream, 1024).unwrap();
    let pointer = x.as_device_mut_ptr(stream).unwrap().wrapping_add(1);
    let drops = Arc::new(AtomicU32::new(0));
    let owner = Counted(Arc::clone(&drops));
    // SAFETY: 100 bytes of `x`, which outlives the array, if there were one.
    let error = unsafe { DeviceArray::from_device_ptr(stream, pointer, 100, owner) }.unwrap_err();
    assert!(error.to_string().contains("a multiple of 256"), "{error}");
    assert_eq!(drops.load(Ordering::Relaxed), 1, "the owner is dropped");
    // SAFETY: refused before anything is done with the memory.
    let error = unsafe { DeviceArray::from_device_ptr(stream, pointer, (1 << 32, 1 << 32), ()) }.unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    let other = Device::simulator();
    let error = x.as_device_ptr(other.default_stream()).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
}

#[test]
fn a_stream_goes_out_and_comes_in() {
    let device = device();
    let stream = device.create_stream().unwrap();
    if device.is_simulator() {
        assert!(stream.as_raw().is_null());
        // SAFETY: no stream is made of it.
        let error = unsafe { Stream::from_raw(device, ptr::null_mut(), ()) }.unwrap_err();
        assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
        return;
    }
    // SAFETY: the stream is in the owner.
    let shared = unsafe { Stream::from_raw(device, stream.as_raw(), stream.clone()) }.unwrap();
    drop(stream);
    let x = DeviceArray::from_ndarray(&shared, &array![1.0f32, 2.0]).unwrap();
    assert_eq!(x.exp().unwrap().ln().unwrap().sum().unwrap(), 3.0);
}

fn round_trip<M: Managed>() {
    let stream = device().default_stream();
    let numbers = Array2::from_shape_fn((30, 7), |(i, j)| (10 * i + j) as i32);
    let x = DeviceArray::from_ndarray(stream, &numbers).unwrap();
    let address = x.as_device_ptr(stream).unwrap();
    let tensor = x.into_dlpack::<M>().unwrap();
    // SAFETY: nobody else has the tensor.
    let x: DeviceArray<i32, Ix2> = unsafe { DeviceArray::from_dlpack(stream, tensor) }.unwrap();
    assert_eq!(x.as_device_ptr(stream).unwrap(), address, "nothing is copied");
    assert_eq!(x.to_ndarray().unwrap(), numbers);
}

#[test]
fn arrays_make_a_round_trip_as_tensors() {
    round_trip::<DLManagedTensor>();
    round_trip::<DLManagedTensorVersioned>();
    let stream = device().default_stream();
    // The code that PyTorch has for `float8_e4m3fn`, of 8 bits.
    let x = DeviceArray::from_elem(stream, 5, F8E4M3::MAX).unwrap();
    let tensor = x.into_dlpack::<DLManagedTensorVersioned>().unwrap();
    // SAFETY (of both): nobody else has the tensor.
    let dtype = unsafe { tensor.as_ref() }.dl_tensor.dtype;
    assert_eq!((dtype.code, dtype.bits, dtype.lanes), (10, 8, 1));
    let x: DeviceArray<F8E4M3, Ix1> = unsafe { DeviceArray::from_dlpack(stream, tensor) }.unwrap();
    assert_eq!(x.to_ndarray().unwrap(), Array1::from_elem(5, F8E4M3::MAX));
    let empty = DeviceArray::<f64, _>::zeros(stream, (3, 0)).unwrap();
    let tensor = empty.into_dlpack::<DLManagedTensor>().unwrap();
    // SAFETY: nobody else has the tensor.
    let empty: DeviceArray<f64, Ix2> = unsafe { DeviceArray::from_dlpack(stream, tensor) }.unwrap();
    assert_eq!(empty.shape(), [3, 0]);
}

/// The error of a tensor of 2 × 3 floats that was changed so; it is deleted all the same.
fn refused(change: impl FnOnce(&mut DLManagedTensorVersioned)) -> String {
    let stream = device().default_stream();
    let drops = Arc::new(AtomicU32::new(0));
    let mut memory = DeviceArray::<f32, _>::zeros(stream, (2, 3)).unwrap();
    let pointer = memory.as_device_mut_ptr(stream).unwrap();
    let owner = (Counted(Arc::clone(&drops)), memory);
    // SAFETY: the elements of the array that is in the owner.
    let x = unsafe { DeviceArray::from_device_ptr(stream, pointer, (2, 3), owner) }.unwrap();
    let mut tensor = x.into_dlpack::<DLManagedTensorVersioned>().unwrap();
    // SAFETY: the tensor lives.
    change(unsafe { tensor.as_mut() });
    // SAFETY: nobody else has the tensor, which is changed in what is refused.
    let error = unsafe { DeviceArray::<f32, Ix2>::from_dlpack(stream, tensor) }.unwrap_err();
    assert_eq!(drops.load(Ordering::Relaxed), 1, "it is deleted: {error}");
    error.to_string()
}

#[test]
fn other_tensors_are_refused() {
    assert!(refused(|tensor| tensor.version.major = 2).contains("DLPack 2.1"));
    assert!(refused(|tensor| tensor.flags = 1).contains("must not be written"));
    assert!(refused(|tensor| tensor.dl_tensor.dtype.code = 0).contains("code: 0"));
    assert!(refused(|tensor| tensor.dl_tensor.dtype.lanes = 4).contains("lanes: 4"));
    assert!(refused(|tensor| tensor.dl_tensor.device.device_type = 10).contains("device_type: 10"));
    // SAFETY (of these): the shape and strides of two axes.
    assert!(refused(|tensor| unsafe { *tensor.dl_tensor.strides = 4 }).contains("strides [4, 1]"));
    assert!(refused(|tensor| unsafe { *tensor.dl_tensor.shape = -1 }).contains("[-1, 3]"));
    assert!(refused(|tensor| tensor.dl_tensor.ndim = 1).contains("wanted 2 axes"));
    assert!(refused(|tensor| tensor.dl_tensor.byte_offset = 4).contains("a multiple of 256"));
}

#[test]
fn truth_values_are_bytes_and_axes_of_length_1_have_any_stride() {
    let stream = device().default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![[1u8, 0, 1]]).unwrap();
    let mut tensor: NonNull<DLManagedTensor> = x.into_dlpack().unwrap();
    // SAFETY: the tensor lives, and has two axes.
    unsafe {
        let tensor = tensor.as_mut();
        tensor.dl_tensor.dtype.code = 6;
        *tensor.dl_tensor.strides = 77;
    }
    // SAFETY: nobody else has the tensor.
    let x: DeviceArray<u8, Ix2> = unsafe { DeviceArray::from_dlpack(stream, tensor) }.unwrap();
    assert_eq!(x.to_ndarray().unwrap(), array![[1, 0, 1]]);
    let tensor = x.into_dlpack::<DLManagedTensor>().unwrap();
    // SAFETY: the tensor lives; its strides may be left out.
    unsafe { (*tensor.as_ptr()).dl_tensor.strides = ptr::null_mut() };
    // SAFETY: nobody else has the tensor.
    let x: DeviceArray<u8, Ix2> = unsafe { DeviceArray::from_dlpack(stream, tensor) }.unwrap();
    assert_eq!(x.shape(), [1, 3]);
}

/// `y[i] = a x[i] + y[i]` for `i < n`, and a kernel without parameters that may have 64 threads at most.
const SAXPY: &str = r"
.version 6.4
.target sm_75
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<6>; .reg .f32 %f<4>;
    ld.param.f32 %f0, [a];
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;  mov.u32 %r2, %ntid.x;  mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p ret;
    mul.wide.u32 %d2, %r4, 4;
    add.u64 %d3, %d0, %d2;
    add.u64 %d4, %d1, %d2;
    ld.global.f32 %f1, [%d3];
    ld.global.f32 %f2, [%d4];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%d4], %f3;
    ret;
}
.visible .entry nothing() .maxntid 64, 1, 1 { ret; }
";

#[test]
fn the_simulator_runs_no_ptx() {
    let error = Module::from_ptx(&Device::simulator(), SAXPY).unwrap_err();
    assert_eq!(
        error.to_string(),
        "loading a module of another compiler: given sim, which runs kernels in Rust only, wanted cuda:N"
    );
    // SAFETY: there is no such file.
    let error = unsafe { Module::from_file(&Device::simulator(), "no/such/file.cubin") }.unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert!(error.to_string().starts_with("no/such/file.cubin: "), "{error}");
}

#[test]
fn a_kernel_of_another_compiler_is_launched() {
    let device = device();
    if device.is_simulator() {
        return;
    }
    let (stream, other) = (device.default_stream(), device.create_stream().unwrap());
    let module = Module::from_ptx(device, SAXPY).unwrap();
    let saxpy = module.function("saxpy").unwrap();
    drop(module);
    let n = 100_000;
    let (x, y) = (Array1::from_iter((0..n).map(|i| i as f32)), Array1::<f32>::ones(n));
    let dx = DeviceArray::from_ndarray(stream, &x).unwrap();
    let mut dy = DeviceArray::from_ndarray(stream, &y).unwrap();
    // SAFETY: a number, two arrays of `n` floats, of which the second is written, and `n`.
    unsafe {
        other
            .launch_function(&saxpy, &LaunchConfig::for_len(n, 256), (2.0f32, &dx, &mut dy, n as u32))
            .unwrap();
    }
    assert_eq!(dy.to_ndarray().unwrap(), 2.0 * x + y);
    assert!(saxpy.registers() > 0 && saxpy.max_threads_per_block() >= 256);
    if let Some(sizes) = saxpy.parameter_sizes() {
        assert_eq!(sizes, [4, 8, 8, 4]);
        // SAFETY: refused, since the number is missing.
        let launched =
            unsafe { stream.launch_function(&saxpy, &LaunchConfig::for_len(n, 256), (2.0f32, &dx, &mut dy)) };
        let error = launched.unwrap_err().to_string();
        assert!(error.contains("[4, 8, 8]") && error.contains("[4, 8, 8, 4]"), "{error}");
    }
}

#[test]
fn modules_and_launches_that_cannot_be_are_refused() {
    let device = device();
    if device.is_simulator() {
        return;
    }
    let error = Module::from_ptx(device, ".version 6.4\n.target sm_75\nnonsense").unwrap_err();
    assert!(matches!(error, Error::ForeignModule { .. }), "{error}");
    let module = Module::from_ptx(device, SAXPY).unwrap();
    let error = module.function("daxpy").unwrap_err().to_string();
    assert_eq!(error, "PTX: there is no kernel `daxpy` in it");
    let nothing = module.function("nothing").unwrap();
    let stream = device.default_stream();
    // SAFETY (of all three): it does nothing.
    let launched = unsafe { stream.launch_function(&nothing, &LaunchConfig::new(1, 65), ()) };
    let error = launched.unwrap_err().to_string();
    assert_eq!(
        error,
        "launch of kernel `nothing`: threads of a block: given 65, wanted at most 64"
    );
    unsafe { stream.launch_function(&nothing, &LaunchConfig::new(1, 64), ()) }.unwrap();
    let simulator = Device::simulator();
    let launched = unsafe {
        simulator
            .default_stream()
            .launch_function(&nothing, &LaunchConfig::new(1, 1), ())
    };
    assert!(matches!(launched.unwrap_err(), Error::DifferentDevices { .. }));
    stream.synchronize().unwrap();
}

#[test]
fn wrong_dimensions_of_an_empty_tensor_are_refused_too() {
    let stream = device().default_stream();
    let tensor = DeviceArray::<f32, Ix1>::zeros(stream, 0)
        .unwrap()
        .into_dlpack::<DLManagedTensor>();
    // SAFETY: nobody else has the tensor.
    let error = unsafe { DeviceArray::<f32, Ix2>::from_dlpack(stream, tensor.unwrap()) }.unwrap_err();
    assert!(error.to_string().contains("shape [0], wanted 2 axes"), "{error}");
}
