// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many blocks of a hot kernel a multiprocessor holds at a time.
//!
//! The limits are those of the CUDA C++ Programming Guide, "Compute Capabilities"; how registers
//! and shared memory are handed out is the CUDA occupancy calculator's (`cuda_occupancy.h`): each
//! of a multiprocessor's four parts has a quarter of the registers, which it gives to its warps.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};

use super::report::{self, Report, Row};
use super::sm::Sm;

/// The kernels that the table shows: of each family the instance for the commonest type, for sums
/// those of integers too, whose results are wider, and for histograms and pictures those of their types.
const HOT: &[&str] = &[
    "fill",
    "normal_f32_4",
    "binary_f32_Add",
    "map_f32_Square",
    "map_float_f32_Tanh",
    "select_u32",
    "reduce_f32_Sum",
    "reduce_i32_Sum",
    "reduce_u8_Sum",
    "reduce_columns_f32_Sum",
    "reduce_columns_u8_Sum",
    "scan_f32_Sum",
    "scan_i32_Sum",
    "scan_u8_Sum",
    "scan_tree_f32_Sum",
    "scan_rows_f32_Sum",
    "scan_columns_f32_Sum",
    "scan_columns_u8_Sum",
    "histogram_u8_Uniform_0",
    "histogram_u32_Uniform_0",
    "histogram_f32_Uniform_0",
    "bincount_u8_0",
    "bincount_u32_0",
    "transpose_tiles_u32",
    "transpose_tiles_u8",
    "copy_strided_u32",
    "grayscale_u8_3",
    "grayscale_fused_u8_3",
    "box_blur_3x3_1_16",
    "box_rows_Bytes_1",
    "box_columns_Bytes",
    "gaussian_rows_u8_1",
    "gaussian_columns_u8",
    "gemm_f32_Large_KMajor_KMajor",
    "gemm_f32_Large_KMajor_MnMajor",
    "gemm_f32_Large_MnMajor_KMajor",
    "gemm_f32_Large_MnMajor_MnMajor",
    "gemm_f32_Medium_KMajor_KMajor",
    "gemm_f32_Medium_KMajor_MnMajor",
    "gemm_f32_Medium_MnMajor_KMajor",
    "gemm_f32_Medium_MnMajor_MnMajor",
    "gemm_f32_Small_KMajor_KMajor",
    "gemm_f32_Small_KMajor_MnMajor",
    "gemm_f32_Small_MnMajor_KMajor",
    "gemm_f32_Small_MnMajor_MnMajor",
    "gemv_rows_f32_f32",
    "gemv_columns_f32_f32",
];

/// What comes before the tables.
const HEAD: &str = "\
# Occupancy of the hot kernels

Written by `cargo xtask ptx --bless` from what ptxas says of each kernel; `cargo xtask ptx` fails \
where it is out of date. Shared memory given at launch, which is not in the PTX, is not counted.

Blocks are those of the largest size that the kernel allows (`.maxntid`), as many as a \
multiprocessor holds at a time; the limit is what keeps it from holding one more. Occupancy is \
their warps, as a part of those that the multiprocessor can hold. Limits of each architecture: \
CUDA C++ Programming Guide, \"Compute Capabilities\".
";

const WARP: u32 = 32;

/// Registers are given to a warp in units of this many.
const REGISTER_UNIT: u32 = 256;

/// The parts of a multiprocessor, and the registers of each: 64 K together.
const PARTS: u32 = 4;
const PART_REGISTERS: u32 = 65536 / PARTS;

/// What a multiprocessor of an architecture holds at most.
#[derive(Clone, Copy)]
struct Multiprocessor {
    sm: Sm,
    warps: u32,
    blocks: u32,
    /// Bytes of shared memory, where the first-level cache leaves it as much as it can.
    shared: u32,
    /// Bytes of it that the system takes for each block.
    reserved: u32,
    /// A block gets a multiple of this many bytes.
    shared_unit: u32,
}

const MULTIPROCESSORS: [Multiprocessor; 4] = [
    Multiprocessor {
        sm: Sm::new(75),
        warps: 32,
        blocks: 16,
        shared: 64 << 10,
        reserved: 0,
        shared_unit: 256,
    },
    Multiprocessor {
        sm: Sm::new(80),
        warps: 64,
        blocks: 32,
        shared: 164 << 10,
        reserved: 1 << 10,
        shared_unit: 128,
    },
    Multiprocessor {
        sm: Sm::specific(90),
        warps: 64,
        blocks: 32,
        shared: 228 << 10,
        reserved: 1 << 10,
        shared_unit: 128,
    },
    Multiprocessor {
        sm: Sm::new(100),
        warps: 64,
        blocks: 32,
        shared: 228 << 10,
        reserved: 1 << 10,
        shared_unit: 128,
    },
];

