// SPDX-License-Identifier: MIT OR Apache-2.0
//! Global memory, between the threads of a block and between blocks.

use cuda_sim::Checks;
use cuda_std::prelude::*;

mod kernels {
    use cuda_std::fence;
    use cuda_std::prelude::*;

    pub const SOURCE: (&str, &str) = ("blocks.rs", include_str!("blocks.rs"));

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    fn block() -> usize {
        thread::block_idx_x() as usize
    }

    pub fn scratch_of_a_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(me(), 1); // scratch_of_a_block: first
        if RIGHT {
            thread::sync_threads();
        }
        out.set(64 + me(), out.get(63 - me())); // scratch_of_a_block: second
    }

    pub fn global_scratch_of_a_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(me(), 1); // global_scratch_of_a_warp: first
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        out.set(64 + me(), out.get(31 - me())); // global_scratch_of_a_warp: second
    }

    pub fn neighbour_in_another_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let i = thread::index_1d();
        // A barrier of the block does not order blocks.
        out.set(i, 1); // neighbour_in_another_block: first
        thread::sync_threads();
        let left = if RIGHT { i / 32 * 32 } else { i.saturating_sub(1) };
        out.set(128 + i, out.get(left)); // neighbour_in_another_block: second
    }

    pub fn counter_without_atomics<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if me() == 0 {
            if RIGHT {
                out.atomic(0).fetch_add(1);
            } else {
                let count = out.get(0); // counter_without_atomics: second
                out.set(0, count + 1); // counter_without_atomics: first
            }
        }
    }

    pub fn counter_atomic_in_the_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if RIGHT {
            out.atomic(0).fetch_add(1);
        } else {
            out.atomic(0).block_scope().fetch_add(1); // counter_atomic_in_the_block: second
        }
    }

    pub fn overlapping_tiles<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let step = if RIGHT { 32 } else { 31 };
        out.set(step * block() + me(), 1); // overlapping_tiles: second
    }

    pub fn reversed_in_place<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let i = thread::index_1d();
        let value = out.get(63 - i); // reversed_in_place: first
        // The other half writes where this one reads.
        out.set(if RIGHT { 64 + i } else { i }, value); // reversed_in_place: second
    }

    /// The last block to come adds up what all have left.
    pub fn last_block_without_release<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(1 + block(), 5); // last_block_without_release: first
        let counter = out.atomic(0);
        let before = if RIGHT {
            counter.fetch_add_ordered(1)
        } else {
            let before = counter.fetch_add(1);
            fence::device();
            before
        };
        if before == 3 {
            let sum: u32 = (1..5).map(|i| out.get(i)).sum(); // last_block_without_release: second
            out.set(5, sum);
        }
    }

    pub fn last_block_without_acquire<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(1 + block(), 5); // last_block_without_acquire: first
        fence::device();
        let before = out.atomic(0).fetch_add(1);
        if before == 3 {
            if RIGHT {
                fence::device();
            }
            let sum: u32 = (1..5).map(|i| out.get(i)).sum(); // last_block_without_acquire: second
            out.set(5, sum);
        }
    }

    pub fn last_block_by_one_thread<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let is_last = shared_array![u32; 1];
        out.set(1 + thread::index_1d(), 5); // last_block_by_one_thread: first
        // What the others wrote is handed on by thread 0 only if it knows of it.
        if RIGHT {
            thread::sync_threads();
        }
        if me() == 0 {
            let before = out.atomic(0).fetch_add_ordered(1);
            is_last.set(0, u32::from(before == 1));
        }
        thread::sync_threads();
        if is_last.get(0) == 1 {
            out.set(200 + me(), out.get(1 + me()) + out.get(65 + me())); // last_block_by_one_thread: second
        }
    }

    pub fn fence_of_the_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if block() == 0 {
            out.set(1, 5); // fence_of_the_block: first
            if RIGHT {
                fence::device();
            } else {
                fence::block();
            }
            out.atomic(0).store(1);
        } else {
            while out.atomic(0).load() == 0 {
                thread::nanosleep(20);
            }
            fence::device();
            out.set(2, out.get(1)); // fence_of_the_block: second
        }
    }

    pub fn flag_that_is_no_atomic<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if block() == 0 {
            out.set(1, 5);
            if RIGHT {
                out.atomic(0).store_release(1);
            } else {
                fence::device();
                out.set(0, 1); // flag_that_is_no_atomic: first
            }
        } else {
            let ready = || {
                if RIGHT {
                    return out.atomic(0).load_acquire();
                }
                out.get(0) // flag_that_is_no_atomic: second
            };
            while ready() == 0 {
                thread::nanosleep(20);
            }
            out.set(2, out.get(1));
        }
    }

    pub fn look_back_without_acquire<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let mut sum = 1;
        if block() > 0 {
            let flag = out.atomic(64 + block() - 1);
            let load = || if RIGHT { flag.load_acquire() } else { flag.load() };
            while load() == 0 {
                thread::nanosleep(20);
            }
            sum += out.get(block() - 1); // look_back_without_acquire: second
        }
        out.set(block(), sum); // look_back_without_acquire: first
        out.atomic(64 + block()).store_release(1);
    }

    pub fn look_back_without_release<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let mut sum = 1;
        if block() > 0 {
            while out.atomic(64 + block() - 1).load_acquire() == 0 {
                thread::nanosleep(20);
            }
            sum += out.get(block() - 1); // look_back_without_release: second
        }
        out.set(block(), sum); // look_back_without_release: first
        let flag = out.atomic(64 + block());
        if RIGHT {
            flag.store_release(1);
        } else {
            flag.store(1);
        }
    }

    /// Who has seen the flag of a flag has seen what was before the first.
    pub fn handed_on_twice<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let wait = |flag: usize| {
            while out.atomic(flag).load_acquire() == 0 {
                thread::nanosleep(20);
            }
        };
        match block() {
            0 => {
                out.set(2, 5); // handed_on_twice: first
                out.atomic(0).store_release(1);
            }
            1 => {
                if RIGHT {
                    wait(0);
                }
                out.atomic(1).store_release(1);
            }
            _ => {
                wait(1);
                out.set(3, out.get(2)); // handed_on_twice: second
            }
        }
    }

    pub fn lock_without_order<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if me() > 0 {
            return;
        }
        let lock = out.atomic(0);
        while lock.compare_exchange(0, 1) != 0 {
            thread::nanosleep(20);
        }
        if RIGHT {
            fence::device();
        }
        let count = out.get(1); // lock_without_order: second
        out.set(1, count + 1); // lock_without_order: first
        if RIGHT {
            fence::device();
        }
        lock.exchange(0);
    }

    pub fn maximum_read_too_early<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.atomic(0).fetch_max(thread::index_1d() as u32); // maximum_read_too_early: first
        let known = if RIGHT { out.atomic(0).load() } else { out.get(0) }; // maximum_read_too_early: second
        out.set(1 + thread::index_1d(), known);
    }

    pub fn ticket_of_data<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        // Each thread takes a place of its own by an atomic.
        let place = if RIGHT {
            out.atomic(0).fetch_add(1)
        } else {
            out.atomic(0).fetch_add(1) / 2
        };
        out.set(1 + place as usize, 1); // ticket_of_data: second
    }

    pub fn grid_barrier<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let i = thread::index_1d();
        out.set(i, 1); // grid_barrier: first
        if RIGHT {
            cuda_sim::grid_barrier("sync");
        } else {
            thread::sync_threads();
        }
        out.set(128 + i, out.get(127 - i)); // grid_barrier: second
    }

    pub fn grid_barrier_used_again<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let i = thread::index_1d();
        let mut sum = 0;
        for round in 0..2 {
            out.set(i, round); // grid_barrier_used_again: second
            cuda_sim::grid_barrier("sync");
            sum += out.get(127 - i); // grid_barrier_used_again: first
            if RIGHT {
                cuda_sim::grid_barrier("sync");
            }
        }
        out.set(128 + i, sum);
    }
}

