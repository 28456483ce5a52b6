// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shared memory of a block, and who has used which byte since the last barrier.

/// No thread has used it.
const NOBODY: u64 = 0;

/// Several threads have read it, behind the number of the barrier.
const SEVERAL: u64 = u32::MAX as u64;

/// Threads use bytes of it that another one writes only if there is a barrier between.
pub(super) struct Shared {
    bytes: Vec<u8>,
    /// For each byte who has written it last, and who has read it: the number of the barrier before, and the thread's.
    writers: Vec<u64>,
    readers: Vec<u64>,
    /// The barriers that have been passed, and 1.
    barriers: u64,
}

impl Shared {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
            writers: vec![NOBODY; bytes],
            readers: vec![NOBODY; bytes],
            barriers: 1,
        }
    }

    /// All threads have come to a barrier.
    pub(super) fn meet(&mut self) {
        self.barriers += 1;
    }

    /// Whether another thread than this is the one of a mark, and has been there since the last barrier.
    fn is_other(&self, mark: u64, thread: u32) -> bool {
        mark >> 32 == self.barriers && mark as u32 != thread
    }

    pub(super) fn load(&mut self, thread: u32, address: u64, bytes: usize) -> u64 {
        let places = address as usize..address as usize + bytes;
        let mark = self.barriers << 32 | u64::from(thread);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.bytes[places.clone()]);
        for place in places {
            let writer = self.writers[place];
            assert!(
                !self.is_other(writer, thread),
                "thread {thread} reads byte {place} of shared memory, which thread {} has written, without a barrier between",
                writer as u32
            );
            let is_several = self.is_other(self.readers[place], thread);
            self.readers[place] = if is_several { mark | SEVERAL } else { mark };
        }
        u64::from_le_bytes(word)
    }

    pub(super) fn store(&mut self, thread: u32, address: u64, bytes: usize, value: u64) {
        let places = address as usize..address as usize + bytes;
        self.bytes[places.clone()].copy_from_slice(&value.to_le_bytes()[..bytes]);
        for place in places {
            for (mark, has_done) in [(self.readers[place], "read"), (self.writers[place], "written")] {
                assert!(
                    !self.is_other(mark, thread),
                    "thread {thread} writes byte {place} of shared memory, which another has {has_done}, without a barrier between"
                );
            }
            self.writers[place] = self.barriers << 32 | u64::from(thread);
        }
    }
}
