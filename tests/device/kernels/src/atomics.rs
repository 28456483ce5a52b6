// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomic operations.

use cuda_std::prelude::*;

/// Every thread updates the same elements: the sum, the least, the greatest, the last (exchange).
#[kernel(T = [i32, u32, i64, u64, f32, f64])]
pub fn accumulate<T: Value>(x: &[T], out: SliceMut<'_, T>) {
    T::accumulate(x[thread::index_1d()], out);
}

/// The types with atomic operations.
pub trait Value: bytemuck::Pod {
    /// Updates sum, least and greatest, and exchanges.
    fn accumulate(x: Self, out: SliceMut<'_, Self>);
}

macro_rules! values {
    ($($type:ty),*) => {$(
        impl Value for $type {
            #[inline(always)]
            fn accumulate(x: Self, out: SliceMut<'_, Self>) {
                out.atomic(0).fetch_add(x);
                out.atomic(1).fetch_min(x);
                out.atomic(2).fetch_max(x);
                out.atomic(3).exchange(x);
                out.atomic(4).block_scope().fetch_add(x);
                out.atomic(5).system_scope().fetch_add(x);
                // A sum by compare-and-swap, as a user builds what is not there.
                let mut seen = out.atomic(6).load();
                loop {
                    let before = out.atomic(6).compare_exchange(seen, seen + x);
                    if before == seen {
                        break;
                    }
                    seen = before;
                }
            }
        }
    )*};
}

values!(i32, u32, i64, u64, f32, f64);

/// Bitwise operations.
#[kernel]
pub fn bits(x: &[u32], out: SliceMut<'_, u32>, wide: SliceMut<'_, u64>) {
    let x = x[thread::index_1d()];
    out.atomic(0).fetch_and(x);
    out.atomic(1).fetch_or(x);
    out.atomic(2).fetch_xor(x);
    let x = u64::from(x) << 16;
    wide.atomic(0).fetch_and(x);
    wide.atomic(1).fetch_or(x);
    wide.atomic(2).fetch_xor(x);
}

/// A histogram of `x % 8` in shared memory, added to `out` at the end; the ranks that the threads got are all
/// different.
#[kernel]
pub fn shared_histogram(x: &[u32], out: SliceMut<'_, u32>, ranks: SliceMut<'_, u32>) {
    let counts = shared_array![u32; 8];
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    if t < 8 {
        counts.set(t, 0);
    }
    thread::sync_threads();
    let bin = (x[i] % 8) as usize;
    ranks.set(i, counts.atomic(bin).fetch_add(1));
    thread::sync_threads();
    if t < 8 {
        out.atomic(t).fetch_add(counts.get(t));
    }
}
