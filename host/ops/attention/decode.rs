// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of few queries to many keys: which operands its kernel takes, and how the keys are divided.

use cuda_std::launch::SafeKernel;
use kernels_gpu::attention::AttentionShape;
use kernels_gpu::attention::decode::tensor::ROWS;
use kernels_gpu::attention::decode::{DecodePlan, ELEMENTS, MAX_DIM, MOST_ROWS, THREADS, is_for_few};
use kernels_gpu::compiled::{AttentionDecodeParams, AttentionDecodeTensor};
use ndarray::{Dim, Ix3, Ix4};

use super::{Attend, Task, strides};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::ops::matmul::{AMPERE, has_tensor_cores};

/// The most queries that share a head of keys for which keys are divided: tiles of 64 queries would be mostly empty.
const FEW: u32 = 16;

const _: () = assert!(FEW as usize <= ROWS);

/// The fewest keys of a part, in which the results of a part are a small share of what is read.
const LEAST_KEYS: u32 = 256;

/// Blocks for each multiprocessor that keys are divided for: on ordinary cores twice as many as it holds, of the kernel for tensor
/// cores, which always has the next keys on their way, just as many.
const fn blocks_for_each(on_tensor_cores: bool) -> u32 {
    if on_tensor_cores { 2 } else { 8 }
}

impl<T: Attend> Task<'_, T> {
    /// Computes by the kernel for few queries, if there are few, and operands lie as it takes them.
    pub(super) fn for_few_queries(&mut self) -> Result<bool> {
        let rows = self.shape.queries.checked_mul(self.shape.sharing);
        let Some(rows) = rows.filter(|&rows| rows <= FEW && self.shape.is_valid(1)) else {
            return Ok(false);
        };
        if self.shape.keys == 0
            || self.extra.has_bias()
            || !is_for_few(&self.shape)
            || !(lies_well(self.q) && lies_well(self.k) && lies_well(self.v))
        {
            return Ok(false);
        }
        match rows {
            1 => self.launch_decode::<T::One, false>(1)?,
            _ if T::few_on_tensor_cores(self)? => {}
            _ => self.launch_decode::<T::Four, false>(rows.div_ceil(MOST_ROWS as u32))?,
        }
        Ok(true)
    }

    /// Computes by the kernel for tensor cores, if the device has them and the kernel is for such lines. Otherwise the task is one for
    /// few queries.
    pub(super) fn few_on_tensor_cores(&mut self) -> Result<bool>
    where
        T: AttentionDecodeTensor,
    {
        if !has_tensor_cores(self.q.stream(), AMPERE) {
            return Ok(false);
        }
        match self.shape.dim {
            64 => self.launch_decode::<<T as AttentionDecodeTensor>::D64, true>(1)?,
            128 => self.launch_decode::<<T as AttentionDecodeTensor>::D128, true>(1)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// By so many blocks for each head and part of the keys, of a kernel for tensor cores or not.
    fn launch_decode<K: SafeKernel<Params = AttentionDecodeParams<T>>, const ON_TENSOR_CORES: bool>(
        &mut self,
        blocks: u32,
    ) -> Result<()> {
        let stream = self.q.stream();
        let heads = self.shape.batch * self.shape.key_head(self.shape.heads);
        let plan = plan(
            &self.shape,
            heads * blocks,
            blocks_for_each(ON_TENSOR_CORES) * stream.backend().properties().multiprocessors,
        );
        let parts = if plan.parts > 1 { plan.parts as usize } else { 0 };
        let [batch, heads_of_queries, queries, dim] = [0, 1, 2, 3].map(|axis| self.q.shape()[axis]);
        let lines = batch * heads_of_queries * queries;
        let mut results = DeviceArray::<f32, Ix3>::uninit(stream, Dim([parts, lines, dim]))?;
        let mut sums = DeviceArray::<f32, _>::uninit(stream, Dim([parts, lines]))?;
        let groups = if plan.parts > 1 { heads * blocks } else { 0 };
        let mut counters = stream.take_counters(groups as usize)?;
        let args = (
            Words::of(self.q),
            Words::of(self.k),
            Words::of(self.v),
            self.extra.sequences.as_deref().map(Words::of),
            &mut self.out,
            &mut self.log_sums,
            &mut results,
            &mut sums,
            &mut counters,
            self.shape,
            strides(self.q, self.k, self.v, None),
            plan,
            self.factor,
        );
        let config = LaunchConfig::new(heads * blocks * plan.parts, THREADS as u32);
        if ON_TENSOR_CORES {
            // SAFETY: the kernel is a safe one.
            unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
        } else {
            stream.launch::<K>(&config, args)?;
        }
        counters.give_back();
        Ok(())
    }
}

/// How the keys are divided that queries see, for about so many blocks in all, where a part takes `blocks`.
fn plan(shape: &AttentionShape, blocks: u32, in_all: u32) -> DecodePlan {
    let width = i64::from(shape.queries) + i64::from(shape.reach) - i64::from(shape.from);
    let all = width.clamp(1, i64::from(shape.keys)) as u32;
    let wanted = (in_all / blocks).clamp(1, all.div_ceil(LEAST_KEYS));
    let keys = all.div_ceil(wanted).next_multiple_of(64);
    DecodePlan {
        parts: all.div_ceil(keys),
        keys,
    }
}

/// Whether lines are without gaps, and begin at multiples of 16 bytes and of a lane's elements.
fn lies_well<T: Attend>(x: &DeviceArrayRef<T, Ix4>) -> bool {
    let dim = x.shape()[3];
    let [lines @ .., along] = x.strides() else {
        return false;
    };
    let whole = |&stride: &isize| stride >= 0 && stride.unsigned_abs().is_multiple_of(ELEMENTS);
    dim <= MAX_DIM
        && dim.is_multiple_of(ELEMENTS)
        && *along == 1
        && lines.iter().all(whole)
        && Words::<T>::of(x).address().is_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(keys: u32) -> AttentionShape {
        AttentionShape {
            batch: 1,
            heads: 1,
            sharing: 1,
            queries: 1,
            keys,
            dim: 128,
            from: -1,
            reach: keys as i32,
            group: 1,
            packed: 0,
        }
    }

    #[test]
    fn parts_cover_all_keys_and_none_is_empty() {
        for keys in [1, 63, 255, 256, 257, 8192, 100_001, 1 << 30] {
            for blocks in [1, 8, 512, 100_000] {
                let plan = plan(&shape(keys), blocks, 1056);
                assert!(
                    u64::from(plan.parts) * u64::from(plan.keys) >= u64::from(keys),
                    "{plan:?}"
                );
                assert!((plan.parts - 1) * plan.keys < keys, "{plan:?}");
                assert!(plan.parts == 1 || plan.keys >= 192, "{plan:?}");
            }
        }
        assert_eq!(plan(&shape(8192), 512, 1056), DecodePlan { parts: 2, keys: 4096 });
        let window = AttentionShape {
            from: 8000,
            reach: 8191,
            ..shape(8192)
        };
        assert_eq!(plan(&window, 8, 1056), DecodePlan { parts: 1, keys: 192 });
        assert_eq!(plan(&shape(8192), 1, 1056), DecodePlan { parts: 32, keys: 256 });
    }
}
