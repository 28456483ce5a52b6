// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kernel of the library on the simulated GPU with all checks, at random sizes and by several schedules: nothing is
//! found, and each schedule gives the same bits.
//!
//! A family is what launches some of the kernels, through operations; that it has launched all entries of them is asked of
//! the launches that were counted. Operands are small integers, so that sums of floats are exact in whatever order they
//! are made. The GPU is the same on every machine, and so are the kernels that the library chooses.
//!
//! `WARPSMITH_TEST_SCHEDULES` is the number of schedules, where it is not set 2, and 1 on tensor cores, whose instructions
//! take long here, but for families that say so; `WARPSMITH_TEST_CASES_TIMES` is that of random sizes, each of which has a
//! thread.

mod attention;
mod elements;
mod lines;
mod overheads;
mod pictures;
mod products;
mod tensor_cores;

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::thread;

use bytemuck::Pod;
use ndarray::{Array, Dimension, IntoDimension, Ix1};
use proptest::prelude::RngExt;
use test_reference::random::Random;
use warpsmith::{
    Checks, Device, DeviceArray, Element, F8E4M3, F8E5M2, Result, Schedule, Simulation, Stream, bf16, f16,
};

use crate::common::rng;

/// Compute capabilities of tensor cores.
const PLAIN: Option<(u32, u32)> = None;
const TURING: Option<(u32, u32)> = Some((7, 5));
const AMPERE: Option<(u32, u32)> = Some((8, 0));
const ADA: Option<(u32, u32)> = Some((8, 9));
const HOPPER: Option<(u32, u32)> = Some((9, 0));

/// Of the simulated GPU, on every machine.
const MULTIPROCESSORS: u32 = 2;

/// A number of any type, from a small integer.
trait Value: Element {
    fn of(value: u8) -> Self;
}

macro_rules! values {
    ($($type:ty: |$value:ident| $of:expr;)*) => {$(
        impl Value for $type {
            fn of($value: u8) -> Self {
                $of
            }
        }
    )*};
}

values! {
    f32: |value| value.into();
    f64: |value| value.into();
    f16: |value| f16::from_f32(value.into());
    bf16: |value| bf16::from_f32(value.into());
    F8E4M3: |value| F8E4M3::from_f32(value.into());
    F8E5M2: |value| F8E5M2::from_f32(value.into());
    i8: |value| value as i8;
    i32: |value| value.into();
    i64: |value| value.into();
    u8: |value| value;
    u16: |value| value.into();
    u32: |value| value.into();
    u64: |value| value.into();
}

/// Calls a function for each of the types.
macro_rules! each_type {
    ($run:ident, $function:ident: $($type:ty)*) => {{
        $($function::<$type>($run);)*
    }};
}

use each_type;

/// One way through a family's operations.
struct Run {
    device: Device,
    rng: Random,
    /// What came out, byte by byte.
    results: Vec<u8>,
    /// Which it is, for messages.
    what: String,
}

impl Run {
    fn stream(&self) -> &Stream {
        self.device.default_stream()
    }

    /// The compute capability of the tensor cores.
    fn generation(&self) -> Option<(u32, u32)> {
        self.device.properties().tensor_cores
    }

    /// A length from 2 to `most`, one in three near where warps end.
    fn len(&mut self, most: usize) -> usize {
        let any = self.rng.random_range(2..=most);
        match self.rng.random_range(0..3) {
            0 => (any.next_multiple_of(32) + self.rng.random_range(0..3) - 1).min(most),
            _ => any,
        }
    }

    /// Numbers from 0 to 4.
    fn array<T: Value, I: IntoDimension>(&mut self, shape: I) -> DeviceArray<T, I::Dim> {
        let array = Array::from_shape_simple_fn(shape.into_dimension(), || T::of(self.rng.random_range(0..5)));
        self.ok(DeviceArray::from_ndarray(self.stream(), &array))
    }

    fn vector<T: Value>(&mut self, most: usize) -> DeviceArray<T, Ix1> {
        let len = self.len(most);
        self.array(len)
    }

    #[track_caller]
    fn ok<R>(&self, result: Result<R>) -> R {
        result.unwrap_or_else(|error| panic!("{}: {error}", self.what))
    }

    /// Keeps what an operation has given.
    #[track_caller]
    fn keep<T: Element, D: Dimension>(&mut self, result: Result<DeviceArray<T, D>>) {
        let array = self.ok(result.and_then(|array| array.to_ndarray()));
        for value in &array {
            self.results.extend(bytemuck::bytes_of(value));
        }
    }

