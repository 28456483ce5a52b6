// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the sums of a product before they are stored: `C ← f(α A B + β C + bias) + residual`.
//!
//! It is computed in the type that is summed in, and rounded to that of the result once. A matrix or vector that is not
//! there costs a branch that all threads take alike, and so does the choice of `f`, which the launch names: there is no
//! kernel for each. Bias and residual are read where they lie, by the threads that have the sums they are added to.
//!
//! [`Epilogue`] is a function from numbers and their places to results, for the kernels that end with it: of neighbours of
//! a row ([`finish_row`](Epilogue::finish_row)), or as the tensor cores' accumulators lie
//! ([`finish_fragment`](Epilogue::finish_fragment)). Kernels whose results have the type of their sums store them first, as
//! they do without an epilogue, and each thread finishes what it stored ([`finish_stored`](Epilogue::finish_stored)): its
//! sums take no registers any more, and what it reads again lies in the cache. [`finish_sums`](fn@finish_sums) does the same
//! to sums in memory: for kernels that have no epilogue, and sums in parts; few parts that have nothing else done to them have a
//! [kernel of their own](parts).
//!
//! The function is a type, [`EpilogueOp`]: in the library's kernels [`Activation`], whose value says which of its functions
//! it is. One of one's own, of which [`epilogue_kernels!`](crate::epilogue_kernels) makes kernels, is compiled into them.

mod activation;
mod fragment;
mod op;
pub mod parts;
pub mod rows;

use cuda_std::half::{bf16, f16};
use cuda_std::machine::Place;
use cuda_std::param::{ByValue, NoTail, Param};
use cuda_std::prelude::*;

pub use self::activation::{Activate, Activation};
pub(super) use self::fragment::numbers;
pub use self::op::EpilogueOp;
use super::unroll;
use super::{MulAdd, span};
use crate::num::Num;

/// The function of an epilogue, and where the elements of its addends lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpiloguePlan<F = Activation> {
    /// The function.
    pub function: F,
    /// The bias' strides in elements: from product to product, along rows' numbers, along columns' numbers.
    pub bias: [usize; 3],
    /// The same of the residual.
    pub residual: [usize; 3],
}

// SAFETY: `repr(C)`, and each field is a parameter by value, which crosses the launch as itself.
unsafe impl<F: ByValue<Head = F>> Param for EpiloguePlan<F> {
    type Head = Self;
    type Tail = NoTail;
    type At<'launch> = Self;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self, _: NoTail, _: Place) -> Self::At<'launch> {
        *head
    }
}

impl<F: ByValue<Head = F>> ByValue for EpiloguePlan<F> {
    #[inline(always)]
    fn into_head(self) -> Self {
        self
    }
}

impl<F> EpiloguePlan<F> {
    /// Whether bias and residual, of so many elements, have one for each of products of these extents; an empty one is
    /// none.
    #[inline(always)]
    pub fn fits(&self, extents: [usize; 3], bias: usize, residual: usize) -> bool {
        let within = |strides, len| len == 0 || span(extents, strides).is_some_and(|span| span <= len);
        within(self.bias, bias) && within(self.residual, residual)
    }
}

/// An epilogue of results of type `T`.
#[derive(Clone, Copy)]
pub struct Epilogue<'a, T, F = Activation> {
    plan: EpiloguePlan<F>,
    bias: Slice<'a, T>,
    residual: Slice<'a, T>,
}

impl<'a, T: Num, F: EpilogueOp<T::Wide>> Epilogue<'a, T, F> {
    /// The epilogue with these addends; an empty one is none.
    ///
    /// # Safety
    ///
    /// [`EpiloguePlan::fits`], with the extents of the products that are finished.
    #[inline(always)]
    pub unsafe fn new(plan: EpiloguePlan<F>, bias: &'a [T], residual: &'a [T]) -> Self {
        // SAFETY: a reference is to as many elements, which nobody writes.
        let slice = |of: &'a [T]| unsafe { Slice::from_raw_parts(of.as_ptr(), of.len()) };
        Self {
            plan,
            bias: slice(bias),
            residual: slice(residual),
        }
    }

    /// Whether it changes nothing.
    #[inline(always)]
    pub fn is_identity(&self) -> bool {
        self.plan.function.is_identity() && self.bias.is_empty() && self.residual.is_empty()
    }

