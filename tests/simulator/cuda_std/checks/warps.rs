// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lanes of a warp may rely on, and what not.

use crate::checks::corpus::warps as kernels;

crate::corpus_warps! { crate::checks::cases }
