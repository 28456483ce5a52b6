// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk copies of tensors on the simulated GPU. They are done when they are asked for.
//!
//! Global memory is accessed as kernels do elsewhere: by relaxed atomics of an element's size. That an element is in the
//! tensor is what the coordinates are compared for; that the tensor is memory is the promise of who made the map.

use core::ops::Range;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use cuda_sim::{Engine, Kind, SharedPtr, Space};

use super::simulator_mbarrier::{mbarrier_complete_tx, mbarrier_phase_of};
use super::{Place, cluster_blocks, map_shared};
use crate::tma::{RawTensorMap, Swizzle, TensorMapLayout};

/// The address of a tensor map.
pub type TensorMapAddress = *const RawTensorMap;

/// The address of the tensor map that is a parameter.
pub fn tensor_map_at(map: &RawTensorMap, _: Place) -> TensorMapAddress {
    map
}

/// The first word of a map: what no map of a driver begins with, and what tells memory that is none.
const MAGIC: u64 = 0x5753_5445_4e53_4f52;

/// The bytes that a swizzle moves as a whole.
const PIECE: usize = 16;

/// What word 2 of a map of TF32 has.
const TF32: u64 = 1 << 24;

impl RawTensorMap {
    /// A map for the simulated GPU: of the tensor at `address`, whose provenance is exposed.
    ///
    /// # Panics
    ///
    /// If `layout` is not as its fields say, or `address` no multiple of 16: where `cuTensorMapEncodeTiled` returns an
    /// error.
    pub fn simulated(address: usize, layout: &TensorMapLayout) -> RawTensorMap {
        layout.check(address);
        let TensorMapLayout {
            element_bytes,
            rank,
            dims,
            strides,
            box_dims,
            steps,
            swizzle,
        } = *layout;
        let mut words = [0; 16];
        words[0] = MAGIC;
        words[1] = address as u64;
        words[2] = u64::from(element_bytes) | u64::from(rank) << 8 | (swizzle as u64) << 16;
        words[3..8].copy_from_slice(&dims);
        words[8..12].copy_from_slice(&strides);
        for (d, &extent) in box_dims.iter().enumerate() {
            words[12 + d / 2] |= u64::from(extent) << (32 * (d % 2));
        }
        for (d, &step) in steps.iter().enumerate() {
            words[15] |= u64::from(step) << (8 * d);
        }
        RawTensorMap::from_words(words)
    }

    /// This map, as one of TF32 (`CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`): what it loads, f32, is rounded to the 11 bits that
    /// matrix instructions look at, to nearest. No document tells of ties; here they go away from zero, as those of the
    /// instruction `cvt.rna.tf32.f32` do.
    ///
    /// # Panics
    ///
    /// If the elements have not 4 bytes.
    pub fn rounding_to_tf32(mut self) -> RawTensorMap {
        assert!(
            self.words()[2] & 0xff == 4,
            "a tensor map of TF32 has elements of 4 bytes"
        );
        self.0[2] |= TF32;
        self
    }

    /// Whether it is one of TF32.
    fn rounds_to_tf32(&self) -> bool {
        self.words()[2] & TF32 != 0
    }

    /// The address and the layout; `None` if this is no map of [`simulated`](Self::simulated)'s.
    fn decode(&self) -> Option<(usize, TensorMapLayout)> {
        let words = self.words();
        let layout = TensorMapLayout {
            element_bytes: words[2] as u32 & 0xff,
            rank: (words[2] >> 8) as u32 & 0xff,
            dims: std::array::from_fn(|d| words[3 + d]),
            strides: std::array::from_fn(|d| words[8 + d]),
            box_dims: std::array::from_fn(|d| (words[12 + d / 2] >> (32 * (d % 2))) as u32),
            steps: std::array::from_fn(|d| (words[15] >> (8 * d)) as u32 & 0xff),
            swizzle: match words[2] >> 16 & 0xff {
                0 => Swizzle::None,
                1 => Swizzle::B32,
                2 => Swizzle::B64,
                _ => Swizzle::B128,
            },
        };
        (words[0] == MAGIC).then_some((words[1] as usize, layout))
    }
}

