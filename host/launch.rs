// SPDX-License-Identifier: MIT OR Apache-2.0
//! Typed launches: a kernel's handle, a configuration, and arguments that are checked at compile time.

use std::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::launch::{Abi, Kernel, Params, SafeKernel};
use cuda_std::param::{ByValue, Fields, NoTail, Param};
use cuda_std::{Constant, Slice, SliceMut};
use ndarray::Dimension;

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::backend::KernelInfo;
use crate::constants;
use crate::error::{Error, Result};
use crate::expr::Reading;
use crate::landed::Landed;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};
use crate::workspace::Lease;

mod limits;
mod words;

pub use cuda_sim::{Dim3, LaunchConfig};
pub(crate) use limits::check;
use limits::check_clusters;
pub(crate) use words::{Words, WordsMut};

/// The argument for a kernel's parameter of type `P`: a number for a number, `&DeviceArray<T, D>` or
/// `&DeviceView<T, D>` for `&[T]`, `&mut DeviceArray<T, D>` or `&mut DeviceViewMut<T, D>` for `SliceMut<'_, T>`, or the
/// `DeviceArrayRef<T, D>` that they dereference to; `&[T; N]`, an array of the host, for `Constant<'_, T, N>`;
/// [`&mut DeviceGridBarrier`](crate::DeviceGridBarrier) for `GridBarrier<'_>`.
///
/// A view is one in C order without a gap, since a kernel knows no strides; others are refused with
/// [`Error::Shape`](crate::Error::Shape). It begins anywhere, so that in the kernel a vector (`load_vec`, `get_vec`,
/// `set_vec`) may not be aligned as it has to be: these functions check that, and panic; `is_vec_aligned` tells.
///
/// # Safety
///
/// What `abi` gives is a `P` in the memory of the stream's device, borrowed as `P` is, once `prepare` has ordered it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument for a kernel's parameter of type `{P}`",
    note = "wanted: `&DeviceArray<T, _>` or `&DeviceView<T, _>` for `&[T]`, `&mut DeviceArray<T, _>` or \
            `&mut DeviceViewMut<T, _>` for `SliceMut<T>`, a number for a number, `&[T; N]` for `Constant<T, N>`, \
            `&mut DeviceGridBarrier` for `GridBarrier`"
)]
pub unsafe trait Arg<P: Param> {
    /// Orders the stream behind the other uses of the argument, and marks its use.
    #[doc(hidden)]
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()>;

    /// Whether the argument is a part of an array, other parts of which other threads may prepare meanwhile.
    #[doc(hidden)]
    fn is_part(&self) -> bool {
        false
    }

    /// What kernels are to compute where they read the argument, if it is not in memory.
    #[doc(hidden)]
    fn reading(&self) -> Option<&Reading> {
        None
    }

    /// The argument as it crosses the launch.
    #[doc(hidden)]
    fn abi(&self) -> Abi<P>;
}

/// The arguments for a kernel's parameters `P`: a tuple with one [`Arg`] for each.
///
/// # Safety
///
/// As [`Arg`], for each.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` do not match the kernel's parameters `{P}`",
    note = "wanted: a tuple with as many elements, in the same order"
)]
pub unsafe trait Args<P: Params> {
    /// Launches the kernel with these arguments.
    ///
    /// # Safety
    ///
    /// The kernel's parameters are `P`, and its contract holds for every thread of the launch.
    #[doc(hidden)]
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()>;
}

// SAFETY: a value is passed as it is.
#[diagnostic::do_not_recommend]
unsafe impl<P: ByValue> Arg<P> for P {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<P> {
        Abi {
            head: self.into_head(),
            tail: NoTail,
        }
    }
}

// SAFETY: the array's bytes, which go with the launch.
#[diagnostic::do_not_recommend]
unsafe impl<T: Pod, const N: usize> Arg<Constant<'static, T, N>> for &[T; N] {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<Constant<'static, T, N>> {
        Abi {
            head: Fields::new(**self),
            tail: NoTail,
        }
    }
}

/// An error unless the elements are in C order without a gap.
fn check_order<T: Element, D: Dimension>(kernel: &'static str, elements: &DeviceArrayRef<T, D>) -> Result<()> {
    if elements.is_standard_layout() {
        return Ok(());
    }
    Err(unordered(kernel, elements.shape(), elements.strides()))
}