    /// What becomes of `N` neighbours of a row, of which the first is at this product, row and column: a multiple of `N`,
    /// which is a power of two. Those from column `n` on are not there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn finish_row<const N: usize>(&self, values: [T::Wide; N], at: [usize; 3], n: usize) -> [T::Wide; N] {
        // SAFETY: the promise of `new`, for the columns that are there.
        let load = |elements, strides| unsafe { row(elements, strides, at, n) };
        let bias = || load(self.bias, self.plan.bias);
        self.finish(values, bias, || load(self.residual, self.plan.residual))
    }

    /// What becomes of the values with these addends, of which those that are not there are not asked for.
    #[inline(always)]
    fn finish<const N: usize>(
        &self,
        values: [T::Wide; N],
        bias: impl FnOnce() -> [T::Wide; N],
        residual: impl FnOnce() -> [T::Wide; N],
    ) -> [T::Wide; N] {
        self.plan.function.apply_to(values, self.there(), bias, residual)
    }

    /// Whether there is a bias, and a residual.
    #[inline(always)]
    fn there(&self) -> [bool; 2] {
        [!self.bias.is_empty(), !self.residual.is_empty()]
    }
}

impl<T: Num<Wide = T>, F: EpilogueOp<T>> Epilogue<'_, T, F> {
    /// Finishes `N` neighbours of a row of `c`, which has the products one after another, in C order, of `m` rows and `n`
    /// columns: those from column `n` on are not there.
    ///
    /// # Safety
    ///
    /// Product, row and column are in `c`, the column is a multiple of `N`, which is a power of two, and this thread wrote
    /// the elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn finish_stored<const N: usize>(&self, c: SliceMut<'_, T>, at: [usize; 3], [m, n]: [usize; 2]) {
        let strides = [m * n, n, 1];
        // SAFETY (of both): the same memory, which is written only through `c`; the caller's promise.
        let stored = unsafe { Slice::from_raw_parts(c.as_ptr(), c.len()) };
        let values: [T; N] = unsafe { row(stored, strides, at, n) };
        let values = self.finish_row(values, at, n);
        // SAFETY: as what was read.
        unsafe { set_row(c, strides, at, n, values) };
    }
}

/// Whether vectors of `N` elements with these strides can be loaded at columns that are multiples of `N`, of rows of `n`.
#[inline(always)]
fn is_wide<T: Num, const N: usize>(elements: Slice<'_, T>, [product, row, column]: [usize; 3], n: usize) -> bool {
    column == 1 && (product | row | n).is_multiple_of(N) && elements.is_vec_aligned::<N>()
}

/// An element.
///
/// # Safety
///
/// There is one at `at`.
#[inline(always)]
unsafe fn element<T: Num>(elements: Slice<'_, T>, at: usize) -> T {
    // SAFETY: the caller's promise; a vector of one is aligned like its element.
    let [element] = unsafe { elements.get_vec_unchecked::<1>(at) };
    element
}

/// `N` elements of a row; zeros from column `n` on.
///
/// # Safety
///
/// Those in front of it are in `elements`; the column is a multiple of `N`, which is a power of two.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn row<T: Num, const N: usize>(
    elements: Slice<'_, T>,
    strides: [usize; 3],
    [product, row, column]: [usize; 3],
    n: usize,
) -> [T::Wide; N] {
    let at = product * strides[0] + row * strides[1] + column * strides[2];
    // SAFETY (of both): the caller's promise. With rows of a multiple of `N`, the whole vector is in front of the end.
    if column < n && is_wide::<T, N>(elements, strides, n) {
        return cuda_std::array::map(unsafe { elements.get_vec_unchecked::<N>(at) }, T::widen);
    }
    cuda_std::array::from_fn(|i| match column + i < n {
        true => unsafe { element(elements, at + i * strides[2]) }.widen(),
        false => T::Wide::ZERO,
    })
}

/// Sets `N` elements of a row, but for those from column `n` on.
///
/// # Safety
///
/// As [`row`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn set_row<T: Num, const N: usize>(
    elements: SliceMut<'_, T>,
    strides: [usize; 3],
    [product, row, column]: [usize; 3],
    n: usize,
    values: [T; N],
) {
    let at = product * strides[0] + row * strides[1] + column * strides[2];
    // SAFETY (of both): the caller's promise. With rows of a multiple of `N`, the whole vector is in front of the end.
    if column < n && (strides[0] | strides[1] | n).is_multiple_of(N) && elements.is_vec_aligned::<N>() {
        return unsafe { elements.set_vec_unchecked(at, values) };
    }
    for i in 0..N {
        if column + i < n {
            unsafe { elements.set_vec_unchecked(at + i, [values[i]]) };
        }
    }
}

/// Threads of a block of [`finish_sums()`].
pub const THREADS: usize = 256;

