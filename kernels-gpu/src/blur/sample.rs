// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbours of a picture that a thread of a filter has, as floats and back.

use cuda_std::bits::{byte_perm, round_sums_to_bytes, round_sums_to_halves, round_to_bytes, round_to_halves};
use cuda_std::prelude::*;

use crate::pixel::Pixel;

/// Numbers of a picture of which a thread of a filter has `V` side by side.
pub trait Sample<const V: usize>: Pixel {
    /// The words that so many have: what is packed stays so until it is needed.
    type Words: bytemuck::Pod;

    /// Each as `f32`.
    fn widen(words: Self::Words) -> [f32; V];

    /// One as `f32`.
    fn widen_one(self) -> f32;

    /// Each as [`Pixel::from_f32`].
    fn round(sums: [f32; V]) -> Self::Words;
}

impl Sample<4> for f32 {
    type Words = [f32; 4];

    #[inline(always)]
    fn widen(words: [f32; 4]) -> [f32; 4] {
        words
    }

    #[inline(always)]
    fn widen_one(self) -> f32 {
        self
    }

    #[inline(always)]
    fn round(sums: [f32; 4]) -> [f32; 4] {
        sums
    }
}

impl Sample<8> for u16 {
    type Words = [u32; 4];

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen(words: [u32; 4]) -> [f32; 8] {
        cuda_std::array::from_fn(|i| from_bytes(words[i / 2], if i % 2 == 0 { 0x7410 } else { 0x7432 }))
    }

    #[inline(always)]
    fn widen_one(self) -> f32 {
        from_bytes(self.into(), 0x7410)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn round(sums: [f32; 8]) -> [u32; 4] {
        cuda_std::array::from_fn(|i| round_to_halves([sums[2 * i], sums[2 * i + 1]]))
    }
}

impl Sample<8> for u8 {
    type Words = [u32; 2];

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen(words: [u32; 2]) -> [f32; 8] {
        cuda_std::array::from_fn(|i| from_bytes(words[i / 4], 0x7440 + (i % 4) as u32))
    }

    #[inline(always)]
    fn widen_one(self) -> f32 {
        from_bytes(self.into(), 0x7440)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn round(sums: [f32; 8]) -> [u32; 2] {
        cuda_std::array::from_fn(|i| round_to_bytes(cuda_std::array::from_fn(|j| sums[4 * i + j]), 1.0))
    }
}

/// Numbers of a picture of which a thread has `V` as floats that are multiplied by a power of two, by weights that make up for it.
pub trait Scaled<const V: usize>: Pixel {
    /// The words that so many have.
    type Words: bytemuck::Pod;

    /// The exponent of the power of two.
    const EXPONENT: i32;

    /// Each times 2 to the power of [`EXPONENT`](Self::EXPONENT).
    fn widen(words: Self::Words) -> [f32; V];

    /// One, in the same way.
    fn widen_one(self) -> f32;

    /// A word of this number.
    fn repeated(self) -> u32;

    /// The word that has this number first.
    fn word(self) -> u32;

    /// The word that begins with number `at`.
    ///
    /// # Safety
    ///
    /// There is one, and it is aligned.
    unsafe fn load_word(numbers: &[Self], at: usize) -> u32;

    /// What names number `at` in its word for [`one_of`](Self::one_of), or none.
    fn selector(at: Option<usize>) -> u32;

    /// The number of `word` that `selector` names, or `otherwise`, in the same way.
    fn one_of(word: u32, otherwise: Self, selector: u32) -> f32;

    /// Each of the sums times `scale`, a power of two, as [`Pixel::from_f32`].
    fn round(sums: [f32; V], scale: f32) -> Self::Words;
}

impl Scaled<4> for f32 {
    type Words = [f32; 4];

    const EXPONENT: i32 = 0;

    #[inline(always)]
    fn widen(words: [f32; 4]) -> [f32; 4] {
        words
    }

    #[inline(always)]
    fn widen_one(self) -> f32 {
        self
    }

