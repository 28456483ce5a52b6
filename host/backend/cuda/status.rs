// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's statuses as errors.
//!
//! After some of them the context is of no use any more: the CUDA driver API reference says so of each, in the words "this
//! leaves the process in an inconsistent state and any further CUDA work will return the same error", or that the context
//! "must be destroyed if it is to be used again". Which kind a status is stands here, in [`Failure::of`]. Of
//! `CUDA_ERROR_UNKNOWN` (999) and of `CUDA_ERROR_DEVICE_UNAVAILABLE` (46: the GPU is another process's alone) it says no
//! such thing, so they are errors of one call.

use cuda_driver::sys::Status;
use cuda_sim::Fault;

use crate::error::{Error, KernelFailure, Result};

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

/// An error of one call for the device with that name; the next may succeed.
pub(super) fn call_failed(device: &str, call: &'static str, status: Status) -> Error {
    Error::Cuda {
        device: device.into(),
        call,
        message: status.to_string(),
    }
}

/// Whether a context is of no use any more of which a call says that.
pub(super) fn ends_context(status: Status) -> bool {
    Kind::of(status).is_some()
}

/// The error of a call that was to give the device with that name another context.
pub(super) fn unrecoverable(device: &str, call: &'static str, status: Status) -> Error {
    Error::Unrecoverable {
        device: device.into(),
        call,
        message: status.to_string(),
    }
}

/// What has ended a context.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: Kind,
    /// What the kernel has said of its panic.
    panic: Option<Box<Fault>>,
    /// The kernel that failed, if that is known.
    kernel: Option<String>,
    /// The call that reported it.
    call: &'static str,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Kernel(KernelFailure),
    /// The device, or its context.
    Lost,
}

impl Kind {
    fn of(status: Status) -> Option<Self> {
        Some(Self::Kernel(match status {
            Status::ASSERT => KernelFailure::Panic,
            Status::ILLEGAL_ADDRESS => KernelFailure::IllegalAddress,
            Status::MISALIGNED_ADDRESS => KernelFailure::MisalignedAddress,
            Status::INVALID_ADDRESS_SPACE => KernelFailure::InvalidAddressSpace,
            Status::ILLEGAL_INSTRUCTION => KernelFailure::IllegalInstruction,
            Status::INVALID_PC => KernelFailure::InvalidProgramCounter,
            Status::HARDWARE_STACK_ERROR => KernelFailure::Stack,
            Status::LAUNCH_TIMEOUT => KernelFailure::Timeout,
            Status::LAUNCH_FAILED | Status::TENSOR_MEMORY_LEAK => KernelFailure::Unspecified,
            Status::ECC_UNCORRECTABLE
            | Status::NVLINK_UNCORRECTABLE
            | Status::CONTAINED
            | Status::CONTEXT_IS_DESTROYED
            | Status::MPS_CLIENT_TERMINATED
            | Status::EXTERNAL_DEVICE => return Some(Self::Lost),
            _ => return None,
        }))
    }
}

impl Failure {
    /// What ended the context, if the status says that something has.
    pub(super) fn of(status: Status, call: &'static str, kernel: Option<&str>) -> Option<Self> {
        let kind = Kind::of(status)?;
        Some(Self {
            kind,
            panic: None,
            kernel: kernel.map(String::from),
            call,
            message: status.to_string(),
        })
    }

    /// With what a kernel has said of its panic, if it was a kernel's failure.
    pub(super) fn of_panic(mut self, panic: Option<Box<Fault>>) -> Self {
        self.panic = panic.filter(|_| matches!(self.kind, Kind::Kernel(_)));
        self
    }

    /// As the error of a call for the device with that name.
    pub(super) fn error(&self, device: &str) -> Error {
        let Self {
            panic,
            kernel,
            call,
            message,
            ..
        } = self.clone();
        if let Some(panic) = panic {
            return Error::Fault(panic);
        }
        let device = device.into();
        match self.kind {
            Kind::Kernel(failure) => Error::KernelFailed {
                device,
                kernel,
                failure,
                call,
                message,
            },
            Kind::Lost => Error::DeviceLost { device, call, message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_no_header_has_yet_is_an_error_with_its_number() {
        let error = call_failed("cuda:0", "cuLaunchKernel", Status(912));
        let Error::Cuda { call, message, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(call, "cuLaunchKernel");
        assert!(message.contains("912"), "{message}");
        assert!(Failure::of(Status(912), "cuLaunchKernel", None).is_none());
    }

    #[test]
    fn what_ends_a_context_is_told_from_what_fails_a_call() {
        for status in [0, 1, 2, 46, 222, 600, 701, 720, 900, 999] {
            assert_eq!(Kind::of(Status(status)), None, "{status}");
        }
        for status in [214, 220, 226, 709, 810, 911] {
            assert_eq!(Kind::of(Status(status)), Some(Kind::Lost), "{status}");
        }
        let failures = [700, 702, 710, 714, 715, 716, 717, 718, 719].map(|status| Kind::of(Status(status)));
        for (number, failure) in failures.iter().enumerate() {
            assert!(matches!(failure, Some(Kind::Kernel(_))));
            assert!(!failures[..number].contains(failure), "{failure:?} twice");
        }
    }

    #[test]
    fn the_error_names_kernel_failure_and_call() {
        let failure = |kernel| Failure::of(Status::ILLEGAL_ADDRESS, "cuStreamSynchronize", kernel).unwrap();
        let text = failure(Some("scatter")).error("cuda:3").to_string();
        assert!(
            text.starts_with("kernel `scatter` failed on cuda:3: illegal address: "),
            "{text}"
        );
        assert!(
            text.contains("reported by cuStreamSynchronize") && text.contains("Device::reset"),
            "{text}"
        );
        let text = failure(None).error("cuda:3").to_string();
        assert!(text.starts_with("a kernel failed on cuda:3: "), "{text}");
        let lost = Failure::of(Status::ECC_UNCORRECTABLE, "cuEventQuery", None).unwrap();
        assert!(matches!(
            lost.error("cuda:3"),
            Error::DeviceLost {
                call: "cuEventQuery",
                ..
            }
        ));
    }
}