/// Neighbours of a row that a thread finishes, whose sums have so many bytes.
pub const fn width(bytes: usize) -> usize {
    if bytes == 8 { 2 } else { 4 }
}

/// Parts of a sum that a thread loads at once, where columns lie side by side.
const AT_ONCE: usize = 8;

/// The shape of sums in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct SumsShape {
    /// Parts that each sum is the sum of, one after another, each of all products.
    pub parts: usize,
    /// Products.
    pub batch: usize,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// The sums' strides in elements: from product to product, along rows' numbers, along columns' numbers.
    pub strides: [usize; 3],
}

/// The epilogue of sums in memory, of which there may be several parts, which are added in their order:
/// `out ← f(sums + beta · out + bias) + residual`; where `beta` is 0, `out` is not read. Where a block has several threads along z,
/// each adds up as many parts one after another, and the sums of these groups are then added in their order.
///
/// Products and rows are one after another in `out`, which may be the memory of `sums`, if they lie as it does. A block has
/// at most [`THREADS`] threads: [`width`] columns for each along x, a row along y, parts along z; the grid has columns along x, rows
/// along y, products along z, of the last two as many as it likes.
///
/// # Safety
///
/// `sums` has the elements of all parts, `out` those of all products, and the addends as [`Epilogue::new`] says.
#[kernel(T = [f32, f64, i32, bf16, f16], max_threads = THREADS)]
pub unsafe fn finish_sums<T: Num<Wide: Activate + MulAdd>>(
    sums: Slice<'_, <T as Num>::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: <T as Num>::Wide,
    plan: EpiloguePlan,
    bias: &[T],
    residual: &[T],
) {
    // SAFETY: the kernel's contract.
    unsafe { finish_sums_with(sums, out, shape, beta, plan, bias, residual) };
}

/// [`finish_sums()`], with any function.
///
/// # Safety
///
/// The kernel's.
#[inline(always)]
pub unsafe fn finish_sums_with<T: Num<Wide: Activate + MulAdd>, F: EpilogueOp<T::Wide>>(
    sums: Slice<'_, T::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: T::Wide,
    plan: EpiloguePlan<F>,
    bias: &[T],
    residual: &[T],
) {
    // SAFETY: the kernel's contract.
    let epilogue = unsafe { Epilogue::new(plan, bias, residual) };
    // SAFETY (of both): the kernel's contract.
    match const { width(size_of::<T::Wide>()) } {
        2 => unsafe { finish_sums_by::<T, F, 2>(sums, out, shape, beta, epilogue) },
        _ => unsafe { finish_sums_by::<T, F, 4>(sums, out, shape, beta, epilogue) },
    }
}

/// [`finish_sums()`] by so many columns for each thread.
///
/// # Safety
///
/// The kernel's.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn finish_sums_by<T: Num<Wide: Activate + MulAdd>, F: EpilogueOp<T::Wide>, const WIDTH: usize>(
    sums: Slice<'_, T::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: T::Wide,
    epilogue: Epilogue<'_, T, F>,
) {
    // SAFETY: as many elements as there are, which are written only through `out`.
    let old = unsafe { Slice::from_raw_parts(out.as_ptr(), out.len()) };
    let SumsShape { parts, batch, m, n, .. } = shape;
    let place = |block: u32, threads: u32, thread: u32| block as usize * threads as usize + thread as usize;
    let column = WIDTH * place(thread::block_idx_x(), thread::block_dim_x(), thread::thread_idx_x());
    let rows = thread::grid_dim_y() as usize * thread::block_dim_y() as usize;
    let groups = Groups::<T::Wide>::new(parts, shared_array![u64; 2 * THREADS].cast());
    let strides = [m * n, n, 1];
    let mut product = thread::block_idx_z() as usize;
    while product < batch {
        let mut first_row = place(thread::block_idx_y(), thread::block_dim_y(), 0);
        while first_row < m {
            let row_number = first_row + thread::thread_idx_y() as usize;
            let is_there = row_number < m && column < n;
            let mut values = [T::Wide::ZERO; WIDTH];
            if is_there {
                // SAFETY: product, row and column are in the sums, and so is each part's number.
                values = unsafe { groups.sum(sums, &shape, [product, row_number, column]) };
            }
            values = groups.all(values);
            if is_there && groups.is_first() {
                let at = [product, row_number, column];
                if beta != T::Wide::ZERO {
                    // SAFETY: they are in `out` as well.
                    let old: [T::Wide; WIDTH] = unsafe { row(old, strides, at, n) };
                    values = cuda_std::array::from_fn(|i| beta.mul_add(old[i], values[i]));
                }
                let values = cuda_std::array::map(epilogue.finish_row(values, at, n), T::narrow);
                // SAFETY: as what was read.
                unsafe { set_row(out, strides, at, n, values) };
            }
            first_row += rows;
        }
        product += thread::grid_dim_z() as usize;
    }
}

