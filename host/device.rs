// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices: which there are, what they can do, and how one is chosen.

use std::sync::Arc;

use cuda_sim::Dim3;

use crate::backend::{Backend, cuda, sim};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The environment variable that chooses the device of [`Device::auto`]: `auto`, `cuda:N` or `sim`.
pub const DEVICE_VARIABLE: &str = "WARPSMITH_DEVICE";

/// A PTX module: its name, its target (`sm_75`, `sm_90a`), and its text, packed by DEFLATE, as `cuda_builder` writes
/// them.
pub type PtxModule = (&'static str, &'static str, &'static [u8]);

/// The PTX of this crate's kernels; empty where the crate was built without device code.
static KERNELS: &[PtxModule] = include!(concat!(env!("OUT_DIR"), "/kernels_gpu.ptx.rs"));

/// The package of this crate's kernels.
const KERNELS_PACKAGE: &str = "kernels-gpu";

/// A GPU, or the simulated one. Clones are the same device.
///
/// ```
/// use warpsmith::Device;
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// println!("{}: {}", device.properties().id, device.properties().name);
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

impl Device {
    /// The device that the environment variable `WARPSMITH_DEVICE` names (as [`Device::named`] does); without it, the
    /// first GPU, and the simulated GPU on a machine that has none.
    ///
    /// # Errors
    ///
    /// As [`Device::named`]. A machine with a GPU never falls back to the simulated one.
    pub fn auto() -> Result<Self> {
        match std::env::var(DEVICE_VARIABLE) {
            Ok(name) if name != "auto" => Self::named(&name),
            _ => match cuda::count() {
                Ok(count) if count > 0 => Self::cuda(0),
                _ => Ok(Self::simulator()),
            },
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
    /// [`Error::NoDevice`] if there is no such GPU or no driver, [`Error::NoDeviceCode`] if this crate was built
    /// without PTX, [`Error::Cuda`] if the driver fails.
    pub fn cuda(ordinal: u32) -> Result<Self> {
        let backend = cuda::Cuda::new(ordinal)?;
        if KERNELS.is_empty() {
            return Err(Error::NoDeviceCode { ordinal });
        }
        let device = Self::with_backend(Arc::new(backend))?;
        device.register_kernels(KERNELS_PACKAGE, KERNELS);
        Ok(device)
    }

    /// The simulated GPU: kernels run on the host's cores, and what is undefined on a GPU is an error.
    ///
    /// Each call makes a device of its own.
    pub fn simulator() -> Self {
        let backend: Arc<dyn Backend> = Arc::new(sim::Simulator::new());
        Self::with_backend(backend).expect("the simulator's streams are numbers, which do not run out")
    }

    fn with_backend(backend: Arc<dyn Backend>) -> Result<Self> {
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
    /// [`Error::NoDevice`] if the driver does not tell of one of its GPUs.
    pub fn list() -> Result<Vec<Properties>> {
        let gpus = (0..cuda::count().unwrap_or(0)).map(cuda::properties);
        gpus.chain([Ok(sim::Simulator::new().properties().clone())]).collect()
    }

    /// What the device can do.
    pub fn properties(&self) -> &Properties {
        self.backend.properties()
    }

    /// Whether this is the simulated GPU.
    pub fn is_simulator(&self) -> bool {
        self.properties().compute_capability.is_none()
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

    /// Gives the device the PTX of a kernels crate of your own: the package's name, and what `cuda_builder` wrote for
    /// it in the build script, `include!(concat!(env!("OUT_DIR"), "/my_kernels.ptx.rs"))`. Nothing is loaded before a
    /// kernel is launched. The simulated GPU needs no PTX.
    pub fn register_kernels(&self, package: &'static str, modules: &'static [PtxModule]) {
        self.backend.register_kernels(package, modules);
    }
}
