// SPDX-License-Identifier: MIT OR Apache-2.0

use std::cell::Cell;
use std::panic;

use bytemuck::Pod;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::prelude::*;
use cuda_std::tma::{self, RawTensorMap, Swizzle, TensorMap, TensorMapLayout, TensorMapMut};

use super::{Numbers, fault, run};

/// Elements at a multiple of 16 bytes, with their address.
struct Memory<T>(Vec<[u64; 2]>, std::marker::PhantomData<T>);

impl<T: Pod> Memory<T> {
    fn new(len: usize, element: impl Fn(usize) -> T) -> Self {
        let mut memory = Memory(
            vec![[0; 2]; (len * size_of::<T>()).div_ceil(16)],
            std::marker::PhantomData,
        );
        (0..).zip(memory.elements()).for_each(|(i, to)| *to = element(i));
        memory
    }

    fn elements(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.0)
    }

    fn address(&mut self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }
}

/// A tensor whose rows are padded to a multiple of 16 bytes, with another 16 or more between them.
fn layout<T>(dims: &[u64], box_dims: &[u32], swizzle: Swizzle) -> TensorMapLayout {
    let mut layout = TensorMapLayout {
        element_bytes: size_of::<T>() as u32,
        rank: dims.len() as u32,
        dims: [1; 5],
        strides: [0; 4],
        box_dims: [1; 5],
        steps: [1; 5],
        swizzle,
    };
    let mut stride = 0;
    for (d, (&extent, &of_box)) in dims.iter().zip(box_dims).enumerate() {
        (layout.dims[d], layout.box_dims[d]) = (extent, of_box);
        stride = match d {
            0 => (extent * size_of::<T>() as u64).next_multiple_of(16) + 16,
            _ => stride * extent + 32,
        };
        if d < 4 {
            layout.strides[d] = stride;
        }
    }
    layout
}

/// How many elements the tensor's memory has.
fn len<T>(layout: &TensorMapLayout) -> usize {
    let rank = layout.rank as usize;
    let bytes = match rank {
        1 => layout.dims[0] * size_of::<T>() as u64,
        _ => layout.strides[rank - 2] * layout.dims[rank - 1],
    };
    (bytes as usize).next_multiple_of(16) / size_of::<T>()
}

/// For each element of the box at `at`: its index in the tensor's memory, if it is in the tensor.
fn elements<T>(layout: &TensorMapLayout, at: &[i32]) -> Vec<Option<usize>> {
    let extents: [u32; 5] = std::array::from_fn(|d| layout.box_dims[d].div_ceil(layout.steps[d]));
    let count: u32 = extents.iter().product();
    let element = |number: u32| {
        let (mut rest, mut bytes) = (number, 0);
        for (d, &at) in at.iter().enumerate() {
            let i = i64::from(at) + i64::from(rest % extents[d] * layout.steps[d]);
            rest /= extents[d];
            if !(0..layout.dims[d] as i64).contains(&i) {
                return None;
            }
            let stride = if d == 0 {
                size_of::<T>() as u64
            } else {
                layout.strides[d - 1]
            };
            bytes += i as usize * stride as usize;
        }
        Some(bytes / size_of::<T>())
    };
    (0..count).map(element).collect()
}

/// Where element `i` of a box is in shared memory.
fn place<T>(swizzle: Swizzle, i: usize) -> usize {
    swizzle.place((i * size_of::<T>()) as u32) as usize / size_of::<T>()
}

