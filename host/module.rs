// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels of other compilers (nvcc, Triton, …): modules that are loaded at run time, and functions launched by name.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use ndarray::Dimension;

use crate::array::{DeviceArray, Element};
use crate::backend::{Backend, Code, FunctionInfo, RawFunction, RawModule};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, check};
use crate::stream::Stream;

/// Code for a GPU that another compiler made: PTX, a cubin or a fatbin. Clones are the same module; it is unloaded with
/// the last of them and of its [`Function`]s.
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, LaunchConfig, Module};
///
/// const DOUBLE: &str = r#"
/// .version 6.4
/// .target sm_75
/// .address_size 64
/// .visible .entry double_all(.param .u64 data, .param .u32 len) {
///     .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .f32 %f;
///     ld.param.u64 %d0, [data];
///     ld.param.u32 %r0, [len];
///     mov.u32 %r1, %ctaid.x;  mov.u32 %r2, %ntid.x;  mov.u32 %r3, %tid.x;
///     mad.lo.u32 %r4, %r1, %r2, %r3;
///     setp.ge.u32 %p, %r4, %r0;
///     @%p ret;
///     mul.wide.u32 %d1, %r4, 4;
///     add.u64 %d2, %d0, %d1;
///     ld.global.f32 %f, [%d2];
///     add.f32 %f, %f, %f;
///     st.global.f32 [%d2], %f;
///     ret;
/// }"#;
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// if device.is_simulator() {
///     return Ok(()); // it runs kernels in Rust only
/// }
/// let stream = device.default_stream();
/// let double_all = Module::from_ptx(&device, DOUBLE)?.function("double_all")?;
/// let mut x = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0, 3.0])?;
/// let len = x.len() as u32;
/// // SAFETY: the kernel takes a pointer to `len` floats, which it reads and writes, and `len`.
/// unsafe { stream.launch_function(&double_all, &LaunchConfig::for_len(3, 256), (&mut x, len))? };
/// assert_eq!(x.to_ndarray()?, array![2.0, 4.0, 6.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Module {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    backend: Arc<dyn Backend>,
    raw: RawModule,
    /// The file, or what kind of image it is.
    name: String,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the backend loaded it, and this was its last owner.
        unsafe { self.backend.unload_module(self.raw) };
    }
}

impl Module {
    /// Has the driver compile and load PTX.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignModule`] if the driver refuses it, with what its compiler says; [`Error::NotSimulated`] on the simulated
    /// GPU.
    #[doc(alias("RawModule", "SourceModule"))]
    pub fn from_ptx(device: &Device, ptx: &str) -> Result<Self> {
        // SAFETY: text, of which the driver's compiler finds out itself whether it is PTX.
        unsafe { Self::load(device, ptx.as_bytes(), "PTX".into()) }
    }

