// SPDX-License-Identifier: MIT OR Apache-2.0
//! The notes that `#[kernel]` and `#[device_fn]` leave in the PTX, one comment line for each entry point and each function:
//!
//! ```text
//! //cuda_builder entry=add_f32 module=binary_f32 signature=1234567890 max_threads=256 min_blocks=2
//! //cuda_builder function=logistic_f32 module=logistic signature=1234567890
//! ```
//!
//! They carry what rustc has no attribute for: the module that an entry goes to, its signature (a number by which the
//! host tells that the entry is the kernel it was compiled with), and its launch bounds; the extents of its clusters
//! (`cluster=4,2,1`); for a kernel with instructions that only some GPUs have, the architecture, and which parameters are tensor
//! maps (a bit each). A function has a module and a signature alone.

use super::PtxError;
use crate::NvvmArch;

/// How a note begins.
const PREFIX: &str = "//cuda_builder ";

/// The most threads that a block of any GPU may have.
const MAX_BLOCK_THREADS: u32 = 1024;

/// The most blocks that a cluster of any GPU with clusters may have.
const MAX_CLUSTER_BLOCKS: u32 = 8;

/// One note.
#[derive(Debug, PartialEq)]
pub(super) struct Note<'a> {
    /// The name of the entry or the function.
    pub(super) name: &'a str,
    /// Whether it is a function.
    pub(super) is_function: bool,
    /// The name of the module it goes to.
    pub(super) module: &'a str,
    /// The number that the host's handle of the kernel has too.
    pub(super) signature: u64,
    /// The most threads a block may have: with it ptxas can plan registers.
    max_threads: Option<u32>,
    /// The blocks that one multiprocessor should be able to hold at a time.
    min_blocks: Option<u32>,
    /// The extents of a cluster, in blocks.
    cluster: Option<[u32; 3]>,
    /// The architecture that the entry is for, whatever its unit was compiled for.
    pub(super) arch: Option<NvvmArch>,
    /// The parameters that are tensor maps, a bit each.
    tensor_maps: Option<u64>,
    /// Where it stands.
    pub(super) line: usize,
}

impl<'a> Note<'a> {
    /// Reads a comment; `None` where it is an ordinary one.
    pub(super) fn parse(comment: &'a str, line: usize) -> Result<Option<Self>, PtxError> {
        let Some(words) = comment.strip_prefix(PREFIX) else {
            return Ok(None);
        };
        let error = |reason: String| PtxError::note(line, reason);
        let (mut entry, mut function, mut module, mut signature) = (None, None, None, None);
        let (mut max_threads, mut min_blocks) = (None, None);
        let (mut cluster, mut arch, mut tensor_maps) = (None, None, None);
        for word in words.trim_end().split(' ') {
            let (key, value) = word
                .split_once('=')
                .ok_or_else(|| error(format!("`{word}` is not of the form key=value")))?;
            let before = match key {
                "entry" => entry.replace(value).is_some(),
                "function" => function.replace(value).is_some(),
                "module" => module.replace(file_name(value).map_err(error)?).is_some(),
                "signature" => signature.replace(bits(word, value).map_err(error)?).is_some(),
                "max_threads" => {
                    let value = count(key, value, MAX_BLOCK_THREADS).map_err(error)?;
                    max_threads.replace(value).is_some()
                }
                "min_blocks" => {
                    let value = count(key, value, u32::MAX).map_err(error)?;
                    min_blocks.replace(value).is_some()
                }
                "cluster" => cluster.replace(extents(word, value).map_err(error)?).is_some(),
                "arch" => {
                    let reason = || error(format!("`{word}` is no architecture that PTX can be made for"));
                    let value = NvvmArch::from_target_cpu(value).ok_or_else(reason)?;
                    arch.replace(value).is_some()
                }
                "tensor_maps" => tensor_maps.replace(bits(word, value).map_err(error)?).is_some(),
                _ => return Err(error(format!("unknown key `{key}`"))),
            };
            if before {
                return Err(error(format!("key `{key}` stands twice")));
            }
        }
        let (name, is_function) = match (entry, function) {
            (Some(name), None) => (name, false),
            (None, Some(name)) => (name, true),
            (None, None) => return Err(error("key `entry` is missing, or key `function`".into())),
            _ => return Err(error("keys `entry` and `function` stand in one note".into())),
        };
        let for_entries = [
            ("max_threads", max_threads.is_some()),
            ("min_blocks", min_blocks.is_some()),
            ("cluster", cluster.is_some()),
            ("arch", arch.is_some()),
            ("tensor_maps", tensor_maps.is_some()),
        ];
        if let Some((key, _)) = for_entries.iter().find(|(_, stands)| is_function && *stands) {
            return Err(error(format!(
                "function `{name}` has key `{key}`, which is for entries"
            )));
        }
        let module = module.ok_or_else(|| error("key `module` is missing".into()))?;
        let signature = signature.ok_or_else(|| error("key `signature` is missing".into()))?;
        if min_blocks.is_some() && max_threads.is_none() {
            // PTX gives .minnctapersm no meaning without a bound on the block.
            let reason = format!("`{name}` has key `min_blocks` without key `max_threads`");
            return Err(error(reason));
        }
        if cluster.is_some() && arch.is_none_or(|arch| arch < NvvmArch::Compute90) {
            let reason = format!("`{name}` has key `cluster` without key `arch` for sm_90 or later");
            return Err(error(reason));
        }
        Ok(Some(Self {
            name,
            is_function,
            module,
            signature,
            max_threads,
            min_blocks,
            cluster,
            arch,
            tensor_maps,
            line,
        }))
    }

