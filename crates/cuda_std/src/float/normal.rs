// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choices without a branch.

/// `a` if `condition` holds, `b` else, both of which are computed: of several values that hang on one condition LLVM would make
/// a branch.
#[inline(always)]
pub fn select<T>(condition: bool, a: T, b: T) -> T {
    core::hint::select_unpredictable(condition, a, b)
}