impl TensorMapLayout {
    /// Panics unless a tensor at `address` may have this layout.
    fn check(&self, address: usize) {
        let rank = self.rank as usize;
        assert!((1..=5).contains(&rank), "a tensor map of rank {rank}: it is 1 to 5");
        let bytes = self.element_bytes;
        assert!(
            matches!(bytes, 1 | 2 | 4 | 8),
            "a tensor map of elements of {bytes} bytes"
        );
        assert!(address.is_multiple_of(16), "a tensor map's address is a multiple of 16");
        for &extent in &self.dims[..rank] {
            assert!(
                (1..=1 << 32).contains(&extent),
                "a tensor map's extent of {extent}: it is 1 to 2^32"
            );
        }
        for &stride in &self.strides[..rank - 1] {
            assert!(
                stride.is_multiple_of(16) && stride < 1 << 40,
                "a tensor map's stride of {stride} bytes: it is a multiple of 16 below 2^40"
            );
        }
        for &extent in &self.box_dims[..rank] {
            assert!(
                (1..=256).contains(&extent),
                "a box's extent of {extent}: it is 1 to 256"
            );
        }
        for (d, &step) in self.steps[..rank].iter().enumerate() {
            let most = if d == 0 { 1 } else { 8 };
            assert!(
                (1..=most).contains(&step),
                "a box's step of {step} in dimension {d}: it is 1 to {most}"
            );
        }
        let row = self.box_dims[0] * bytes;
        let span = self.swizzle.span();
        assert!(
            row.is_multiple_of(16) && (row == span || self.swizzle == Swizzle::None),
            "the innermost dimension of a box has {row} bytes: with {:?} swizzle it has {}",
            self.swizzle,
            if self.swizzle == Swizzle::None {
                "a multiple of 16".into()
            } else {
                span.to_string()
            }
        );
    }
}

/// A copy of a box: where it is in the tensor, and where in shared memory.
struct Copy {
    layout: TensorMapLayout,
    rounds_to_tf32: bool,
    address: usize,
    at: [i64; 5],
    /// The box's extents, 1 beyond the rank.
    extents: [i64; 5],
    /// Where the box lies in the block's shared memory.
    shared: SharedPtr,
}

impl Copy {
    /// # Safety
    ///
    /// If `map` is not null, a `RawTensorMap` is there.
    #[track_caller]
    unsafe fn new(map: TensorMapAddress, element: usize, ptr: SharedPtr, room: usize, coordinates: &[i32]) -> Copy {
        // SAFETY: the caller's promise.
        let map = unsafe { map.as_ref() };
        let Some((address, layout)) = map.and_then(RawTensorMap::decode) else {
            panic!("a bulk copy by a tensor map that is not one for the simulated GPU");
        };
        let rank = layout.rank as usize;
        assert!(
            rank == coordinates.len(),
            "a bulk copy with {} coordinates, by a tensor map of rank {rank}",
            coordinates.len()
        );
        let bytes = layout.element_bytes as usize;
        assert!(
            bytes == element,
            "a bulk copy of elements of {element} bytes, by a tensor map of elements of {bytes}"
        );
        let first = i64::from(coordinates[0]) * bytes as i64;
        assert!(
            first % 16 == 0,
            "a bulk copy of a box that begins at element {} of its innermost dimension, {first} bytes from the tensor's \
             edge: a GPU can copy from multiples of 16 bytes alone, and ends in an illegal instruction",
            coordinates[0]
        );
        let align = layout.swizzle.align();
        assert!(
            ptr.is_aligned_to(align),
            "the shared memory of a bulk copy with {:?} swizzle is not aligned to {align} bytes",
            layout.swizzle
        );
        let mut copy = Copy {
            layout,
            rounds_to_tf32: map.is_some_and(RawTensorMap::rounds_to_tf32),
            address,
            at: [0; 5],
            extents: [1; 5],
            shared: ptr,
        };
        for (d, &coordinate) in coordinates.iter().enumerate() {
            copy.at[d] = coordinate.into();
            copy.extents[d] = layout.box_dims[d].div_ceil(layout.steps[d]).into();
        }
        let size = copy.bytes();
        assert!(
            size <= room,
            "a bulk copy of a box of {size} bytes, for which {room} bytes of shared memory are given"
        );
        cuda_sim::shared_memory(ptr, size);
        copy
    }

