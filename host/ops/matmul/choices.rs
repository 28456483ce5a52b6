// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernel multiplies, as measured: a table by device, element type, layout and class of shape, which
//! `warpsmith tune matmul` writes. What is not in it, the models of costs decide.
//!
//! A class is all shapes of one product whose lengths round to the same powers of two, so that what is best for one of them
//! need not be for its neighbours: tiles fill the device with one, and half of it with the next, which the models know. So
//! the table has those classes alone in which one choice was found better throughout.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use kernels_gpu::matmul::gemm::GemmShape;

use super::split::{Cut, Lengths};
use crate::device::Properties;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The environment variable that names a file with another table; see [`set_matmul_choices`].
pub const CHOICES_VARIABLE: &str = "WARPSMITH_MATMUL_CHOICES";

/// What was measured on the devices that it names.
const SHIPPED: &str = include_str!("choices.txt");

/// What an element type is multiplied as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Factors {
    /// Of 16 bits.
    Half,
    Tf32,
    F32,
    F64,
}

impl Factors {
    const NAMES: [(&'static str, Self); 4] = [
        ("half", Self::Half),
        ("tf32", Self::Tf32),
        ("f32", Self::F32),
        ("f64", Self::F64),
    ];
}

/// The kernels that there is a choice among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Hopper's tensor cores; tiles by their columns.
    Wgmma,
    /// The same for 16 bits, as products of transposes; tiles by their columns, those of 112 × 128, of 160 and 168 × 256 and of 176 × 192 by their rows.
    Across,
    /// The tensor cores of Ampere and later; tiles by their columns.
    Mma,
    /// Large products of `f32` on Hopper; tiles by their columns.
    Simt,
    /// Tensor cores of `f64`; tiles by their rows.
    Dmma,
    /// Any GPU; tiles by their rows.
    Gemm,
}

/// Each kernel's name, with what its tiles are told apart by.
const KERNELS: [(&str, Kernel, &[usize]); 6] = [
    ("wgmma", Kernel::Wgmma, &[64, 128, 192, 256]),
    ("across", Kernel::Across, &[64, 112, 128, 160, 168, 176, 192]),
    ("mma", Kernel::Mma, &[64, 128, 256]),
    ("simt", Kernel::Simt, &[64, 128, 256]),
    ("dmma", Kernel::Dmma, &[32, 64, 128]),
    ("gemm", Kernel::Gemm, &[32, 64, 128]),
];

/// How a product is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) kernel: Kernel,
    pub(super) tile: usize,
    /// Into how many parts k is cut, and whether the transpose is computed.
    pub(super) cut: Cut,
}

impl Choice {
    /// The tile, if it is of this kernel.
    pub(super) fn tile_of(self, kernel: Kernel) -> Option<usize> {
        (self.kernel == kernel).then_some(self.tile)
    }
}

/// What one entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Of any name: compute capability, major and minor, and the number of multiprocessors.
    device: [u32; 3],
    factors: Factors,
    /// Whether neighbours of each operand lie along k.
    along_k: [bool; 2],
    /// The rounded binary logarithms of m, n, k.
    shape: [u32; 3],
}

impl Key {
    /// That of a product, if it is one alone and has elements.
    fn of(factors: Factors, of: &GemmShape, device: &Properties) -> Option<Self> {
        if of.batch != 1 || of.m.min(of.n).min(of.k) == 0 {
            return None;
        }
        // The simulated GPU has none, but for tests the tensor cores of one.
        let (major, minor) = device.compute_capability.or(device.tensor_cores).unwrap_or_default();
        Some(Self {
            device: [major, minor, device.multiprocessors],
            factors,
            along_k: [of.a[2] == 1, of.b[2] == 1],
            shape: [of.m, of.n, of.k].map(rounded_log2),
        })
    }
}

/// The binary logarithm of a length that is not 0, to the nearest integer.
fn rounded_log2(length: usize) -> u32 {
    let whole = length.ilog2();
    // √2 times as much is half way.
    let square = (length as u128) * (length as u128);
    whole + u32::from(square > 1 << (2 * whole + 1))
}