fn unordered(kernel: &'static str, shape: &[usize], strides: &[isize]) -> Error {
    Error::Shape {
        operation: kernel,
        given: format!("a view of shape {shape:?} and strides {strides:?}"),
        wanted: "a view in C order, since a kernel knows no strides: `to_array` puts it in order".into(),
    }
}

// SAFETY: the elements, in the memory of the stream's device, in C order without a gap, as `prepare` checks, and borrowed
// like the slice; aligned as such elements are, since the memory is to 256 bytes.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element, D: Dimension> Arg<&'static [T]> for &DeviceArrayRef<T, D> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        check_order(kernel, self)?;
        stream.check_device(kernel, self.stream())?;
        match self.buffer.reading() {
            Some(_) => Ok(()),
            None => self.reads_on(stream),
        }
    }

    fn is_part(&self) -> bool {
        DeviceArrayRef::is_part(self)
    }

    fn reading(&self) -> Option<&Reading> {
        self.buffer.reading()
    }

    fn abi(&self) -> Abi<&'static [T]> {
        Abi {
            head: std::ptr::with_exposed_provenance(address::<T>(self.address())),
            tail: self.len(),
        }
    }
}

// SAFETY: as the one before; nothing writes the elements.
#[diagnostic::do_not_recommend]
unsafe impl<T: Element, D: Dimension> Arg<Slice<'static, T>> for &DeviceArrayRef<T, D> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        Arg::<&'static [T]>::prepare(self, kernel, stream)
    }

    fn is_part(&self) -> bool {
        DeviceArrayRef::is_part(self)
    }

    fn reading(&self) -> Option<&Reading> {
        self.buffer.reading()
    }

    fn abi(&self) -> Abi<Slice<'static, T>> {
        Abi {
            head: std::ptr::with_exposed_provenance(address::<T>(self.address())),
            tail: self.len(),
        }
    }
}

/// Types that are read as the elements that they dereference to.
macro_rules! reads {
    ($($type:ty),*) => {$(
        // SAFETY: that of the elements, which are borrowed as long.
        unsafe impl<T: Element, D: Dimension> Arg<&'static [T]> for &$type {
            fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
                Arg::<&'static [T]>::prepare(&&***self, kernel, stream)
            }

            fn is_part(&self) -> bool {
                DeviceArrayRef::is_part(self)
            }

            fn reading(&self) -> Option<&Reading> {
                self.buffer.reading()
            }

            fn abi(&self) -> Abi<&'static [T]> {
                Arg::<&'static [T]>::abi(&&***self)
            }
        }

        // SAFETY: that of the elements, which are borrowed as long.
        #[diagnostic::do_not_recommend]
        unsafe impl<T: Element, D: Dimension> Arg<Slice<'static, T>> for &$type {
            fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
                Arg::<Slice<'static, T>>::prepare(&&***self, kernel, stream)
            }

            fn is_part(&self) -> bool {
                DeviceArrayRef::is_part(self)
            }

            fn reading(&self) -> Option<&Reading> {
                self.buffer.reading()
            }

            fn abi(&self) -> Abi<Slice<'static, T>> {
                Arg::<Slice<'static, T>>::abi(&&***self)
            }
        }
    )*};
}

reads!(DeviceArray<T, D>, DeviceView<'_, T, D>, DeviceViewMut<'_, T, D>);

/// Types that are written, which are borrowed mutably.
macro_rules! writes {
    ($($type:ty),*) => {$(
        // SAFETY: the elements, in the memory of the stream's device, in C order without a gap, as `prepare` checks, and
        // borrowed mutably like the slice; aligned as such elements are.
        unsafe impl<T: Element, D: Dimension> Arg<SliceMut<'static, T>> for &mut $type {
            fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
                check_order(kernel, self)?;
                stream.check_device(kernel, self.stream())?;
                self.writes_on(stream)
            }

            fn is_part(&self) -> bool {
                DeviceArrayRef::is_part(self)
            }

            fn abi(&self) -> Abi<SliceMut<'static, T>> {
                Abi {
                    head: std::ptr::with_exposed_provenance_mut(address::<T>(self.address())),
                    tail: self.len(),
                }
            }
        }
    )*};
}