/// What one block of a kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its threads; at least one.
    pub threads: u32,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
}

/// What a multiprocessor holds at a time.
#[derive(Debug, PartialEq, Eq)]
struct Occupancy {
    blocks: u32,
    warps: u32,
    /// Of the warps that it can hold, rounded.
    percent: u32,
    /// What keeps it from holding one block more.
    limit: &'static str,
}

impl Multiprocessor {
    /// As many blocks as there is room for by every measure.
    fn occupancy(&self, block: Block) -> Occupancy {
        let warps = block.threads.div_ceil(WARP);
        // A kernel that takes nothing of one of them is not limited by it: at least one, so that
        // the divisions below have a result, and a large one.
        let shared = (block.shared + self.reserved).next_multiple_of(self.shared_unit).max(1);
        let registers = (block.registers * WARP)
            .next_multiple_of(REGISTER_UNIT)
            .max(REGISTER_UNIT);
        let limits = [
            (self.warps / warps, "threads"),
            (self.blocks, "blocks"),
            (PART_REGISTERS / registers * PARTS / warps, "registers"),
            (self.shared / shared, "shared memory"),
        ];
        // Of equal limits the first one: the device's own come before what a kernel can save.
        let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or_default();
        let warps = blocks * warps;
        Occupancy {
            blocks,
            warps,
            percent: (100 * warps + self.warps / 2) / self.warps,
            limit,
        }
    }
}

/// The table as docs/occupancy.md has it.
///
/// # Errors
/// A hot kernel is not in the report, or the PTX does not bound its block.
pub fn markdown(report: &Report) -> Result<String> {
    render(report, HOT)
}

fn render(report: &Report, kernels: &[&str]) -> Result<String> {
    let mut text = String::from(HEAD);
    for multiprocessor in MULTIPROCESSORS {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n## {}\n\n\
             | kernel | threads a block | registers a thread | shared bytes a block | blocks | warps | occupancy | limit |\n\
             |---|--:|--:|--:|--:|--:|--:|---|\n",
            multiprocessor.sm
        );
        for kernel in kernels {
            text += &line(report, kernel, &multiprocessor)?;
        }
    }
    Ok(text)
}

fn line(report: &Report, kernel: &str, multiprocessor: &Multiprocessor) -> Result<String> {
    let sm = multiprocessor.sm;
    let row = find(report, kernel, sm).with_context(|| {
        format!("the hot kernel {kernel} does not exist on {sm}: take it off the list in xtask/src/ptx/occupancy.rs")
    })?;
    let block = report::block(&row.numbers);
    ensure!(block.threads > 0, "the PTX of the hot kernel {kernel} has no .maxntid");
    let occupancy = multiprocessor.occupancy(block);
    Ok(format!(
        "| {kernel} | {} | {} | {} | {} | {} | {} % | {} |\n",
        block.threads,
        block.registers,
        block.shared,
        occupancy.blocks,
        occupancy.warps,
        occupancy.percent,
        occupancy.limit
    ))
}

/// The kernel's numbers on an architecture, from the newest PTX that runs there.
fn find<'a>(report: &'a Report, kernel: &str, sm: Sm) -> Option<&'a Row> {
    let rows = report.0.iter().filter(|(key, _)| key.kernel == kernel && key.sm == sm);
    rows.max_by_key(|(key, _)| key.ptx).map(|(_, row)| row)
}

#[cfg(test)]
mod tests {
    use super::super::DEVICES;
    use super::*;