/// How the parts of a sum are shared out: threads of a block that differ along z alone have the same columns, and parts one
/// after another.
struct Groups<W> {
    /// The parts that this thread adds up.
    first: usize,
    end: usize,
    /// Groups that have parts.
    groups: u32,
    /// A group's sums of each thread.
    sums: Shared<W>,
}

impl<W: MulAdd> Groups<W> {
    /// Those of this block, of so many parts.
    #[inline(always)]
    fn new(parts: usize, sums: Shared<W>) -> Self {
        let share = parts.div_ceil(Ord::max(thread::block_dim_z(), 1) as usize);
        let first = thread::thread_idx_z() as usize * share;
        Self {
            first,
            end: Ord::min(first + share, parts),
            groups: parts
                .checked_div(share)
                .map_or(0, |whole| (whole + usize::from(whole * share < parts)) as u32),
            sums,
        }
    }

    /// Those of a block whose threads have summed up their parts: a group for each number along z.
    #[inline(always)]
    fn of_each(sums: Shared<W>) -> Self {
        Self {
            first: 0,
            end: 0,
            groups: thread::block_dim_z(),
            sums,
        }
    }

    /// Whether this thread is of the first group, which has the sums of all in the end.
    #[inline(always)]
    fn is_first(&self) -> bool {
        thread::thread_idx_z() == 0
    }

    /// This group's parts of the sums at this product, row and column, in their order, [`AT_ONCE`] loaded at once, or each would
    /// wait for the one before; of elements that are loaded one by one, one part at a time. Beyond the last column that one.
    ///
    /// # Safety
    ///
    /// Product, row and column are in the sums.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sum<const WIDTH: usize>(
        &self,
        sums: Slice<'_, W>,
        shape: &SumsShape,
        [product, row, column]: [usize; 3],
    ) -> [W; WIDTH] {
        // Rows as long as these strides have room for whole vectors.
        let is_wide = is_wide::<W, WIDTH>(sums, shape.strides, 0);
        let of_part = |part: usize| {
            // Beyond the last part that one, which is not added.
            let part = Ord::min(part, self.end - 1);
            (part * shape.batch + product) * shape.strides[0] + row * shape.strides[1]
        };
        let at_once = if is_wide { AT_ONCE } else { 1 };
        let mut values = [W::ZERO; WIDTH];
        let mut part = self.first;
        while part < self.end {
            // SAFETY (of both): the caller's promise; with strides of a multiple of `WIDTH`, the whole vector is in the row.
            let next: [[W; WIDTH]; AT_ONCE] = cuda_std::array::from_fn(|i: usize| {
                let line = of_part(part + i);
                if is_wide {
                    unsafe { sums.get_vec_unchecked(line + column) }
                } else if i == 0 {
                    let column = |j: usize| Ord::min(column + j, shape.n - 1);
                    cuda_std::array::from_fn(|j: usize| unsafe { element(sums, line + column(j) * shape.strides[2]) })
                } else {
                    [W::ZERO; WIDTH]
                }
            });
            unroll!(8, one => {
                if one < at_once && part + one < self.end {
                    let next = next[one % AT_ONCE];
                    values = match one == 0 && part == self.first {
                        true => next,
                        false => cuda_std::array::from_fn(|i| values[i].add(next[i])),
                    };
                }
            });
            part += at_once;
        }
        values
    }

    /// The sums of all groups, in their order, for the first one. For all threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn all<const WIDTH: usize>(&self, mut values: [W; WIDTH]) -> [W; WIDTH] {
        if thread::block_dim_z() > 1 {
            let of_group = thread::block_dim_x() * thread::block_dim_y();
            let within = thread::thread_idx_y() * thread::block_dim_x() + thread::thread_idx_x();
            let at = |group: u32| WIDTH * (group * of_group + within) as usize;
            // SAFETY (of both): there is room for each thread of a block.
            unsafe { self.sums.set_vec_unchecked(at(thread::thread_idx_z()), values) };
            thread::sync_threads();
            if self.is_first() {
                let mut group = 1;
                while group < self.groups {
                    let next: [W; WIDTH] = unsafe { self.sums.get_vec_unchecked(at(group)) };
                    values = cuda_std::array::from_fn(|i| values[i].add(next[i]));
                    group += 1;
                }
            }
            thread::sync_threads();
        }
        values
    }
}