/// Loads and stores the box at `at`, and compares with what the layout says. Shared memory is read and written by threads.
fn there_and_back<T: Pod + PartialEq + std::fmt::Debug + Sync, const D: usize>(
    layout: &TensorMapLayout,
    at: [i32; D],
    element: fn(usize) -> T,
) {
    let len = len::<T>(layout);
    let mut from = Memory::new(len, element);
    // Not what is stored, and not zero.
    let mut to = Memory::new(len, |i| element(i + 7777));
    let untouched = to.elements().to_vec();
    let maps = [from.address(), to.address()].map(|address| RawTensorMap::simulated(address, layout));
    let expected = elements::<T>(layout, &at);
    let (source, count) = (from.elements().to_vec(), expected.len());
    let (layout, expected) = (*layout, &expected);
    let source = &source;
    run(1, 32 * 1024, &move || {
        // SAFETY: the maps are of the two memories, which live until the launch is over.
        let (from, to) = unsafe {
            (
                TensorMap::<T>::from_address(&maps[0]),
                TensorMapMut::<T>::from_address(&maps[1]),
            )
        };
        let tile = cuda_std::shared::dynamic::<T>().aligned::<1024>();
        let bytes = (count * size_of::<T>()) as u32;
        from.prefetch();
        // SAFETY: the tile has room for the box, which nobody else uses, and the word is a barrier only.
        unsafe {
            let loaded = Mbarrier::at(shared_array![u64; 1], 0);
            loaded.init(1);
            from.load(tile, at, loaded);
            loaded.arrive_expect_tx(bytes);
            loaded.wait(0);
        }
        for (i, expected) in expected.iter().enumerate() {
            let wanted = expected.map_or(T::zeroed(), |k| source[k]);
            let k = place::<T>(layout.swizzle, i);
            assert_eq!(tile.get(k), wanted, "element {i} of the box at {at:?}");
            // What is stored differs from what was loaded.
            tile.set(k, element(i + 999));
        }
        tma::fence_async();
        // SAFETY: as above.
        unsafe { to.store(at, tile) };
        tma::commit();
        tma::wait_read::<0>();
        tma::wait::<0>();
    });
    let mut wanted = untouched;
    for (i, expected) in expected.iter().enumerate() {
        if let Some(k) = *expected {
            wanted[k] = element(i + 999);
        }
    }
    assert!(to.elements() == wanted, "what a store at {at:?} leaves");
}

#[test]
fn boxes_of_every_rank_anywhere() {
    let words = |i: usize| (i as u32).wrapping_mul(0x9e37_79b9) | 1;
    for at in [[-4], [0], [8], [28], [32], [100], [i32::MIN], [i32::MAX - 3]] {
        there_and_back::<u32, 1>(&layout::<u32>(&[33], &[16], Swizzle::None), at, words);
    }
    let mut numbers = Numbers(1);
    let mut near = |extent: i32, of_box: i32| i32::from(numbers.next()) % (extent + of_box + 2) - of_box - 1;
    // In the innermost dimension at multiples of 16 bytes.
    let aligned = |at: i32, bytes: i32| at - at.rem_euclid(16 / bytes);
    for _ in 0..12 {
        let at = [aligned(near(21, 8), 2), near(7, 4)];
        there_and_back::<u16, 2>(&layout::<u16>(&[21, 7], &[8, 4], Swizzle::None), at, |i| i as u16 | 1);
        let at = [aligned(near(9, 4), 8), near(5, 3), near(4, 2)];
        there_and_back::<f64, 3>(&layout::<f64>(&[9, 5, 4], &[4, 3, 2], Swizzle::None), at, |i| {
            1.0 + i as f64
        });
        let at = [aligned(near(40, 16), 1), near(5, 3), near(4, 2), near(3, 3)];
        there_and_back::<u8, 4>(&layout::<u8>(&[40, 5, 4, 3], &[16, 3, 2, 3], Swizzle::None), at, |i| {
            i as u8 | 1
        });
        let at = [aligned(near(9, 4), 4), near(5, 3), near(4, 2), near(3, 3), near(2, 2)];
        let five = layout::<u32>(&[9, 5, 4, 3, 2], &[4, 3, 2, 3, 2], Swizzle::None);
        there_and_back::<u32, 5>(&five, at, words);
    }
}

