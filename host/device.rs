// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices: which there are, what they can do, and how one is chosen.

use std::cell::RefCell;
use std::env::VarError;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cuda_sim::Dim3;

use crate::backend::faulty::{Faults, Faulty};
use crate::backend::sim;
use crate::backend::{Backend, cuda};
use crate::error::{Error, Result};
use crate::memory::{LiveAllocation, MemoryInfo};
use crate::ptx::PtxModules;
use crate::stream::Stream;

mod simulated;

/// The environment variable that chooses the device of [`Device::auto`]: `auto`, `cuda:N` or `sim`.
pub const DEVICE_VARIABLE: &str = "WARPSMITH_DEVICE";

/// The PTX of this crate's kernels; of no module where the crate was built without device code.
pub(crate) const KERNELS: PtxModules = crate::kernels!(kernels_gpu);

/// The backend, each call of which is told to the crate `tracing` and to profilers where these features are on.
fn traced(backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
    #[cfg(any(feature = "tracing", feature = "nvtx"))]
    let backend: Arc<dyn Backend> = Arc::new(crate::backend::traced::Traced::new(backend));
    backend
}

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
/// assert_eq!(simulator.clone(), simulator);
/// assert_ne!(Device::simulator(), simulator);
///
/// // All GPUs, and the simulated one behind them.
/// assert_eq!(Device::list()?.last().map(|last| &*last.id), Some("sim"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Device {
    backend: Arc<dyn Backend>,
    default_stream: Stream,
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backend, &other.backend)
    }
}

impl Eq for Device {}

