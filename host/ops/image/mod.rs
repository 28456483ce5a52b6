// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures: arrays of `u8`, `u16` or `f32` with the axes row, column, channel, as the crate `image` and NumPy lay them
//! out; of one channel without an axis for it, too.

mod axes;
mod border;
mod box_blur;
mod filter;
mod gaussian;
mod grayscale;
mod pixel;
mod separable;

pub use axes::PictureAxes;
pub use border::Border;
pub use grayscale::Weights;
pub use pixel::Pixel;

use ndarray::Ix3;

use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// The channels of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// One: gray.
    Gray,
    /// Three: red, green, blue.
    Rgb,
    /// Four: red, green, blue, alpha.
    Rgba,
}

impl Channels {
    /// The channels of a picture that has so many.
    fn of<T: Element>(operation: &'static str, picture: &DeviceArrayRef<T, Ix3>) -> Result<Self> {
        match picture.shape()[2] {
            1 => Ok(Self::Gray),
            3 => Ok(Self::Rgb),
            4 => Ok(Self::Rgba),
            _ => Err(Error::Shape {
                operation,
                given: format!("shape {:?}", picture.shape()),
                wanted: "rows × columns × channels, with 1, 3 or 4 channels".into(),
            }),
        }
    }
}

/// The most blocks of a grid along y.
const MAX_GRID_Y: usize = 65_535;

/// The most blocks of a grid along x; the kernels that this is for go on with what is left.
const MAX_BLOCKS: usize = i32::MAX as usize;

/// A launch of a kernel whose blocks step over `tasks`, which are at least one; each treats `each` at a time.
fn stepping(tasks: usize, each: usize, threads: usize) -> LaunchConfig {
    LaunchConfig::new(tasks.div_ceil(each).min(MAX_BLOCKS) as u32, threads as u32)
}

/// The threads that the device has room for at a time.
fn resident_threads(stream: &Stream) -> usize {
    let properties = stream.backend().properties();
    properties.multiprocessors as usize * properties.max_threads_per_multiprocessor as usize
}

/// An error if a window's `radius`, which comes of the `parameter` that is `given`, is larger than a side of the
/// picture. One without pixels takes every radius.
fn check_radius<T: Pixel>(
    operation: &'static str,
    parameter: &'static str,
    given: String,
    radius: usize,
    picture: &DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    let (rows, columns) = (picture.shape()[0], picture.shape()[1]);
    if picture.is_empty() || radius <= rows.min(columns) {
        return Ok(());
    }
    Err(Error::Parameter {
        operation,
        parameter,
        given,
        wanted: format!(
            "a radius of at most {}, for a picture of {rows} rows and {columns} columns",
            rows.min(columns)
        ),
    })
}