writes!(DeviceArrayRef<T, D>, DeviceArray<T, D>, DeviceViewMut<'_, T, D>);

/// An array that a kernel reads as one argument and writes as another, element by element: for operations in place.
#[derive(Clone, Copy)]
pub(crate) struct InPlace<T> {
    address: usize,
    len: usize,
    _element: PhantomData<T>,
}

impl<T: Element> InPlace<T> {
    /// The input that is the same memory as the output `array`.
    ///
    /// # Safety
    ///
    /// The launch that takes this argument also takes `array` mutably, and its kernel keeps the contract of [`Slice`].
    pub(crate) unsafe fn of<D: Dimension>(array: &DeviceArrayRef<T, D>) -> Self {
        Self {
            address: address::<T>(array.address()),
            len: array.len(),
            _element: PhantomData,
        }
    }
}

// SAFETY: `of` was promised that the array itself is an argument too, which orders the stream and holds the borrow.
unsafe impl<T: Element> Arg<Slice<'static, T>> for InPlace<T> {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<Slice<'static, T>> {
        Abi {
            head: std::ptr::with_exposed_provenance(self.address),
            tail: self.len,
        }
    }
}

// SAFETY: the lease's words on its stream, which is this one (`prepare` asserts it), borrowed mutably like the slice: the
// launch has them for itself. They are given back or freed later than the launch is queued.
unsafe impl<W: Element> Arg<SliceMut<'static, W>> for &mut Lease<'_, W> {
    fn prepare(&self, _: &'static str, stream: &Stream) -> Result<()> {
        assert_eq!(Lease::stream(self), stream.raw(), "a lease is for its own stream");
        Ok(())
    }

    fn abi(&self) -> Abi<SliceMut<'static, W>> {
        let address = match self.address() {
            0 => align_of::<W>(),
            address => address as usize,
        };
        Abi {
            head: std::ptr::with_exposed_provenance_mut(address),
            tail: self.len(),
        }
    }
}

// SAFETY: memory for one value, aligned to 256, which kernels of the device of its stream write, which is this one
// (`prepare` asserts it), borrowed mutably like the slice: the launch has it for itself. It serves nobody else before it is
// read or the stream was waited for.
unsafe impl<W: Element> Arg<SliceMut<'static, W>> for &mut Landed<'_, W> {
    fn prepare(&self, _: &'static str, stream: &Stream) -> Result<()> {
        assert_eq!(Landed::stream(self), stream, "a landed value is for its own stream");
        Ok(())
    }

    fn abi(&self) -> Abi<SliceMut<'static, W>> {
        Abi {
            head: std::ptr::with_exposed_provenance_mut(address::<W>(self.address())),
            tail: 1,
        }
    }
}

// SAFETY: the values on its stream, which is this one (`prepare` asserts it); nothing writes them, and they are freed
// later than the launch is queued.
unsafe impl<W: Element> Arg<&'static [W]> for &constants::Constant<'_, W> {
    fn prepare(&self, _: &'static str, stream: &Stream) -> Result<()> {
        assert_eq!(
            constants::Constant::stream(self),
            stream.raw(),
            "a constant is for its own stream"
        );
        Ok(())
    }

    fn abi(&self) -> Abi<&'static [W]> {
        Abi {
            head: std::ptr::with_exposed_provenance(self.address() as usize),
            tail: self.len(),
        }
    }
}

/// The address that a slice of the elements has: an aligned one, not null, also where there is no element.
pub(crate) fn address<T>(address: u64) -> usize {
    match address {
        0 => align_of::<T>(),
        address => address as usize,
    }
}

macro_rules! args {
    ($($arg:ident: $param:ident),*) => {
        // SAFETY: one argument for each parameter.
        unsafe impl<$($param: Param, $arg: Arg<$param>),*> Args<($($param,)*)> for ($($arg,)*) {
            #[allow(non_snake_case)]
            unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
                let ($($arg,)*) = self;
                // SAFETY: the caller's promise: these are arguments for the kernel's parameters.
                unsafe { launch.with(&[$(&ArgOf::<$param, $arg>($arg, PhantomData)),*]) }
            }
        }
    };
}

