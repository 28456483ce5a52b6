// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels of one's own, and what happens when they fail.
//!
//! The kernels of this file are not compiled to PTX, so its tests use the simulated GPU whatever the environment names.

use bytemuck::Pod;
use cuda_std::launch::Retyped;
use cuda_std::prelude::*;
use ndarray::{Array1, Array2, array};
use proptest::prelude::{any, proptest};
use warpsmith::{Device, DeviceArray, Error, Fault, LaunchConfig};

/// `out[i] = a * x[i] + y[i]`
#[kernel]
pub fn saxpy(a: f32, x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, a * x[i] + y[i]);
    }
}

/// `out[i] = factor * x[i]`, of a number of the elements' type.
#[kernel(T = [f32, f64])]
pub fn scale<T: Float>(factor: T, x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, factor * x[i]);
    }
}

/// Edge of a block of [`transpose`].
const EDGE: usize = 16;

/// Transposes a matrix of `width` columns, by way of a tile in shared memory.
#[kernel(max_threads = EDGE * EDGE)]
pub fn transpose(matrix: &[i32], width: usize, out: SliceMut<'_, i32>) {
    let tile = shared_array![i32; EDGE * EDGE];
    let height = out.len() / width;
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (left, top) = (
        thread::block_idx_x() as usize * EDGE,
        thread::block_idx_y() as usize * EDGE,
    );
    if left + x < width && top + y < height {
        tile.set(y * EDGE + x, matrix[(top + y) * width + left + x]);
    }
    thread::sync_threads();
    if left + y < width && top + x < height {
        out.set((left + y) * height + top + x, tile.get(x * EDGE + y));
    }
}

/// Reverses the elements of each block through dynamic shared memory.
#[kernel]
pub fn reverse_in_blocks(data: SliceMut<'_, u64>) {
    let tile = cuda_std::shared::dynamic::<u64>();
    let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
    tile.set(t, data.get(i));
    thread::sync_threads();
    data.set(i, tile.get(tile.len() - 1 - t));
}

/// A structure that a kernel takes by value.
#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Affine {
    pub scale: [f64; 2],
    pub offset: f64,
    pub index: u64,
}

/// `out[i] = scale[index] * x[i] + offset`
#[kernel]
pub fn affine(map: Affine, x: &[f64], out: SliceMut<'_, f64>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, map.scale[map.index as usize] * x[i] + map.offset);
    }
}

/// Adds groups of `N` neighbours.
#[kernel(T = [f32, i64], N = [1, 4])]
pub fn sum_groups<T: Pod + core::ops::Add<Output = T>, const N: usize>(x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i < out.len() {
        let mut sum = x[i * N];
        for k in 1..N {
            sum = sum + x[i * N + k];
        }
        out.set(i, sum);
    }
}

/// `out[i] = 2 x[i]`, from 16 to 32 bits and from 32 to 64.
#[kernel(T = [u16], U = [u32]; T = [u32], U = [u64], max_threads = 64)]
pub fn doubled<T: Pod + Into<U>, U: Pod + core::ops::Add<Output = U>>(x: &[T], out: SliceMut<'_, U>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x[i].into() + x[i].into());
    }
}

/// `out[i] = x[i] + y`, modulo 2^32.
#[kernel]
pub fn add_wrapping(x: Slice<'_, u32>, y: u32, out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, x.get(i).wrapping_add(y));
    }
}

/// Counts the elements of every value.
#[kernel]
pub fn histogram(values: &[u8], counts: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < values.len() {
        counts.atomic(values[i] as usize).fetch_add(1);
    }
}

/// Copies without a look at the length.
///
/// # Safety
///
/// The launch has at most as many threads as each array has elements.
#[kernel]
pub unsafe fn copy_unchecked(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    // SAFETY: the kernel's contract.
    out.set(i, unsafe { *x.get_unchecked(i) });
}

#[kernel]
pub fn nothing() {}

#[kernel]
pub fn next_element(x: &[f32], out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    out.set(i, x[i + 1]); // fault: index
}

#[kernel]
pub fn write_behind(out: SliceMut<'_, f32>) {
    out.set(thread::index_1d(), 1.0); // fault: set
}