/// Choices by what they are for: of each key those of devices of one name, or of all.
#[derive(Debug, Default)]
struct Table(HashMap<Key, Vec<(Option<String>, Choice)>>);

/// Whether a device's name is `word`, which has `_` for the spaces. Each product asks, so nothing is allocated.
fn is_name(word: &str, name: &str) -> bool {
    let rest = name.split_whitespace().enumerate().try_fold(word, |rest, (i, part)| {
        let rest = if i == 0 { rest } else { rest.strip_prefix('_')? };
        rest.strip_prefix(part)
    });
    rest == Some("")
}

impl Table {
    /// Reads a table: a line for each entry, of words between spaces, as choices.txt describes it.
    fn parse(text: &str) -> std::result::Result<Self, String> {
        let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
        let entries = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
        let mut table = Self::default();
        for (line, number) in entries {
            let (key, name, choice) = entry(line).map_err(|problem| format!("line {number}: {problem}: {line}"))?;
            let of_key = table.0.entry(key).or_default();
            if of_key.iter().any(|(other, _)| *other == name) {
                return Err(format!("line {number}: there is an entry for this already: {line}"));
            }
            of_key.push((name, choice));
        }
        Ok(table)
    }

    /// The choice for a device of that name: its own, or that of all.
    fn choice(&self, key: &Key, device: &str) -> Option<Choice> {
        let of_key = self.0.get(key)?;
        let of_name = |(name, _): &&(Option<String>, Choice)| name.as_deref().is_some_and(|name| is_name(name, device));
        let of_all = || of_key.iter().find(|(name, _)| name.is_none());
        of_key.iter().find(of_name).or_else(of_all).map(|&(_, choice)| choice)
    }
}

/// One line of a table.
fn entry(line: &str) -> std::result::Result<(Key, Option<String>, Choice), &'static str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (words, transposed) = match words.split_last() {
        Some((&"transposed", words)) => (words, true),
        _ => (words.as_slice(), false),
    };
    let (device, words) = words.split_at(words.len().saturating_sub(8));
    let (capability, multiprocessors, name) = match *device {
        [capability, multiprocessors] => (capability, multiprocessors, None),
        [capability, multiprocessors, name] => (capability, multiprocessors, Some(name.to_owned())),
        _ => return Err("wanted ten words, perhaps a name behind the first two, and perhaps `transposed`"),
    };
    let &[factors, layout, m, n, k, kernel, tile, parts] = words else {
        return Err("wanted eight words behind the device's");
    };
    let number = |word: &str| word.parse::<u32>().map_err(|_| "wanted a number");
    let (major, minor) = capability
        .split_once('.')
        .ok_or("wanted a compute capability, as in 9.0")?;
    let named = |(name, _): &&(&str, Factors)| *name == factors;
    let (_, factors) = *Factors::NAMES
        .iter()
        .find(named)
        .ok_or("wanted half, tf32, f32 or f64")?;
    // As in BLAS, of arrays in C order.
    let along_k = match layout {
        "nn" => [true, false],
        "nt" => [true, true],
        "tn" => [false, false],
        "tt" => [false, true],
        _ => return Err("wanted nn, nt, tn or tt"),
    };
    let (_, kernel, tiles) = *KERNELS
        .iter()
        .find(|(name, ..)| *name == kernel)
        .ok_or("no such kernel")?;
    let fits = match kernel {
        Kernel::Wgmma | Kernel::Mma => matches!(factors, Factors::Half | Factors::Tf32),
        Kernel::Across => factors == Factors::Half,
        Kernel::Simt => factors == Factors::F32,
        Kernel::Dmma => factors == Factors::F64,
        Kernel::Gemm => matches!(factors, Factors::F32 | Factors::F64),
    };
    let tile = number(tile)? as usize;
    if !fits || !tiles.contains(&tile) {
        return Err("the kernel has no such type or tile");
    }
    let parts = number(parts)? as usize;
    let on_tensor_cores = matches!(kernel, Kernel::Wgmma | Kernel::Mma);
    let lengths = match (kernel, factors) {
        (Kernel::Wgmma, Factors::Tf32) => Lengths::on_hopper(4),
        (Kernel::Wgmma, _) => Lengths::on_hopper(2),
        _ => Lengths::Equal,
    };
    let cut = Cut::new(parts, lengths, transposed).filter(|cut| on_tensor_cores || cut.is_none());
    let choice = Choice {
        kernel,
        tile,
        cut: cut.ok_or("k is not cut so")?,
    };
    let key = Key {
        device: [number(major)?, number(minor)?, number(multiprocessors)?],
        factors,
        along_k,
        shape: [number(m)?, number(n)?, number(k)?],
    };
    Ok((key, name, choice))
}

