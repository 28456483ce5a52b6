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

/// [`opaque`]`(value)`, made where it stands: the compiler does not put off its computation to where it is used.
///
/// It does so where it takes no registers into account: until then, all that the value is computed from waits in some.
///
/// ```
/// use cuda_std::hint;
///
/// assert_eq!(hint::pinned(3), 3);
/// ```
#[inline(always)]
pub fn pinned(value: u32) -> u32 {
    machine::pinned(value)
}
