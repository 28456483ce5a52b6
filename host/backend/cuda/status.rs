// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's statuses as errors.

use cuda_driver::sys::Status;

use crate::error::{Error, Result};

/// What a call of the driver said, of which it matters to no device yet or any more.
pub(super) fn check_driver(call: &'static str, status: Status) -> Result<()> {
    match status {
        Status::SUCCESS => Ok(()),
        status => Err(Error::Driver {
            call,
            message: status.to_string(),
        }),
    }
}

/// What a call for the device with that name said.
pub(super) fn check_device(device: &str, call: &'static str, status: Status) -> Result<()> {
    match status {
        Status::SUCCESS => Ok(()),
        status if kernel_failed(status) => Err(Error::KernelFailed {
            device: device.into(),
            message: status.to_string(),
        }),
        status => Err(Error::Cuda {
            device: device.into(),
            call,
            message: status.to_string(),
        }),
    }
}

/// The statuses by which a kernel's failure shows, in whichever call comes next.
fn kernel_failed(status: Status) -> bool {
    matches!(
        status,
        Status::ASSERT
            | Status::ILLEGAL_ADDRESS
            | Status::MISALIGNED_ADDRESS
            | Status::ILLEGAL_INSTRUCTION
            | Status::INVALID_ADDRESS_SPACE
            | Status::INVALID_PC
            | Status::HARDWARE_STACK_ERROR
            | Status::LAUNCH_TIMEOUT
            | Status::LAUNCH_FAILED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_no_header_has_yet_is_an_error_with_its_number() {
        let error = check_device("cuda:0", "cuLaunchKernel", Status(912)).unwrap_err();
        let Error::Cuda { call, message, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(call, "cuLaunchKernel");
        assert!(message.contains("912"), "{message}");
        assert!(check_device("cuda:0", "cuInit", Status(0)).is_ok());
    }

    #[test]
    fn a_failed_kernel_is_told_from_a_failed_call() {
        for (status, kernel) in [(700, true), (710, true), (719, true), (1, false), (999, false)] {
            let error = check_device("cuda:0", "cuStreamSynchronize", Status(status)).unwrap_err();
            assert_eq!(matches!(error, Error::KernelFailed { .. }), kernel, "{error}");
        }
    }
}