    /// What it is a note of, for errors.
    pub(super) fn what(&self) -> &'static str {
        if self.is_function { "function" } else { "entry" }
    }

    /// The same, of a text with that many lines above.
    pub(super) fn below(self, lines: usize) -> Self {
        Self {
            line: self.line + lines,
            ..self
        }
    }

    /// The directives between the entry's parameters and its body, each on a line.
    ///
    /// `.maxntid` bounds the product of its dimensions: blocks of any shape are let through.
    pub(super) fn directives(&self) -> String {
        let threads = self.max_threads.map(|n| format!(".maxntid {n}, 1, 1\n"));
        let blocks = self.min_blocks.map(|n| format!(".minnctapersm {n}\n"));
        let cluster = self
            .cluster
            .map(|[x, y, z]| format!(".reqnctapercluster {x}, {y}, {z}\n"));
        threads.into_iter().chain(blocks).chain(cluster).collect()
    }

    /// The entry's head (its name and parameters), with tensor maps aligned as the GPU wants them: rustc aligns them to 8
    /// bytes, whatever their type says.
    pub(super) fn align_tensor_maps(&self, head: &str) -> String {
        let maps = self.tensor_maps.unwrap_or(0);
        let numbers = (0..u64::BITS).filter(|number| maps >> number & 1 != 0);
        numbers.fold(head.to_owned(), |head, number| {
            let parameter = |align: u32| format!(".param .align {align} .b8 {}_param_{number}[", self.name);
            head.replace(&parameter(8), &parameter(64))
        })
    }
}

/// A module's name becomes a file's.
fn file_name(value: &str) -> Result<&str, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if value.is_empty() || !value.chars().all(plain) {
        return Err(format!(
            "module name `{value}` is not one or more of letters, digits, `_` and `-`"
        ));
    }
    Ok(value)
}

fn bits(word: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("`{word}` is not a whole number of 64 bits"))
}

fn count(key: &str, value: &str, max: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(format!("`{key}={value}` is not a whole number from 1 to {max}")),
    }
}