    /// The size of the box.
    fn bytes(&self) -> usize {
        self.extents.iter().product::<i64>() as usize * self.layout.element_bytes as usize
    }

    /// For each row of the box its offset in the box without swizzle; those of its bytes that are in the tensor; and the
    /// address that the first one has, or would have.
    fn rows(&self) -> impl Iterator<Item = (usize, Range<usize>, usize)> {
        let [columns, ..] = self.extents;
        let bytes = self.layout.element_bytes as i64;
        let ends = [-self.at[0], self.layout.dims[0] as i64 - self.at[0]];
        let [start, end] = ends.map(|column| (column.clamp(0, columns) * bytes) as usize);
        let rows: i64 = self.extents[1..].iter().product();
        (0..rows).map(move |number| {
            let (mut rest, mut is_inside, mut address) = (number, true, self.address as i64 + self.at[0] * bytes);
            for d in 1..self.layout.rank as usize {
                let at = self.at[d] + rest % self.extents[d] * i64::from(self.layout.steps[d]);
                rest /= self.extents[d];
                is_inside &= (0..self.layout.dims[d] as i64).contains(&at);
                address = address.wrapping_add(at.wrapping_mul(self.layout.strides[d - 1] as i64));
            }
            let inside = if is_inside { start..end } else { 0..0 };
            ((number * columns * bytes) as usize, inside, address as usize)
        })
    }

    /// The pieces of some bytes of the row that is at `offset` of the box without swizzle, each of which a swizzle moves as a
    /// whole: where in shared memory they are, and which bytes of the row.
    fn pieces(&self, offset: usize, bytes: Range<usize>) -> impl Iterator<Item = (SharedPtr, Range<usize>)> {
        let start = self.shared.offset();
        let mut at = bytes.start;
        std::iter::from_fn(move || {
            let whole = start + offset + at;
            let piece = at..bytes.end.min(at + PIECE - whole % PIECE);
            at = piece.end;
            // In a box that is aligned a row's bytes stay among themselves.
            let place = self.layout.swizzle.place(whole as u32) as usize - start;
            (!piece.is_empty()).then(|| (self.shared.byte_add(place), piece))
        })
    }

    /// Copies the box to shared memory, whose bytes arrive in that phase of a barrier.
    ///
    /// # Safety
    ///
    /// The tensor is memory that others access only by the machine's functions, aligned for its elements.
    #[track_caller]
    unsafe fn load<W: Word>(&self, phase: (usize, u32)) {
        let row = self.extents[0] as usize * size_of::<W>();
        for (offset, inside, address) in self.rows() {
            if !inside.is_empty() {
                let from = address.wrapping_add(inside.start);
                cuda_sim::access(Space::Global, from, inside.len(), 0, Kind::AsyncRead);
            }
            for (place, piece) in self.pieces(offset, 0..row) {
                let to = cuda_sim::load_begins(place, (piece.len(), size_of::<W>()), phase);
                for at in piece.clone().step_by(size_of::<W>()) {
                    let element = if inside.contains(&at) {
                        // SAFETY: an element of the tensor.
                        let element = unsafe { W::load(with_exposed_provenance_mut(address.wrapping_add(at))) };
                        if self.rounds_to_tf32 {
                            element.to_tf32()
                        } else {
                            element
                        }
                    } else {
                        W::default()
                    };
                    // SAFETY: in the piece, and aligned, as the box is.
                    unsafe { element.store(to.byte_add(at - piece.start).cast()) };
                }
            }
        }
    }

