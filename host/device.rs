// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices: which there are, what they can do, and how one is chosen.

use std::env::VarError;
use std::sync::Arc;

use cuda_sim::Dim3;

use crate::backend::{Backend, cuda, sim};
use crate::error::{Error, Result};
use crate::ptx::PtxModules;
use crate::stream::Stream;

/// The environment variable that chooses the device of [`Device::auto`]: `auto`, `cuda:N` or `sim`.
pub const DEVICE_VARIABLE: &str = "WARPSMITH_DEVICE";

/// The PTX of this crate's kernels; of no module where the crate was built without device code.
const KERNELS: PtxModules = crate::kernels!(kernels_gpu);

/// A GPU, or the simulated one. Clones are the same device.
///
/// ```
/// use warpsmith::Device;
///
/// # fn main() -> warpsmith::Result<()> {
/// // The one that WARPSMITH_DEVICE names, or the first GPU, or the simulated one.
/// let device = Device::auto()?;
/// println!("{}: {}", device.properties().id, device.properties().name);
/// assert!(device.properties().max_threads_per_block >= 1024);
///
/// // One device for all clones; each call of `simulator` makes another.
/// let simulator = Device::named("sim")?;
/// assert!(simulator.is_simulator());
/// assert_eq!(simulator.clone().default_stream(), simulator.default_stream());
/// assert_ne!(Device::simulator().default_stream(), simulator.default_stream());
///
/// // All GPUs, and the simulated one behind them.
/// assert_eq!(Device::list()?.last().map(|last| &*last.id), Some("sim"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Device {
    backend: Arc<dyn Backend>,
    default_stream: Stream,
}

/// What a device can do; what `deviceQuery` shows. What a device does not have or know is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Properties {
    /// The name that [`Device::named`] takes: `cuda:0`, `sim`.
    pub id: String,
    /// The product's name.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: Option<(u32, u32)>,
    /// The CUDA version of the driver, major and minor.
    pub driver_version: Option<(u32, u32)>,
    /// Bytes of global memory.
    pub total_memory: u64,
    /// Streaming multiprocessors; for the simulated GPU, the host's cores.
    pub multiprocessors: u32,
    /// Threads in a warp.
    pub warp_size: u32,
    /// Threads in a block at most.
    pub max_threads_per_block: u32,
    /// Threads on a multiprocessor at most.
    pub max_threads_per_multiprocessor: u32,
    /// The largest extents of a block, in threads.
    pub max_block: Dim3,
    /// The largest extents of a grid, in blocks.
    pub max_grid: Dim3,
    /// 32-bit registers that a block can have.
    pub registers_per_block: Option<u32>,
    /// Bytes of shared memory that a block can have without asking for more.
    pub shared_memory_per_block: u32,
    /// Bytes of shared memory that a block can have.
    pub shared_memory_per_block_optin: u32,
    /// Bytes of shared memory on a multiprocessor.
    pub shared_memory_per_multiprocessor: Option<u32>,
    /// Bytes of constant memory.
    pub constant_memory: Option<u32>,
    /// Bytes of L2 cache.
    pub l2_cache: Option<u32>,
    /// The highest clock of the multiprocessors, in kHz.
    pub clock_khz: Option<u32>,
    /// The highest clock of the memory, in kHz.
    pub memory_clock_khz: Option<u32>,
    /// The width of the memory bus, in bits.
    pub memory_bus_bits: Option<u32>,
    /// Engines that copy while kernels run.
    pub copy_engines: Option<u32>,
    /// Whether the memory corrects errors.
    pub ecc: Option<bool>,
    /// PCI domain, bus and device.
    pub pci: Option<(u32, u32, u32)>,
}

impl Properties {
    /// Whether they are the simulated GPU's.
    pub(crate) fn is_simulated(&self) -> bool {
        self.compute_capability.is_none()
    }
}

