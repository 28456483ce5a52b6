// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments on the simulated GPU, and what they draw.

mod experiments;
mod pictures;
