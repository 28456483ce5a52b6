// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warpgroup, by the tensor cores of Hopper (`wgmma`).
//!
//! The 128 threads of four warps, numbers 0 to 127 of the block or 128 to 255 and so on, multiply together: one instruction
//! adds to a 64 × N matrix D, which lies in their registers, the product of a 64 × K matrix A and a K × N matrix B, which lie
//! in shared memory. K is 32 for 8-bit elements, 16 for those of 16 bits and 8 for [`Tf32`]: 32 bytes. D is of f32, or of i32
//! where A and B are of [`i8`].
//!
//! The instructions run beside the threads. A thread's part of D is an [`Accumulator`]; [`start`](Accumulator::start) makes
//! it a [`Batch`] of instructions, [`commit`](Batch::commit) closes the batch, and then it is [`InFlight`]: another batch
//! can follow, and only [`wait`](InFlight::wait) gives the accumulator back, which is the one state that can be read. Two
//! accumulators can take turns ([`wait_beside_newer`](InFlight::wait_beside_newer)).
//!
//! GPU: compute 9.0 with its own features (`sm_90a`). Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-
//! Accumulate Instructions".
//!
//! # How A and B lie in shared memory
//!
//! With 128-byte swizzle ([`Swizzle::B128`](crate::tma::Swizzle::B128)) but for two layouts, as [bulk copies](crate::tma) bring them; a
//! [`MatrixDescriptor`] says where, and its type what the elements are and which of them are neighbours:
//!
//! * [`KMajor`]: those along K. A box has 128 bytes along K, and a row for each row of A, or column of B. Eight
//!   rows are 1024 bytes; from one eight to the next there are `stride_byte_offset` bytes. One instruction takes 32 of the
//!   128 bytes; the next one's descriptor is [advanced](MatrixDescriptor::advance) by 32 bytes.
//! * [`KMajorPieces`]: those along K, 16 bytes of them, without swizzle. The pieces of eight rows are 128 bytes one after another; from one
//!   eight to the next there are `stride_byte_offset` bytes, and from a row's piece to its next one `leading_byte_offset` bytes. A matrix may
//!   begin with any piece, so that one which is a row further on is the same memory 16 bytes later. One instruction takes two pieces.
//! * [`MnMajor`]: those along M or N; for 16-bit elements alone. A box has 64 elements along M or N, which are 128 bytes,
//!   and a row for each k. Eight rows are 1024 bytes; from one eight to the next there are `stride_byte_offset` bytes, and
//!   from one box to that of the next 64 elements `leading_byte_offset` bytes. One instruction takes 16 rows; the
//!   next one's descriptor is advanced by 2048 bytes, where `stride_byte_offset` is 1024.
//! * [`MnMajorB64`]: the same with boxes of 32 elements and 64-byte swizzle ([`Swizzle::B64`](crate::tma::Swizzle::B64)), for matrices whose width is no
//!   multiple of 64. Eight rows are 512 bytes, and 16 rows 1024.
//!
//! An A of 16-bit floats or of `Tf32` can come from registers instead, as [`Fragment`]s: that is how an A of `Tf32` that lies
//! M-major is had, and how what is made of the result of one product is multiplied by another matrix.
//!
//! # Convergence
//!
//! Every function here that acts on an accumulator is one that all threads of the warpgroup reach together, with the same
//! descriptors. On the simulated GPU the lanes of a warp that do not, or that have other descriptors than one another, are a
//! fault; the warps of a warpgroup wait for one another where they wait for their instructions.
//!
//! # Rounding
//!
//! Products are exact; they are added in f32, in an order that nobody specifies. Of `Tf32` the lowest 13 bits of an f32 are
//! ignored: a tensor map of that type rounds when it loads.
//!
//! Products of [8-bit floats](crate::float8) are added with fewer bits than f32 has: an instruction aligns its 32 products and
//! D to the largest of them, and keeps some 14 bits ("DeepSeek-V3 Technical Report", 2024, 3.3.2, measured on an H800). Who
//! sums many of them begins from zero every so often, and adds what has come of it to f32 sums of the thread's own
//! ([`Accumulator::update`]). The simulated GPU adds them in f32.
//!
//! Sums of integers are exact, modulo 2^32.
//!
//! # Examples
//!
//! D = A · B for 64 × 64 × 16:
//!
//! ```
//! use cuda_std::half::{self, bf16};
//! use cuda_std::prelude::*;
//! use cuda_std::tma::{self, Swizzle};
//! use cuda_std::wgmma::{Accumulator, KMajor, MatrixDescriptor};
//!
//! /// `x` is A, 64 rows of 16; `y` is B, 64 columns of 16; `d` is 64 rows of 64. For one block of 128 threads.
//! #[kernel(max_threads = 128)]
//! pub fn multiply(x: &[f32], y: &[f32], d: SliceMut<'_, f32>) {
//!     // 64 rows of 128 bytes for each, of which K = 16 takes 32.
//!     let tiles = shared_array![bf16; 2 * 64 * 64 + 512].aligned::<1024>();
//!     let (a, b) = (tiles.subarray(0, 64 * 64), tiles.subarray(64 * 64, 64 * 64));
//!     let t = thread::thread_idx_x();
//!     let (row, columns) = (t / 2, t % 2 * 8..t % 2 * 8 + 8);
//!     for k in columns {
//!         let to = (Swizzle::B128.place(row * 128 + k * 2) / 2) as usize;
//!         a.set(to, half::bf16_from_f32(x[(row * 16 + k) as usize]));
//!         b.set(to, half::bf16_from_f32(y[(row * 16 + k) as usize]));
//!     }
//!     // Each thread that wrote says so to the tensor cores.
//!     tma::fence_async();
//!     thread::sync_threads();
//!     let a = MatrixDescriptor::<bf16, KMajor>::new(a, 16, 1024);
//!     let b = MatrixDescriptor::<bf16, KMajor>::new(b, 16, 1024);
//!     // SAFETY: both tiles are written, and stay as they are until the wait.
//!     let sum = unsafe { Accumulator::<32>::zero().start().mma(a, b) }.commit().wait();
//!     let mut set = |register: u32, value: f32| {
//!         let (row, column) = Accumulator::<32>::place(t, register);
//!         d.set((row * 64 + column) as usize, value);
//!     };
//!     set(0, sum.get::<0>());
//!     set(31, sum.get::<31>());
//! }
//! # let x: Vec<f32> = (0..64 * 16).map(|i| (i % 7) as f32).collect();
//! # let y: Vec<f32> = (0..64 * 16).map(|i| (i % 5) as f32 - 1.0).collect();
//! # let mut d = vec![f32::NAN; 64 * 64];
//! # cuda_std::launch::on_simulator(1, 128, &mut d, |d| multiply(&x, &y, d));
//! # let dot = |i: usize, j: usize| (0..16).map(|k| x[i * 16 + k] * y[j * 16 + k]).sum::<f32>();
//! // Thread 5 has elements of rows 1 and 9.
//! assert_eq!((Accumulator::<32>::place(5, 0), Accumulator::<32>::place(5, 31)), ((1, 2), (9, 59)));
//! assert_eq!((d[64 + 2], d[9 * 64 + 59]), (dot(1, 2), dot(9, 59)));
//! ```
//!
//! What is in flight cannot be read:
//!
//! ```compile_fail,E0599
//! # use cuda_std::wgmma::Accumulator;
//! let batch = Accumulator::<32>::zero().start().commit();
//! batch.get::<0>();
//! ```
//!
//! An accumulator has the registers of a shape that there is, and Tf32 lies K-major:
//!
//! ```compile_fail,E0277
//! # use cuda_std::wgmma::Accumulator;
//! Accumulator::<33>::zero().start().commit().wait();
//! ```
//!
//! ```compile_fail,E0277
//! # use cuda_std::wgmma::{MatrixDescriptor, MnMajor, Tf32};
//! # use cuda_std::prelude::*;
//! fn tile(at: Shared<f32>) -> MatrixDescriptor<Tf32, MnMajor> {
//!     MatrixDescriptor::new(at, 8192, 1024)
//! }
//! ```

