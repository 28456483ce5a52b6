// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a PTX module's text says of its kernels.
//!
//! Barriers, shuffles and votes must come out of the optimiser as they went in, so their number
//! in each kernel is a fact to hold on to. A function that was not inlined counts for every
//! kernel that calls it, so that the numbers do not hang on what the inliner chose.
//!
//! This reads statements, not instructions' operands: comments go, and what lies between
//! semicolons and braces is one statement, as PTX ISA's chapter on syntax has it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use anyhow::{Context, Result};

use super::sm::Sm;

/// What the driver itself supplies to a module.
const DRIVER_FUNCTIONS: [&str; 4] = ["__assertfail", "free", "malloc", "vprintf"];

/// The state spaces an access can name; one that names none is generic.
const STATE_SPACES: [&str; 5] = ["global", "shared", "local", "param", "const"];

/// How many instructions of a kind a kernel holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `bar`, `barrier`: of a block, a warp or a cluster.
    pub barriers: u32,
    /// `shfl`.
    pub shuffles: u32,
    /// `vote`, `match`, `redux`, `elect`.
    pub votes: u32,
    /// Loads, stores and atomics that find out at run time which memory an address is in.
    pub generic: u32,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.barriers += other.barriers;
        self.shuffles += other.shuffles;
        self.votes += other.votes;
        self.generic += other.generic;
    }
}

/// What the text says of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The threads of its largest block (`.maxntid`); 0 where none is given.
    pub threads: u32,
    /// Its instructions and those of the functions that it calls.
    pub counts: Counts,
}

/// One PTX module.
#[derive(Debug)]
pub struct Listing {
    /// The kernels by name.
    pub kernels: BTreeMap<String, Kernel>,
    /// Names that the module takes from elsewhere and the driver does not have.
    pub undefined: BTreeSet<String>,
}

#[derive(Default)]
struct Function {
    is_kernel: bool,
    threads: u32,
    counts: Counts,
    callees: BTreeSet<String>,
}

/// How a function's head begins.
struct Head<'a> {
    name: &'a str,
    is_kernel: bool,
    threads: u32,
    is_extern: bool,
}

impl Listing {
    /// Reads a module.
    pub fn parse(text: &str) -> Self {
        let (functions, undefined) = functions(&without_comments(text));
        let kernels = functions
            .iter()
            .filter(|(_, function)| function.is_kernel)
            .map(|(name, function)| {
                let kernel = Kernel {
                    threads: function.threads,
                    counts: reachable(&functions, name),
                };
                (name.clone(), kernel)
            })
            .collect();
        Self { kernels, undefined }
    }
}

/// The architecture that a module is for.
///
/// # Errors
/// The text names no `.target`.
pub fn target(text: &str) -> Result<Sm> {
    let given = text.lines().find_map(|line| line.strip_prefix(".target "));
    let given = given.context("the PTX has no .target")?;
    // Options such as `debug` may follow.
    given.split(',').next().unwrap_or(given).trim().parse()
}

/// The text without comments and without source locations, which end without a semicolon.
fn without_comments(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code))
        .filter(|line| !line.trim_start().starts_with(".loc"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The functions with a body, and the names of those that are neither here nor in the driver.
fn functions(text: &str) -> (BTreeMap<String, Function>, BTreeSet<String>) {
    let mut functions = BTreeMap::new();
    let mut undefined = BTreeSet::new();
    let mut current: Option<(String, Function)> = None;
    let mut depth = 0_usize;
    for piece in text.split_inclusive([';', '{', '}']) {
        let statement = piece.trim_end_matches([';', '{', '}']).trim();
        match (&mut current, depth) {
            (Some((_, function)), _) => function.add(statement),
            (None, 0) => match head(statement) {
                Some(head) if piece.ends_with('{') => {
                    let function = Function {
                        is_kernel: head.is_kernel,
                        threads: head.threads,
                        ..Function::default()
                    };
                    current = Some((head.name.to_string(), function));
                }
                Some(head) if head.is_extern && !DRIVER_FUNCTIONS.contains(&head.name) => {
                    undefined.insert(head.name.to_string());
                }
                _ => {}
            },
            (None, _) => {}
        }
        if piece.ends_with('{') {
            depth += 1;
        } else if piece.ends_with('}') {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                functions.extend(current.take());
            }
        }
    }
    (functions, undefined)
}

/// Reads `.visible .entry NAME(…) .maxntid …` or `.extern .func (…) NAME(…`; the directives of the module
/// may come before it, as they end without a semicolon.
fn head(statement: &str) -> Option<Head<'_>> {
    let (before, is_kernel, after) = match statement.split_once(".entry") {
        Some((before, after)) => (before, true, after),
        None => {
            let (before, after) = statement.split_once(".func")?;
            (before, false, after)
        }
    };
    Some(Head {
        name: name(after)?,
        is_kernel,
        threads: threads(after),
        is_extern: before.trim_end().ends_with(".extern"),
    })
}

