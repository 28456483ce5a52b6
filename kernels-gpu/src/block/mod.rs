// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the threads of a block compute together.

mod reduce;
mod scan;

pub use reduce::{MAX_VALUE, reduce};
pub use scan::{Scanned, exclusive_scan};
