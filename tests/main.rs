// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library against ndarray and Rust's own arithmetic, on the device that `WARPSMITH_DEVICE` names.
//!
//! One executable: what the files have in common is compiled and linked once, and the tests of all share the cores.
//! `cargo test --test suite reduce::` runs those of one file.

#[macro_use]
mod common;

mod along;
mod array;
mod assigned;
mod attention;
mod binary;
mod blur;
mod broadcast;
mod cast;
mod cast_bytes;
mod checks;
mod compare;
mod convolve;
mod cooperative;
mod create;
#[cfg(feature = "cudarc")]
mod cudarc;
#[cfg(feature = "cust")]
mod cust;
mod device;
mod differences;
mod einsum;
mod expr;
mod expr_apply;
mod expr_compile;
mod expr_matmul;
mod expr_normalize;
mod expr_random;
mod expr_reduce;
mod expr_scan;
mod expr_update;
mod faults;
mod filter;
mod format;
mod function;
mod functions;
mod graph;
mod histogram;
mod image;
mod indexing;
mod interop;
mod joined;
mod kernels;
mod large;
mod launch;
mod many_threads;
mod map;
mod matmul;
mod matmul_ampere;
mod matmul_chain;
mod matmul_choices;
mod matmul_double;
mod matmul_fused;
mod matmul_grouped;
mod matmul_half;
mod matmul_int8;
mod matmul_precision;
mod matmul_scaled;
mod matmul_single;
mod memory;
mod norm;
mod npy;
mod numerics;
mod occupancy;
mod optim;
mod outputs;
mod pipeline;
mod pool;
mod random;
mod reduce;
mod reduce_axes;
mod reduce_views;
mod scan;
mod scan_axis;
mod scan_views;
mod schedules;
mod select;
mod several_gpus;
mod slicing;
mod sort;
mod statistics;
mod streams;
mod top_k;
mod transfer;
mod transpose;
mod view;
