// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations on device arrays: one file per family. Each checks shapes, chooses a launch plan from the kernel's
//! own constants, and launches.

mod along;
mod assign;
mod attention;
mod binary;
mod broadcast;
mod cast;
mod compare;
mod convolve;
mod covariance;
mod create;
mod differences;
mod einsum;
mod elementwise;
mod format;
mod functions;
mod histogram;
mod image;
mod index;
mod join;
mod lanes;
mod map;
mod matmul;
mod output;
mod part;
mod per_axis;
mod pool;
mod quantile;
pub(crate) mod random;
mod reduce;
mod scan;
mod search;
mod select;
mod sort;
mod top_k;
mod transfer;
mod transpose;

pub use attention::{Attend, Attention, Sequences};
pub use convolve::{Convolution, Convolve, PaddingMode};
pub use einsum::einsum;
pub use elementwise::{Operands, elementwise, elementwise_into};
pub use histogram::{Bincount, Histogram, histogram_bin_edges};
pub use image::{Border, Channels, PictureAxes, Pixel, Weights};
pub use index::{HostIndex, Index, Indices, ScatterAdd};
pub use join::{concatenate, stack};
pub use kernels_gpu::compiled::{
    Binary, CastTo, Elementwise, Map, MatVec, Number, Pool, RandomFloat, RandomInteger, Real, Reduce, RowNumber, Scan,
    ScanTree, Sort, TopK,
};
pub use kernels_gpu::op::{
    Abs, Add, All, Any, ArgMax, ArgMin, Cos, Div, Exp, Ln, Max, Maximum, Mean, Min, Minimum, Mul, Neg, Pow, Product,
    ReduceOp, Relu, Sigmoid, Sin, Sqrt, Square, Std, Sub, Sum, Tanh, Variance,
};
pub use matmul::{
    CHOICES_VARIABLE, FusedMatMul, MatMul, OwnEpilogue, Pair, Precision, RowMatMul, ScaledMatMul, ScaledMul, WithRows,
    grouped_matmul, set_matmul_choices,
};
pub use per_axis::PerAxis;
pub use pool::Pooling;
pub use random::{Generator, IntegerRange};
pub use scan::ScanAlgorithm;
pub use search::Side;

pub(crate) use histogram::{bins_of_edges, check_histogram, check_histogram_channels};
pub(crate) use matmul::{check_matvec, matmul_shape};
pub(crate) use transpose::copy_to;

use crate::launch::LaunchConfig;

/// A one-dimensional launch in which each block treats `tile` of the `len` elements, which are at least one.
fn tiles(len: usize, tile: usize, threads: usize) -> LaunchConfig {
    let blocks = u32::try_from(len.div_ceil(tile)).unwrap_or(u32::MAX);
    LaunchConfig::new(blocks, threads as u32)
}
