// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the tests of the device library share: the device, with the test kernels registered.
#![forbid(unsafe_code)]

use ndarray::{Array1, ArrayView1};
use warpsmith::{Device, DeviceArray, Element, PtxModules};

/// The PTX of the test kernels.
pub const PTX: PtxModules = warpsmith::kernels!(device_test_kernels);

/// The device under test, as WARPSMITH_DEVICE says.
pub fn device() -> Device {
    let device = Device::auto().expect("the device can be opened");
    device
        .register_kernels(PTX)
        .expect("no other package has the test kernels' name");
    device
}

/// `elements` on the device.
pub fn upload<T: Element>(device: &Device, elements: &[T]) -> DeviceArray<T, ndarray::Ix1> {
    DeviceArray::from_ndarray(device.default_stream(), &ArrayView1::from(elements)).expect("the upload works")
}

/// `len` zeros on the device.
pub fn zeros<T: Element>(device: &Device, len: usize) -> DeviceArray<T, ndarray::Ix1> {
    DeviceArray::zeros(device.default_stream(), len).expect("the allocation works")
}

/// The elements back on the host.
pub fn download<T: Element>(array: &DeviceArray<T, ndarray::Ix1>) -> Vec<T> {
    let array: Array1<T> = array.to_ndarray().expect("the kernel ran");
    array.to_vec()
}
