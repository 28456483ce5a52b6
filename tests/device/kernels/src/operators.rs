// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions by operators of one's own.

use cuda_std::Float;
use kernels_gpu::op::ReduceOp;

/// `ln Σ e^x`, without overflow: the sum is that of `e^(x − m)`, where `m` is the largest element.
pub struct LogSumExp;

/// The largest element `m`, and the sum of `e^(x − m)`.
type Scaled = [f32; 2];

impl ReduceOp<f32> for LogSumExp {
    type Acc = Scaled;
    type Output = f32;

    fn identity() -> Scaled {
        [f32::NEG_INFINITY, 0.0]
    }

    fn lift(x: f32, _: u64) -> Scaled {
        [x, 1.0]
    }

    fn combine(a: Scaled, b: Scaled) -> Scaled {
        let most = Float::maximum(a[0], b[0]);
        let scaled = |[m, sum]: Scaled| {
            if m == most { sum } else { sum * Float::exp(m - most) }
        };
        [most, scaled(a) + scaled(b)]
    }

    fn finish([most, sum]: Scaled, _: u64) -> f32 {
        most + Float::ln(sum)
    }
}

kernels_gpu::operator_kernels!(LogSumExp: f32 => reduce);

/// The highest point, and which it is, with checks of the bookkeeping: elements are structures of 12 bytes, and what
/// they are combined in is the largest that may be, 32 bytes.
pub struct Support;

impl ReduceOp<[f32; 3]> for Support {
    type Acc = [u64; 4];
    type Output = [u64; 3];

    fn identity() -> [u64; 4] {
        [0, u64::MAX, 0, 0]
    }

    /// One more than the height in whole units (so never 0), the number, the number of points, and the sum of the
    /// numbers.
    fn lift(x: [f32; 3], index: u64) -> [u64; 4] {
        [x[2] as u64 + 1, index, 1, index]
    }

    fn combine(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
        let b_wins = b[0] > a[0] || (b[0] == a[0] && b[1] < a[1]);
        let (height, index) = if b_wins { (b[0], b[1]) } else { (a[0], a[1]) };
        [height, index, a[2] + b[2], a[3] + b[3]]
    }

    fn finish(acc: [u64; 4], count: u64) -> [u64; 3] {
        [acc[1], count - acc[2], acc[3]]
    }
}

kernels_gpu::operator_kernels!(Support: [f32; 3] => reduce);

/// The sum of each channel of pixels: elements of 3 bytes, of which no vector has a power of two.
pub struct ChannelSums;

impl ReduceOp<[u8; 3]> for ChannelSums {
    type Acc = [u32; 3];
    type Output = [u32; 3];

    fn identity() -> [u32; 3] {
        [0; 3]
    }

    fn lift(x: [u8; 3], _: u64) -> [u32; 3] {
        x.map(u32::from)
    }

    fn combine(a: [u32; 3], b: [u32; 3]) -> [u32; 3] {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
    }

    fn finish(acc: [u32; 3], _: u64) -> [u32; 3] {
        acc
    }
}

kernels_gpu::operator_kernels!(ChannelSums: [u8; 3] => reduce);
