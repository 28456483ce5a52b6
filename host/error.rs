// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong, and what was given and wanted when it did.

use std::fmt;

use cuda_sim::Schedule;
use thiserror::Error;

/// The result of the operations of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The name of a device is not `auto`, `cuda:N` or `sim`.
    #[error("unknown device {given:?}: wanted auto, cuda:N or sim")]
    DeviceName {
        /// The name that was given.
        given: String,
    },

    /// There is no such GPU.
    #[error("no device cuda:{ordinal}: {reason}")]
    NoDevice {
        /// The GPU that was asked for.
        ordinal: u32,
        /// How many there are, or why there is none.
        reason: String,
    },

    /// There is an NVIDIA driver, and it does not work. It was not installed for this machine's kernel, say, or the
    /// process was forked after its parent had used CUDA.
    #[error("the NVIDIA driver does not work: {call}: {message}; the device `sim` needs none")]
    Driver {
        /// The function that failed: one of the driver's, or `dlopen`, which loads it.
        call: &'static str,
        /// What it says.
        message: String,
    },

    /// The crate was built without PTX, as it is from source where the variable `WARPSMITH_SIM_ONLY` is set or the source
    /// of Rust's `core` is missing. The published package has its PTX with it.
    #[error(
        "warpsmith was built without device code, so it cannot use cuda:{ordinal}: the variable WARPSMITH_SIM_ONLY was \
         set, or the source of Rust's `core` was missing. Unset the variable, run `rustup component add rust-src`, and \
         build again; or depend on the published package, which carries the code; or use the device `sim`"
    )]
    NoDeviceCode {
        /// The GPU that was asked for.
        ordinal: u32,
    },

    /// The shapes of the operands do not fit together.
    #[error("{operation}: given {given}, wanted {wanted}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The shapes that were given.
        given: String,
        /// The shapes that it takes.
        wanted: String,
    },

    /// An axis that the array does not have, or axes that do not name each once.
    #[error("{operation}: given axes {given:?}, wanted {wanted}")]
    Axes {
        /// The operation.
        operation: &'static str,
        /// The axes that were given.
        given: Vec<usize>,
        /// The axes that it takes.
        wanted: String,
    },

    /// A parameter is outside of what the operation is defined for.
    #[error("{operation}: {parameter}: given {given}, wanted {wanted}")]
    Parameter {
        /// The operation.
        operation: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        given: String,
        /// The values that are possible.
        wanted: String,
    },

    /// The operation has no result for an empty array.
    #[error("{operation} of an array without elements (shape {shape:?}): wanted at least one element")]
    Empty {
        /// The operation.
        operation: &'static str,
        /// The array's shape.
        shape: Vec<usize>,
    },

    /// The operands are in the memory of different devices.
    #[error("{operation}: given an operand on {given}, wanted one on {wanted}; `to_device` copies arrays")]
    DifferentDevices {
        /// The operation.
        operation: &'static str,
        /// The device of the operand.
        given: String,
        /// The device that the operation runs on.
        wanted: String,
    },

    /// The device has not enough memory.
    #[error(
        "out of memory on {device}: wanted {wanted} bytes; {allocated} are allocated{}, {free} of {total} are free",
        of_limit(*limit)
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// The bytes that were asked for.
        wanted: u64,
        /// The bytes that arrays hold, and that streams keep for their launches.
        allocated: u64,
        /// The bytes that the system has left for any process.
        free: u64,
        /// The bytes that the device has.
        total: u64,
        /// The most that may be allocated, by [`Device::set_memory_limit`](crate::Device::set_memory_limit).
        limit: Option<u64>,
    },

    /// The host has not enough memory for a result.
    #[error("out of host memory: wanted {wanted} bytes")]
    HostMemory {
        /// The bytes that were asked for.
        wanted: usize,
    },

    /// A file, or what is read as one, cannot be opened, read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file's path, or what a reader or a writer is called.
        file: String,
        /// What the operating system says.
        source: std::io::Error,
    },

    /// A file does not hold what is wanted.
    #[error("{file}: {problem}")]
    File {
        /// The file's path, behind a colon the name of the array in an archive, or what a reader is called.
        file: String,
        /// What it holds, and what was wanted.
        problem: String,
    },

    /// A formula that is none, or whose inputs do not fit.
    #[error(transparent)]
    Formula(#[from] crate::expr::FormulaError),

    /// A launch configuration that the kernel or the device does not take.
    #[error("launch of kernel `{kernel}`: {what}: given {given}, wanted {wanted}")]
    LaunchConfig {
        /// The kernel.
        kernel: String,
        /// The part of the configuration.
        what: &'static str,
        /// Its value.
        given: String,
        /// The values that are possible.
        wanted: String,
    },

    /// The PTX of a kernel was not given to the device.
    #[error(
        "kernel `{kernel}`: the device was given no PTX of package `{package}` {version} that has it and that it can \
         run; see Device::register_kernels. A crate that was built with WARPSMITH_SIM_ONLY set, or without the source of \
         Rust's `core` (`rustup component add rust-src`), has none; and one has none of a kernel that is behind a \
         feature, unless its build script names that too (CudaBuilder::features)"
    )]
    NoModule {
        /// The kernel.
        kernel: &'static str,
        /// The package that the kernel belongs to.
        package: &'static str,
        /// The package's version.
        version: &'static str,
    },

    /// The PTX of a kernel was compiled from other source than the program that launches it.
    #[error(
        "kernel `{kernel}` of package `{package}` {version}: the registered PTX is of other source than the kernel \
         that is launched; build the program again, with one package of that name"
    )]
    SignatureMismatch {
        /// The kernel.
        kernel: &'static str,
        /// The package that the kernel belongs to.
        package: &'static str,
        /// The package's version.
        version: &'static str,
    },

    /// Two kernels crates of one name and version that share a kernel's name.
    #[error(
        "package `{package}` {version}: the device has other PTX with the kernel `{kernel}` already; give one of the \
         two kernels crates another name"
    )]
    DuplicateKernels {
        /// The package that was to be registered.
        package: &'static str,
        /// The package's version.
        version: &'static str,
        /// The first kernel that the device has already.
        kernel: &'static str,
    },

    /// The driver refused a PTX module.
    #[error("the PTX of kernel `{kernel}` of package `{package}`: {message}")]
    Module {
        /// The kernel.
        kernel: &'static str,
        /// The package that the kernel belongs to.
        package: &'static str,
        /// What the driver says.
        message: String,
    },

    /// The driver refused a module of another compiler's, or there is no such kernel in it.
    #[error("{module}: {message}")]
    ForeignModule {
        /// The file, or what it was loaded from.
        module: String,
        /// What the driver says.
        message: String,
    },

    /// The simulated GPU runs kernels that are written in Rust, and nothing else.
    #[error("{operation}: given sim, which runs kernels in Rust only, wanted cuda:N")]
    NotSimulated {
        /// What was asked for.
        operation: &'static str,
    },

    /// Something that cannot be part of a graph: see [`Stream::capture`](crate::Stream::capture).
    #[error("{operation}: not in a graph: {reason}")]
    Capture {
        /// What was asked for.
        operation: &'static str,
        /// Why not, and what to do instead.
        reason: &'static str,
    },

    /// What a program computed on the simulated GPU depends on the order in which threads and blocks run:
    /// [`Device::compare_schedules`](crate::Device::compare_schedules).
    #[error("the result depends on the order in which threads run: by {schedule:?} it is not that of {first:?}")]
    ScheduleDependent {
        /// The schedule of the first result.
        first: Schedule,
        /// The first one by which there is another.
        schedule: Schedule,
    },

    /// What a program computes on the simulated GPU is wrong, and smaller sizes were tried:
    /// [`Device::smallest_failure`](crate::Device::smallest_failure).
    #[error("at size {size}, the smallest that was found to fail of those up to {given}: {failure}")]
    SmallestFailure {
        /// The size.
        size: usize,
        /// The one that was given.
        given: usize,
        /// What is wrong at that size.
        #[source]
        failure: Box<Error>,
    },

    /// Elements go to the host that nobody has written since their array was allocated, such as those of a graph's output
    /// before its first launch. A simulated GPU says so that is checked for
    /// [uninitialised](crate::Checks::uninitialised) memory; others copy what happens to be there.
    #[error(
        "uninitialised: {operation} of {bytes} bytes to the host reads byte {byte} of an array of {array} bytes, which \
         nobody has written since it was allocated{}",
        of_allocation(allocated_by.as_deref())
    )]
    Uninitialised {
        /// What copies.
        operation: &'static str,
        /// How many bytes it copies.
        bytes: usize,
        /// The first byte of the array that nobody has written.
        byte: usize,
        /// The size of the array.
        array: usize,
        /// The call that allocated it, where [`TRACE_VARIABLE`](crate::TRACE_VARIABLE) has these remembered.
        allocated_by: Option<String>,
    },

    /// A thread of a kernel failed, and which one, where in the source, and why is known: on the simulated GPU of every
    /// failure, on a GPU of a panic.
    ///
    /// On a GPU a panic takes the device's context along: every later call on this GPU is this error at once, until
    /// [`Device::reset`](crate::Device::reset). The driver prints file, line, block and thread on standard error as well.
    /// The message of a panic is there if it has no arguments, for formatting would take registers and a stack in every kernel
    /// that can panic; or if it is that of [`cuda_std::panic_with`], with its numbers.
    #[error(transparent)]
    Fault(Box<cuda_sim::Fault>),

    /// A kernel failed on the GPU without saying where, and took the device's context along: every later call on this
    /// GPU is this error at once, until [`Device::reset`](crate::Device::reset).
    ///
    /// A GPU tells of a failure when it is waited for, so the call that reports it is seldom the launch that caused it.
    /// With the environment variable `WARPSMITH_SYNC` at `1` each launch waits for its kernel, and `kernel` says which
    /// one it was.
    #[error(
        "{} failed on {device}: {failure}: {message}, reported by {call}; nothing works on this device until \
         Device::reset",
        of_kernel(kernel.as_deref())
    )]
    KernelFailed {
        /// The device.
        device: String,
        /// The kernel's name, where it is known: with `WARPSMITH_SYNC=1`.
        kernel: Option<String>,
        /// What the kernel did.
        failure: KernelFailure,
        /// The function of the driver that reported it first.
        call: &'static str,
        /// The driver's name of the error and what it means.
        message: String,
    },

    /// The device or its context is lost to the process, without a kernel's doing: memory or NVLink had an error that
    /// cannot be corrected, or another library reset the device. Every later call on this GPU is this error at once,
    /// until [`Device::reset`](crate::Device::reset), if the GPU still works then.
    #[error("{device} is lost: {message}, reported by {call}; nothing works on it until Device::reset")]
    DeviceLost {
        /// The device.
        device: String,
        /// The function of the driver that reported it first.
        call: &'static str,
        /// The driver's name of the error and what it means.
        message: String,
    },

    /// What was used is of a device that has been [reset](crate::Device::reset) since: its arrays, streams, events and
    /// modules are gone.
    #[error("{device} was reset, and what was made on it before is gone; use the device that Device::reset gave")]
    DeviceReset {
        /// The device.
        device: String,
    },

    /// A device cannot be reset while other libraries of the process use its context: `cust`, `cudarc`, the CUDA
    /// runtime.
    #[error(
        "reset of {device}: another library of this process uses its context: have it end that (for the CUDA runtime, \
         `cudaDeviceReset`), then reset the device again"
    )]
    ContextInUse {
        /// The device.
        device: String,
    },

    /// The driver makes no other context in this process after one has failed: [`Device::reset`](crate::Device::reset)
    /// and [`Device::cuda`](crate::Device::cuda) cannot bring this GPU back. A new process can.
    #[error(
        "{device} cannot be used in this process any more: after a failure the driver makes no other context: {call}: \
         {message}; start the process anew"
    )]
    Unrecoverable {
        /// The device.
        device: String,
        /// The function of the driver that refused.
        call: &'static str,
        /// The driver's name of the error and what it means.
        message: String,
    },

    /// The GPU has not the registers, the threads or the memory that a launch wants. The device goes on.
    #[error("launch of kernel `{kernel}` on {device}: not enough resources for {wanted}: {message}")]
    LaunchResources {
        /// The device.
        device: String,
        /// The kernel.
        kernel: String,
        /// What the launch asked for: grid, block, dynamic shared memory, and what a thread and a block take besides.
        wanted: String,
        /// The driver's name of the error and what it means.
        message: String,
    },

    /// The NVIDIA driver is too old for the kernels: it does not know the version of PTX that they are written in.
    #[error(
        "the NVIDIA driver of {device} is too old: given one for CUDA {}.{}, wanted one for CUDA {}.{} or later",
        given.0, given.1, wanted.0, wanted.1
    )]
    DriverTooOld {
        /// The device.
        device: String,
        /// The CUDA version of the driver, major and minor.
        given: (u32, u32),
        /// The first CUDA version whose driver takes the kernels.
        wanted: (u32, u32),
    },

    /// A call of the CUDA driver failed.
    #[error("{call} failed on {device}: {message}")]
    Cuda {
        /// The device.
        device: String,
        /// The function.
        call: &'static str,
        /// The error's name and what it means.
        message: String,
    },
}