mod layout;
mod operand;

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::half::Packed;
use crate::machine;

pub use layout::{KMajor, KMajorPieces, Layout, MatrixDescriptor, MnMajor, MnMajorB64};
pub use operand::{FromRegisters, MultiplyBy, Operand, Tf32};

pub use crate::machine::{InRegisters, IntegerRegisters, Registers};

mod sealed {
    pub trait Sealed {}
}

/// What one thread has of a 64 × K matrix A in registers, where K is that of an instruction: so that it need not lie in shared memory.
///
/// Of [`Tf32`], element `i` of thread `t` is that of row `16 (t / 32 % 4) + t % 32 / 4 + 8 (i % 2)` and of k `t % 4 + 4 (i / 2)`.
/// Of 16-bit floats, it is a pair: that of the same row and of k `2 (t % 4) + 8 (i / 2)` in the lower half, and that of the next k. So
/// elements `8 j` to `8 j + 7` of an [`Accumulator`], packed two by two in their order, are the fragment of columns `16 j` to `16 j + 15`.
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::tma::{self, Swizzle};
/// use cuda_std::wgmma::{Accumulator, Fragment, KMajor, MatrixDescriptor, Tf32};
///
/// /// D = A · B for 64 × 64 × 8, where `x` is A and lies by columns, and `y` is B. For one block of 128 threads.
/// #[kernel(max_threads = 128)]
/// pub fn multiply(x: &[f32], y: &[f32], d: SliceMut<'_, f32>) {
///     let b = shared_array![f32; 64 * 32 + 256].aligned::<1024>();
///     let t = thread::thread_idx_x();
///     for k in t % 2 * 4..t % 2 * 4 + 4 {
///         let to = Swizzle::B128.place(t / 2 * 128 + k * 4) / 4;
///         b.set(to as usize, y[(k * 64 + t / 2) as usize]);
///     }
///     tma::fence_async();
///     thread::sync_threads();
///     let b = MatrixDescriptor::<Tf32, KMajor>::new(b, 16, 1024);
///     let (row, k) = (16 * (t / 32) + t % 32 / 4, t % 4);
///     let of_a = |row: u32, k: u32| x[(k * 64 + row) as usize];
///     let a = Fragment::new([of_a(row, k), of_a(row + 8, k), of_a(row, k + 4), of_a(row + 8, k + 4)]);
///     // SAFETY: B is written, and stays as it is until the wait, behind which the fragment is kept.
///     let sum = unsafe { Accumulator::<32>::zero().start().mma_fragment(&a, b) }.commit().wait();
///     a.keep();
///     let (row, column) = Accumulator::<32>::place(t, 6);
///     d.set((row * 64 + column) as usize, sum.get::<6>());
/// }
/// # let x: Vec<f32> = (0..64 * 8).map(|i| (i % 7) as f32).collect();
/// # let y: Vec<f32> = (0..64 * 8).map(|i| (i % 5) as f32 - 1.0).collect();
/// # let mut d = vec![f32::NAN; 64 * 64];
/// # cuda_std::launch::on_simulator(1, 128, &mut d, |d| multiply(&x, &y, d));
/// # let dot = |i: usize, j: usize| (0..8).map(|k| x[k * 64 + i] * y[k * 64 + j]).sum::<f32>();
/// // Thread 37 has an element of row 25.
/// assert_eq!(Accumulator::<32>::place(37, 6), (25, 10));
/// assert_eq!(d[25 * 64 + 10], dot(25, 10));
/// ```
///
/// The product of what was multiplied, with a B that lies by rows:
///
/// ```
/// use cuda_std::half::{self, bf16};
/// use cuda_std::prelude::*;
/// use cuda_std::tma::{self, Swizzle};
/// use cuda_std::wgmma::{Accumulator, Fragment, MatrixDescriptor, MnMajor};
///
/// /// D = A · B for 64 × 64 × 16, where `x` is A and `y` is B. For one block of 128 threads.
/// #[kernel(max_threads = 128)]
/// pub fn multiply(x: &[f32], y: &[f32], d: SliceMut<'_, f32>) {
///     let b = shared_array![bf16; 16 * 64 + 512].aligned::<1024>();
///     let t = thread::thread_idx_x();
///     for i in 0..8 {
///         let (k, column) = (t / 8, t % 8 * 8 + i);
///         let to = Swizzle::B128.place(k * 128 + column * 2) / 2;
///         b.set(to as usize, half::bf16_from_f32(y[(k * 64 + column) as usize]));
///     }
///     tma::fence_async();
///     thread::sync_threads();
///     let b = MatrixDescriptor::<bf16, MnMajor>::new(b, 16, 1024);
///     let (row, k) = (16 * (t / 32) + t % 32 / 4, t % 4 * 2);
///     let pair = |row: u32, k: u32| {
///         let at = (row * 16 + k) as usize;
///         half::pack::<bf16>(x[at], x[at + 1])
///     };
///     let a = Fragment::<bf16>::of_pairs([pair(row, k), pair(row + 8, k), pair(row, k + 8), pair(row + 8, k + 8)]);
///     // SAFETY: B is written, and stays as it is until the wait, behind which the fragment is kept.
///     let sum = unsafe { Accumulator::<32>::zero().start().mma_fragment(&a, b) }.commit().wait();
///     a.keep();
///     let (row, column) = Accumulator::<32>::place(t, 6);
///     d.set((row * 64 + column) as usize, sum.get::<6>());
/// }
/// # let x: Vec<f32> = (0..64 * 16).map(|i| (i % 7) as f32).collect();
/// # let y: Vec<f32> = (0..64 * 16).map(|i| (i % 5) as f32 - 1.0).collect();
/// # let mut d = vec![f32::NAN; 64 * 64];
/// # cuda_std::launch::on_simulator(1, 128, &mut d, |d| multiply(&x, &y, d));
/// # let dot = |i: usize, j: usize| (0..16).map(|k| x[i * 16 + k] * y[k * 64 + j]).sum::<f32>();
/// assert_eq!(d[25 * 64 + 10], dot(25, 10));
/// ```
pub struct Fragment<T = Tf32>([u32; 4], PhantomData<T>);