crate::checks::cases! {
    scratch_of_a_block(1, 64), "data race on 4 bytes of global memory at";
    global_scratch_of_a_warp(1, 32), "data race on 4 bytes of global memory at";
    neighbour_in_another_block(4, 32), "data race on 4 bytes of global memory at";
    counter_without_atomics(2, 32), "data race on 4 bytes of global memory at";
    last_block_without_release(4, 1), "data race on 4 bytes of global memory at";
    last_block_without_acquire(4, 1), "data race on 4 bytes of global memory at";
    last_block_by_one_thread(2, 64), "data race on 4 bytes of global memory at";
    reversed_in_place(1, 64), "data race on 4 bytes of global memory at";
    fence_of_the_block(2, 1), "data race on 4 bytes of global memory at";
    flag_that_is_no_atomic(2, 1), "data race on 4 bytes of global memory at";
    look_back_without_acquire(5, 1), "data race on 4 bytes of global memory at";
    look_back_without_release(5, 1), "data race on 4 bytes of global memory at";
    handed_on_twice(3, 1), "data race on 4 bytes of global memory at";
    lock_without_order(3, 2), "data race on 4 bytes of global memory at";
    maximum_read_too_early(2, 32), "data race on 4 bytes of global memory at";
}

/// Those that race with themselves, on one line.
#[test]
fn two_threads_on_one_line() {
    type Forms = [fn(SliceMut<'_, u32>); 2];
    let cases: [(&str, Forms); 3] = [
        (
            "counter_atomic_in_the_block",
            [
                kernels::counter_atomic_in_the_block::<true>,
                kernels::counter_atomic_in_the_block::<false>,
            ],
        ),
        (
            "overlapping_tiles",
            [kernels::overlapping_tiles::<true>, kernels::overlapping_tiles::<false>],
        ),
        (
            "ticket_of_data",
            [kernels::ticket_of_data::<true>, kernels::ticket_of_data::<false>],
        ),
    ];
    for (name, [right, wrong]) in cases {
        assert_eq!(crate::checks::run((4, 32, false), Checks::ALL, right), None, "{name}");
        let fault = crate::checks::run((4, 32, false), Checks::ALL, wrong)
            .unwrap_or_else(|| panic!("{name}: nothing was found"));
        let line = crate::checks::line(kernels::SOURCE.1, &format!("{name}: second"));
        assert_eq!(fault.location.as_ref().unwrap().line, line, "{name}: {fault}");
        assert!(fault.message.contains(&format!("blocks.rs:{line}:")), "{name}: {fault}");
    }
}

#[test]
fn barriers_of_the_grid() {
    crate::checks::try_both(
        kernels::SOURCE,
        "grid_barrier",
        "data race",
        |right, checks| match right {
            true => crate::checks::run((4, 32, true), checks, kernels::grid_barrier::<true>),
            false => crate::checks::run((4, 32, true), checks, kernels::grid_barrier::<false>),
        },
    );
    crate::checks::try_both(
        kernels::SOURCE,
        "grid_barrier_used_again",
        "data race",
        |right, checks| match right {
            true => crate::checks::run((4, 32, true), checks, kernels::grid_barrier_used_again::<true>),
            false => crate::checks::run((4, 32, true), checks, kernels::grid_barrier_used_again::<false>),
        },
    );
}