/// Which device it is; [`Properties`] have the rest.
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Properties { id, name, .. } = self.properties();
        f.debug_struct("Device").field("id", id).field("name", name).finish()
    }
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
    /// The tensor cores that products of matrices run on: the compute capability that their instructions came with, 7.5, 8.0,
    /// 8.9 or, for Hopper's own, 9.0.
    pub tensor_cores: Option<(u32, u32)>,
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
    /// [`Error::NoDeviceCode`] if this crate was built without PTX, [`Error::DriverTooOld`] if the driver does not know the
    /// PTX, [`Error::Cuda`] if the device cannot be opened, and what has failed on it in this process already, until all
    /// that was made on it is dropped or it is [reset](Self::reset).
    pub fn cuda(ordinal: u32) -> Result<Self> {
        Self::with_cuda(cuda::Cuda::new(ordinal)?, ordinal)
    }

    fn with_cuda(backend: cuda::Cuda, ordinal: u32) -> Result<Self> {
        if KERNELS.is_empty() {
            return Err(Error::NoDeviceCode { ordinal });
        }
        let properties = backend.properties();
        if let Some(version) = KERNELS.version_for(properties.compute_capability.unwrap_or_default()) {
            version.check(properties)?;
        }
        Self::with_backend(traced(Arc::new(backend)))
    }

    /// [`as_generation`](Self::as_generation) of Ampere.
    #[doc(hidden)]
    pub fn as_ampere(&self) -> Result<Self> {
        self.as_generation((8, 0))
    }

    /// This GPU once more, if it has tensor cores of that compute capability or a later one, or else the simulated one, for
    /// which products of matrices run by the instructions of that one, whichever others there are. For tests and benchmarks.
    #[doc(hidden)]
    pub fn as_generation(&self, generation: (u32, u32)) -> Result<Self> {
        let Properties { id, tensor_cores, .. } = self.properties();
        match id.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(ordinal)) if *tensor_cores >= Some(generation) => {
                Self::with_cuda(cuda::Cuda::new(ordinal)?.with_tensor_cores(generation), ordinal)
            }
            _ => Ok(Self::simulated(sim::Simulator::new().with_tensor_cores(generation))),
        }
    }

    /// A device with the library's own kernels, before anyone else can take their place.
    fn with_backend(backend: Arc<dyn Backend>) -> Result<Self> {
        backend.register_kernels(KERNELS)?;
        let default_stream = Stream::default_of(Arc::clone(&backend))?;
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

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// What the device can do.
    pub fn properties(&self) -> &Properties {
        self.backend.properties()
    }

    /// Whether this is the simulated GPU.
    pub fn is_simulator(&self) -> bool {
        self.properties().is_simulated()
    }

    /// What the device's memory is used for, by this process and as a whole.
    ///
    /// An array's memory is allocated until its drop, also while work that uses it is queued. Then it is reserved: it
    /// is kept for the next arrays, of the same stream first.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Error};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let before = device.memory()?;
    /// let x = DeviceArray::<f32, _>::zeros(device.default_stream(), 1000)?;
    /// assert_eq!(device.memory()?.allocated - before.allocated, 4000);
    /// drop(x);
    /// let after = device.memory()?;
    /// assert_eq!(after.allocated, before.allocated);
    /// assert!(after.peak >= 4000 && after.reserved >= 4000);
    /// device.trim()?;
    /// assert_eq!(device.memory()?.reserved, before.reserved);
    ///
    /// device.set_memory_limit(Some(1 << 20));
    /// let refused = DeviceArray::<u8, _>::zeros(device.default_stream(), 2 << 20);
    /// assert!(matches!(refused, Err(Error::OutOfMemory { limit: Some(1048576), .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "memGetInfo")]
    pub fn memory(&self) -> Result<MemoryInfo> {
        self.backend.memory_info()
    }

    /// Lets the peak of [`memory`](Self::memory) begin anew, at what is allocated.
    pub fn reset_peak(&self) {
        self.backend.memory().reset_peak();
    }

    /// Waits for all work of the device, and gives the memory back to the system that is reserved and not allocated.
    ///
    /// Nobody needs it to go on: an allocation for which there is not enough does so by itself, and tries once more.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed, [`Error::Cuda`] if the driver fails.
    pub fn trim(&self) -> Result<()> {
        self.backend.trim()
    }

    /// How many bytes may stay reserved, allocated ones among them, when the device is waited for; more goes back to
    /// the system then, for other processes. Without a limit at first, as to take memory from the system again is slow.
    ///
    /// It applies to the driver's pool. The simulated GPU has none, and no memory that would stay in it.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    pub fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.backend.set_release_threshold(bytes)
    }

    /// Lets no more be allocated than `bytes`, by the count of [`memory`](Self::memory); `None` for no limit, as at
    /// first. What would be more is refused, as [`Error::OutOfMemory`] with the limit.
    pub fn set_memory_limit(&self, bytes: Option<u64>) {
        self.backend.memory().set_limit(bytes);
    }

    /// Every allocation that is alive, the largest first, with the calls that led to it; `None` unless the environment
    /// variable `WARPSMITH_TRACE_ALLOC` was `1` when the device was opened. To remember the calls makes an allocation
    /// several times as slow.
    ///
    /// With it, an allocation for which there is not enough lists them on standard error.
    ///
    /// ```
    /// # let device = warpsmith::Device::simulator();
    /// for allocation in device.live_allocations().unwrap_or_default() {
    ///     println!("{allocation}");
    /// }
    /// ```
    pub fn live_allocations(&self) -> Option<Vec<LiveAllocation>> {
        self.backend.memory().live_allocations()
    }

    /// Waits for all work of the device, on every stream. Reading an array waits for what it needs by itself.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.backend.synchronize_all()
    }

    /// The device anew, after what has made it useless: a kernel that failed ([`Error::Fault`], [`Error::KernelFailed`]),
    /// or a loss ([`Error::DeviceLost`]). It is as if newly opened, with the kernels that were
    /// [registered](Self::register_kernels).
    ///
    /// What was made on a GPU before is gone, through whichever `Device` of this process: each use of an array, a stream,
    /// an event or a module from then on is [`Error::DeviceReset`], and their drops do nothing. [`PinnedArray`]s keep
    /// their elements, and are copied by the old device no more. Calls of other threads that are under way are waited
    /// for, a kernel that never ends among them. Of several threads that reset a device for one failure, the first does
    /// it, and all get the new one. A reset of the simulated GPU is [`Device::simulator`] with the kernels that were
    /// registered; what is on the old one stays.
    ///
    /// The GPU's context is shared with other libraries of the process, `cust`, `cudarc` and those of the CUDA runtime,
    /// and a reset would destroy what they have in it as well. So this gives up this library's share of it, as the drop of
    /// all that was made on the device does, and the driver destroys the context then. Where another library keeps it,
    /// the reset is refused, and nothing has changed.
    ///
    /// The CUDA driver API reference promises this of a failed assertion, which is what a panic is. After other failures,
    /// it says, the process has to be started anew; whether the new context works is found out here. The driver of CUDA
    /// 13.0 did not keep that promise on an H200: after a panic it refused to retain another context in the process, with
    /// the status of the assertion. So where nobody else keeps the context, what is left of it is then destroyed by force;
    /// if that does not help either, the error says that the process has to end.
    ///
    /// # Errors
    ///
    /// [`Error::ContextInUse`] if another library of the process keeps the context, [`Error::Unrecoverable`] if the driver
    /// makes no other one in this process; what the driver says if the device
    /// does not work in the new one, and all errors of [`Device::cuda`].
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::{Device, DeviceArray, LaunchConfig};
    ///
    /// #[kernel]
    /// pub fn picky(data: SliceMut<'_, u32>) {
    ///     assert!(data.get(0) != 13, "anything but 13");
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let mut data = DeviceArray::from_elem(device.default_stream(), 1, 13u32)?;
    /// let failed = device.default_stream().launch::<picky>(&LaunchConfig::new(1, 1), (&mut data,));
    /// assert!(failed.is_err());
    /// let device = device.reset()?;
    /// let data = DeviceArray::from_elem(device.default_stream(), 1, 12u32)?;
    /// assert_eq!(data.sum()?, 12);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`PinnedArray`]: crate::PinnedArray
    pub fn reset(&self) -> Result<Self> {
        loop {
            match self.backend.reset().and_then(Self::with_backend) {
                // Another thread has reset the new one again, as that has failed too.
                Err(Error::DeviceReset { .. }) => {}
                done => return done,
            }
        }
    }

    /// The same device, with calls that fail when a test wants it.
    #[doc(hidden)]
    pub fn with_faults(&self) -> Result<(Self, Faults)> {
        let faults = Faults::default();
        let backend = Faulty::new(Arc::clone(&self.backend), faults.clone());
        Ok((Self::with_backend(Arc::new(backend))?, faults))
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
        Stream::new(&self.default_stream, 0)
    }

    /// A new stream of that priority: where several streams have work, that of the least number begins first. Kernels
    /// that run are not interrupted. Other streams have priority 0.
    ///
    /// A number outside of [`stream_priorities`](Self::stream_priorities) means the nearest one inside.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::Device;
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let urgent = *device.stream_priorities()?.start();
    /// let stream = device.create_stream_with_priority(urgent)?;
    /// assert!(stream.is_idle()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_stream_with_priority(&self, priority: i32) -> Result<Stream> {
        Stream::new(&self.default_stream, priority)
    }

    /// The priorities that streams can have, the first to be served at the start; `-5..=0` on an H200, `0..=0` on the
    /// simulated GPU, which does all work at once.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    pub fn stream_priorities(&self) -> Result<RangeInclusive<i32>> {
        self.backend.stream_priorities()
    }

    /// The stream of the calling thread, made by its first call and the same from then on: threads that use the device
    /// side by side need no more than to ask for it. It lives until the thread ends, and the device with it.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::Device;
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let here = device.thread_stream()?;
    /// assert_eq!(device.thread_stream()?, here);
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| assert_ne!(device.thread_stream().unwrap(), here));
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn thread_stream(&self) -> Result<Stream> {
        thread_local! {
            static STREAMS: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
        }
        STREAMS.with_borrow_mut(|streams| {
            if let Some(stream) = streams
                .iter()
                .find(|stream| Arc::ptr_eq(stream.backend(), &self.backend))
            {
                return Ok(stream.clone());
            }
            let stream = self.create_stream()?;
            streams.push(stream.clone());
            Ok(stream)
        })
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

/// What is above a stream.
impl Stream {
    /// The device that the stream is of, the same as the one it was made on: for a function that is given an array, and
    /// wants another stream beside the array's, say.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, DeviceArrayRef, Result};
    ///
    /// /// The bytes that are free on the device that has the array.
    /// fn room(x: &DeviceArrayRef<f32, ndarray::Ix1>) -> Result<u64> {
    ///     Ok(x.stream().device().memory()?.free)
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.create_stream()?;
    /// assert_eq!(stream.device(), device);
    /// let x = DeviceArray::zeros(&stream, 10)?;
    /// assert!(room(&x)? > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> Device {
        let default_stream = self.default_stream().clone();
        Device {
            backend: Arc::clone(default_stream.backend()),
            default_stream,
        }
    }
}
