// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments on the simulated GPU.

mod experiments;