/// The table that products are looked up in; none before the first.
static TABLE: RwLock<Option<Arc<Table>>> = RwLock::new(None);

/// The table, which the first call reads.
fn table() -> Result<Arc<Table>> {
    if let Some(table) = &*TABLE.read().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Arc::clone(table));
    }
    let table = match std::env::var_os(CHOICES_VARIABLE) {
        Some(path) => {
            let file = format!("{CHOICES_VARIABLE}: {}", path.display());
            let text = std::fs::read_to_string(&path).map_err(|source| Error::Io {
                file: file.clone(),
                source,
            })?;
            Table::parse(&text).map_err(|problem| Error::File { file, problem })?
        }
        None => Table::parse(SHIPPED).expect("a test reads the shipped table"),
    };
    let mut place = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::clone(place.get_or_insert_with(|| Arc::new(table))))
}

/// The choice for a product, if the table has one.
pub(super) fn choice(factors: Factors, of: &GemmShape, stream: &Stream) -> Result<Option<Choice>> {
    let table = table()?;
    if table.0.is_empty() {
        return Ok(None);
    }
    let properties = stream.backend().properties();
    let key = Key::of(factors, of, properties);
    Ok(key.and_then(|key| table.choice(&key, &properties.name)))
}

/// Has products of matrices done as the table in `text` says, in this process and from now on: by which kernel, in tiles of
/// which size, and in how many parts of k. It takes the place of the table that the library has, or that of the file which
/// the environment variable `WARPSMITH_MATMUL_CHOICES` names; an empty one leaves every choice to the models of costs.
///
/// `warpsmith tune matmul` measures such a table for a GPU, and describes its lines. What an entry says and a product does not
/// allow (a kernel that its device has not, parts that k does not divide into) is as if it were not there.
///
/// # Determinism
///
/// Products of `f32` and `f64` have the same bits by each choice, but that sums of `f64` which underflow to −0 are 0 on
/// tensor cores, and that those of a long k on Hopper may be in parts, of `f32` only where no choice is made ([`matmul`](crate::DeviceArrayRef::matmul)). Those of `f16`, `bf16` and TF32 do not: each kernel, and each number of parts, adds up in another order. With
/// one table they do not change from run to run.
///
/// # Errors
///
/// [`Error::File`] with the first line that is no entry. If the variable's file cannot be read, or is none, each product says
/// so.
///
/// # Examples
///
/// ```
/// // On a GPU of compute capability 9.0 with 132 multiprocessors; then on one of that name alone.
/// warpsmith::ops::set_matmul_choices("9.0 132 half nn 12 12 12 wgmma 256 1")?;
/// warpsmith::ops::set_matmul_choices("9.0 132 NVIDIA_H200 half nn 12 12 12 wgmma 256 1")?;
/// assert!(warpsmith::ops::set_matmul_choices("9.0 132 half nn 12 12 12 wgmma 250 1").is_err());
/// # Ok::<(), warpsmith::Error>(())
/// ```
pub fn set_matmul_choices(text: &str) -> Result<()> {
    let table = Table::parse(text).map_err(|problem| Error::File {
        file: "a table of products of matrices".into(),
        problem,
    })?;
    *TABLE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(table));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_is_one() {
        assert!(Table::parse(SHIPPED).is_ok());
    }

    #[test]
    fn lengths_are_rounded_by_their_logarithm() {
        assert_eq!(
            [1, 2, 3, 5, 6, 90, 91, 4095, 4097].map(rounded_log2),
            [0, 1, 2, 2, 3, 6, 7, 12, 12]
        );
        assert_eq!(rounded_log2(usize::MAX), usize::BITS);
    }

    #[test]
    fn entries_are_read() {
        let table = Table::parse("# one\n\n 9.0 132 half tn 4 13 13  wgmma 128 4 transposed\n").unwrap();
        let (key, of_key) = table.0.iter().next().unwrap();
        let [(None, choice)] = of_key.as_slice() else {
            panic!("one entry, for devices of any name: {of_key:?}");
        };
        assert_eq!(
            (key.device, key.along_k, key.shape),
            ([9, 0, 132], [false; 2], [4, 13, 13])
        );
        assert_eq!(
            (choice.tile_of(Kernel::Wgmma), choice.tile_of(Kernel::Mma)),
            (Some(128), None)
        );
        assert_eq!(Some(choice.cut), Cut::new(4, Lengths::on_hopper(2), true));
    }

    /// Devices with as many multiprocessors may have other memory.
    #[test]
    fn a_device_has_its_own_choice_ahead_of_that_of_all() {
        let mut lines = "9.0 132 half nn 6 13 13 wgmma 64 1\n".to_owned();
        lines +=
            "9.0 132 NVIDIA_H200 half nn 6 13 13 wgmma 128 1\n9.0 132 NVIDIA_H100_PCIe half nn 6 13 13 wgmma 192 1\n";
        let table = Table::parse(&lines).unwrap();
        let key = *table.0.keys().next().unwrap();
        let tile = |device: &str| table.choice(&key, device).map(|choice| choice.tile);
        assert_eq!(
            ["NVIDIA H200", "NVIDIA H100 PCIe", "NVIDIA H100", "NVIDIA H200 NVL"].map(tile),
            [Some(128), Some(192), Some(64), Some(64)]
        );
        let named = lines.lines().skip(1).collect::<Vec<_>>().join("\n");
        let table = Table::parse(&named).unwrap();
        assert_eq!(table.choice(&key, "NVIDIA H100 80GB HBM3"), None);
        assert!(
            Table::parse(&format!("{named}\n{named}"))
                .unwrap_err()
                .contains("already")
        );
    }

    #[test]
    fn what_is_no_entry_is_an_error_with_its_line() {
        for (line, problem) in [
            ("9.0 132 half nn 12 12 12 wgmma 256", "ten words"),
            ("9 132 half nn 12 12 12 wgmma 256 1", "compute capability"),
            ("9.0 132 f16 nn 12 12 12 wgmma 256 1", "wanted half"),
            ("9.0 132 half cc 12 12 12 wgmma 256 1", "wanted nn"),
            ("9.0 132 half nn x 12 12 wgmma 256 1", "a number"),
            ("9.0 132 half nn 12 12 12 cublas 256 1", "no such kernel"),
            ("9.0 132 half nn 12 12 12 wgmma 100 1", "no such type or tile"),
            ("9.0 132 f32 nn 12 12 12 wgmma 128 1", "no such type or tile"),
            ("9.0 132 tf32 nn 12 12 12 across 192 1", "no such type or tile"),
            ("9.0 132 half nn 12 12 12 across 192 2", "not cut so"),
            ("9.0 132 half nn 12 12 12 wgmma 256 17", "not cut so"),
            ("9.0 132 half nn 12 12 12 mma 256 3", "not cut so"),
            ("9.0 132 f32 nn 12 12 12 simt 128 2", "not cut so"),
        ] {
            let error = Table::parse(&format!("\n{line}")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(problem), "{error}");
        }
        let twice = "9.0 132 f32 nn 1 1 1 simt 64 1\n".repeat(2);
        assert!(Table::parse(&twice).unwrap_err().contains("already"));
    }
}