#[kernel]
pub fn refuse_negative(x: &[f32]) {
    let i = thread::index_1d();
    if x[i] < 0.0 {
        panic!("element {i} is {}", x[i]); // fault: panic
    }
}

#[kernel]
pub fn half_a_barrier() {
    if thread::thread_idx_x() < 16 {
        thread::sync_threads(); // fault: barrier
    }
}

#[kernel]
pub fn half_a_shuffle(out: SliceMut<'_, u32>) {
    let i = thread::thread_idx_x();
    if i < 16 {
        out.set(i as usize, warp::all_reduce(i, |a, b| a + b)); // fault: shuffle
    }
}

/// The line of this file that ends in that comment.
fn line_of(comment: &str) -> u32 {
    let comment = format!("// fault: {comment}");
    let index = include_str!("launch.rs")
        .lines()
        .position(|line| line.ends_with(&comment));
    index.expect("the comment stands behind a line") as u32 + 1
}

/// The fault of a launch that failed.
#[track_caller]
fn fault(result: warpsmith::Result<()>) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("wanted a fault, got {other:?}"),
    }
}

/// Compares kernel, block, thread and place of a fault, and that its text names them all.
#[track_caller]
fn assert_at(fault: &Fault, kernel: &str, block: u32, thread: u32, line: u32) {
    let location = fault.location.clone().expect("a place in the source");
    assert_eq!(
        (fault.kernel.as_str(), fault.block.x, fault.thread.x),
        (kernel, block, thread),
        "{fault}"
    );
    assert_eq!((location.file.as_str(), location.line), (file!(), line), "{fault}");
    let start = format!(
        "kernel `{kernel}`: block ({block}, 0, 0), thread ({thread}, 0, 0): {}",
        fault.message
    );
    let text = Error::Fault(Box::new(fault.clone())).to_string();
    assert_eq!(text, format!("{start}, at {}:{line}:{}", file!(), location.column));
}

#[test]
fn a_kernel_of_ones_own() {
    proptest!(crate::common::cases(16), |(x: Vec<f32>, a in -10.0f32..10.0)| {
        let device = Device::simulator();
        let stream = device.default_stream();
        let x = Array1::from(x.into_iter().map(|x| x % 1e6).collect::<Vec<_>>());
        let on_device = DeviceArray::from_ndarray(stream, &x).unwrap();
        let mut out = DeviceArray::zeros(stream, x.len()).unwrap();
        stream.launch::<saxpy>(&LaunchConfig::for_len(x.len(), 128), (a, &on_device, &on_device, &mut out)).unwrap();
        assert_eq!(out.to_ndarray().unwrap(), x.mapv(|x| a * x + x));
    });
}

#[test]
fn two_dimensions_and_shared_memory() {
    let device = Device::simulator();
    let stream = device.create_stream().unwrap();
    for (rows, columns) in [(1, 1), (16, 16), (17, 33), (100, 5)] {
        let matrix = Array2::from_shape_fn((rows, columns), |(y, x)| (y * 1000 + x) as i32);
        let on_device = DeviceArray::from_ndarray(&stream, &matrix).unwrap();
        let mut out = DeviceArray::zeros(&stream, (columns, rows)).unwrap();
        let config = LaunchConfig::for_shape((rows, columns), (EDGE as u32, EDGE as u32));
        stream
            .launch::<transpose>(&config, (&on_device, columns, &mut out))
            .unwrap();
        assert_eq!(out.to_ndarray().unwrap(), matrix.t());
    }
}

#[test]
fn dynamic_shared_memory() {
    let device = Device::simulator();
    let mut data = DeviceArray::from_ndarray(device.default_stream(), &Array1::from_iter(0..96u64)).unwrap();
    let config = LaunchConfig {
        dynamic_shared: 32 * 8,
        ..LaunchConfig::new(3, 32)
    };
    device
        .default_stream()
        .launch::<reverse_in_blocks>(&config, (&mut data,))
        .unwrap();
    let wanted = Array1::from_shape_fn(96, |i| (i / 32 * 32 + 31 - i % 32) as u64);
    assert_eq!(data.to_ndarray().unwrap(), wanted);
}