    #[track_caller]
    fn keep_value<T: Pod>(&mut self, result: Result<T>) {
        let value = self.ok(result);
        self.results.extend(bytemuck::bytes_of(&value));
    }

    /// Keeps an array that an operation has changed.
    #[track_caller]
    fn keep_changed<T: Element, D: Dimension>(&mut self, array: DeviceArray<T, D>, result: Result<()>) {
        self.keep(result.map(|()| array));
    }
}

/// What launches kernels.
struct Family {
    name: &'static str,
    /// The functions whose entries it launches, all of them.
    kernels: &'static [&'static str],
    /// Of which generations of GPUs.
    devices: &'static [Option<(u32, u32)>],
    /// On tensor cores by two schedules, too: there blocks wait for one another or draw what they do, or it takes little.
    twice: bool,
    /// Of the devices.
    multiprocessors: u32,
    run: fn(&mut Run),
}

macro_rules! families {
    ($($name:ident by $run:path, on $devices:tt $($twice:ident)? $(($multiprocessors:literal))?: $($kernel:ident)*;)*) => {
        const FAMILIES: &[Family] = &[$(
            Family {
                name: stringify!($name),
                kernels: &[$(stringify!($kernel)),*],
                devices: &$devices,
                twice: !stringify!($($twice)?).is_empty(),
                multiprocessors: [$($multiprocessors,)? MULTIPROCESSORS][0],
                run: $run,
            },
        )*];

        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

families! {
    maps by elements::maps, on [PLAIN]: map map_float range fill;
    two_operands by elements::two_operands, on [PLAIN]: binary select;
    reductions by lines::reductions, on [PLAIN]: reduce reduce_columns;
    scans by lines::scans, on [PLAIN]: scan scan_rows scan_columns scan_few scan_tree;
    moves by lines::moves, on [PLAIN]:
        copy_strided copy_lines join_lines transpose_tiles take put find_last scatter_add scatter_add_in_order indices_of top_k
        count_digits move_by_digit
        sort_rows argsort_rows top_k_rows search_sorted
        permutation uniform normal integers bernoulli;
    histograms by lines::histograms, on [PLAIN]: histogram bincount extent;
    blurs by pictures::blurs, on [PLAIN]:
        box_blur_3x3 box_rows box_columns gaussian_rows gaussian_columns filter filter_3x3 filter_3x3_lines filter_strips
        grayscale grayscale_fused;
    windows by pictures::windows, on [PLAIN, AMPERE, HOPPER]:
        max_pool max_pool_gradient max_pool_places max_pool_gradient_at average_pool average_pool_gradient
        add_parts convolve_depthwise convolve_depthwise_weights convolve_depthwise_weights_mma convolve_direct
        convolve_depthwise_patches convolve_groups_mma convolve_mma convolve_patches_wgmma convolve_tiled
        convolve_weights_mma convolve_weights_wgmma convolve_wgmma convolve_wgmma_across;
    products by products::products, on [PLAIN]: gemm;
    vectors by products::vectors, on [PLAIN]: gemv_rows gemv_columns gemv_combine finish_sums;
    products_of_halves by tensor_cores::halves, on [TURING, AMPERE, HOPPER]:
        gemm_turing gemm_mma gemm_wgmma gemm_wgmma_across sum_parts;
    halves_in_fours by tensor_cores::halves_in_fours, on [HOPPER] (9): gemm_wgmma_across_in_fours;
    products_of_wide_numbers by tensor_cores::wide, on [AMPERE, HOPPER] twice:
        gemm_simt align_lines gemm_dmma gemm_f64_mma;
    products_of_bytes by tensor_cores::bytes, on [TURING, AMPERE, ADA, HOPPER]:
        gemm_fp8 gemm_fp8_mma gemm_int8 gemm_int8_mma gemm_int8_turing;
    groups by tensor_cores::groups, on [AMPERE, HOPPER] twice: gemm_mma_grouped gemm_wgmma_grouped place_groups;
    attentions by attention::attentions, on [PLAIN, AMPERE, HOPPER] twice:
        attention attention_decode attention_decode_tensor attention_mma attention_wgmma;
    gradients_of_attention by attention::gradients, on [PLAIN, AMPERE, HOPPER] twice:
        attention_gradients attention_gradients_mma attention_gradients_of_queries attention_gradients_of_sums attention_gradients_wgmma
        attention_bias_gradient attention_bias_gradient_wgmma;
}

/// All entries of the library, as `cargo xtask ptx` has found them.
fn entries() -> impl Iterator<Item = &'static str> {
    let report = include_str!("../../kernels-gpu/ptx-report.tsv");
    let rows = report.lines().filter(|line| !line.starts_with('#')).skip(1);
    let names = rows.filter_map(|row| row.split('\t').nth(1));
    names.collect::<BTreeSet<_>>().into_iter()
}

/// The kernel that an entry is of: that of the longest name, for `reduce_columns_f32_Sum` is none of `reduce`.
fn kernel_of(entry: &str) -> Option<&'static str> {
    let kernels = FAMILIES.iter().flat_map(|family| family.kernels);
    let begins = |kernel: &&&str| {
        entry
            .strip_prefix(**kernel)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    kernels.filter(begins).copied().max_by_key(|kernel| kernel.len())
}

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |number| number.parse().expect("a number"))
}