/// Of a box with steps there is every second element, or every so many, from where it begins; also where it begins outside.
#[test]
fn boxes_with_steps() {
    for (box_dims, steps) in [([4, 5, 3], [1, 2, 1]), ([4, 4, 5], [1, 3, 4]), ([4, 6, 1], [1, 8, 8])] {
        for at in [[0, 0, 0], [4, -3, -1], [-4, 4, 2]] {
            let layout = TensorMapLayout {
                steps: [1, steps[1], steps[2], 1, 1],
                ..layout::<u32>(&[9, 11, 7], &box_dims, Swizzle::None)
            };
            there_and_back::<u32, 3>(&layout, at, |i| i as u32 + 1);
        }
    }
    let rows = TensorMapLayout {
        steps: [1, 2, 1, 1, 1],
        ..layout::<u16>(&[100, 40], &[64, 19], Swizzle::B128)
    };
    there_and_back::<u16, 2>(&rows, [8, -1], |i| i as u16 | 1);
}

#[test]
fn boxes_with_every_swizzle() {
    for (swizzle, columns) in [(Swizzle::B32, 16), (Swizzle::B64, 32), (Swizzle::B128, 64)] {
        for at in [[0, 0], [-8, -3], [88, 30]] {
            let two = layout::<u16>(&[100, 40], &[columns, 20], swizzle);
            there_and_back::<u16, 2>(&two, at, |i| (i as u16).wrapping_mul(0x9e37) | 1);
        }
        let three = layout::<u64>(&[30, 7, 5], &[columns / 4, 5, 3], swizzle);
        there_and_back::<u64, 3>(&three, [2, -1, 3], |i| i as u64 + 1);
    }
}

/// What the hardware does to the address of a byte: three of its bits from 4 on by three from 7 on.
#[test]
fn swizzles_are_exclusive_ors() {
    for offset in 0..4096u32 {
        let bits = |from: u32, count: u32| offset >> from & ((1 << count) - 1);
        let swizzled = |count| offset ^ bits(7, count) << 4;
        assert_eq!(Swizzle::None.place(offset), offset);
        assert_eq!(Swizzle::B32.place(offset), swizzled(1));
        assert_eq!(Swizzle::B64.place(offset), swizzled(2));
        assert_eq!(Swizzle::B128.place(offset), swizzled(3));
    }
}

/// A map of 32 × 8 f32 in boxes of 8 × 4, with swizzle: rows of 32 bytes.
fn small(address: usize) -> RawTensorMap {
    let layout = TensorMapLayout {
        strides: [128, 0, 0, 0],
        ..layout::<f32>(&[32, 8], &[8, 4], Swizzle::B32)
    };
    RawTensorMap::simulated(address, &layout)
}

#[test]
fn misuse_is_a_fault() {
    let mut memory = Memory::new(256, |i| i as f32);
    let map = small(memory.address());
    let none = RawTensorMap::from_words([7; 16]);
    type Body<'a> = dyn Fn(TensorMap<'_, f32>, Shared<f32>, Mbarrier) + Sync + 'a;
    let load = |body: &Body<'_>| {
        fault(1, &|| {
            // SAFETY: the map is of the memory, which lives until the launch is over; the word is a barrier only.
            let (from, loaded) = unsafe { (TensorMap::from_address(&map), Mbarrier::at(shared_array![u64; 1], 0)) };
            loaded.init(1);
            body(from, cuda_std::shared::dynamic().aligned::<1024>(), loaded);
        })
    };
    // SAFETY (of all calls): what is wrong with them is found.
    assert_eq!(
        load(&|from, tile, loaded| unsafe { from.load(tile, [0], loaded) }),
        "a bulk copy with 1 coordinates, by a tensor map of rank 2"
    );
    let misaligned = |first: i32| {
        let bytes = 4 * first;
        format!(
            "a bulk copy of a box that begins at element {first} of its innermost dimension, {bytes} bytes from the tensor's \
             edge: a GPU can copy from multiples of 16 bytes alone, and ends in an illegal instruction"
        )
    };
    for first in [-6, 1, 6] {
        assert_eq!(
            load(&|from, tile, loaded| unsafe { from.load(tile, [first, 0], loaded) }),
            misaligned(first)
        );
    }
    assert_eq!(
        load(&|_, tile, _| unsafe { TensorMapMut::<f32>::from_address(&map).store([3, 4], tile) }),
        misaligned(3)
    );
    assert_eq!(
        load(&|from, tile, loaded| unsafe { from.load(tile.subarray(0, 31), [0, 0], loaded) }),
        "a bulk copy of a box of 128 bytes, for which 124 bytes of shared memory are given"
    );
    assert_eq!(
        load(&|from, tile, loaded| unsafe { from.load(tile.subarray(32, 32), [0, 0], loaded) }),
        "the shared memory of a bulk copy with B32 swizzle is not aligned to 256 bytes"
    );
    assert_eq!(
        load(&|_, tile, loaded| unsafe { TensorMap::<u16>::from_address(&map).load(tile.cast(), [0, 0], loaded) }),
        "a bulk copy of elements of 2 bytes, by a tensor map of elements of 4"
    );
    assert_eq!(
        load(&|_, tile, _| unsafe { TensorMapMut::<f32>::from_address(&none).store([0, 0], tile) }),
        "a bulk copy by a tensor map that is not one for the simulated GPU"
    );
}