#[test]
fn structures_are_passed_by_value() {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0, 2.0, 3.0]).unwrap();
    let mut out = x.try_clone().unwrap();
    let map = Affine {
        scale: [0.0, 10.0],
        offset: 0.5,
        index: 1,
    };
    device
        .default_stream()
        .launch::<affine>(&LaunchConfig::for_len(3, 32), (map, &x, &mut out))
        .unwrap();
    assert_eq!(out.to_ndarray().unwrap(), array![10.5, 20.5, 30.5]);
}

#[test]
fn generic_kernels_are_launched_for_each_listed_type() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let config = LaunchConfig::for_len(8, 32);
    let floats = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(8)).unwrap();
    let mut sums = DeviceArray::zeros(stream, 2).unwrap();
    stream
        .launch::<sum_groups<f32, 4>>(&config, (&floats, &mut sums))
        .unwrap();
    assert_eq!(sums.to_ndarray().unwrap(), array![4.0, 4.0]);
    let integers = DeviceArray::from_ndarray(stream, &Array1::from_iter(0..8i64)).unwrap();
    let mut same = DeviceArray::zeros(stream, 8).unwrap();
    stream
        .launch::<sum_groups<i64, 1>>(&config, (&integers, &mut same))
        .unwrap();
    assert_eq!(same.to_ndarray().unwrap(), integers.to_ndarray().unwrap());
}

/// Each group of lists has its own combinations, and all have the options.
#[test]
fn generic_kernels_are_launched_for_each_group_of_types() {
    let device = Device::simulator();
    let (stream, config) = (device.default_stream(), LaunchConfig::for_len(2, 32));
    let (short, long) = (array![1u16, 40_000], array![7u32, 3_000_000_000]);
    let (short, long) = (
        DeviceArray::from_ndarray(stream, &short).unwrap(),
        DeviceArray::from_ndarray(stream, &long).unwrap(),
    );
    let (mut words, mut wide) = (
        DeviceArray::zeros(stream, 2).unwrap(),
        DeviceArray::zeros(stream, 2).unwrap(),
    );
    stream
        .launch::<doubled<u16, u32>>(&config, (&short, &mut words))
        .unwrap();
    stream.launch::<doubled<u32, u64>>(&config, (&long, &mut wide)).unwrap();
    assert_eq!(words.to_ndarray().unwrap(), array![2, 80_000]);
    assert_eq!(wide.to_ndarray().unwrap(), array![14, 6_000_000_000]);
    let large = LaunchConfig::for_len(100, 128);
    assert!(
        stream
            .launch::<doubled<u16, u32>>(&large, (&short, &mut words))
            .is_err()
    );
}

/// A kernel of unsigned integers takes signed ones, which are the same bits, and says so at compile time.
#[test]
fn kernels_are_launched_for_types_of_the_same_bits() {
    type Signed = (Slice<'static, i32>, i32, SliceMut<'static, i32>);
    let device = Device::simulator();
    let (stream, config) = (device.default_stream(), LaunchConfig::for_len(3, 32));
    let x = DeviceArray::from_ndarray(stream, &array![i32::MAX, -5, 0]).unwrap();
    let mut out = DeviceArray::zeros(stream, 3).unwrap();
    stream
        .launch::<Retyped<add_wrapping, Signed>>(&config, (&x, -1, &mut out))
        .unwrap();
    assert_eq!(out.to_ndarray().unwrap(), array![i32::MAX - 1, -6, -1]);
}

#[test]
fn atomics_count_exactly() {
    proptest!(crate::common::cases(8), |(seed in any::<u64>(), len in 1..5000usize)| {
        use proptest::prelude::RngExt;
        let device = Device::simulator();
        let mut rng = crate::common::rng(seed);
        let values = Array1::from_shape_simple_fn(len, || rng.random_range(0..10u8));
        let mut wanted = [0u32; 10];
        values.iter().for_each(|&value| wanted[usize::from(value)] += 1);
        let values = DeviceArray::from_ndarray(device.default_stream(), &values).unwrap();
        let mut counts = DeviceArray::zeros(device.default_stream(), 10).unwrap();
        let config = LaunchConfig::for_len(len, 256);
        device.default_stream().launch::<histogram>(&config, (&values, &mut counts)).unwrap();
        assert_eq!(counts.to_ndarray().unwrap().as_slice().unwrap(), wanted);
    });
}

