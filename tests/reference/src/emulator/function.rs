// SPDX-License-Identifier: MIT OR Apache-2.0
//! Device functions, which the host computes for lanes side by side.

use super::LANES;

/// The most arguments of a device function.
pub const MAX_ARGUMENTS: usize = 6;

/// Applies a function to each of some elements: the addresses of the arguments' arrays, that of the results, and how many elements.
type Run = unsafe fn(*const *const (), *mut (), usize);

/// A device function.
pub struct Function {
    /// The bytes of each argument.
    arguments: Vec<usize>,
    /// Those of the result.
    result: usize,
    run: Run,
}

impl Function {
    /// Of arguments and a result of so many bytes, each 1, 2, 4 or 8.
    ///
    /// # Safety
    ///
    /// `run` reads as many elements of each of these sizes as it is told, aligned to 8 bytes, and writes as many results.
    pub unsafe fn new(arguments: Vec<usize>, result: usize, run: Run) -> Self {
        assert!(
            arguments.len() <= MAX_ARGUMENTS,
            "{} arguments, of {MAX_ARGUMENTS} at most",
            arguments.len()
        );
        Self { arguments, result, run }
    }

    /// The results of the first lanes, so many, whose arguments are in the low bytes of these.
    pub(super) fn call(&self, arguments: &[[u64; LANES]], lanes: usize) -> [u64; LANES] {
        assert_eq!(arguments.len(), self.arguments.len(), "arguments of a device function");
        let mut packed = [[0; LANES]; MAX_ARGUMENTS];
        for ((packed, numbers), &bytes) in packed.iter_mut().zip(arguments).zip(&self.arguments) {
            *packed = pack(&numbers[..lanes], bytes);
        }
        let addresses = packed.each_ref().map(|array| array.as_ptr().cast::<()>());
        let mut results = [0u64; LANES];
        // SAFETY: arrays of words have room for as many elements, and begin at a multiple of 8 bytes; the rest is the contract of
        // `new`.
        unsafe { (self.run)(addresses.as_ptr(), results.as_mut_ptr().cast(), lanes) };
        unpack(&results, self.result)
    }
}

/// The word that an element of so many bytes is in, and how far it is shifted there.
fn place(element: usize, bytes: usize) -> (usize, usize) {
    (element * bytes / 8, element * bytes % 8 * 8)
}

/// All bits of so many bytes.
fn mask(bytes: usize) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

/// The low bytes of the numbers, side by side.
fn pack(numbers: &[u64], bytes: usize) -> [u64; LANES] {
    let mut packed = [0u64; LANES];
    for (element, number) in numbers.iter().enumerate() {
        let (word, shift) = place(element, bytes);
        packed[word] |= (number & mask(bytes)) << shift;
    }
    packed.map(u64::to_le)
}

/// The numbers that lie side by side.
fn unpack(packed: &[u64; LANES], bytes: usize) -> [u64; LANES] {
    std::array::from_fn(|element| {
        let (word, shift) = place(element, bytes);
        u64::from_le(packed[word]) >> shift & mask(bytes)
    })
}
