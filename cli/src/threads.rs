// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of the host that make numbers and check results.

use anyhow::Context;
use rayon::ThreadPoolBuilder;

/// The bytes of a thread's stack, of which the system gives what is used. One that waits for another takes up other work
/// meanwhile, on top of its own, the more of it the more cores there are: on 64 of them, 2 MiB were too few for a build
/// without optimisation.
const STACK: usize = 64 << 20;

fn builder() -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().stack_size(STACK)
}

/// Has rayon start its threads, for commands that compute on the host.
pub fn start() -> anyhow::Result<()> {
    builder().build_global().context("no threads for the host's part")
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Work on top of work.
    fn go_down(levels: usize) -> usize {
        let local = black_box([1u8; 64 << 10]);
        match levels {
            0 => 0,
            _ => go_down(levels - 1) + usize::from(local[levels]),
        }
    }

    #[test]
    fn stacks_hold_much_work() {
        let pool = builder().num_threads(1).build().unwrap();
        // 16 MiB at least.
        assert_eq!(pool.install(|| go_down(256)), 256);
    }
}