impl Fragment<Tf32> {
    /// The fragment of this thread's elements. Of each the lowest 13 bits are ignored.
    #[inline(always)]
    pub fn new(elements: [f32; 4]) -> Self {
        Self(crate::array::map(elements, f32::to_bits), PhantomData)
    }
}

impl<T: Packed> Fragment<T> {
    /// The fragment of this thread's pairs of 16-bit floats.
    #[inline(always)]
    pub fn of_pairs(pairs: [u32; 4]) -> Self {
        Self(pairs, PhantomData)
    }
}

impl<T: Packed> Fragment<T> {
    /// The pairs, such as for [`stmatrix_x4`](crate::matrix::stmatrix_x4), which stores them as four matrices: those of rows 0 to 7 and 8 to 15 of
    /// each warp's, for the first eight of k, then for the others.
    #[inline(always)]
    pub fn pairs(&self) -> [u32; 4] {
        self.0
    }
}

impl<T> Fragment<T> {
    /// Ends its use: until here its registers are nobody else's.
    #[inline(always)]
    pub fn keep(&self) {
        machine::keep_fragment(&self.0);
    }
}

/// What one thread has of a 64 × 2`R` matrix of f32, or i32, in the registers of its warpgroup: 16, 24, 32, 48, 56, 64, 80,
/// 84, 88, 96, 104 or 128 elements.
/// See the [module](self).
#[must_use]
pub struct Accumulator<const R: usize, S = f32>([S; R]);