/// The extents of a cluster: three numbers with commas between them.
fn extents(word: &str, value: &str) -> Result<[u32; 3], String> {
    let numbers: Vec<u32> = value.split(',').map_while(|number| number.parse().ok()).collect();
    let blocks = |extents: &[u32; 3]| {
        extents
            .iter()
            .try_fold(1_u32, |blocks, &extent| blocks.checked_mul(extent))
    };
    <[u32; 3]>::try_from(numbers)
        .ok()
        .filter(|extents| blocks(extents).is_some_and(|blocks| (1..=MAX_CLUSTER_BLOCKS).contains(&blocks)))
        .filter(|_| value.split(',').count() == 3)
        .ok_or_else(|| format!("`{word}` is not three extents, of 1 to {MAX_CLUSTER_BLOCKS} blocks together"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(comment: &str) -> String {
        let error = Note::parse(comment, 7).unwrap_err();
        assert_eq!(error, PtxError::note(7, error.reason.clone()));
        error.reason
    }

    #[test]
    fn a_note_has_a_module_and_perhaps_bounds() {
        let note = Note::parse("//cuda_builder entry=add module=m signature=3\r", 1);
        assert_eq!(note.unwrap().unwrap().directives(), "");
        let note = Note::parse(
            "//cuda_builder min_blocks=2 module=m signature=18446744073709551615 entry=add max_threads=256",
            1,
        );
        let note = note.unwrap().unwrap();
        assert_eq!((note.name, note.module, note.signature), ("add", "m", u64::MAX));
        assert!(!note.is_function);
        assert_eq!(note.directives(), ".maxntid 256, 1, 1\n.minnctapersm 2\n");
    }

    #[test]
    fn a_note_of_a_function_has_a_module() {
        let note = Note::parse("//cuda_builder function=logistic_f32 module=logistic signature=5", 3);
        let note = note.unwrap().unwrap();
        assert_eq!(
            (note.name, note.module, note.signature),
            ("logistic_f32", "logistic", 5)
        );
        assert!(note.is_function);
    }

    #[test]
    fn a_cluster_is_a_directive() {
        let note = "//cuda_builder entry=f module=f signature=3 max_threads=64 cluster=4,2,1 arch=sm_90";
        let note = Note::parse(note, 1).unwrap().unwrap();
        assert_eq!(note.directives(), ".maxntid 64, 1, 1\n.reqnctapercluster 4, 2, 1\n");
    }

    #[test]
    fn tensor_maps_are_aligned_to_64_bytes() {
        let note = "//cuda_builder entry=f module=f signature=3 arch=sm_90a tensor_maps=5";
        let note = Note::parse(note, 1).unwrap().unwrap();
        assert_eq!(note.arch, Some(NvvmArch::Compute90a));
        let head = |[a, b, c]: [u32; 3]| {
            format!(
                ".visible .entry f(\n\t.param .align {a} .b8 f_param_0[128],\n\t.param .align {b} .b8 f_param_1[128],\n\
                 \t.param .align {c} .b8 f_param_2[128],\n\t.param .u64 .ptr .align 1 f_param_3\n)"
            )
        };
        assert_eq!(note.align_tensor_maps(&head([8; 3])), head([64, 8, 64]));
    }

    #[test]
    fn other_comments_are_none() {
        for comment in ["// cuda_builder entry=a", "//", "/* cuda_builder */"] {
            assert_eq!(Note::parse(comment, 1), Ok(None));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, expected) in [
            ("entry=a module=m threads=3", "unknown key `threads`"),
            ("entry=a module=m entry=b", "key `entry` stands twice"),
            ("entry=a  module=m", "`` is not of the form key=value"),
            ("entry=a", "key `module` is missing"),
            ("module=m", "key `entry` is missing"),
            ("function=f", "key `module` is missing"),
            ("function=f module=m", "key `signature` is missing"),
            ("entry=a module=m function=a", "keys `entry` and `function`"),
            ("function=a module=m function=b", "key `function` stands twice"),
            (
                "function=f module=m signature=1 max_threads=64",
                "function `f` has key `max_threads`",
            ),
            (
                "function=f module=m signature=1 min_blocks=2",
                "function `f` has key `min_blocks`",
            ),
            (
                "function=f module=m signature=1 arch=sm_90",
                "function `f` has key `arch`",
            ),
            (
                "function=f module=m signature=1 tensor_maps=0",
                "function `f` has key `tensor_maps`",
            ),
            ("entry=a module=m", "key `signature` is missing"),
            ("entry=a module=m signature=-1", "`signature=-1` is not"),
            ("entry=a module=../m", "module name `../m`"),
            ("entry=a module=m max_threads=1025", "from 1 to 1024"),
            ("entry=a module=m max_threads=64 min_blocks=0", "min_blocks=0"),
            ("entry=a module=m signature=1 min_blocks=2", "without key `max_threads`"),
            (
                "entry=a module=m signature=1 arch=sm_70",
                "`arch=sm_70` is no architecture",
            ),
            ("entry=a module=m signature=1 tensor_maps=x", "`tensor_maps=x` is not"),
            ("entry=a module=m signature=1 cluster=4,4,1", "`cluster=4,4,1` is not"),
            ("entry=a module=m signature=1 cluster=4,0,1", "`cluster=4,0,1` is not"),
            ("entry=a module=m signature=1 cluster=4,1", "`cluster=4,1` is not"),
            (
                "entry=a module=m signature=1 cluster=4,1,1,x",
                "`cluster=4,1,1,x` is not",
            ),
            (
                "entry=a module=m signature=1 cluster=4,1,1",
                "without key `arch` for sm_90",
            ),
            (
                "entry=a module=m signature=1 cluster=4,1,1 arch=sm_89",
                "without key `arch` for sm_90",
            ),
        ] {
            let reason = reason(&format!("//cuda_builder {words}"));
            assert!(reason.contains(expected), "{words}: {reason}");
        }
    }
}