#[test]
fn unsafe_kernels_are_launched_with_a_promise() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_iter(0..64u32)).unwrap();
    let mut out = DeviceArray::zeros(stream, 64).unwrap();
    // SAFETY: 2 · 32 threads, 64 elements.
    unsafe {
        stream
            .launch_unchecked::<copy_unchecked>(&LaunchConfig::new(2, 32), (&x, &mut out))
            .unwrap()
    };
    assert_eq!(out.to_ndarray().unwrap(), x.to_ndarray().unwrap());
}

#[test]
fn kernels_without_parameters_and_launches_in_three_dimensions() {
    let device = Device::simulator();
    device
        .default_stream()
        .launch::<nothing>(&LaunchConfig::new((2, 3, 4), (4, 2, 8)), ())
        .unwrap();
}

/// An operation of the library and a kernel of one's own are ordered on one stream.
#[test]
fn kernels_and_operations_mix() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0])
        .unwrap()
        .add_scalar(1.0)
        .unwrap();
    let mut out = DeviceArray::zeros(stream, 2).unwrap();
    stream
        .launch::<saxpy>(&LaunchConfig::for_len(2, 32), (2.0, &x, &x, &mut out))
        .unwrap();
    assert_eq!(out.sum().unwrap(), 15.0);
}

#[test]
fn an_index_out_of_bounds_is_a_fault_with_its_place() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(96)).unwrap();
    let mut out = DeviceArray::zeros(stream, 96).unwrap();
    let fault = fault(stream.launch::<next_element>(&LaunchConfig::new(3, 32), (&x, &mut out)));
    assert_at(&fault, "next_element", 2, 31, line_of("index"));
    assert_eq!(fault.message, "index out of bounds: the len is 96 but the index is 96");
}

#[test]
fn a_write_out_of_bounds_is_a_fault_with_its_place() {
    let device = Device::simulator();
    let mut out = DeviceArray::zeros(device.default_stream(), 63).unwrap();
    let result = device
        .default_stream()
        .launch::<write_behind>(&LaunchConfig::new(2, 32), (&mut out,));
    let fault = fault(result);
    assert_at(&fault, "write_behind", 1, 31, line_of("set"));
    assert!(fault.message.contains("index out of bounds"), "{fault}");
}

#[test]
fn a_panic_is_a_fault_with_its_message() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let mut values = Array1::<f32>::ones(256);
    values[133] = -2.5;
    let x = DeviceArray::from_ndarray(stream, &values).unwrap();
    let fault = fault(stream.launch::<refuse_negative>(&LaunchConfig::new(4, 64), (&x,)));
    assert_at(&fault, "refuse_negative", 2, 5, line_of("panic"));
    assert_eq!(fault.message, "element 133 is -2.5");
}

#[test]
fn a_barrier_that_half_a_block_misses_is_a_fault() {
    let device = Device::simulator();
    let fault = fault(
        device
            .default_stream()
            .launch::<half_a_barrier>(&LaunchConfig::new(1, 32), ()),
    );
    assert_at(&fault, "half_a_barrier", 0, fault.thread.x, line_of("barrier"));
    assert!(
        fault
            .message
            .starts_with("barrier `sync_threads` not reached by all threads of the block"),
        "{fault}"
    );
}

#[test]
fn a_shuffle_that_half_a_warp_misses_is_a_fault() {
    let device = Device::simulator();
    let mut out = DeviceArray::zeros(device.default_stream(), 32).unwrap();
    let fault = fault(
        device
            .default_stream()
            .launch::<half_a_shuffle>(&LaunchConfig::new(1, 32), (&mut out,)),
    );
    assert_at(&fault, "half_a_shuffle", 0, fault.thread.x, line_of("shuffle"));
    assert!(fault.message.contains("not reached by all its lanes"), "{fault}");
}

#[test]
fn a_device_works_on_after_a_fault() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1.0f32, -1.0]).unwrap();
    for _ in 0..3 {
        let fault = fault(stream.launch::<refuse_negative>(&LaunchConfig::new(1, 2), (&x,)));
        assert_eq!(fault.message, "element 1 is -1");
        assert_eq!(x.square().unwrap().sum().unwrap(), 2.0);
    }
    stream.synchronize().unwrap();
}