#[test]
fn layouts_are_checked() {
    let good = layout::<u16>(&[100, 40], &[64, 20], Swizzle::B128);
    let message = |address: usize, change: fn(&mut TensorMapLayout)| {
        let mut layout = good;
        change(&mut layout);
        let refused = panic::catch_unwind(|| RawTensorMap::simulated(address, &layout)).unwrap_err();
        refused
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| refused.downcast_ref::<&str>().map(|s| s.to_string()))
    };
    let messages = [
        message(24, |_| ()),
        message(32, |layout| layout.rank = 6),
        message(32, |layout| layout.element_bytes = 3),
        message(32, |layout| layout.dims[1] = 0),
        message(32, |layout| layout.strides[0] = 200),
        message(32, |layout| layout.box_dims[1] = 257),
        message(32, |layout| layout.box_dims[0] = 32),
        message(32, |layout| (layout.swizzle, layout.box_dims[0]) = (Swizzle::None, 12)),
    ];
    assert_eq!(
        messages.map(Option::unwrap_or_default),
        [
            "a tensor map's address is a multiple of 16",
            "a tensor map of rank 6: it is 1 to 5",
            "a tensor map of elements of 3 bytes",
            "a tensor map's extent of 0: it is 1 to 2^32",
            "a tensor map's stride of 200 bytes: it is a multiple of 16 below 2^40",
            "a box's extent of 257: it is 1 to 256",
            "the innermost dimension of a box has 64 bytes: with B128 swizzle it has 128",
            "the innermost dimension of a box has 24 bytes: with None swizzle it has a multiple of 16",
        ]
    );
}

/// A tensor map is a parameter that is used where the launch has put it.
#[test]
fn a_map_is_a_parameter_in_place() {
    use cuda_std::param::{NoTail, Param};

    let mut memory = Memory::new(256, |i| i as f32);
    let map = small(memory.address());
    const {
        assert!(
            <TensorMap<'static, f32> as Param>::IS_TENSOR_MAP && <TensorMapMut<'static, f32> as Param>::IS_TENSOR_MAP
        )
    };
    const { assert!(!<u32 as Param>::IS_TENSOR_MAP && !<&'static [f32] as Param>::IS_TENSOR_MAP) };
    assert_eq!((size_of::<RawTensorMap>(), align_of::<RawTensorMap>()), (128, 64));
    assert_eq!(
        size_of::<<TensorMap<'static, f32> as Param>::Tail>(),
        size_of::<NoTail>()
    );
    thread_local!(static SEEN: Cell<f32> = const { Cell::new(0.0) });
    run(1, 1024, &|| {
        // SAFETY: there is a map, of memory that lives until the launch is over.
        let from = unsafe { <TensorMap<'static, f32> as Param>::from_abi(&map, NoTail, cuda_std::machine::Place) };
        let tile = cuda_std::shared::dynamic::<f32>().aligned::<256>();
        // SAFETY: there is room for the box, and the word is a barrier only.
        unsafe {
            let loaded = Mbarrier::at(shared_array![u64; 1], 0);
            loaded.init(1);
            loaded.arrive_expect_tx(128);
            from.load(tile, [8, 2], loaded);
            loaded.wait(0);
        }
        SEEN.set(tile.get(0));
    });
    assert_eq!(SEEN.get(), 72.0);
}
