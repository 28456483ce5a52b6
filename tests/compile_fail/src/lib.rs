// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing but tests: see tests/compile_fail.rs.
