// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the threads of a block compute together.

mod reduce;
mod scan;

pub use reduce::{MAX_VALUE, reduce};
pub(crate) use scan::scan_of_warps;
pub use scan::{Scanned, exclusive_scan};
