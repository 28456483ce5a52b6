// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies beyond the edges of a picture.

use kernels_gpu::blur::border;

use super::Pixel;
use crate::error::{Error, Result};

/// What a blur takes for the pixels beyond the edges of a picture; the examples are of a row `a b c d`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Border<T> {
    /// None: the mean is over the pixels that exist, with their weights.
    Mean,
    /// The pixel at the edge, `a a a | a b c d | d d d`: SciPy's `nearest`.
    Clamp,
    /// The picture reflected about its edge, `c b a | a b c d | d c b`: SciPy's `reflect`.
    Reflect,
    /// The picture again, `b c d | a b c d | a b c`: SciPy's `wrap`.
    Wrap,
    /// The same number for every channel, which must be finite: SciPy's `constant`.
    Constant(T),
}

impl<T: Pixel> Border<T> {
    /// The border as the kernels take it.
    pub(super) fn to_kernel(self, operation: &'static str) -> Result<(u32, T)> {
        Ok(match self {
            Self::Mean => (border::MISSING, T::ZERO),
            Self::Clamp => (border::CLAMP, T::ZERO),
            Self::Reflect => (border::REFLECT, T::ZERO),
            Self::Wrap => (border::WRAP, T::ZERO),
            Self::Constant(constant) if constant.is_finite() => (border::CONSTANT, constant),
            Self::Constant(constant) => {
                return Err(Error::Parameter {
                    operation,
                    parameter: "border",
                    given: format!("Constant({})", kernels_gpu::pixel::Pixel::to_f32(constant)),
                    wanted: "a finite constant".into(),
                });
            }
        })
    }
}