    /// Has the driver load a cubin, a fatbin, or PTX.
    ///
    /// # Errors
    ///
    /// As [`from_ptx`](Self::from_ptx); also if the image has no code for this GPU.
    ///
    /// # Safety
    ///
    /// `image` is what a compiler has made, whole and unchanged: the driver reads it by the sizes that stand in it.
    pub unsafe fn from_image(device: &Device, image: &[u8]) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::load(device, image, "an image".into()) }
    }

    /// [`from_image`](Self::from_image) of a file.
    ///
    /// # Errors
    ///
    /// As [`from_image`](Self::from_image), and [`Error::Io`] if the file cannot be read.
    ///
    /// # Safety
    ///
    /// As [`from_image`](Self::from_image), for what is in the file.
    pub unsafe fn from_file(device: &Device, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let image = fs::read(path).map_err(|source| Error::Io {
            file: path.display().to_string(),
            source,
        })?;
        // SAFETY: the caller's promise.
        unsafe { Self::load(device, &image, path.display().to_string()) }
    }

    /// # Safety
    ///
    /// As [`from_image`](Self::from_image).
    unsafe fn load(device: &Device, image: &[u8], name: String) -> Result<Self> {
        let backend = Arc::clone(device.default_stream().backend());
        // PTX ends with a zero; behind another image it does no harm.
        let mut ended = image.to_vec();
        ended.push(0);
        // SAFETY: the caller's promise; text ends with a zero.
        let raw = unsafe { backend.load_module(&name, Code::Foreign, &ended)? };
        Ok(Self {
            loaded: Arc::new(Loaded { backend, raw, name }),
        })
    }

    /// The kernel of that name, as it stands in the PTX: in C++ without `extern "C"`, the mangled name.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignModule`] if the module has no such kernel.
    #[doc(alias("RawKernel", "get_function"))]
    pub fn function(&self, name: &str) -> Result<Function> {
        let Loaded {
            backend,
            raw,
            name: module,
        } = &*self.loaded;
        // SAFETY: a module of this backend's, which is loaded.
        let (raw, info) = unsafe { backend.module_function(*raw, module, name)? };
        Ok(Function {
            module: Arc::clone(&self.loaded),
            raw,
            name: name.into(),
            info,
        })
    }
}

/// A kernel of a [`Module`].
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Loaded>,
    raw: RawFunction,
    name: Arc<str>,
    info: FunctionInfo,
}

impl Function {
    /// The name in the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size of each parameter, in bytes; `None` if the driver does not tell, as those before CUDA 12.4.
    pub fn parameter_sizes(&self) -> Option<&[usize]> {
        self.info.parameters.as_deref()
    }

    /// The most threads that a block of this kernel can have.
    pub fn max_threads_per_block(&self) -> u32 {
        self.info.max_threads
    }

    /// The registers of a thread.
    pub fn registers(&self) -> u32 {
        self.info.registers
    }

    /// The bytes of static shared memory of a block.
    pub fn static_shared(&self) -> usize {
        self.info.static_shared
    }
}

/// An argument of a [`Function`]: `&DeviceArray` and `&mut DeviceArray` for a pointer to the elements (the length is a
/// parameter of its own there, if the kernel wants it), and plain data for a number or structure.
///
/// # Safety
///
/// What `value` gives may be read by the launch once `prepare` has ordered its stream.
pub unsafe trait FunctionArg {
    /// What crosses the launch.
    #[doc(hidden)]
    type Value: Copy;

    /// Orders the stream behind the other uses of the argument, and marks its use.
    #[doc(hidden)]
    fn prepare(&self, stream: &Stream) -> Result<()>;

    /// The argument as it crosses the launch.
    #[doc(hidden)]
    fn value(&self) -> Self::Value;
}

// SAFETY: a value is passed as it is.
#[diagnostic::do_not_recommend]
unsafe impl<P: Pod> FunctionArg for P {
    type Value = P;

    fn prepare(&self, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn value(&self) -> P {
        *self
    }
}

// SAFETY: the address of an array in the memory of the stream's device, borrowed for the launch.
unsafe impl<T: Element, D: Dimension> FunctionArg for &DeviceArray<T, D> {
    type Value = u64;

    fn prepare(&self, stream: &Stream) -> Result<()> {
        stream.check_device("launch_function", self.stream())?;
        self.buffer().reads_on(stream)
    }

    fn value(&self) -> u64 {
        self.buffer().address()
    }
}

// SAFETY: as above, borrowed mutably.
unsafe impl<T: Element, D: Dimension> FunctionArg for &mut DeviceArray<T, D> {
    type Value = u64;

    fn prepare(&self, stream: &Stream) -> Result<()> {
        stream.check_device("launch_function", self.stream())?;
        self.buffer().writes_on(stream)
    }