/// An accumulator, and instructions that will write to it. See the [module](self).
#[must_use = "what is not committed is not waited for"]
pub struct Batch<const R: usize, S = f32>(Accumulator<R, S>);

/// An accumulator that instructions write to. See the [module](self).
#[must_use = "instructions write to the registers until the wait"]
pub struct InFlight<const R: usize, S = f32>(Accumulator<R, S>);

impl<const R: usize, S: Pod> Accumulator<R, S> {
    /// All zeros.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([S::zeroed(); R])
    }

    /// Element `I` of the thread's; [`place`](Self::place) says which of the matrix's that is. That there is one is checked
    /// when it is compiled.
    #[inline(always)]
    pub fn get<const I: usize>(&self) -> S {
        const { assert!(I < R) };
        self.0[I]
    }

    /// Element `register` of the thread's, like [`get`](Self::get), where the number is computed: from constants, such as the
    /// literals of a macro and a generic parameter, because registers have no addresses. With a number that the compiler
    /// does not know the accumulator goes to local memory, which is slow.
    ///
    /// # Panics
    ///
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn element(&self, register: usize) -> S {
        self.0[register]
    }

    /// Row and column of element `register` of thread `thread` of the block.
    #[inline(always)]
    pub const fn place(thread: u32, register: u32) -> (u32, u32) {
        let (warp, lane) = (thread / 32 % 4, thread % 32);
        (
            16 * warp + lane / 4 + 8 * (register / 2 % 2),
            8 * (register / 4) + 2 * (lane % 4) + register % 2,
        )
    }
}

