// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that help a launch's caller, and how the caller waits for them.
//!
//! They are a pool of the engine's own, and the caller waits as for a lock. A
//! scope of rayon's would not do: a thread of rayon's that waits for one takes
//! up another of its pool's jobs meanwhile, which may want what the first job
//! holds, a lock above all. Nor does the caller wait for a helper that has not
//! begun: the threads may be busy with another launch for long. Of rayon its
//! threads are all that is wanted: it is compiled without the iterators.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// The pool; `None` where the system grants no threads, and each launch runs on
/// its caller alone.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || {
        let name = |number| format!("cuda_sim {number}");
        ThreadPoolBuilder::new().thread_name(name).build().ok()
    };
    POOL.get_or_init(build).as_ref()
}

/// How many threads a launch from this one may take: what the caller's own pool
/// is bound to, if it is in one.
pub(crate) fn size() -> usize {
    match rayon_core::current_thread_index() {
        Some(_) => rayon_core::current_num_threads(),
        None => pool().map_or(1, ThreadPool::current_num_threads),
    }
}

/// Calls `call` here and, at the same time, on up to `helpers` other threads.
pub(crate) fn run(helpers: usize, call: &(dyn Fn() + Sync)) {
    let Some(pool) = pool().filter(|_| helpers > 0) else {
        return call();
    };
    let work = Work::new(call);
    let crew = Arc::new(Crew::default());
    let _disbanded = Disband(&crew);
    for _ in 0..helpers {
        let crew = Arc::clone(&crew);
        pool.spawn(move || {
            if let Some(_joined) = crew.join() {
                // SAFETY: `run` does not return before `_joined` is gone.
                unsafe { work.call() };
            }
        });
    }
    call();
}

/// What a helper calls. A pointer, because a helper that comes too late has it
/// still.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn() + Sync));

// SAFETY: what it points to is `Sync`.
unsafe impl Send for Work {}

impl Work {
    fn new<'a>(call: &'a (dyn Fn() + Sync + 'a)) -> Work {
        // SAFETY: both are the same kind of pointer; whoever follows it sees to
        // the lifetime.
        Work(unsafe { std::mem::transmute::<*const (dyn Fn() + Sync + 'a), *const (dyn Fn() + Sync)>(call) })
    }

    /// # Safety
    ///
    /// What `new` was given still lives.
    unsafe fn call(self) {
        // SAFETY: the caller's promise.
        (unsafe { &*self.0 })();
    }
}

/// The helpers of one call of [`run`].
#[derive(Default)]
struct Crew {
    state: Mutex<State>,
    all_left: Condvar,
}

#[derive(Default)]
struct State {
    /// How many helpers are at work.
    working: usize,
    /// No helper may begin any more.
    closed: bool,
}

impl Crew {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a helper begin, unless it comes too late. Until the guard is gone,
    /// `run` does not return.
    fn join(&self) -> Option<Joined<'_>> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        state.working += 1;
        Some(Joined(self))
    }
}

/// A helper at work.
struct Joined<'a>(&'a Crew);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.working -= 1;
        if state.working == 0 {
            self.0.all_left.notify_one();
        }
    }
}

/// Closes the crew, and waits until all have left, however `run` ends.
struct Disband<'a>(&'a Crew);

impl Drop for Disband<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let left = |state: &mut State| state.working > 0;
        drop(self.0.all_left.wait_while(state, left));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_caller_does_not_wait_for_helpers_that_have_not_begun() {
        let Some(pool) = pool() else { return };
        let threads = pool.current_num_threads();
        // All threads of the pool are busy until the barrier.
        let busy = Arc::new(Barrier::new(threads + 1));
        for _ in 0..threads {
            let busy = Arc::clone(&busy);
            pool.spawn(move || {
                busy.wait();
            });
        }
        let calls = AtomicUsize::new(0);
        run(3, &|| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.into_inner(), 1);
        busy.wait();
    }

    #[test]
    fn the_caller_waits_for_helpers_that_have_begun() {
        for _ in 0..1000 {
            let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            run(2, &|| {
                begun.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
                ended.fetch_add(1, Ordering::Relaxed);
            });
            let begun = begun.into_inner();
            assert!((1..=3).contains(&begun));
            assert_eq!(ended.into_inner(), begun);
        }
    }
}