    /// Copies the box from shared memory.
    ///
    /// # Safety
    ///
    /// The tensor is memory that others access only by the machine's functions, aligned for its elements.
    #[track_caller]
    unsafe fn store<W: Word>(&self) {
        for (offset, inside, address) in self.rows() {
            for (place, piece) in self.pieces(offset, inside) {
                let sizes = (piece.len(), size_of::<W>());
                let [from] = cuda_sim::reads_begin(Engine::BulkRead, place, [0], sizes);
                cuda_sim::store_begins(address.wrapping_add(piece.start), sizes, Kind::AsyncWrite);
                for at in piece.clone().step_by(size_of::<W>()) {
                    let to = with_exposed_provenance_mut(address.wrapping_add(at));
                    // SAFETY: as in `load`, the other way.
                    unsafe { W::load(from.byte_add(at - piece.start).cast()).store(to) };
                }
            }
        }
    }
}

impl Copy {
    /// Adds the box, of f32, from shared memory to the tensor's elements.
    ///
    /// # Safety
    ///
    /// As for `store`.
    #[track_caller]
    unsafe fn add(&self) {
        for (offset, inside, address) in self.rows() {
            for (place, piece) in self.pieces(offset, inside) {
                let sizes = (piece.len(), size_of::<f32>());
                let [from] = cuda_sim::reads_begin(Engine::BulkRead, place, [0], sizes);
                cuda_sim::store_begins(address.wrapping_add(piece.start), sizes, Kind::AsyncUpdate);
                for at in piece.clone().step_by(size_of::<f32>()) {
                    // SAFETY (of both): as in `store`.
                    let addend = f32::from_bits(unsafe { u32::load(from.byte_add(at - piece.start).cast()) });
                    let sum = unsafe { AtomicU32::from_ptr(with_exposed_provenance_mut(address.wrapping_add(at))) };
                    let added = |bits| Some((f32::from_bits(bits) + addend).to_bits());
                    let old = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
                    debug_assert!(old.is_ok(), "there is always a sum");
                }
            }
        }
    }
}

/// An element as its bits.
trait Word: Default {
    /// # Safety
    ///
    /// An aligned element of memory accessed by atomics.
    unsafe fn load(from: *mut Self) -> Self;

    /// # Safety
    ///
    /// As for `load`.
    unsafe fn store(self, to: *mut Self);

    /// The bits of an f32 rounded to TF32. Only of 4 bytes.
    fn to_tf32(self) -> Self;
}

macro_rules! words {
    ($($word:ident $atomic:ident)*) => {$(
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(from: *mut $word) -> $word {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(from) }.load(Ordering::Relaxed)
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(to) }.store(self, Ordering::Relaxed);
            }

            #[inline(always)]
            fn to_tf32(self) -> $word {
                tf32_bits(self as u32) as $word
            }
        }
    )*};
}

words! { u8 AtomicU8 u16 AtomicU16 u32 AtomicU32 u64 AtomicU64 }

/// The bits of an f32 rounded to TF32: 13 fewer. An infinity stays, and a NaN stays one.
fn tf32_bits(bits: u32) -> u32 {
    if f32::from_bits(bits).is_nan() {
        return bits | 1 << 22;
    }
    bits.wrapping_add(0x1000) & !0x1fff
}

/// Not generic, and so optimised with this crate.
///
/// # Safety
///
/// As for [`Copy::new`] and [`Copy::load`].
#[track_caller]
unsafe fn load(map: TensorMapAddress, element: usize, to: SharedPtr, room: usize, at: &[i32], barrier: SharedPtr) {
    cuda_sim::poll("TensorMap::load");
    // SAFETY: the caller's promise.
    unsafe {
        let copy = Copy::new(map, element, to, room, at);
        let bytes = copy.bytes() as u32;
        let phase = mbarrier_phase_of(barrier, bytes);
        match element {
            1 => copy.load::<u8>(phase),
            2 => copy.load::<u16>(phase),
            4 => copy.load::<u32>(phase),
            _ => copy.load::<u64>(phase),
        }
        mbarrier_complete_tx(barrier, bytes);
    }
}