impl<const R: usize, S> Accumulator<R, S>
where
    [S; R]: InRegisters<S>,
{
    /// Elements of no particular value, which takes no instruction: for a batch that begins with
    /// [`mma_from_zero`](Batch::mma_from_zero). On the simulated GPU they are 0.
    #[inline(always)]
    pub fn any() -> Self {
        Self(<[S; R]>::any())
    }

    /// Opens a batch: orders what the thread did to the registers ahead of the instructions.
    #[inline(always)]
    #[track_caller]
    pub fn start(mut self) -> Batch<R, S> {
        self.0.fence();
        Batch(self)
    }

    /// Replaces each of the thread's elements by a function of its number, which is a constant where the function is inlined,
    /// and itself.
    ///
    /// ```
    /// use cuda_std::wgmma::Accumulator;
    ///
    /// let mut sums = Accumulator::<32>::zero();
    /// sums.update(|register, sum| sum + register as f32);
    /// assert_eq!((sums.get::<0>(), sums.get::<31>()), (0.0, 31.0));
    /// ```
    #[inline(always)]
    pub fn update(&mut self, f: impl Fn(usize, S) -> S) {
        self.0.update(f);
    }
}

impl<const R: usize> Batch<R>
where
    [f32; R]: Registers,
{
    /// D += A · B, by one instruction.
    ///
    /// # Safety
    ///
    /// * Both matrices lie in the block's shared memory, all of them, as the descriptors say. What threads wrote there is
    ///   ordered ahead of this by [`fence_async`](crate::tma::fence_async) of each that wrote, and a barrier; what a copy
    ///   brought, by the wait for its [`Mbarrier`](crate::mbarrier::Mbarrier).
    /// * Nobody writes there before the batch has been waited for.
    /// * The value that comes of this is [committed](Self::commit) and [waited for](InFlight::wait): dropped or forgotten
    ///   before, it leaves its registers to others while instructions write to them.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma<T: MultiplyBy<U>, U: Operand, A: Layout<T>, B: Layout<U>>(
        mut self,
        a: MatrixDescriptor<T, A>,
        b: MatrixDescriptor<U, B>,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { T::multiply::<[f32; R], A, B, 1>(&mut self.0.0, a.raw, b.raw) };
        self
    }

    /// D = A · B, by one instruction: what the accumulator held does not count, and need not have been set to zero.
    ///
    /// # Safety
    ///
    /// As for [`mma`](Self::mma).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_from_zero<T: MultiplyBy<U>, U: Operand, A: Layout<T>, B: Layout<U>>(
        mut self,
        a: MatrixDescriptor<T, A>,
        b: MatrixDescriptor<U, B>,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { T::multiply::<[f32; R], A, B, 0>(&mut self.0.0, a.raw, b.raw) };
        self
    }

    /// D += A · B, by one instruction, with A in registers.
    ///
    /// # Safety
    ///
    /// As for [`mma`](Self::mma) as far as B goes. The fragment was made before the batch was opened, and is
    /// [kept](Fragment::keep) behind the wait for this batch: until then the instruction reads its registers, which the
    /// compiler does not know. (Where what makes it could be moved behind the opening, it is kept ahead of that too.)
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_fragment<T: FromRegisters, B: Layout<T>>(
        mut self,
        a: &Fragment<T>,
        b: MatrixDescriptor<T, B>,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { T::multiply_fragment::<[f32; R], B, 1>(&mut self.0.0, a.0, b.raw) };
        self
    }

    /// D = A · B, by one instruction, with A in registers, as [`mma_from_zero`](Self::mma_from_zero).
    ///
    /// # Safety
    ///
    /// As for [`mma_fragment`](Self::mma_fragment).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_fragment_from_zero<T: FromRegisters, B: Layout<T>>(
        mut self,
        a: &Fragment<T>,
        b: MatrixDescriptor<T, B>,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { T::multiply_fragment::<[f32; R], B, 0>(&mut self.0.0, a.0, b.raw) };
        self
    }
}