/// What a kernel did that failed on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum KernelFailure {
    /// A failed assertion of a kernel that does not say more: of one of another compiler's, or a panic where the driver
    /// cannot give the device memory of the host ([`Error::Fault`] has panics else).
    #[error("panic")]
    Panic,
    /// A load or a store at an address where there is no memory.
    #[error("illegal address")]
    IllegalAddress,
    /// A load or a store at an address that is not aligned for it.
    #[error("misaligned address")]
    MisalignedAddress,
    /// An access to a kind of memory that the instruction does not take.
    #[error("address in another space than the instruction's")]
    InvalidAddressSpace,
    /// An instruction that the GPU does not have, or a trap.
    #[error("illegal instruction")]
    IllegalInstruction,
    /// A jump to where there is no code.
    #[error("invalid program counter")]
    InvalidProgramCounter,
    /// More calls inside of calls than the stack has room for, or another error of the stack.
    #[error("stack error")]
    Stack,
    /// It took longer than the system allows, where the GPU also drives a screen.
    #[error("timeout")]
    Timeout,
    /// The driver says no more than that it failed.
    #[error("unspecified failure")]
    Unspecified,
}

fn of_kernel(kernel: Option<&str>) -> String {
    kernel.map_or("a kernel".into(), |kernel| format!("kernel `{kernel}`"))
}

fn of_allocation(call: Option<&str>) -> String {
    call.map_or(String::new(), |call| format!(" by {call}"))
}

fn of_limit(limit: Option<u64>) -> String {
    limit.map_or(String::new(), |limit| format!(" of a limit of {limit}"))
}

impl Error {
    /// Whether it says of kernels that they are wrong, as the simulated GPU finds out.
    pub(crate) fn is_of_wrong_kernels(&self) -> bool {
        matches!(
            self,
            Self::Fault(_) | Self::ScheduleDependent { .. } | Self::Uninitialised { .. }
        )
    }

    /// An operand is on a device that has the name `given`, and not on that of the operation, which has the name
    /// `wanted`; two simulated GPUs have one name.
    pub(crate) fn different_devices(operation: &'static str, given: &str, wanted: &str) -> Self {
        let another = if given == wanted { "another " } else { "" };
        Self::DifferentDevices {
            operation,
            given: format!("{another}{given}"),
            wanted: wanted.into(),
        }
    }
}

/// The message: it is what `main` prints of an error that it returns, and `unwrap`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