args!();
args!(A: PA);
args!(A: PA, B: PB);
args!(A: PA, B: PB, C: PC);
args!(A: PA, B: PB, C: PC, D: PD);
args!(A: PA, B: PB, C: PC, D: PD, E: PE);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI, J: PJ);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI, J: PJ, K: PK);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI, J: PJ, K: PK, L: PL);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI, J: PJ, K: PK, L: PL, M: PM);
args!(A: PA, B: PB, C: PC, D: PD, E: PE, F: PF, G: PG, H: PH, I: PI, J: PJ, K: PK, L: PL, M: PM, N: PN);

impl Stream {
    /// Launches kernel `K` on this stream, asynchronously.
    ///
    /// `args` is a tuple with one [`Arg`] for each parameter of the kernel; a wrong number or a wrong type does not
    /// compile. A kernel that takes a [`GridBarrier`](cuda_std::GridBarrier) is launched cooperatively: see
    /// [`DeviceGridBarrier`](crate::DeviceGridBarrier).
    ///
    /// # Errors
    ///
    /// [`Error::LaunchConfig`] if the kernel or the device does not take the configuration, [`Error::DifferentDevices`]
    /// if an argument is in another device's memory, [`Error::NoModule`], [`Error::SignatureMismatch`] and
    /// [`Error::Module`] if the kernel cannot be loaded, [`Error::LaunchResources`] if the GPU has not what the launch
    /// takes. On the simulated GPU also [`Error::Fault`], if the kernel fails or
    /// [does not end](crate::Device::simulator); a failure on a GPU is reported by the call that waits,
    /// or here where the environment variable `WARPSMITH_SYNC` is `1`: see [`Error::Fault`] and [`Error::KernelFailed`].
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray, LaunchConfig};
    ///
    /// #[kernel]
    /// pub fn saxpy(a: f32, x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     if i < out.len() {
    ///         out.set(i, a * x[i] + y[i]);
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![1.0, 2.0, 3.0])?;
    /// let y = DeviceArray::from_ndarray(stream, &array![10.0, 20.0, 30.0])?;
    /// let mut out = DeviceArray::zeros(stream, 3)?;
    /// stream.launch::<saxpy>(&LaunchConfig::for_len(3, 256), (2.0, &x, &y, &mut out))?;
    /// assert_eq!(out.to_ndarray()?, array![12.0, 24.0, 36.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cudaLaunchKernel")]
    pub fn launch<K: SafeKernel>(&self, config: &LaunchConfig, args: impl Args<K::Params>) -> Result<()> {
        // SAFETY: the kernel is safe: it keeps no promise beyond its types, which `Args` keeps.
        unsafe { self.launch_unchecked::<K>(config, args) }
    }

    /// [`launch`](Self::launch) of a kernel that is an `unsafe fn`.
    ///
    /// # Errors
    ///
    /// As [`launch`](Self::launch).
    ///
    /// # Safety
    ///
    /// The contract of the kernel's function holds for every thread of the launch.
    pub unsafe fn launch_unchecked<K: Kernel>(&self, config: &LaunchConfig, args: impl Args<K::Params>) -> Result<()> {
        let launch = Launch::new::<K>(self, KernelInfo::of::<K>(), config);
        // SAFETY: the caller's promise; the arguments are for the parameters of `K`.
        unsafe { args.launch(&launch) }
    }

    /// [`launch_unchecked`](Self::launch_unchecked) of a kernel for tensor cores, which the simulated GPU has in tests alone:
    /// see [`KernelInfo::of_tensor_cores`].
    ///
    /// # Safety
    ///
    /// As [`launch_unchecked`](Self::launch_unchecked).
    pub(crate) unsafe fn launch_on_tensor_cores<K: Kernel>(
        &self,
        config: &LaunchConfig,
        args: impl Args<K::Params>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_in_clusters::<K>(config, 1, args) }
    }

    /// The same, in clusters of so many blocks along x, of a kernel that does not say of how many its clusters are: on Hopper and later,
    /// by a driver of CUDA 12.3 or newer.
    ///
    /// # Safety
    ///
    /// As [`launch_unchecked`](Self::launch_unchecked).
    pub(crate) unsafe fn launch_in_clusters<K: Kernel>(
        &self,
        config: &LaunchConfig,
        blocks: u32,
        args: impl Args<K::Params>,
    ) -> Result<()> {
        let kernel = KernelInfo::of_tensor_cores::<K>().in_clusters(blocks);
        let launch = Launch::new::<K>(self, kernel, config);
        // SAFETY: the caller's promise; the arguments are for the parameters of `K`.
        unsafe { args.launch(&launch) }
    }
}