impl Device {
    /// The device that the environment variable `WARPSMITH_DEVICE` names (as [`Device::named`] does); without it, the
    /// first GPU, and the simulated GPU on a machine that has none.
    ///
    /// A machine has none where there is no NVIDIA driver (no `libcuda.so.1` that the dynamic linker finds), or where
    /// the driver says so. A driver that is there and does not work is an error, never a reason to be slow in silence.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the driver does not load or does not start: one that does not match the kernel's module, or
    /// any in a process that was forked after its parent had used CUDA. Otherwise as [`Device::named`].
    pub fn auto() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) if name != "auto" => Self::named(&name),
            Ok(_) | Err(VarError::NotPresent) => match cuda::count()? {
                0 => Ok(Self::simulator()),
                _ => Self::cuda(0),
            },
            Err(VarError::NotUnicode(name)) => Err(Error::DeviceName {
                given: name.to_string_lossy().into_owned(),
            }),
        }
    }

    /// The device of that name: `auto` (as [`Device::auto`]), `cuda:N` (the GPU of that number), `sim`.
    ///
    /// # Errors
    ///
    /// [`Error::DeviceName`] for any other name, and those of [`Device::cuda`].
    pub fn named(name: &str) -> Result<Self> {
        match (name, name.strip_prefix("cuda:")) {
            ("auto", _) => Self::auto(),
            ("sim", _) => Ok(Self::simulator()),
            (_, Some(ordinal)) if ordinal.bytes().all(|byte| byte.is_ascii_digit()) => match ordinal.parse() {
                Ok(ordinal) => Self::cuda(ordinal),
                Err(_) => Err(Error::DeviceName { given: name.into() }),
            },
            _ => Err(Error::DeviceName { given: name.into() }),
        }
    }

    /// GPU `ordinal`, counted from 0 as the driver does.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`] if there is no such GPU or no driver, [`Error::Driver`] if the driver does not work,
    /// [`Error::NoDeviceCode`] if this crate was built without PTX, [`Error::Cuda`] if the device cannot be opened.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        let backend = cuda::Cuda::new(ordinal)?;
        if KERNELS.is_empty() {
            return Err(Error::NoDeviceCode { ordinal });
        }
        Self::with_backend(Arc::new(backend))
    }

    /// The simulated GPU: kernels run on the host's cores, and what is undefined on a GPU is an error.
    ///
    /// A launch of which no block has ended for 60 seconds is an error as well; the environment variable
    /// `WARPSMITH_SIM_TIMEOUT` gives another number of seconds, 0 no limit.
    ///
    /// Each call makes a device of its own.
    pub fn simulator() -> Self {
        let backend: Arc<dyn Backend> = Arc::new(sim::Simulator::new());
        Self::with_backend(backend).expect("the simulator's streams are numbers, and it has no kernels yet")
    }

    /// A device with the library's own kernels, before anyone else can take their place.
    fn with_backend(backend: Arc<dyn Backend>) -> Result<Self> {
        backend.register_kernels(KERNELS)?;
        let default_stream = Stream::new(Arc::clone(&backend))?;
        Ok(Self {
            backend,
            default_stream,
        })
    }

    /// The properties of all devices: every GPU, then the simulated one. Opens none of them.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if the driver does not work, or does not tell of one of its GPUs. A machine without a driver
    /// has the simulated GPU alone.
    pub fn list() -> Result<Vec<Properties>> {
        let gpus = (0..cuda::count()?).map(cuda::properties);
        gpus.chain([Ok(sim::Simulator::new().properties().clone())]).collect()
    }

    /// What the device can do.
    pub fn properties(&self) -> &Properties {
        self.backend.properties()
    }

    /// Whether this is the simulated GPU.
    pub fn is_simulator(&self) -> bool {
        self.properties().is_simulated()
    }

    /// Bytes of memory that are free.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    pub fn free_memory(&self) -> Result<u64> {
        self.backend.free_memory()
    }

    /// The stream on which arrays are made that name no other.
    pub fn default_stream(&self) -> &Stream {
        &self.default_stream
    }

    /// A new stream, whose work runs beside that of the others.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    pub fn create_stream(&self) -> Result<Stream> {
        Stream::new(Arc::clone(&self.backend))
    }

    /// Gives the device the PTX of a kernels crate of your own, as [`kernels!`](crate::kernels!) takes it from what
    /// `cuda_builder` wrote in the build script. Nothing is loaded before a kernel is launched. The simulated GPU needs
    /// no PTX; what it is given it compares with the kernels that are launched, as a GPU does.
    ///
    /// Registering the same modules again changes nothing. Those of different packages, or of different versions of
    /// one, stand side by side.
    ///
    /// ```ignore
    /// let device = Device::auto()?;
    /// device.register_kernels(warpsmith::kernels!(my_kernels))?;
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateKernels`] if the device has other modules with one of these kernels, of a package with the same
    /// name and version; none of `modules` is then registered. So nobody takes the place of another's kernels, nor of
    /// this library's.
    pub fn register_kernels(&self, modules: PtxModules) -> Result<()> {
        self.backend.register_kernels(modules)
    }
}