#[test]
fn configurations_that_no_device_takes_are_refused() {
    let device = Device::simulator();
    let most = "wanted (1, 1, 1) to";
    for (config, what) in [
        (
            LaunchConfig::new(0, 32),
            format!("grid: given (0, 1, 1), {most} (2147483647, 65535, 65535)"),
        ),
        (
            LaunchConfig::new((1, 65_536), 32),
            format!("grid: given (1, 65536, 1), {most} (2147483647, 65535, 65535)"),
        ),
        (
            LaunchConfig::new(1, (1, 0)),
            format!("block: given (1, 0, 1), {most} (1024, 1024, 64)"),
        ),
        (
            LaunchConfig::new(1, 1025),
            format!("block: given (1025, 1, 1), {most} (1024, 1024, 64)"),
        ),
        (
            LaunchConfig::new(1, (32, 33)),
            "threads of a block: given 1056, wanted at most 1024".into(),
        ),
        (
            LaunchConfig {
                dynamic_shared: 1 << 20,
                ..LaunchConfig::new(1, 32)
            },
            "dynamic shared memory: given 1048576 bytes, wanted at most 232448".into(),
        ),
    ] {
        let error = device.default_stream().launch::<nothing>(&config, ()).unwrap_err();
        assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
        assert_eq!(error.to_string(), format!("launch of kernel `nothing`: {what}"));
    }
}

/// `max_threads` is the kernel's own limit.
#[test]
fn a_block_larger_than_the_kernel_takes_is_refused() {
    let device = Device::simulator();
    let matrix = DeviceArray::<i32, _>::zeros(device.default_stream(), (16, 16)).unwrap();
    let mut out = matrix.try_clone().unwrap();
    let config = LaunchConfig::new(1, (16, 17));
    let error = device
        .default_stream()
        .launch::<transpose>(&config, (&matrix, 16, &mut out))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "launch of kernel `transpose`: threads of a block: given 272, wanted at most 256"
    );
}

#[test]
fn arguments_of_another_device_are_refused() {
    let (device, other) = (Device::simulator(), Device::simulator());
    let x = DeviceArray::from_ndarray(other.default_stream(), &array![1.0f32]).unwrap();
    let error = device
        .default_stream()
        .launch::<refuse_negative>(&LaunchConfig::new(1, 1), (&x,))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "refuse_negative: given an operand on another sim, wanted one on sim; `to_device` copies arrays"
    );
}

/// On a GPU a kernel without PTX is an error that says what is missing; the simulated GPU needs none.
#[test]
fn a_kernel_without_ptx_runs_on_the_simulator_alone() {
    let result = crate::common::device()
        .default_stream()
        .launch::<nothing>(&LaunchConfig::new(1, 32), ());
    if crate::common::device().is_simulator() {
        result.unwrap();
    } else {
        let text = concat!(
            "kernel `nothing`: the device was given no PTX of package `warpsmith` ",
            env!("CARGO_PKG_VERSION"),
            " that has it and that it can run"
        );
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with(text), "{error}");
    }
}

/// A kernel knows no strides: a view in another order than C's is refused, where it once lost them in silence.
#[test]
fn views_in_another_order_are_refused() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((2, 3), |(i, j)| (3 * i + j) as f32)).unwrap();
    let mut out = DeviceArray::zeros(stream, 6).unwrap();
    let config = LaunchConfig::for_len(6, 32);
    let y = DeviceArray::zeros(stream, 6).unwrap();
    let error = stream
        .launch::<saxpy>(&config, (1.0, &x.t(), &y, &mut out))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "saxpy: given a view of shape [3, 2] and strides [1, 3], wanted a view in C order, since a kernel knows no \
         strides: `to_array` puts it in order"
    );
    stream.launch::<saxpy>(&config, (1.0, &x.view(), &y, &mut out)).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), array![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_number_of_the_elements_type() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1.5, -2.0]).unwrap();
    let mut out = x.zeros_like().unwrap();
    let config = LaunchConfig::for_len(2, 32);
    stream.launch::<scale<f64>>(&config, (3.0, &x, &mut out)).unwrap();
    assert_eq!(out.to_ndarray().unwrap(), array![4.5, -6.0]);
}
