// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing but tests: see cuda_sim/main.rs and cuda_std/main.rs.
