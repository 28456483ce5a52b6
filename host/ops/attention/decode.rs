// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of few queries to many keys: which operands its kernel takes, and how the keys are divided.

use cuda_std::launch::Kernel;
use kernels_gpu::attention::AttentionShape;
use kernels_gpu::attention::decode::tensor::{ROWS, WIDE_ROWS, WIDE_THREADS};
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

/// The most heads of keys of the kernel for tensor cores, which are the second axis of its grid.
const MOST_HEADS: u32 = 65535;

/// By which kernel few queries are done.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// On ordinary cores, for one query of a head of keys.
    One,
    /// For four.
    Four,
    TensorCores,
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
            _ if T::few_on_tensor_cores(self)? => {}
            // SAFETY (of both): these are safe kernels.
            1 => unsafe { self.launch_decode::<T::One>(1, By::One)? },
            _ => unsafe { self.launch_decode::<T::Four>(rows.div_ceil(MOST_ROWS as u32), By::Four)? },
        }
        Ok(true)
    }

    /// Computes by the kernel for tensor cores, if the device has them and the kernel is for such lines. Otherwise the task is one for
    /// few queries.
    pub(super) fn few_on_tensor_cores(&mut self) -> Result<bool>
    where
        T: AttentionDecodeTensor,
    {
        let fits_grid = self.shape.key_head(self.shape.heads) <= MOST_HEADS;
        if !has_tensor_cores(self.q.stream(), AMPERE) || !fits_grid {
            return Ok(false);
        }
        // SAFETY (of both): they are for tensor cores, and for lines of so many elements.
        match self.shape.dim {
            64 => unsafe { self.launch_decode::<<T as AttentionDecodeTensor>::D64>(1, By::TensorCores)? },
            128 => unsafe { self.launch_decode::<<T as AttentionDecodeTensor>::D128>(1, By::TensorCores)? },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// By so many blocks of a kernel for each head and part of the keys, of a task for few queries.
    ///
    /// # Safety
    ///
    /// `K` is a safe kernel, or that for tensor cores and lines of as many elements, by which it is done then, with no more than [`MOST_HEADS`]
    /// heads of keys.
    unsafe fn launch_decode<K: Kernel<Params = AttentionDecodeParams<T>>>(
        &mut self,
        blocks: u32,
        by: By,
    ) -> Result<()> {
        let stream = self.q.stream();
        let key_heads = self.shape.key_head(self.shape.heads);
        let heads = self.shape.batch * key_heads;
        let multiprocessors = stream.backend().properties().multiprocessors;
        let plan = plan(&self.shape, heads * blocks, multiprocessors, by);
        let parts = if plan.parts > 1 { plan.parts as usize } else { 0 };
        let [batch, heads_of_queries, queries, dim] = [0, 1, 2, 3].map(|axis| self.q.shape()[axis]);
        let lines = batch * heads_of_queries * queries;
        let mut results = DeviceArray::<f32, Ix3>::uninit(stream, Dim([parts, lines, dim]))?;
        let mut sums = DeviceArray::<f32, _>::uninit(stream, Dim([parts, lines, 2]))?;
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
        if by == By::TensorCores {
            let grid = (self.shape.batch, key_heads, plan.parts);
            let is_wide = is_wide(&self.shape, heads, multiprocessors);
            let threads = if is_wide { WIDE_THREADS } else { THREADS };
            let config = LaunchConfig::new(grid, threads as u32);
            // SAFETY: the kernel's contract: threads and grid are as it wants them, and lines have as many elements, by the caller's promise. The shape
            // was found to be of few queries, operands to lie as it wants them, and keys are fewer than 2³⁰, of which a part has no more. Results
            // are arrays of their own with room for all lines, of as many parts as there are, and so are the counters.
            unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
        } else {
            let config = LaunchConfig::new(heads * blocks * plan.parts, THREADS as u32);
            // SAFETY: the kernel is a safe one, by the caller's promise.
            unsafe { stream.launch_unchecked::<K>(&config, args)? };
        }
        counters.give_back();
        Ok(())
    }
}

/// The keys that queries see.
fn seen(shape: &AttentionShape) -> u32 {
    let width = i64::from(shape.queries) + i64::from(shape.reach) - i64::from(shape.from);
    width.clamp(1, i64::from(shape.keys)) as u32
}

/// Whether blocks of the kernel for tensor cores, one for each of so many heads, are wide ones, which have all keys: where heads are
/// about as many as multiprocessors, or half as many and keys are few, so that parts would be brought together for little; and where
/// heads are more, and would leave half of the multiprocessors without work in the last round of blocks of which each has two.
fn is_wide(shape: &AttentionShape, heads: u32, multiprocessors: u32) -> bool {
    let all = seen(shape);
    let rows = shape.queries * shape.sharing;
    let enough = match multiprocessors / heads {
        0 => {
            let rounds = heads.div_ceil(multiprocessors);
            all >= MANY_KEYS && rounds <= MOST_ROUNDS && rounds % 2 == 1
        }
        1 => true,
        2 => all <= 512,
        _ => false,
    };
    enough && all > 128 && rows as usize <= WIDE_ROWS
}

/// Keys of a head from which on wide blocks lose less as each begins and ends than they fill.
const MANY_KEYS: u32 = 1000;

/// Rounds of wide blocks of which half a round is much.
const MOST_ROUNDS: u32 = 7;

/// How the keys are divided that queries see, where a part takes so many blocks.
fn plan(shape: &AttentionShape, blocks: u32, multiprocessors: u32, by: By) -> DecodePlan {
    let all = seen(shape);
    let for_each = |number: u32| number * multiprocessors / blocks;
    let (wanted, most) = match by {
        // As many blocks as a multiprocessor holds, or twice as many where some would have one more of these few than others.
        By::One => match for_each(4) {
            parts @ 8.. => (parts, all.div_ceil(64)),
            _ => (for_each(8), all.div_ceil(64)),
        },
        By::Four => (for_each(8), all.div_ceil(256)),
        By::TensorCores if is_wide(shape, blocks, multiprocessors) => (1, 1),
        // So few take no longer than two parts and bringing them together, nor do twice as many where heads have half of the multiprocessors.
        By::TensorCores if all <= 128 || (all <= 256 && for_each(1) <= 2) => (1, 1),
        // As many as it holds, as the kernel always has the next keys on their way; or one, of long lines where that has few keys, for which parts
        // cost more than they save. Of 16 parts all results are in flight at once: more are worth it where they have more keys.
        By::TensorCores => {
            let one = for_each(1);
            // What of more rows than warps is brought together is more, too.
            let has_many_rows = shape.queries * shape.sharing > ROWS as u32 / 2;
            let wanted = if shape.dim > 64 && (has_many_rows || all < 512 * one || (one == 1 && all <= 512)) {
                one
            } else {
                for_each(2)
            };
            let fewest = if has_many_rows { 128 } else { 64 };
            (wanted, all.div_ceil(256).max(all.div_ceil(fewest).min(16)))
        }
    };
    let wanted = wanted.clamp(1, most);
    let keys = all.div_ceil(wanted).next_multiple_of(64);
    DecodePlan {
        parts: all.div_ceil(keys),
        keys,
    }
}

/// Whether lines are without gaps, and begin at multiples of 16 bytes and of a lane's elements.
pub(super) fn lies_well<T: Attend>(x: &DeviceArrayRef<T, Ix4>) -> bool {
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
                for by in [By::One, By::Four, By::TensorCores] {
                    let plan = plan(&shape(keys), blocks, 132, by);
                    assert!(
                        u64::from(plan.parts) * u64::from(plan.keys) >= u64::from(keys),
                        "{plan:?}"
                    );
                    assert!((plan.parts - 1) * plan.keys < keys, "{plan:?}");
                }
            }
        }
        assert_eq!(
            plan(&shape(8192), 512, 132, By::One),
            DecodePlan { parts: 2, keys: 4096 }
        );
        let window = AttentionShape {
            from: 8000,
            reach: 8191,
            ..shape(8192)
        };
        assert_eq!(plan(&window, 8, 132, By::One), DecodePlan { parts: 3, keys: 64 });
        assert_eq!(plan(&window, 8, 132, By::Four), DecodePlan { parts: 1, keys: 192 });
    }

    #[test]
    fn fewer_keys_have_smaller_parts() {
        let parts = |by| [100, 1024, 2048, 4096, 8192, 1 << 20].map(|keys| plan(&shape(keys), 8, 132, by).parts);
        assert_eq!(parts(By::One), [2, 16, 32, 64, 64, 66]);
        assert_eq!(parts(By::Four), [1, 4, 8, 16, 32, 132]);
        assert_eq!(parts(By::TensorCores), [1, 16, 16, 16, 32, 33]);
        let heads = |blocks, keys| plan(&shape(keys), blocks, 132, By::TensorCores).parts;
        assert_eq!([heads(16, 2048), heads(32, 512), heads(512, 8192)], [8, 4, 1]);
        assert_eq!([heads(32, 256), heads(64, 512), heads(128, 2048)], [4, 1, 1]);
        // Wide blocks have no more than 8 rows, and half of the multiprocessors does not have many keys.
        let of_many_rows = |keys| AttentionShape {
            heads: 16,
            sharing: 16,
            ..shape(keys)
        };
        let parts = |keys, heads| plan(&of_many_rows(keys), heads, 132, By::TensorCores).parts;
        assert_eq!(
            [parts(512, 64), parts(1024, 64), parts(2048, 128), parts(512, 128)],
            [2, 2, 1, 1]
        );
        assert_eq!([parts(1024, 8), parts(8192, 8)], [8, 16]);
        // Half of the multiprocessors would have nothing to do in the last round of blocks, of which each has two.
        let is_wide = |keys, heads| is_wide(&shape(keys), heads, 132);
        assert_eq!(
            [264, 265, 396, 397, 660, 1100].map(|heads| is_wide(1024, heads)),
            [false, true, true, false, true, false]
        );
        assert!(!is_wide(512, 300));
        assert_eq!([heads(64, 1024), heads(64, 2048)], [4, 4]);
        assert_eq!(plan(&shape(8192), 32, 132, By::One).parts, 16);
    }
}
