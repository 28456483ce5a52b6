// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels load from and store to.

use std::ptr;

/// Global memory.
pub trait Memory {
    /// The number in so many bytes.
    fn load(&mut self, address: u64, bytes: usize) -> u64;

    /// Writes the low bytes of a number.
    fn store(&mut self, address: u64, bytes: usize, value: u64);
}

/// The process's own memory, which the simulated GPU's is.
pub struct ProcessMemory(());

impl ProcessMemory {
    /// # Safety
    ///
    /// All addresses that it is given are of arrays whose addresses were exposed and which nobody else uses meanwhile.
    pub const unsafe fn new() -> Self {
        Self(())
    }

    /// Copies what is there.
    pub fn read(&self, address: u64, to: &mut [u8]) {
        let from = ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: by the contract of `new` as many bytes are there, which `to` is not among.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }

    /// Puts these bytes there.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let to = ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Memory for ProcessMemory {
    fn load(&mut self, address: u64, bytes: usize) -> u64 {
        let mut word = [0u8; 8];
        self.read(address, &mut word[..bytes]);
        u64::from_le_bytes(word)
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) {
        self.write(address, &value.to_le_bytes()[..bytes]);
    }
}
