// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elements that a thread treats: neighbours along a row of the output.

use cuda_std::hint;
use cuda_std::prelude::*;

use crate::num::Num;

/// `V` neighbours in the output. At the ends of a row some of them may be beyond it; where none is, the number of the
/// first is a multiple of `V`.
#[derive(Clone, Copy)]
pub(crate) struct Vector<const V: usize> {
    /// The number of the first in the output; it wraps around with the column.
    i: u64,
    /// The column of the first; negative where the row begins behind it.
    column: i32,
    /// The length of the row, not negative.
    columns: i32,
}

/// Where an operand has the elements of a row.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The index of the first.
    pub(super) first: u64,
    /// Elements from one to the next.
    pub(super) step: u64,
}

/// An operand's elements of a vector, as they come from memory.
///
/// What is made of them waits for them. So it is made here, behind the loads of all operands, not in the branches that
/// load them, where the compiler would put it.
#[derive(Clone, Copy)]
pub(crate) struct Loaded {
    words: [u32; 4],
    /// Whether the first element stands for all.
    is_repeated: bool,
}

impl Loaded {
    #[inline(always)]
    fn new<T: Num, const V: usize>(elements: [T; V], is_repeated: bool) -> Self {
        let mut words = [0; 4];
        bytemuck::bytes_of_mut(&mut words)[..size_of::<[T; V]>()].copy_from_slice(bytemuck::bytes_of(&elements));
        Self { words, is_repeated }
    }

    /// The elements.
    #[inline(always)]
    pub(crate) fn elements<T: Num, const V: usize>(self) -> [T; V] {
        let mut words = cuda_std::array::map(self.words, hint::opaque);
        if self.is_repeated {
            // So that this remains a branch: few operands are repeated, and the rest should not pay for it.
            words[0] = hint::opaque(words[0]);
            words = Self::new([elements_of::<T, V>(words)[0]; V], true).words;
        }
        elements_of(cuda_std::array::map(words, hint::opaque))
    }
}

#[inline(always)]
fn elements_of<T: Num, const V: usize>(words: [u32; 4]) -> [T; V] {
    bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&words)[..size_of::<[T; V]>()])
}

impl<const V: usize> Vector<V> {
    /// Vector `number` of a row of `columns` elements, which begins at `row` in the output; `None` if it is beyond the
    /// row. Vectors begin at multiples of `V`, but a row of fewer elements is one vector.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(row: u64, columns: u32, number: u32) -> Option<Self> {
        let before = if columns < V as u32 { 0 } else { row as u32 % V as u32 };
        let column = number.wrapping_mul(V as u32).wrapping_sub(before) as i32;
        let columns = Ord::min(columns, i32::MAX as u32) as i32;
        (column < columns).then_some(Self {
            i: row.wrapping_add(column as u64),
            column,
            columns,
        })
    }

    /// Whether element `k` is in the row.
    #[inline(always)]
    fn has(&self, k: usize) -> bool {
        // Numbers below 0 are large ones.
        (self.column.wrapping_add(k as i32) as u32) < self.columns as u32
    }

    /// Whether all elements are in the row.
    #[inline(always)]
    fn is_full(&self) -> bool {
        self.column >= 0 && self.columns.wrapping_sub(self.column) >= V as i32
    }

    /// The operand's elements, in one access where they are neighbours or one element; 0 beyond the row. A row that
    /// leaves the operand gives 0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(crate) fn load<T: Num>(&self, x: Slice<'_, T>, row: Row) -> Loaded {
        if row.step == 1 && self.is_full() {
            let first = row.first.wrapping_add(self.column as u64);
            if x.is_vec_aligned::<V>() && is_vector_of::<V>(first, x.len()) {
                // SAFETY: a vector of the operand, which is aligned.
                let elements: [T; V] = unsafe { x.get_vec_unchecked(first as usize) };
                return Loaded::new(elements, false);
            }
        }
        let steps = (self.columns as u64).wrapping_sub(1);
        let last = match row.step {
            0 => Some(row.first),
            step => step.checked_mul(steps).and_then(|steps| row.first.checked_add(steps)),
        };
        let is_inside = last.is_some_and(|last| last < x.len() as u64);
        debug_assert!(is_inside, "the strides leave an operand");
        let mut elements = [T::ZERO; V];
        if !is_inside {
            return Loaded::new(elements, false);
        }
        // SAFETY: up to the row's last element they are in bounds; a vector of one is aligned like its element.
        let get = |at: u64| unsafe { x.get_vec_unchecked::<1>(at as usize)[0] };
        if row.step == 0 {
            elements[0] = get(row.first);
            return Loaded::new(elements, true);
        }
        let mut at = row.first.wrapping_add(row.step.wrapping_mul(self.column as u64));
        elements = cuda_std::array::from_fn(|k| {
            let value = if self.has(k) { get(at) } else { T::ZERO };
            at = at.wrapping_add(row.step);
            value
        });
        Loaded::new(elements, false)
    }

    /// Sets the output's elements, those that are in the row; none if they are not in the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(crate) fn store<T: Num>(&self, out: SliceMut<'_, T>, results: [T; V]) {
        if self.is_full() && out.is_vec_aligned::<V>() && is_vector_of::<V>(self.i, out.len()) {
            // SAFETY: a vector of the output, which is aligned.
            return unsafe { out.set_vec_unchecked(self.i as usize, results) };
        }
        let (row, len) = (self.i.wrapping_sub(self.column as u64), out.len() as u64);
        if row > len || self.columns as u64 > len - row {
            return;
        }
        for k in 0..V {
            if self.has(k) {
                // SAFETY: in the row, which is in the output, as just asked; a vector of one is aligned like its
                // element.
                unsafe { out.set_vec_unchecked(self.i.wrapping_add(k as u64) as usize, [results[k]]) };
            }
        }
    }
}

/// Whether the elements from `first` on are one of the vectors of `V` that an array of `len` elements consists of.
#[inline(always)]
fn is_vector_of<const V: usize>(first: u64, len: usize) -> bool {
    first.is_multiple_of(V as u64) && first / (V as u64) < len as u64 / V as u64
}