/// A launch but for its arguments, without the kernel's type.
#[doc(hidden)]
pub struct Launch<'a> {
    stream: &'a Stream,
    kernel: KernelInfo,
    max_threads: u32,
    config: &'a LaunchConfig,
}

impl<'a> Launch<'a> {
    fn new<K: Kernel>(stream: &'a Stream, kernel: KernelInfo, config: &'a LaunchConfig) -> Self {
        Self {
            stream,
            kernel,
            max_threads: K::MAX_THREADS,
            config,
        }
    }

    /// What all launches do, compiled once.
    ///
    /// # Safety
    ///
    /// The arguments are for the kernel's parameters, and its contract holds for every thread of the launch.
    unsafe fn with(&self, args: &[&dyn UntypedArg]) -> Result<()> {
        let Self {
            stream, kernel, config, ..
        } = self;
        let device = stream.backend().properties();
        check(kernel.name, self.max_threads, config, device)?;
        check_clusters(kernel, config, device)?;
        let prepare = || args.iter().try_for_each(|arg| arg.prepare(kernel.name, stream));
        prepare()?;
        let reading = args.first().and_then(|first| first.reading());
        // SAFETY: `Arg` gives the kernel's parameters, in this device's memory and ordered on this stream; the borrows
        // in `args` last for the call, and on the stream the memory is used before it is freed or written by others.
        // If there is a reading, it is that of the first argument's memory, and who has made that has ordered the stream for what
        // the reading reads.
        with_values(args, &mut Vec::with_capacity(16), &mut |params| unsafe {
            match reading {
                Some(reading) => reading.launch(stream, kernel, config, params),
                None => stream.queue_launch(kernel, config, params),
            }
        })?;
        if args.iter().any(|arg| arg.is_part()) {
            // A thread that has prepared another part since has waited for this stream without the launch.
            prepare()?;
        }
        Ok(())
    }
}

/// Calls `launch` with the addresses of the values of `params` and of all arguments, behind them.
fn with_values(
    args: &[&dyn UntypedArg],
    params: &mut Vec<*const ()>,
    launch: &mut dyn FnMut(&mut Vec<*const ()>) -> Result<()>,
) -> Result<()> {
    match args.split_first() {
        Some((first, others)) => first.with_values(params, &mut |params| with_values(others, params, launch)),
        None => launch(params),
    }
}

/// An [`Arg`] without its types.
trait UntypedArg {
    /// As [`Arg::prepare`].
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()>;

    /// As [`Arg::is_part`].
    fn is_part(&self) -> bool;

    /// As [`Arg::reading`].
    fn reading(&self) -> Option<&Reading>;

    /// Appends the addresses of the values that [`Arg::abi`] gives, which last as long as the call of `then`.
    fn with_values(
        &self,
        params: &mut Vec<*const ()>,
        then: &mut dyn FnMut(&mut Vec<*const ()>) -> Result<()>,
    ) -> Result<()>;
}

/// The argument for a parameter of type `P`.
struct ArgOf<'a, P, A>(&'a A, PhantomData<P>);

impl<P: Param, A: Arg<P>> UntypedArg for ArgOf<'_, P, A> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        self.0.prepare(kernel, stream)
    }

    fn is_part(&self) -> bool {
        self.0.is_part()
    }

    fn reading(&self) -> Option<&Reading> {
        self.0.reading()
    }

    fn with_values(
        &self,
        params: &mut Vec<*const ()>,
        then: &mut dyn FnMut(&mut Vec<*const ()>) -> Result<()>,
    ) -> Result<()> {
        let abi = (self.0.abi(),);
        <(P,)>::addresses(&abi, params);
        then(params)
    }
}
