// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors.

mod gemm;
mod gemv;