/// The product of the one to three numbers after `.maxntid`.
fn threads(head: &str) -> u32 {
    let Some((_, numbers)) = head.split_once(".maxntid") else {
        return 0;
    };
    // Another directive may follow, without a comma before it.
    let numbers = numbers.split('.').next().unwrap_or_default();
    let numbers = numbers.split(',').map_while(|number| number.trim().parse::<u32>().ok());
    numbers.reduce(u32::saturating_mul).unwrap_or_default()
}

/// The name that follows an optional list of results in parentheses.
fn name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let text = match text.strip_prefix('(') {
        Some(results) => results.split_once(')')?.1,
        None => text,
    };
    text.split(|c: char| c.is_whitespace() || "(),".contains(c))
        .find(|word| !word.is_empty())
}

impl Function {
    /// Counts a statement such as `$label: @%p1 bar.sync 0`.
    fn add(&mut self, statement: &str) {
        let mut words = statement.split_whitespace();
        let Some(instruction) = words.find(|word| !word.ends_with(':') && !word.starts_with('@')) else {
            return;
        };
        let mut parts = instruction.split('.');
        match parts.next().unwrap_or_default() {
            "bar" | "barrier" => self.counts.barriers += 1,
            "shfl" => self.counts.shuffles += 1,
            "vote" | "match" | "redux" | "elect" => self.counts.votes += 1,
            "ld" | "ldu" | "st" | "atom" | "red" if !parts.any(is_state_space) => {
                self.counts.generic += 1;
            }
            "call" => {
                let operands: Vec<_> = words.collect();
                self.callees.extend(name(&operands.join(" ")).map(String::from));
            }
            _ => {}
        }
    }
}

fn is_state_space(part: &str) -> bool {
    let space = part.split_once("::").map_or(part, |(space, _)| space);
    STATE_SPACES.contains(&space)
}

/// The counts of a function and of all that it calls, each once.
fn reachable(functions: &BTreeMap<String, Function>, name: &str) -> Counts {
    let mut counts = Counts::default();
    let mut seen = BTreeSet::from([name]);
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        let Some(function) = functions.get(name) else {
            continue;
        };
        counts += function.counts;
        let fresh = function.callees.iter().map(String::as_str);
        open.extend(fresh.filter(|callee| seen.insert(callee)));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"
//
// Generated by LLVM NVPTX Back-End
//

.version 7.0
.target sm_80, debug
.address_size 64

//cuda_builder entry=sum module=reduce threads=256
.shared .align 16 .b8 sh_1[1024];
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.extern .shared .align 128 .b8 dynamic[];
.extern .func missing
(
	.param .b64 missing_param_0
)
;
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.func helper
(
	.param .b64 helper_param_0
)
.noreturn;

.visible .entry sum(
	.param .u64 .ptr .align 1 sum_param_0
)
.maxntid 64, 4, 1
.minnctapersm 2
{
	.reg .b32 	%r<4>;
	ld.param.b64 	%rd1, [sum_param_0];
	ld.volatile.global.b32 	%r1, [%rd1];	// ld.b32 in a comment
	bar.sync 	0;
	// begin inline asm
	{ .reg .pred p; ld.shared::cta.b32 %r2, [%r1]; }
	// end inline asm
$L__BB0_1:
	@%p1 bra 	$L__BB0_2;
	@!%p1 barrier.cta.sync.aligned.all 	0;
	.loc	1 20 5
	shfl.sync.down.b32 	%r3, %r2, 1, 31, -1;
	{ // callseq 0, 0
	.param .b64 param0;
	st.param.b64 	[param0], %rd1;
	call.uni 
	helper, 
	(
	param0
	);
	} // callseq 0
$L__BB0_2:
	st.b32 	[%rd1], %r3;
	ret;
}

.visible .entry empty()
{
	ret;
}
.func helper(
	.param .b64 helper_param_0
)
{
	vote.sync.ballot.b32 	%r1, %p1, -1;
	call.uni (retval0), vprintf, (param0, param1);
	call.uni helper, (param0);
	atom.add.u32 	%r1, [%rd1], 1;
	atom.global.add.u32 	%r1, [%rd1], 1;
}
"#;

    #[test]
    fn reads_the_block_and_counts_the_instructions_with_those_of_callees() {
        let listing = Listing::parse(MODULE);
        let sum = Kernel {
            threads: 256,
            counts: Counts {
                barriers: 2,
                shuffles: 1,
                votes: 1,
                generic: 2,
            },
        };
        let wanted = [("empty".to_string(), Kernel::default()), ("sum".to_string(), sum)];
        assert_eq!(listing.kernels, BTreeMap::from(wanted));
    }

    #[test]
    fn names_what_the_driver_does_not_have() {
        let listing = Listing::parse(MODULE);
        assert_eq!(listing.undefined, BTreeSet::from(["missing".to_string()]));
    }

    #[test]
    fn wants_a_target() -> Result<()> {
        assert_eq!(target(MODULE)?, Sm::new(80));
        assert_eq!(target(".version 8.0\n.target sm_90a\n")?, Sm::specific(90));
        assert!(target(".version 7.0").is_err());
        Ok(())
    }
}
