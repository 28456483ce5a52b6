// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel can tell the compiler about its registers.

use crate::machine;

/// `value`, of which the compiler no longer knows where it is from.
///
/// The compiler takes a word apart as early as it can: four bytes of a word that is loaded now and used later wait in
/// four registers. Of an opaque word it must keep the word, and takes it apart where it becomes opaque. ptxas removes
/// the copy that this is in PTX.
///
/// ```
/// use cuda_std::hint;
///
/// assert_eq!(hint::opaque(0x0403_0201).to_le_bytes(), [1, 2, 3, 4]);
/// ```
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    machine::opaque(value)
}