impl<const R: usize> Batch<R, i32>
where
    [i32; R]: IntegerRegisters,
{
    /// D += A · B, by one instruction, modulo 2^32.
    ///
    /// # Safety
    ///
    /// As for [`mma`](Batch::mma) of floats.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_i8(mut self, a: MatrixDescriptor<i8, KMajor>, b: MatrixDescriptor<i8, KMajor>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.0.0.multiply_s8::<KMajor, KMajor, 1>(a.raw, b.raw) };
        self
    }

    /// D = A · B, by one instruction, as [`mma_from_zero`](Batch::mma_from_zero) of floats.
    ///
    /// # Safety
    ///
    /// As for [`mma`](Batch::mma) of floats.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn mma_i8_from_zero(mut self, a: MatrixDescriptor<i8, KMajor>, b: MatrixDescriptor<i8, KMajor>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.0.0.multiply_s8::<KMajor, KMajor, 0>(a.raw, b.raw) };
        self
    }
}

impl<const R: usize, S> Batch<R, S> {
    /// Closes the batch.
    #[inline(always)]
    pub fn commit(self) -> InFlight<R, S> {
        machine::wgmma_commit();
        InFlight(self.0)
    }
}

impl<const R: usize, S> InFlight<R, S>
where
    [S; R]: InRegisters<S>,
{
    /// Waits until all batches of the thread's but the newest are done, and have read their matrices, which can be written
    /// again: by another thread behind a barrier at which one thread of the warpgroup arrives.
    #[inline(always)]
    #[track_caller]
    pub fn wait_but_newest(self) -> Self {
        machine::wgmma_wait_but_newest();
        self
    }

    /// Opens another batch, which adds to what those before are still at.
    #[inline(always)]
    #[track_caller]
    pub fn restart(self) -> Batch<R, S> {
        machine::wgmma_fence();
        Batch(self.0)
    }

    /// Waits until this accumulator's batches are done, while one of another accumulator goes on: so a thread works on what
    /// is done, and the tensor cores on the next.
    ///
    /// # Safety
    ///
    /// The newest batch that the thread has committed is of another accumulator.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn wait_beside_newer(mut self) -> Accumulator<R, S> {
        self.0.0.wait_but_newest();
        self.0
    }

    /// Waits until all batches are done.
    #[inline(always)]
    #[track_caller]
    pub fn wait(mut self) -> Accumulator<R, S> {
        self.0.0.wait();
        self.0
    }
}
