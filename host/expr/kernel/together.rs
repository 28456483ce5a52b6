// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches of one program, of many arrays, as one.

use rustc_hash::FxHashMap;

use super::{kernel, launch, pieces};
use crate::error::Result;
use crate::expr::plan::groups;
use crate::expr::program::lower::Lowered;
use crate::expr::program::{Form, Program, Vectors};
#[cfg(test)]
use crate::expr::ptx;
use crate::expr::ptx::together::{most, together};
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// What a program is to compute, and the addresses of its outputs.
pub(in crate::expr) type Work<'a> = (Lowered<'a>, Vec<u64>);

/// Computes them all, in no particular order, by as few launches as there are programs, or as have room for all parameters.
///
/// # Safety
///
/// That of [`launch`], for each; none reads or writes what another one writes.
pub(in crate::expr) unsafe fn launch_all(stream: &Stream, works: &[&Work<'_>]) -> Result<()> {
    for (program, those) in by_program(works) {
        if stream.backend().properties().is_simulated() || most(&program) < 2 || those.len() < 2 {
            for (lowered, outputs) in &those {
                // SAFETY: the caller's promise.
                unsafe { launch(stream, lowered, outputs)? };
            }
            #[cfg(test)]
            ptx::run_together_again(&program, &those);
            continue;
        }
        let made = kernel(stream.backend(), &program, None)?;
        for (block, config) in launches(&program, &those) {
            // SAFETY: the kernel of this program on this device; its arrays are as the caller promises.
            unsafe { made.launch(stream, &block, &config)? };
        }
    }
    Ok(())
}

/// The launches of the program that compute all of these.
pub(in crate::expr) fn launches(program: &Program, those: &[&Work<'_>]) -> Vec<(Vec<u8>, LaunchConfig)> {
    let of_one = |(lowered, outputs): &&Work<'_>| -> Vec<_> {
        pieces(lowered, outputs)
            .into_iter()
            .map(|piece| piece.launch(lowered))
            .collect()
    };
    let all: Vec<_> = those.iter().flat_map(of_one).collect();
    all.chunks(most(program)).map(|some| together(program, some)).collect()
}

/// The works by the programs that compute them together, in the order of the first of each.
pub(in crate::expr) fn by_program<'w, 'a>(works: &[&'w Work<'a>]) -> Vec<(Program, Vec<&'w Work<'a>>)> {
    let mut all: Vec<(Program, Vec<&Work<'_>>)> = Vec::new();
    let mut numbers: FxHashMap<Program, usize> = FxHashMap::default();
    for &work in works {
        let program = of_many(&work.0.program);
        let number = *numbers.entry(program).or_insert_with_key(|program| {
            all.push((program.clone(), Vec::new()));
            all.len() - 1
        });
        all[number].1.push(work);
    }
    all
}

/// The program that computes this one of many arrays: it asks for how many vectors there are, and goes through rows that are read
/// once in a loop, whatever their length. Their elements are combined in the same order, which depends on the lanes alone.
pub(in crate::expr) fn of_many(program: &Program) -> Program {
    let mut many = Program {
        vectors: Vectors::Any,
        together: true,
        ..program.clone()
    };
    if let Some(reduce) = &mut many.reduce
        && let Form::Rows { lanes_log2, .. } = reduce.form
    {
        reduce.is_whole = false;
        if reads_once(program) {
            let looped = groups(program) as u8;
            reduce.form = Form::Rows {
                lanes_log2,
                held: 0,
                looped,
            };
        }
    }
    many
}

/// Whether all reductions of a program are of elements, and nothing else is.
fn reads_once(program: &Program) -> bool {
    let is_row = program
        .reduce
        .as_ref()
        .is_some_and(|reduce| !reduce.is_row.contains(&false));
    is_row && program.passes().iter().all(|&pass| pass <= 1)
}

/// Whether a program's launches can be a part of others, of rows along axes of these lengths: of those that go through arrays which
/// are larger than the cache each takes its order from what the stream has launched last, and takes so long that another launch
/// does not matter. Of rows that are combined in parts there is one, whose parts then are blocks along the grid's one axis.
pub(in crate::expr) fn can_be_together(program: &Program, lengths: &[usize]) -> bool {
    let is_along_one_axis = program.reduce.as_ref().is_none_or(|reduce| {
        let is_one = lengths[..lengths.len() - 1].iter().product::<usize>() == 1;
        !reduce.form.has_columns() && !reduce.is_stashed && reduce.blocks_log2 == 0 && (!reduce.in_parts || is_one)
    });
    is_along_one_axis && !program.either_way && !program.by_words && program.streamed.is_empty()
}
