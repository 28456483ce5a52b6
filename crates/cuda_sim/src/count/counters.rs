// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was counted of a launch, as its caller sees it.

use std::fmt;
use std::ops::AddAssign;

use super::steps::Step;
use crate::check::Space;
use crate::dim3::Dim3;

/// Bytes of a sector, the least that moves between global memory and a multiprocessor.
pub(super) const SECTOR: usize = 32;

/// What an instruction does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Loads.
    Load,
    /// Stores.
    Store,
    /// Reads and writes in one step.
    Atomic,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::Load => "load",
            Operation::Store => "store",
            Operation::Atomic => "atomic",
        }
    }
}

/// What tensor cores multiply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operands {
    /// Floats of 8 bits, of either kind.
    Float8,
    /// Integers of 8 bits.
    Int8,
    /// `bf16`.
    Bf16,
    /// `f16`.
    F16,
    /// `f32` as TF32.
    Tf32,
    /// `f64`.
    F64,
}

impl Operands {
    fn name(self) -> &'static str {
        match self {
            Operands::Float8 => "8-bit floats",
            Operands::Int8 => "8-bit integers",
            Operands::Bf16 => "bf16",
            Operands::F16 => "f16",
            Operands::Tf32 => "TF32",
            Operands::F64 => "f64",
        }
    }
}

/// Numbers of some instructions that access memory.
///
/// A request is what the lanes of a warp ask for by one instruction, at most 16 bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Lanes that took part, of all requests together.
    pub lanes: u64,
    /// Bytes that were asked for; those that several lanes of a request ask for are one.
    pub bytes: u64,
    /// Sectors of 32 bytes of global memory, each once for a request; of an atomic one as often as the most lanes have one
    /// element of it. None of shared memory.
    pub sectors: u64,
    /// Rounds in which shared memory answered: it has 32 banks of 4 bytes, and gives one word of each in a round. None of
    /// global memory.
    pub wavefronts: u64,
    /// Those of them that are there because lanes of a request wanted different words of one bank.
    pub bank_conflicts: u64,
    /// Of atomic operations, lanes that came to an element which another lane of the request came to as well: these wait
    /// for one another.
    pub collisions: u64,
}

impl Counts {
    /// How many lanes a request has, on average; 32 where no warp is divided or partly idle.
    pub fn lanes_per_request(&self) -> f64 {
        ratio(self.lanes, self.requests)
    }

    /// How many sectors a request of global memory takes, on average: of 4 bytes a lane, 4 at best, 32 at worst.
    pub fn sectors_per_request(&self) -> f64 {
        ratio(self.sectors, self.requests)
    }

    /// Which part of the bytes of the sectors was asked for.
    pub fn efficiency(&self) -> f64 {
        ratio(self.bytes, self.sectors * SECTOR as u64)
    }
}

/// 0 if there is nothing.
fn ratio(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
        self.wavefronts += other.wavefronts;
        self.bank_conflicts += other.bank_conflicts;
        self.collisions += other.collisions;
    }
}

/// What was counted of one access in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LineCounters {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// Which memory it accesses.
    pub space: Space,
    /// How.
    pub operation: Operation,
    /// The numbers.
    pub counts: Counts,
}

/// What was counted of a launch. Displayed, it is a table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LaunchCounters {
    /// The kernel's name.
    pub kernel: String,
    /// The extents of the grid, in blocks.
    pub grid: Dim3,
    /// The extents of a block, in threads.
    pub block: Dim3,
    /// For each access in the source that was executed, by file, line and column.
    pub lines: Vec<LineCounters>,
    /// Different sectors of global memory that were read.
    pub sectors_read: u64,
    /// Different sectors of global memory that were written.
    pub sectors_written: u64,
    /// For each kind of operands that tensor cores had, their multiplications and additions: an instruction for matrices of m × k
    /// and k × n elements has 2·m·n·k, whatever of it is used.
    pub products: Vec<(Operands, u64)>,
    /// What the block that was traced has done, its first 10,000 steps; nothing if none was.
    pub steps: Vec<Step>,
}

impl LaunchCounters {
    /// All accesses of that kind together.
    pub fn total(&self, space: Space, operation: Operation) -> Counts {
        self.sum(|line| line.space == space && line.operation == operation)
    }

    /// Bytes that sectors of global memory moved, once for each request that wanted them.
    pub fn bytes_moved(&self) -> u64 {
        self.sum(|line| line.space == Space::Global).sectors * SECTOR as u64
    }

    /// Bytes of global memory that requests asked for.
    pub fn bytes_wanted(&self) -> u64 {
        self.sum(|line| line.space == Space::Global).bytes
    }

    /// The least that memory has to move, if caches keep all that is used again: each sector that is read, and each that is
    /// written, once.
    pub fn least_bytes(&self) -> u64 {
        (self.sectors_read + self.sectors_written) * SECTOR as u64
    }

    /// How long moving [`least_bytes`](Self::least_bytes) takes a memory of that many bytes a second, in seconds: no launch
    /// is faster on a GPU whose caches do not have the data already.
    pub fn least_seconds(&self, bytes_per_second: f64) -> f64 {
        self.least_bytes() as f64 / bytes_per_second
    }

    /// How long the [`products`](Self::products) take tensor cores that do so many operations a second, in seconds: with
    /// [`least_seconds`](Self::least_seconds) the roofline of a kernel that computes by these. 0 if there are none.
    pub fn least_seconds_of_products(&self, operations_per_second: impl Fn(Operands) -> f64) -> f64 {
        let products = self.products.iter();
        products
            .map(|&(operands, operations)| operations as f64 / operations_per_second(operands))
            .sum()
    }

    fn sum(&self, wanted: impl Fn(&LineCounters) -> bool) -> Counts {
        let mut sum = Counts::default();
        for line in self.lines.iter().filter(|line| wanted(line)) {
            sum += line.counts;
        }
        sum
    }
}

impl fmt::Display for LineCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (counts, operation) = (&self.counts, self.operation.name());
        let at = format!("{}:{}:{}", self.file, self.line, self.column);
        write!(
            f,
            "  {at:<40} {:<6} {operation:<6} {:>9} requests of {:>4.1} lanes",
            self.space.name(),
            counts.requests,
            counts.lanes_per_request()
        )?;
        match self.space {
            Space::Global => write!(
                f,
                ", {:>5.2} sectors each, {:>5.1} % wanted",
                counts.sectors_per_request(),
                100.0 * counts.efficiency()
            )?,
            Space::Shared => write!(
                f,
                ", {} wavefronts, {} by bank conflicts",
                counts.wavefronts, counts.bank_conflicts
            )?,
        }
        if self.operation == Operation::Atomic {
            write!(f, ", {} collisions", counts.collisions)?;
        }
        Ok(())
    }
}

impl fmt::Display for LaunchCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}`, grid {}, block {}: {} bytes of global memory moved, {} wanted; at least {} of memory",
            self.kernel,
            self.grid,
            self.block,
            self.bytes_moved(),
            self.bytes_wanted(),
            self.least_bytes()
        )?;
        for (operands, operations) in &self.products {
            write!(f, "; {operations} operations of tensor cores on {}", operands.name())?;
        }
        writeln!(f)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
