// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axes of pictures.

use ndarray::{Dimension, Ix2, Ix3};

use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::view::{DeviceView, DeviceViewMut};

/// The axes of a picture: rows, columns and channels, or rows and columns alone where there is one channel, as
/// [`grayscale`](DeviceArrayRef::grayscale) gives it.
pub trait PictureAxes: Dimension {
    /// The picture with an axis for its channels.
    #[doc(hidden)]
    fn with_channels<T: Element>(picture: &DeviceArrayRef<T, Self>) -> Result<DeviceView<'_, T, Ix3>>;

    /// The same of a picture that is written to.
    #[doc(hidden)]
    fn with_channels_mut<T: Element>(picture: &mut DeviceArrayRef<T, Self>) -> Result<DeviceViewMut<'_, T, Ix3>>;
}

impl PictureAxes for Ix3 {
    fn with_channels<T: Element>(picture: &DeviceArrayRef<T, Ix3>) -> Result<DeviceView<'_, T, Ix3>> {
        Ok(picture.view())
    }

    fn with_channels_mut<T: Element>(picture: &mut DeviceArrayRef<T, Ix3>) -> Result<DeviceViewMut<'_, T, Ix3>> {
        Ok(picture.view_mut())
    }
}

impl PictureAxes for Ix2 {
    fn with_channels<T: Element>(picture: &DeviceArrayRef<T, Ix2>) -> Result<DeviceView<'_, T, Ix3>> {
        let (rows, columns) = picture.raw_dim().into_pattern();
        picture.reshape((rows, columns, 1))
    }

    fn with_channels_mut<T: Element>(picture: &mut DeviceArrayRef<T, Ix2>) -> Result<DeviceViewMut<'_, T, Ix3>> {
        let (rows, columns) = picture.raw_dim().into_pattern();
        picture.reshape_mut((rows, columns, 1))
    }
}
