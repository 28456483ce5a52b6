// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is measured by the driver's own calls has in common.

use std::ptr;

use cuda_driver::sys;

pub fn check(status: sys::Status) {
    assert!(status.is_success(), "{status}");
}

/// A stream on the first GPU, whose context is this thread's from now on. It is there until the program ends.
pub fn stream() -> sys::CUstream {
    let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: functions that write a handle; the device was opened, so there is one.
    unsafe {
        check(sys::cuDevicePrimaryCtxRetain(&mut context, 0));
        check(sys::cuCtxSetCurrent(context));
        check(sys::cuStreamCreateWithPriority(
            &mut stream,
            sys::CU_STREAM_NON_BLOCKING,
            0,
        ));
    }
    stream
}