/// As [`load`], to the same place in each of the cluster's blocks whose bit is set.
///
/// # Safety
///
/// As for `load`.
#[track_caller]
unsafe fn load_multicast(
    map: TensorMapAddress,
    element: usize,
    (to, room): (SharedPtr, usize),
    at: &[i32],
    barrier: SharedPtr,
    blocks: u16,
) {
    let most = cluster_blocks();
    assert!(
        u32::from(blocks) >> most == 0,
        "a bulk copy to the blocks {blocks:#b} of a cluster of {most}"
    );
    for rank in (0..most).filter(|rank| blocks >> rank & 1 != 0) {
        let (to, barrier) = (map_shared(to, rank), map_shared(barrier, rank));
        // SAFETY: the caller's promise.
        unsafe { load(map, element, to, room, at, barrier) };
    }
}

/// Not generic, and so optimised with this crate.
///
/// # Safety
///
/// As for [`Copy::new`] and [`Copy::store`].
#[track_caller]
unsafe fn store(map: TensorMapAddress, element: usize, from: SharedPtr, room: usize, at: &[i32]) {
    cuda_sim::poll("TensorMapMut::store");
    // SAFETY: the caller's promise.
    unsafe {
        let copy = Copy::new(map, element, from, room, at);
        match element {
            1 => copy.store::<u8>(),
            2 => copy.store::<u16>(),
            4 => copy.store::<u32>(),
            _ => copy.store::<u64>(),
        }
    }
}

/// # Safety
///
/// As for [`TensorMap::load`](crate::tma::TensorMap::load); what a box asks of its shared memory is checked.
#[inline]
#[track_caller]
pub unsafe fn tma_load<T, const D: usize>(
    map: TensorMapAddress,
    to: SharedPtr,
    room: usize,
    at: [i32; D],
    barrier: SharedPtr,
) {
    // SAFETY: the caller's promise.
    unsafe { load(map, size_of::<T>(), to, room, &at, barrier) };
}

/// # Safety
///
/// As for [`TensorMap::load_multicast`](crate::tma::TensorMap::load_multicast); what a box asks of its shared memory is
/// checked, and that the cluster has the blocks.
#[inline]
#[track_caller]
pub unsafe fn tma_load_multicast<T, const D: usize>(
    map: TensorMapAddress,
    to: SharedPtr,
    room: usize,
    at: [i32; D],
    barrier: SharedPtr,
    blocks: u16,
) {
    // SAFETY: the caller's promise.
    unsafe { load_multicast(map, size_of::<T>(), (to, room), &at, barrier, blocks) };
}

/// # Safety
///
/// As for [`TensorMapMut::store`](crate::tma::TensorMapMut::store); what a box asks of its shared memory is checked.
#[inline]
#[track_caller]
pub unsafe fn tma_store<T, const D: usize>(map: TensorMapAddress, from: SharedPtr, room: usize, at: [i32; D]) {
    // SAFETY: the caller's promise.
    unsafe { store(map, size_of::<T>(), from, room, &at) };
}

/// # Safety
///
/// As for [`TensorMapMut::add`](crate::tma::TensorMapMut::add); what a box asks of its shared memory is checked.
#[track_caller]
pub unsafe fn tma_add<const D: usize>(map: TensorMapAddress, from: SharedPtr, room: usize, at: [i32; D]) {
    cuda_sim::poll("TensorMapMut::add");
    // SAFETY: the caller's promise.
    unsafe { Copy::new(map, size_of::<f32>(), from, room, &at).add() };
}

pub fn tma_prefetch(_: TensorMapAddress) {}

#[track_caller]
pub fn tma_commit() {
    cuda_sim::copies_commit(Engine::BulkRead);
    cuda_sim::copies_commit(Engine::BulkWrite);
}

#[track_caller]
pub fn tma_wait_read<const N: u32>() {
    cuda_sim::copies_wait(Engine::BulkRead, N);
}

#[track_caller]
pub fn tma_wait<const N: u32>() {
    cuda_sim::copies_wait(Engine::BulkRead, N);
    cuda_sim::copies_wait(Engine::BulkWrite, N);
}

#[track_caller]
pub fn fence_async_global() {
    cuda_sim::fence_async(Space::Global);
}

#[track_caller]
pub fn fence_async() {
    cuda_sim::fence_async(Space::Shared);
}
