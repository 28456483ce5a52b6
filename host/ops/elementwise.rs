// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of one's own, of the elements of one to four arrays.

use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use kernels_gpu::compiled::Elementwise;
use kernels_gpu::elementwise::THREADS;
use ndarray::Dimension;

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::view::AsView;

/// The arrays that [`elementwise()`] takes for function `F`: a tuple of references to one to four arrays or views
/// ([`AsView`]), of the function's types and of one shape. Views that are not in C order are copied first.
pub trait Operands<F: Elementwise, D: Dimension> {
    /// The stream and the shape of the first array.
    #[doc(hidden)]
    fn home(&self) -> (Stream, D);

    /// An error unless all shapes are the same, that of `out` too, and all devices, that of `out`'s stream too.
    #[doc(hidden)]
    fn check(&self, operation: &'static str, out: (&Stream, &D)) -> Result<()>;

    /// Launches the kernel for elements that are at least one.
    #[doc(hidden)]
    fn launch(&self, out: &mut DeviceArrayRef<F::Output, D>) -> Result<()>;
}

/// `operands!(type of an element: type of an array, …)`
macro_rules! operands {
    ($first:ident: $first_array:ident $(, $type:ident: $array:ident)*) => {
        #[allow(non_snake_case)]
        impl<F, D: Dimension, $first: Element, $first_array: ?Sized, $($type: Element, $array: ?Sized),*> Operands<F, D>
            for (&$first_array, $(&$array,)*)
        where
            F: Elementwise<
                Inputs = ($first, $($type,)*),
                Kernel: SafeKernel<
                    Params = (
                        Slice<'static, $first>,
                        $(Slice<'static, $type>,)*
                        SliceMut<'static, F::Output>,
                    ),
                >,
            >,
            $first_array: AsView<$first, Dim = D>,
            $($array: AsView<$type, Dim = D>,)*
        {
            fn home(&self) -> (Stream, D) {
                let first = self.0.as_view();
                (first.stream().clone(), first.raw_dim())
            }

            fn check(&self, operation: &'static str, out: (&Stream, &D)) -> Result<()> {
                let ($first, $($type,)*) = self;
                let ($first, $($type,)*) = ($first.as_view(), $($type.as_view(),)*);
                same_shapes(operation, &[$first.shape(), $($type.shape(),)* out.1.slice()])?;
                $($first.stream().check_device(operation, $type.stream())?;)*
                $first.stream().check_device(operation, out.0)
            }

            fn launch(&self, out: &mut DeviceArrayRef<F::Output, D>) -> Result<()> {
                let ($first, $($type,)*) = self;
                let ($first, $($type,)*) = ($first.as_view(), $($type.as_view(),)*);
                let ($first, $($type,)*) = ($first.in_order()?, $($type.in_order()?,)*);
                let config = tiles(out.len(), F::TILE, THREADS);
                $first.stream().launch::<F::Kernel>(&config, (&*$first, $(&*$type,)* out))
            }
        }
    };
}

operands!(A: X);
operands!(A: X, B: Y);
operands!(A: X, B: Y, C: Z);
operands!(A: X, B: Y, C: Z, E: W);

fn same_shapes(operation: &'static str, shapes: &[&[usize]]) -> Result<()> {
    if shapes.iter().all(|shape| *shape == shapes[0]) {
        return Ok(());
    }
    let given: Vec<String> = shapes.iter().map(|shape| format!("{shape:?}")).collect();
    Err(Error::Shape {
        operation,
        given: format!("shapes {}", given.join(" and ")),
        wanted: "equal shapes".into(),
    })
}

/// A function of the elements of one to four arrays, made by [`kernels_gpu::elementwise!`]. Every element is read and
/// written once, whatever the function is made of.
///
/// # Errors
///
/// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of an allocation and a launch.
///
/// # Examples
///
/// ```
/// use cuda_std::Float;
/// use ndarray::array;
/// use warpsmith::ops::elementwise;
/// use warpsmith::{Device, DeviceArray};
///
/// kernels_gpu::elementwise! {
///     /// The length of a vector, in units of which there are `scale` to the metre.
///     pub fn length(x: f32, y: f32, scale: u8) -> f32 {
///         Float::sqrt(x * x + y * y) / scale as f32
///     }
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator(); // on a GPU also Device::register_kernels
/// let stream = device.default_stream();
/// let x = DeviceArray::from_ndarray(stream, &array![3.0f32, 5.0])?;
/// let y = DeviceArray::from_ndarray(stream, &array![4.0f32, 12.0])?;
/// let scale = DeviceArray::from_ndarray(stream, &array![1u8, 10])?;
/// assert_eq!(elementwise::<length, _>((&x, &y, &scale))?.to_ndarray()?, array![5.0, 1.3]);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ElementwiseKernel")]
pub fn elementwise<F: Elementwise, D: Dimension>(operands: impl Operands<F, D>) -> Result<DeviceArray<F::Output, D>> {
    let (stream, dim) = operands.home();
    operands.check("elementwise", (&stream, &dim))?;
    DeviceArray::made(&stream, dim, &mut |out| apply_into("elementwise", &operands, out))
}

/// [`elementwise()`] into an existing array or view.
///
/// # Errors
///
/// As [`elementwise()`].
pub fn elementwise_into<F: Elementwise, D: Dimension>(
    operands: impl Operands<F, D>,
    out: &mut DeviceArrayRef<F::Output, D>,
) -> Result<()> {
    apply_into("elementwise", &operands, out)
}

fn apply_into<F: Elementwise, D: Dimension>(
    operation: &'static str,
    operands: &impl Operands<F, D>,
    out: &mut DeviceArrayRef<F::Output, D>,
) -> Result<()> {
    operands.check(operation, (out.stream(), &out.raw_dim()))?;
    if out.is_empty() {
        return Ok(());
    }
    let stream = operands.home().0;
    out.write_in_order(&stream, &mut |out| operands.launch(out))
}

/// Functions of one's own.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// A function of each element, made by [`kernels_gpu::elementwise!`]; for functions of several arrays there is
    /// [`elementwise()`].
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// kernels_gpu::elementwise! {
    ///     /// From degrees Celsius to degrees Fahrenheit.
    ///     pub fn fahrenheit(celsius: f32) -> f32 {
    ///         celsius * 1.8 + 32.0
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator(); // on a GPU also Device::register_kernels
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![-40.0f32, 0.0, 100.0])?;
    /// assert_eq!(x.map_with::<fahrenheit>()?.to_ndarray()?, array![-40.0, 32.0, 212.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn map_with<F: Elementwise>(&self) -> Result<DeviceArray<F::Output, D>>
    where
        for<'a> (&'a Self,): Operands<F, D>,
    {
        elementwise::<F, D>((self,))
    }

    /// [`map_with`](Self::map_with) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of a launch.
    pub fn map_with_into<F: Elementwise>(&self, out: &mut DeviceArrayRef<F::Output, D>) -> Result<()>
    where
        for<'a> (&'a Self,): Operands<F, D>,
    {
        apply_into::<F, D>("map_with", &(self,), out)
    }
}