    fn value(&self) -> u64 {
        self.buffer().address()
    }
}

/// What a launch does with the addresses of its arguments' values, and their sizes.
type WithValues<'a> = &'a mut dyn FnMut(&mut [*const ()], &[usize]) -> Result<()>;

/// The arguments of a [`Function`]: a tuple of [`FunctionArg`]s.
///
/// # Safety
///
/// As [`FunctionArg`], for each.
pub unsafe trait FunctionArgs {
    /// As [`FunctionArg::prepare`].
    #[doc(hidden)]
    fn prepare(&self, stream: &Stream) -> Result<()>;

    /// Gives the addresses of the values, and their sizes, to `launch`.
    #[doc(hidden)]
    fn with_values(&self, launch: WithValues<'_>) -> Result<()>;
}

macro_rules! function_args {
    ($($arg:ident)*) => {
        // SAFETY: each is one.
        unsafe impl<$($arg: FunctionArg),*> FunctionArgs for ($($arg,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn prepare(&self, stream: &Stream) -> Result<()> {
                let ($($arg,)*) = self;
                $($arg.prepare(stream)?;)*
                Ok(())
            }

            #[allow(non_snake_case)]
            fn with_values(&self, launch: WithValues<'_>) -> Result<()> {
                let ($($arg,)*) = self;
                $(let $arg = $arg.value();)*
                launch(&mut [$(std::ptr::from_ref(&$arg).cast()),*], &[$(size_of_val(&$arg)),*])
            }
        }
    };
}

function_args!();
function_args!(A);
function_args!(A B);
function_args!(A B C);
function_args!(A B C D);
function_args!(A B C D E);
function_args!(A B C D E F);
function_args!(A B C D E F G);
function_args!(A B C D E F G H);
function_args!(A B C D E F G H I);
function_args!(A B C D E F G H I J);
function_args!(A B C D E F G H I J K);
function_args!(A B C D E F G H I J K L);
function_args!(A B C D E F G H I J K L M);
function_args!(A B C D E F G H I J K L M N);
function_args!(A B C D E F G H I J K L M N O);
function_args!(A B C D E F G H I J K L M N O P);

impl Stream {
    /// Launches a kernel of another compiler on this stream, asynchronously. Arrays that are used on other streams are
    /// ordered as in [`launch`](Self::launch).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the arguments are not as many, or not of the sizes, as the driver knows the kernel's
    /// parameters to be (drivers before CUDA 12.4 do not tell), or if the function is another device's;
    /// [`Error::LaunchConfig`] if the kernel or the device does not take the configuration;
    /// [`Error::DifferentDevices`] if an argument is in another device's memory.
    ///
    /// # Safety
    ///
    /// The arguments are of the types that the kernel takes, and it accesses memory only within those arrays: writes
    /// only those that are given as `&mut`, and reads nothing that it has not written of those without contents.
    pub unsafe fn launch_function(
        &self,
        function: &Function,
        config: &LaunchConfig,
        args: impl FunctionArgs,
    ) -> Result<()> {
        let (backend, name) = (self.backend(), function.name());
        if !Arc::ptr_eq(backend, &function.module.backend) {
            let given = &function.module.backend.properties().id;
            return Err(Error::different_devices("launch_function", given, self.device_id()));
        }
        check(name, function.info.max_threads, config, backend.properties())?;
        args.with_values(&mut |values, sizes| {
            if let Some(wanted) = function.parameter_sizes().filter(|&wanted| wanted != sizes) {
                return Err(Error::Parameter {
                    operation: "launch_function",
                    parameter: "arguments",
                    given: format!("arguments of {sizes:?} bytes"),
                    wanted: format!("of {wanted:?} bytes, the parameters of `{name}`"),
                });
            }
            args.prepare(self)?;
            // SAFETY: a function of this backend's, whose module is loaded; the values are as its parameters, as far as
            // the driver knows them, and by the caller's promise for the rest. What they point to is borrowed by `args`,
            // and ordered on this stream.
            unsafe {
                self.queue_function(
                    (function.raw, function.module.clone()),
                    &function.info,
                    name,
                    config,
                    values,
                )
            }
        })
    }
}
