// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers that follow from a seed, of which all tests take their values.

use std::convert::Infallible;

use rand_core::TryRng;

/// G. Marsaglia, "Xorshift RNGs" (2003), with 128 bits of state: as light as there is one, for the values of all tests are a
/// part of their time.
pub struct Random {
    state: [u32; 4],
}

impl Random {
    /// The same numbers for the same seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Self {
            state: [seed as u32, (seed >> 32) as u32, 0x5a5a_5a5a, 0x5a5a_5a5a],
        };
        // Seeds that differ in a bit are to differ in half of them, which is so after a few values only.
        for _ in 0..16 {
            random.word();
        }
        random
    }

    fn word(&mut self) -> u32 {
        let [x, y, z, w] = self.state;
        let x = x ^ x << 11;
        let next = w ^ w >> 19 ^ x ^ x >> 8;
        self.state = [y, z, w, next];
        next
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let low = u64::from(self.word());
        Ok(u64::from(self.word()) << 32 | low)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for bytes in bytes.chunks_mut(4) {
            bytes.copy_from_slice(&self.word().to_le_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}