    #[inline(always)]
    fn repeated(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn word(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    unsafe fn load_word(numbers: &[f32], at: usize) -> u32 {
        // SAFETY: as promised.
        let [word] = unsafe { numbers.load_vec_unchecked::<1>(at) };
        word.to_bits()
    }

    #[inline(always)]
    fn selector(at: Option<usize>) -> u32 {
        if at.is_some() { 0x3210 } else { 0x7654 }
    }

    #[inline(always)]
    fn one_of(word: u32, otherwise: f32, selector: u32) -> f32 {
        f32::from_bits(byte_perm(word, otherwise.to_bits(), selector))
    }

    #[inline(always)]
    fn round(sums: [f32; 4], _: f32) -> [f32; 4] {
        sums
    }
}

/// A byte lies where its bits stand for multiples of 2⁻¹³³, as below the least normal number all bits do, and so for the byte times that:
/// no arithmetic, but one permutation.
macro_rules! bytes {
    ($($count:literal)*) => {$(
        impl Scaled<$count> for u8 {
            type Words = [u32; $count / 4];

            const EXPONENT: i32 = -133;

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn widen(words: Self::Words) -> [f32; $count] {
                cuda_std::array::from_fn(|i| f32::from_bits(byte_perm(words[i / 4], 0, 0x4044 + (i % 4 << 8) as u32)))
            }

            #[inline(always)]
            fn widen_one(self) -> f32 {
                f32::from_bits(u32::from(self) << 16)
            }

            #[inline(always)]
            fn repeated(self) -> u32 {
                u32::from(self) * 0x0101_0101
            }

            #[inline(always)]
            fn word(self) -> u32 {
                self.into()
            }

            #[inline(always)]
            unsafe fn load_word(numbers: &[u8], at: usize) -> u32 {
                // SAFETY: as promised.
                bytemuck::cast(unsafe { numbers.load_vec_unchecked::<4>(at) })
            }

            #[inline(always)]
            fn selector(at: Option<usize>) -> u32 {
                0x4044 + (at.map_or(5, |at| at as u32 % 4) << 8)
            }

            #[inline(always)]
            fn one_of(word: u32, otherwise: u8, selector: u32) -> f32 {
                f32::from_bits(byte_perm(word, u32::from(otherwise) << 8, selector))
            }

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn round(sums: [f32; $count], scale: f32) -> Self::Words {
                cuda_std::array::from_fn(|i| round_sums_to_bytes(cuda_std::array::from_fn(|j| sums[4 * i + j]), scale))
            }
        }
    )*};
}

bytes!(4 8 16);

/// Two bytes lie where their bits stand for multiples of 2⁻¹⁴¹.
impl Scaled<8> for u16 {
    type Words = [u32; 4];

    const EXPONENT: i32 = -141;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen(words: [u32; 4]) -> [f32; 8] {
        cuda_std::array::from_fn(|i| {
            f32::from_bits(byte_perm(words[i / 2], 0, if i % 2 == 0 { 0x4104 } else { 0x4324 }))
        })
    }

    #[inline(always)]
    fn widen_one(self) -> f32 {
        f32::from_bits(u32::from(self) << 8)
    }

    #[inline(always)]
    fn repeated(self) -> u32 {
        u32::from(self) * 0x0001_0001
    }

    #[inline(always)]
    fn word(self) -> u32 {
        self.into()
    }

    #[inline(always)]
    unsafe fn load_word(numbers: &[u16], at: usize) -> u32 {
        // SAFETY: as promised.
        bytemuck::cast(unsafe { numbers.load_vec_unchecked::<2>(at) })
    }

    #[inline(always)]
    fn selector(at: Option<usize>) -> u32 {
        at.map_or(0x4654, |at| if at % 2 == 0 { 0x4104 } else { 0x4324 })
    }

    #[inline(always)]
    fn one_of(word: u32, otherwise: u16, selector: u32) -> f32 {
        f32::from_bits(byte_perm(word, u32::from(otherwise) << 8, selector))
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn round(sums: [f32; 8], scale: f32) -> [u32; 4] {
        cuda_std::array::from_fn(|i| round_sums_to_halves([sums[2 * i], sums[2 * i + 1]], scale))
    }
}

/// The bytes of `word` that `selector` names, of the digits of [`byte_perm`], as a number; 4 stands for a byte of zeros, and 7 comes first.
///
/// They are the last bits of 2²³ and that number, so there is no conversion, for which the hardware has few units.
#[inline(always)]
fn from_bytes(word: u32, selector: u32) -> f32 {
    const MAGIC: f32 = 8_388_608.0;
    f32::from_bits(byte_perm(word, MAGIC.to_bits(), selector)) - MAGIC
}