/// So many schedules.
fn schedules(count: usize) -> impl Iterator<Item = Schedule> {
    let others = [Schedule::Reversed, Schedule::DelayedBlock(0), Schedule::DelayedBlock(1)];
    [Schedule::InOrder, Schedule::Random(0)]
        .into_iter()
        .chain(others)
        .chain((1..).map(Schedule::Random))
        .take(count)
}

/// Runs the family so.
fn run(family: &Family, simulation: Simulation, round: usize) -> Run {
    let Simulation {
        schedule, tensor_cores, ..
    } = simulation;
    let mut run = Run {
        device: Device::simulated_as(simulation),
        rng: rng(round as u64),
        results: Vec::new(),
        what: format!(
            "{}, tensor cores {tensor_cores:?}, sizes {round}, {schedule:?}",
            family.name
        ),
    };
    (family.run)(&mut run);
    run
}

/// All checks, in order, and counted.
fn in_order(tensor_cores: Option<(u32, u32)>) -> Simulation {
    Simulation {
        checks: Checks::ALL,
        schedule: Schedule::InOrder,
        counting: true,
        tensor_cores,
        multiprocessors: MULTIPROCESSORS,
    }
}

/// Runs a family by all schedules, at all sizes, on all generations, and asks whether it has launched its entries.
fn check(name: &str) {
    let family = FAMILIES.iter().find(|family| family.name == name).expect("a family");
    let rounds = 0..number("WARPSMITH_TEST_CASES_TIMES", 1);
    let launched: BTreeSet<String> = thread::scope(|scope| {
        let rounds: Vec<_> = rounds
            .map(|round| scope.spawn(move || check_round(family, round)))
            .collect();
        let launched = rounds
            .into_iter()
            .map(|round| round.join().unwrap_or_else(|panic| resume_unwind(panic)));
        launched.flatten().collect()
    });
    let own = entries().filter(|entry| kernel_of(entry).is_some_and(|kernel| family.kernels.contains(&kernel)));
    let missing: Vec<_> = own.filter(|entry| !launched.contains(*entry)).collect();
    assert!(missing.is_empty(), "{name} has not launched {missing:?}");
}

/// Runs a family by all schedules on all generations, at the sizes of one round, which runs beside the others. Returns the
/// entries that were launched.
fn check_round(family: &Family, round: usize) -> BTreeSet<String> {
    let mut launched = BTreeSet::new();
    for &tensor_cores in family.devices {
        let in_order = Simulation {
            multiprocessors: family.multiprocessors,
            ..in_order(tensor_cores)
        };
        let first = run(family, in_order, round);
        launched.extend(first.device.take_counters().into_iter().map(|counters| counters.kernel));
        let few = if tensor_cores.is_none() || family.twice { 2 } else { 1 };
        for schedule in schedules(number("WARPSMITH_TEST_SCHEDULES", few)).skip(1) {
            let simulation = Simulation {
                schedule,
                counting: false,
                ..in_order
            };
            let other = run(family, simulation, round);
            assert!(
                other.results == first.results,
                "{}: another result than in order",
                other.what
            );
        }
    }
    launched
}

#[test]
fn every_kernel_is_of_a_family() {
    let strays: Vec<_> = entries().filter(|entry| kernel_of(entry).is_none()).collect();
    assert!(strays.is_empty(), "no family launches {strays:?}");
    assert!(entries().count() > 900);
}