    /// (blocks, warps, percent, limit) on sm_75, sm_80, sm_90a and sm_100.
    fn on_each(threads: u32, registers: u32, shared: u32) -> [(u32, u32, u32, &'static str); 4] {
        let block = Block {
            threads,
            registers,
            shared,
        };
        MULTIPROCESSORS.map(|multiprocessor| {
            let o = multiprocessor.occupancy(block);
            (o.blocks, o.warps, o.percent, o.limit)
        })
    }

    #[test]
    fn there_is_one_multiprocessor_for_each_device() {
        assert_eq!(MULTIPROCESSORS.map(|multiprocessor| multiprocessor.sm), DEVICES);
    }

    #[test]
    fn threads_and_blocks_limit_small_kernels() {
        let full = (8, 64, 100, "threads");
        assert_eq!(on_each(256, 32, 0), [(4, 32, 100, "threads"), full, full, full]);
        let half = (32, 32, 50, "blocks");
        assert_eq!(on_each(32, 16, 0), [(16, 16, 50, "blocks"), half, half, half]);
        // 33 threads are two warps.
        assert_eq!(on_each(33, 16, 0)[0], (16, 32, 100, "threads"));
        assert_eq!(on_each(1024, 32, 0)[1], (2, 64, 100, "threads"));
    }

    #[test]
    fn registers_are_given_to_warps_in_units_by_each_part() {
        // 33 * 32 = 1056 -> 1280 a warp; 16384 / 1280 = 12 warps in each of four parts.
        assert_eq!(on_each(256, 33, 0)[1], (6, 48, 75, "registers"));
        assert_eq!(on_each(256, 40, 0)[1], (6, 48, 75, "registers"));
        // 64 * 32 = 2048; 8 warps a part: all of sm_75, half of sm_80.
        assert_eq!(on_each(256, 64, 0)[0], (4, 32, 100, "threads"));
        assert_eq!(on_each(256, 64, 0)[2], (4, 32, 50, "registers"));
        // 255 * 32 = 8160 -> 8192; 2 warps a part.
        assert_eq!(on_each(128, 255, 0)[0], (2, 8, 25, "registers"));
        assert_eq!(on_each(128, 255, 0)[3], (2, 8, 13, "registers"));
        // Five warps a block: 48 warps hold 9, where 65536 / 1280 = 51 warps would hold 10.
        assert_eq!(on_each(160, 40, 0)[1], (9, 45, 70, "registers"));
        // 72 * 32 = 2304; 7 warps a part are too few for one block.
        assert_eq!(on_each(1024, 72, 0)[1], (0, 0, 0, "registers"));
    }

    #[test]
    fn shared_memory_is_given_in_units_with_a_reserve_from_sm_80_on() {
        // 48 KiB: 64 / 48, 164 / 49, 228 / 49.
        let (one, three, four) = ((1, 8, 25), (3, 24, 38), (4, 32, 50));
        let wanted = [one, three, four, four].map(|(b, w, p)| (b, w, p, "shared memory"));
        assert_eq!(on_each(256, 32, 48 << 10), wanted);
        // 21800 -> 22016: two, where three would fit to the byte.
        assert_eq!(on_each(256, 32, 21800)[0], (2, 16, 50, "shared memory"));
        // 32550 + 1024 = 33574 -> 33664: four, where five would fit to the byte.
        assert_eq!(on_each(256, 32, 32550)[1], (4, 32, 50, "shared memory"));
    }

    const HEADER: &str = "module\tkernel\tptx\tsm\n";

    fn sample(lines: &[&str]) -> Result<Report> {
        let text: String = lines.iter().map(|line| line.replace(' ', "\t") + "\n").collect();
        Report::parse(&(HEADER.to_string() + &text))
    }

    #[test]
    fn renders_a_table_for_each_architecture() -> Result<()> {
        let report = sample(&[
            "sum sum sm_75 sm_75 f0 40 1024 0 0 0 256 1 5 0 0",
            "sum sum sm_75 sm_80 f0 40 1024 0 0 0 256 1 5 0 0",
            "sum sum sm_75 sm_90a f0 32 1024 0 0 0 256 1 5 0 0",
            "sum sum sm_75 sm_100 f0 64 1024 0 0 0 256 1 5 0 0",
            "sum sum sm_90a sm_90a f0 48 1024 0 0 0 256 1 5 0 0",
        ])?;
        let text = render(&report, &["sum"])?;
        assert!(text.starts_with("# Occupancy") && text.contains("`cargo xtask ptx --bless`"));
        assert!(text.contains("Shared memory given at launch"));
        let rows: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("## ") || line.starts_with("| sum "))
            .collect();
        let wanted = [
            "## sm_75",
            "| sum | 256 | 40 | 1024 | 4 | 32 | 100 % | threads |",
            "## sm_80",
            "| sum | 256 | 40 | 1024 | 6 | 48 | 75 % | registers |",
            // Of two PTX modules for sm_90a, its own.
            "## sm_90a",
            "| sum | 256 | 48 | 1024 | 5 | 40 | 63 % | registers |",
            "## sm_100",
            "| sum | 256 | 64 | 1024 | 4 | 32 | 50 % | registers |",
        ];
        assert_eq!(rows, wanted);
        Ok(())
    }

    #[test]
    fn a_hot_kernel_must_exist_and_bound_its_block() -> Result<()> {
        let missing = render(&Report::default(), &["sum"]).unwrap_err().to_string();
        assert!(
            missing.starts_with("the hot kernel sum does not exist on sm_75"),
            "{missing}"
        );
        let unbounded = sample(&["sum sum sm_75 sm_75 f0 40 0 0 0 0 0 0 0 0 0"])?;
        let unbounded = render(&unbounded, &["sum"]).unwrap_err().to_string();
        assert_eq!(unbounded, "the PTX of the hot kernel sum has no .maxntid");
        Ok(())
    }
}
