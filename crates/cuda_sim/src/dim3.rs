// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extents and positions in up to three dimensions.

use std::fmt;

/// Three extents (of a grid or a block, in blocks or threads), or the position
/// of one block or thread within them.
///
/// ```
/// use cuda_sim::Dim3;
/// assert_eq!(Dim3::from(256), Dim3 { x: 256, y: 1, z: 1 });
/// assert_eq!(Dim3::from((16, 8)).count(), 128);
/// assert_eq!(Dim3::from((1, 2, 3)).to_string(), "(1, 2, 3)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Dim3 {
    /// The extent along x, which varies fastest.
    pub x: u32,
    /// The extent along y.
    pub y: u32,
    /// The extent along z, which varies slowest.
    pub z: u32,
}

impl Dim3 {
    /// The product of the three extents, or [`u64::MAX`] if it is beyond. A grid
    /// that the limits allow has fewer than 2^63 blocks.
    #[inline]
    pub fn count(self) -> u64 {
        (u64::from(self.x) * u64::from(self.y)).saturating_mul(u64::from(self.z))
    }

    /// The position of element `linear`, counted with x fastest.
    pub(crate) fn position(self, linear: u64) -> Dim3 {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        // Each coordinate is below the extent it is taken modulo, so it fits.
        Dim3 {
            x: (linear % x) as u32,
            y: (linear / x % y) as u32,
            z: (linear / x / y) as u32,
        }
    }

    /// The number of the element at that position, which [`position`](Self::position)
    /// gives back.
    pub(crate) fn linear(self, at: Dim3) -> u64 {
        let [x, y, z] = [at.x, at.y, at.z].map(u64::from);
        (z * u64::from(self.y) + y) * u64::from(self.x) + x
    }

    /// The position that follows `at` in linear order, x fastest.
    #[inline]
    pub(crate) fn successor(self, at: Dim3) -> Dim3 {
        if at.x + 1 < self.x {
            Dim3 { x: at.x + 1, ..at }
        } else if at.y + 1 < self.y {
            Dim3 {
                x: 0,
                y: at.y + 1,
                ..at
            }
        } else {
            Dim3 {
                x: 0,
                y: 0,
                z: at.z + 1,
            }
        }
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Dim3 { x, y: 1, z: 1 }
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Dim3 { x, y, z: 1 }
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Dim3 { x, y, z }
    }
}

/// One in each dimension.
impl Default for Dim3 {
    fn default() -> Self {
        Dim3 { x: 1, y: 1, z: 1 }
    }
}

impl fmt::Display for Dim3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}
