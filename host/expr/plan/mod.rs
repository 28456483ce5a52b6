// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which kernels compute an expression.
//!
//! Reductions along the same axes of elements of one shape go into one kernel, together with all that they are of, and with
//! what is made of their results: numbers for each row, and elements too where a row lies along the last axis, or a block has
//! rows that lie side by side in registers. What one kernel cannot do is done by several, innermost reductions first, whose
//! results are then arrays. A reduction of few long rows is done in parts, and the parts' numbers are combined by a second
//! kernel, which also goes on with the result.

mod across;
mod clusters;
pub(in crate::expr) mod common;
pub(in crate::expr) mod fuse;
pub(in crate::expr) mod long;
pub(in crate::expr) mod materialize;
pub(in crate::expr) mod run;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub(in crate::expr) use self::across::may_be_held;
use self::across::{FEW_COLUMNS, LEAST_COLUMNS, by_columns, held_across, held_once};
use self::clusters::by_cluster;
pub(in crate::expr) use self::clusters::{longest_of_cluster, shares_rows};
use self::common::with_common_parts;
use self::long::{MOST, cut, weights};
use self::materialize::materialize;
use self::run::{Runner, addresses, compute, uninit_shape};
use crate::error::Result;
use crate::expr::graph::composite::all_expanded;
use crate::expr::graph::parts::{Parts, Shape};
use crate::expr::graph::walk::{Depth, in_order, reductions, rewrite, with_layout};
use crate::expr::graph::{Array, Elements, Kind, Node, Reduced, Reduction};
use crate::expr::program::lower::{Lowered, Reducing, lower};
use crate::expr::program::{Form, GROUP, Program, Step, Words};
use crate::expr::ptx;

/// Computes the roots, which all have the outputs' shape, into outputs in C order. Of no elements there is nothing to compute.
pub(in crate::expr) fn run(runner: &dyn Runner, roots: &[&Arc<Node<'_>>], outputs: &[&dyn Elements]) -> Result<()> {
    if outputs[0].shape().contains(&0) {
        return Ok(());
    }
    let roots = all_expanded(roots)?;
    let roots: Vec<_> = roots.iter().collect();
    if has_applications(&roots) {
        return materialize(runner, &roots, outputs);
    }
    run_kernels(runner, &roots, outputs)
}

/// Computes roots by one kernel that has its rows [at hand](crate::expr::program::lower::Lowered::is_at_hand): the first has the shape of the elements, and others
/// that or one number for each row. Nothing is done, and it is false, if no kernel does that, and of no elements.
pub(in crate::expr) fn run_at_hand(
    runner: &dyn Runner,
    roots: &[&Arc<Node<'_>>],
    outputs: &[&dyn Elements],
) -> Result<bool> {
    if has_applications(roots) || outputs[0].shape().contains(&0) {
        return Ok(false);
    }
    let roots = all_expanded(roots)?;
    let all = reductions(&roots.iter().collect::<Vec<_>>());
    if all.is_empty() {
        return Ok(false);
    }
    let space = Space::next(&all, &roots[0].shape);
    if !space.has_all(&all, &roots) {
        return Ok(false);
    }
    let reducing = Reducing::new(&roots, &space.shape, &space.axes);
    let Some(form) = whole(&reducing, space.are_last()) else {
        return Ok(false);
    };
    let lowered = reducing.finish(form, ONE_PART, &addresses(outputs));
    if !lowered.is_at_hand() {
        return Ok(false);
    }
    runner.run(&lowered, outputs)?;
    Ok(true)
}

pub(in crate::expr) fn has_applications(roots: &[&Arc<Node<'_>>]) -> bool {
    roots.iter().any(|root| root.has.applications)
}

/// [`run`] of roots that no application is a part of.
fn run_kernels(runner: &dyn Runner, roots: &[&Arc<Node<'_>>], outputs: &[&dyn Elements]) -> Result<()> {
    if !roots.iter().any(|root| root.has.reductions) {
        return compute(runner, &cut(runner, roots)?, outputs);
    }
    let mut course = Course::new(roots);
    let addresses = addresses(outputs);
    loop {
        match course.next(runner, &addresses)? {
            Next::Ahead(lowered, numbers) => {
                let numbers: Vec<&dyn Elements> = numbers.iter().map(|array| &**array).collect();
                runner.run(&lowered, &numbers)?;
            }
            Next::Last(lowered) => return runner.run(&lowered, outputs),
            Next::Long(all) if all.is_empty() => {
                let roots: Vec<_> = course.roots.iter().collect();
                return compute(runner, &cut(runner, &roots)?, outputs);
            }
            Next::Long(all) => course.replace(&shorten(runner, &all)?),
        }
    }
}

/// Roots of which reductions may be a part, and no applications, as they are computed by one kernel after another.
pub(in crate::expr) struct Course<'a> {
    roots: Vec<Arc<Node<'a>>>,
    are_common: bool,
}

/// The next kernel of a [`Course`].
pub(in crate::expr) enum Next<'a> {
    /// What it leaves in these arrays the roots are made of, as they are now.
    Ahead(Box<Lowered<'a>>, Vec<Array<'a>>),
    /// It computes the roots.
    Last(Box<Lowered<'a>>),
    /// No kernel has room for these reductions; if there are none, for the roots.
    Long(Vec<Arc<Reduction<'a>>>),
}

impl<'a> Course<'a> {
    pub(in crate::expr) fn new(roots: &[&Arc<Node<'a>>]) -> Self {
        Self {
            roots: roots.iter().map(|&root| Arc::clone(root)).collect(),
            are_common: false,
        }
    }

    /// The next kernel, which leaves in `runner`'s memory what others go on with; of the last one the outputs have these addresses.
    pub(in crate::expr) fn next(&mut self, runner: &dyn Runner, outputs: &[u64]) -> Result<Next<'a>> {
        loop {
            let (shape, all) = (&self.roots[0].shape, reductions(&self.roots.iter().collect::<Vec<_>>()));
            if all.is_empty() {
                let has_room = weights(&self.roots.iter().collect::<Vec<_>>()) <= MOST;
                return Ok(match has_room {
                    true => Next::Last(Box::new(lower(&self.roots, shape, outputs))),
                    false => Next::Long(all),
                });
            }
            let space = Space::next(&all, shape);
            if space.has_all(&all, &self.roots) {
                let reducing = Reducing::new(&self.roots, &space.shape, &space.axes);
                if let Some(form) = whole(&reducing, space.are_last()) {
                    return Ok(Next::Last(Box::new(reducing.finish(form, ONE_PART, outputs))));
                }
            }
            if !self.are_common {
                // Several kernels: what was written twice is one array for those that read it. One kernel sees to that itself.
                self.roots = with_common_parts(&self.roots.iter().collect::<Vec<_>>());
                self.are_common = true;
                continue;
            }
            let ready = space.chain(&all, &self.roots).unwrap_or_else(|| space.ready(&all));
            let parts: Vec<_> = ready.iter().flat_map(|reduction| &reduction.parts).collect();
            if weights(&parts) > MOST {
                return Ok(Next::Long(ready));
            }
            let (lowered, numbers, results) = space.results(runner, &ready)?;
            self.replace(&results);
            return Ok(Next::Ahead(Box::new(lowered), numbers));
        }
    }

    fn replace(&mut self, results: &Results<'a>) {
        self.roots = replace(&self.roots, results);
    }
}

/// Reductions go along these axes of elements of this shape.
struct Space {
    shape: Shape,
    axes: Shape,
}

impl Space {
    /// That of a reduction which is of no other. One along the last axes of the roots' elements comes last: a kernel has these
    /// elements too.
    fn next(all: &[Arc<Reduction<'_>>], shape: &[usize]) -> Self {
        let of = |reduction: &Arc<Reduction<'_>>| Self {
            shape: reduction.shape().clone(),
            axes: reduction.axes.clone(),
        };
        let is_first = |reduction: &&Arc<Reduction<'_>>| {
            let is_of_none = reduced_in(&reduction.parts.iter().collect::<Vec<_>>()).is_empty();
            is_of_none && !(**reduction.shape() == *shape && of(reduction).are_last())
        };
        of(all.iter().find(is_first).unwrap_or(&all[0]))
    }

    fn has(&self, reduction: &Reduction<'_>) -> bool {
        **reduction.shape() == *self.shape && reduction.axes == self.axes
    }

    fn are_last(&self) -> bool {
        self.axes[0] + self.axes.len() == self.shape.len()
    }

    /// Whether one kernel may have all of these reductions and what is made of them: each root is of the shape of the elements,
    /// or of that without the axes, or with 1 in their place, and sees the reductions' results accordingly.
    fn has_all(&self, all: &[Arc<Reduction<'_>>], roots: &[Arc<Node<'_>>]) -> bool {
        let held = self.held();
        let kept: Vec<Option<usize>> = held.iter().copied().filter(Option::is_some).collect();
        let len = |axis: &Option<usize>| axis.map_or(1, |axis| self.shape[axis]);
        let shape = |axes: &[Option<usize>]| -> Vec<usize> { axes.iter().map(len).collect() };
        let parts: Vec<_> = all.iter().flat_map(|reduction| &reduction.parts).collect();
        let fits = |root: &Arc<Node<'_>>| match root.shape.len() == self.shape.len() {
            true => (*root.shape == *self.shape || *root.shape == *shape(&held)) && sees(&[root], &held),
            false => *root.shape == *shape(&kept) && sees(&[root], &kept),
        };
        all.iter().all(|reduction| self.has(reduction))
            && sees(&parts, &held)
            && roots.iter().all(fits)
            && weights(&[parts, roots.iter().collect()].concat()) <= MOST
    }

    /// The axes of the elements as those see them that stand beside them: none where elements are combined.
    fn held(&self) -> Vec<Option<usize>> {
        let axes = 0..self.shape.len();
        axes.map(|axis| Some(axis).filter(|axis| !self.axes.contains(axis)))
            .collect()
    }

    /// The reductions that are of others along these axes and of no more, which one kernel computes with all that they are of:
    /// those of them whose results are wanted elsewhere. None if no reduction is of another, or they take more than a kernel.
    fn chain<'a>(&self, all: &[Arc<Reduction<'a>>], roots: &[Arc<Node<'a>>]) -> Option<Vec<Arc<Reduction<'a>>>> {
        let held = self.held();
        let (mut links, mut known) = (Vec::new(), FxHashSet::default());
        let mut is_of_another = false;
        for reduction in all.iter().filter(|reduction| self.has(reduction)) {
            let parts: Vec<_> = reduction.parts.iter().collect();
            let others = reduced_in(&parts);
            let is_link = |other: &&Reduced<'a>| known.contains(&Arc::as_ptr(&other.reduction));
            if sees(&parts, &held) && others.iter().all(is_link) {
                is_of_another |= !others.is_empty();
                known.insert(Arc::as_ptr(reduction));
                links.push(reduction);
            }
        }
        let parts: Vec<_> = links.iter().flat_map(|link| &link.parts).collect();
        if !is_of_another || weights(&parts) > MOST {
            return None;
        }
        let others = all.iter().filter(|reduction| !known.contains(&Arc::as_ptr(reduction)));
        let users: Vec<_> = roots.iter().chain(others.flat_map(|other| &other.parts)).collect();
        let used: FxHashSet<_> = reduced_in(&users)
            .iter()
            .map(|reduced| Arc::as_ptr(&reduced.reduction))
            .collect();
        let wanted = links.into_iter().filter(|link| used.contains(&Arc::as_ptr(link)));
        let wanted: Vec<_> = wanted.cloned().collect();
        let numbers = numbers_of(&wanted, &self.axes);
        let reducing = Reducing::new(&numbers, &self.shape, &self.axes);
        (reducing.passes() > 1 && whole(&reducing, self.are_last()).is_some()).then_some(wanted)
    }

    /// The reductions that are of no other ones, as many as one kernel takes.
    fn ready<'a>(&self, all: &[Arc<Reduction<'a>>]) -> Vec<Arc<Reduction<'a>>> {
        let mut numbers = 0;
        let mut nodes = 0;
        let mut ready = Vec::new();
        for reduction in all.iter().filter(|reduction| self.has(reduction)) {
            let parts: Vec<_> = reduction.parts.iter().collect();
            let is_of_others = !reduced_in(&parts).is_empty();
            numbers += parts.len();
            nodes += weights(&parts);
            if !is_of_others && (ready.is_empty() || numbers <= MOST_NUMBERS && nodes <= MOST) {
                ready.push(Arc::clone(reduction));
            }
        }
        ready
    }

    /// The kernel of reductions that are of no others, or a [chain](Self::chain), the arrays that it leaves, and what becomes of the
    /// reductions: arrays, or reductions of arrays.
    fn results<'a>(
        &self,
        runner: &dyn Runner,
        ready: &[Arc<Reduction<'a>>],
    ) -> Result<(Lowered<'a>, Vec<Array<'a>>, Results<'a>)> {
        let mut axes = self.axes.clone();
        let mut roots = numbers_of(ready, &axes);
        let mut reducing = Reducing::new(&roots, &self.shape, &axes);
        let last;
        if !reducing.is_one_axis() {
            axes = reducing.last_reduced().into();
            last = axes.clone();
            roots = numbers_of(ready, &axes);
            reducing = Reducing::new(&roots, &self.shape, &last);
        }
        let (form, parts) = match whole(&reducing, self.are_last()) {
            Some(form) if reducing.passes() > 1 => (form, ONE_PART),
            _ => in_parts(&reducing),
        };
        let lies = self.lie(&axes, form, parts.0);
        let mut numbers = Vec::with_capacity(roots.len());
        for root in &roots {
            let len = root.shape.iter().product::<usize>() * parts.0;
            numbers.push(runner.uninit(root.ty, len)?);
        }
        let outputs: Vec<&dyn Elements> = numbers.iter().map(|array| &**array).collect();
        let lowered = reducing.finish(form, parts, &addresses(&outputs));
        let (shape, strides) = lies;
        let is_done = self.axes.iter().all(|&axis| shape[axis] == 1);
        let mut nodes = numbers.iter().zip(&roots).map(|(array, root)| {
            let array = with_layout(array, shape.clone(), strides.clone());
            Node::of_array(array, root.ty)
        });
        let mut results = Results::default();
        for reduction in ready {
            let parts = nodes.by_ref().take(reduction.parts.len()).collect();
            let result = match is_done {
                true => Outcome::Arrays(parts),
                false => Outcome::Reduction(Arc::new(Reduction {
                    operator: reduction.operator,
                    parts,
                    axes: self.axes.clone(),
                })),
            };
            results.insert(Arc::as_ptr(reduction), result);
        }
        Ok((lowered, numbers, results))
    }

    /// Shape and strides, along all axes, of what a kernel leaves that combines elements along `axes`, in so many parts. Those
    /// axes have length 1 then, but for the last one if there are parts.
    fn lie(&self, axes: &[usize], form: Form, parts: usize) -> (Vec<usize>, Vec<isize>) {
        let mut shape = self.shape.to_vec();
        axes.iter().for_each(|&axis| shape[axis] = 1);
        let rows: usize = shape.iter().product();
        let mut strides = vec![0; shape.len()];
        let mut stride = if form.has_columns() { 1 } else { parts };
        for axis in (0..shape.len()).rev() {
            strides[axis] = stride as isize;
            stride *= shape[axis];
        }
        let last = axes[axes.len() - 1];
        shape[last] = parts;
        strides[last] = if form.has_columns() { rows as isize } else { 1 };
        (shape, strides)
    }
}

/// The reductions' results that parts are made of.
fn reduced_in<'r, 'a>(parts: &[&'r Arc<Node<'a>>]) -> Vec<&'r Reduced<'a>> {
    let reduced = in_order(parts).into_iter().filter_map(|node| match &node.kind {
        Kind::Reduced(reduced) => Some(reduced),
        _ => None,
    });
    reduced.collect()
}

/// Whether they see reductions' results along these axes: what a part is combined with has the shape of the elements, or can be
/// repeated to it.
fn sees(parts: &[&Arc<Node<'_>>], axes: &[Option<usize>]) -> bool {
    reduced_in(parts).iter().all(|reduced| *reduced.axes == *axes)
}

/// The numbers that reductions of elements have along these axes.
fn numbers_of<'a>(reductions: &[Arc<Reduction<'a>>], axes: &[usize]) -> Vec<Arc<Node<'a>>> {
    let numbers = reductions.iter().flat_map(|reduction| {
        let numbers = Node::reduce(reduction.operator, reduction.parts.clone(), axes);
        numbers.expect("axes that it has, of elements").to_vec()
    });
    numbers.collect()
}

/// A reduction's numbers, or what they will be.
enum Outcome<'a> {
    /// Along all axes of the elements.
    Arrays(Parts<'a>),
    Reduction(Arc<Reduction<'a>>),
}

type Results<'a> = FxHashMap<*const Reduction<'a>, Outcome<'a>>;

/// The most numbers that the elements of a kernel bring whose rows lie side by side: they share 48 KB of memory.
const MOST_NUMBERS: usize = 4;

/// The blocks that keep a large GPU busy: so many for each multiprocessor that it matters little whether it has one more.
const BLOCKS: usize = 2048;

/// The parts of rows that are combined by a second kernel, at most, where a part has so many bytes: then the cache holds what blocks
/// go through at the same time, and what the last of them have read is there when the next kernel begins with them.
const MOST_PARTS: usize = 1 << 15;
const PART_BYTES: usize = 32 << 10;

/// The threads of a row in a loop that reads it once, as a power of two.
const LOOP_LOG2: u8 = 8;

/// The most threads of a row, as a power of two.
pub(in crate::expr) const MOST_LANES_LOG2: u8 = 10;

/// Groups that a thread has in flight.
pub(in crate::expr) const GROUPS: usize = 4;

/// Groups that a thread has of a row in registers, unless that has more than the threads that it may have: of few rows more threads
/// are busy than with more groups, and of many it makes no difference.
const FEW_GROUPS: usize = 2;

/// The most groups of a row of which a thread has so few: of more it has twice as many, and half as many warps wait for each
/// other (softmax of rows of 4096 f32, H100: 0.1 µs less of 2^20 elements, 0.5 of 2^22), of more than twice that four times as many,
/// so that there is more on its way on a multiprocessor (rows of 8192, H200: 7.0 µs for 8.6 of 2^22, 126.0 for 134.6 of 2^26), unless a
/// later pass reads more, which takes longer so.
const MOST_IN_FEW: usize = 512;
const TWICE: usize = 2 * MOST_IN_FEW;

/// The 4-byte words of rows that a block has in registers at most: half of what a multiprocessor of today has. Of the longest
/// rows no other block computes while one loads, but each element comes from memory once.
pub(in crate::expr) const MOST_WORDS: usize = MOST_OF_THREAD << MOST_LANES_LOG2;

/// The 4-byte words of elements that a thread has in registers at most: half of those that there are for each of 1024 threads.
pub(in crate::expr) const MOST_OF_THREAD: usize = 32;

/// The same with what a later pass reads of the elements that are computed just then, at least one group.
pub(in crate::expr) const MOST_WITH_LATE: usize = MOST_OF_THREAD + 2 * GROUP;

/// The bytes of a row that a large GPU's second-level cache keeps from pass to pass, with two rows on each multiprocessor.
const MOST_CACHED: usize = 4 * MOST_WORDS;

/// The calls of functions that a thread's code has, unless one group of elements needs more.
const MOST_CALLS: usize = 128;

/// The same where a block would have to be larger than half of the largest, or have no room for the row.
const MOST_CALLS_OF_LONG: usize = 2 * MOST_CALLS;

/// The rows that a block each keeps a large GPU busy.
const MANY_ROWS: usize = 128;

/// The longest rows of which there need not be many for one block each.
const LONG_ROW: usize = 1 << 16;

/// As many parts as there are rows, and all of their elements.
const ONE_PART: (usize, usize) = (1, ptx::MOST);

/// The form in which one kernel does all, if there is one.
fn whole(reducing: &Reducing<'_, '_>, are_last: bool) -> Option<Form> {
    if !reducing.is_one_axis() || reducing.rows() > ptx::MOST {
        return None;
    }
    let is_once = reducing.passes() == 1 && !reducing.has_elements();
    if is_once {
        let (form, parts) = in_parts(reducing);
        return Some(form).filter(|_| parts.0 == 1);
    }
    if let Some(form) = held_across(reducing) {
        return Some(form);
    }
    let len = reducing.row_len();
    let is_far = reducing.has_neighbours_in_rows(FEW_COLUMNS) || reducing.has_elements() && !are_last;
    // Elements are counted in 32 bits: those of more rows are launched in parts of the first axis.
    let is_counted = reducing.has_one_axis_of_rows() || len.saturating_mul(reducing.rows()) <= ptx::MOST;
    let form = at_once(reducing, MOST_LANES_LOG2).or_else(|| by_cluster(reducing));
    let form = form.unwrap_or_else(|| longer(reducing));
    let is_shared = form.has_cluster() && len <= longest_of_cluster(reducing.rows());
    let is_busy = len <= LONG_ROW || reducing.rows() >= MANY_ROWS || is_shared;
    Some(form).filter(|_| !is_far && is_busy && is_counted && len <= ptx::MOST)
}

/// The form in which elements are read once, and the parts of rows: how many, and of how many elements.
fn in_parts(reducing: &Reducing<'_, '_>) -> (Form, (usize, usize)) {
    let (len, rows) = (reducing.row_len(), reducing.rows());
    if let Some(form) = held_once(reducing) {
        return (form, ONE_PART);
    }
    if reducing.has_neighbours_in_rows(FEW_COLUMNS) && reducing.numbers() <= MOST_NUMBERS {
        return by_columns(reducing);
    }
    if let Some(form) = at_once(reducing, LOOP_LOG2) {
        return (form, ONE_PART);
    }
    if reducing.has_neighbours_in_rows(LEAST_COLUMNS) && reducing.numbers() <= MOST_NUMBERS {
        return by_columns(reducing);
    }
    if rows < MANY_ROWS && len <= LONG_ROW {
        // A larger block takes less time than a second kernel.
        let form = at_once(reducing, MOST_LANES_LOG2);
        return (form.unwrap_or_else(|| looped(reducing, MOST_LANES_LOG2)), ONE_PART);
    }
    let least = (GROUPS * GROUP) << LOOP_LOG2;
    let bytes = len.saturating_mul(rows).saturating_mul(reducing.bytes());
    let most = (bytes / PART_BYTES).clamp(BLOCKS, MOST_PARTS);
    (looped(reducing, LOOP_LOG2), parts(len, most / rows.max(1), least))
}

/// At most `most` parts of a row, of a multiple of `least` elements each.
fn parts(len: usize, most: usize, least: usize) -> (usize, usize) {
    // No more than a launch counts.
    let most = most.max(len.div_ceil(ptx::MOST)).max(1);
    let of_part = len.div_ceil(most).next_multiple_of(least);
    match len.div_ceil(of_part) {
        1 => ONE_PART,
        count => (count, of_part),
    }
}

/// The form in which up to `1 << lanes_log2` threads have all of a row in registers, if there is room for it.
fn at_once(reducing: &Reducing<'_, '_>, lanes_log2: u8) -> Option<Form> {
    let words = reducing.words().kept.max(1);
    let most = |calls: usize| groups_in_registers(reducing, calls);
    let all = reducing.row_len().div_ceil(GROUP);
    let is_longest = lanes_log2 == MOST_LANES_LOG2;
    let many = most(if is_longest { MOST_CALLS_OF_LONG } else { MOST_CALLS });
    // Not the largest blocks where half as many threads have room: two blocks at a time, one of which loads while one computes.
    let half = 1 << (MOST_LANES_LOG2 - 1);
    let few = match (all, reducing.words().late) {
        (..=MOST_IN_FEW, _) | (_, 1..) => FEW_GROUPS,
        (..=TWICE, 0) => 2 * FEW_GROUPS,
        _ => 4 * FEW_GROUPS,
    };
    let of_lanes = if few > GROUPS { many } else { most(MOST_CALLS) };
    let lanes = match all.div_ceil(of_lanes.min(few)).next_power_of_two() {
        lanes if lanes > half && all <= half * many => half,
        lanes => lanes,
    };
    let mut lanes = lanes.min(1 << lanes_log2);
    // Not a quarter of them without a last group, if half as many have room; but of single elements more threads are quicker.
    let has_vectors = reducing.row_len().is_multiple_of(GROUP);
    while has_vectors && lanes > 1 && 3 * lanes * all.div_ceil(lanes) > 4 * all && all.div_ceil(lanes / 2) <= many {
        lanes /= 2;
    }
    let groups = all.div_ceil(lanes).max(1);
    let has_room = groups <= many && groups * lanes * GROUP * words <= MOST_WORDS;
    has_room.then_some(Form::Rows {
        lanes_log2: lanes.trailing_zeros() as u8,
        held: groups as u8,
        looped: 0,
    })
}

/// The groups that a thread has room for in its registers, with so many calls at most.
fn groups_in_registers(reducing: &Reducing<'_, '_>, calls: usize) -> usize {
    let Words { kept, late, .. } = reducing.words();
    let room = MOST_OF_THREAD.min(MOST_WITH_LATE.saturating_sub(GROUP * late));
    (room / (GROUP * kept.max(1))).clamp(1, most_groups(reducing, calls))
}

/// The form in which rows are read in a loop.
fn looped(reducing: &Reducing<'_, '_>, lanes_log2: u8) -> Form {
    Form::Rows {
        lanes_log2,
        held: 0,
        looped: GROUPS.min(most_groups(reducing, MOST_CALLS)) as u8,
    }
}

/// The form of rows that no block has room for. Where a cache does not keep them from pass to pass, and a part of them that
/// counts has room, that is in registers, which also leaves room for fewer blocks at a time: what they read in a loop is
/// cached.
fn longer(reducing: &Reducing<'_, '_>) -> Form {
    let len = reducing.row_len();
    let held = groups_in_registers(reducing, MOST_CALLS_OF_LONG);
    let is_cached = len.saturating_mul(reducing.bytes()) <= MOST_CACHED;
    if is_cached || 4 * ((held * GROUP) << MOST_LANES_LOG2) < len {
        return looped(reducing, MOST_LANES_LOG2);
    }
    Form::Rows {
        lanes_log2: MOST_LANES_LOG2,
        held: held as u8,
        looped: 1,
    }
}

/// The groups of a row that a thread has at a time in a loop that reads it once: of a program by all of its functions.
pub(in crate::expr) fn groups(program: &Program) -> usize {
    let is_call = |step: &&Step| matches!(step, Step::Call(..));
    let of_folds = program.folds.iter().map(|fold| fold.combine.calls.len());
    let calls = program.steps.iter().filter(is_call).count() + of_folds.sum::<usize>();
    GROUPS.min(groups_of(calls, MOST_CALLS))
}

/// The groups that a thread's code may have, a power of two, if it has so many calls at most: it grows with them and with the
/// functions that each calls, and with it the time that the driver's compiler takes.
fn most_groups(reducing: &Reducing<'_, '_>, calls: usize) -> usize {
    groups_of(reducing.calls(), calls)
}

/// The same of so many calls for each element.
fn groups_of(calls_of_element: usize, calls: usize) -> usize {
    let groups = calls / (GROUP * calls_of_element.max(1));
    1 << groups.max(1).ilog2()
}

/// The roots with those reductions replaced by what they have become, wherever they are.
fn replace<'a>(roots: &[Arc<Node<'a>>], results: &Results<'a>) -> Vec<Arc<Node<'a>>> {
    let roots: Vec<_> = roots.iter().collect();
    let result = |_: &_, node: Arc<Node<'a>>| {
        let Kind::Reduced(reduced) = &node.kind else {
            return node;
        };
        match results.get(&Arc::as_ptr(&reduced.reduction)) {
            None => node,
            Some(Outcome::Arrays(arrays)) => seen(&arrays[reduced.number], &node, &reduced.axes),
            Some(Outcome::Reduction(reduction)) => node.with_reduction(reduced, reduction),
        }
    };
    // Results are of other results, too, which do not matter any more.
    let is_result = |node: &Node<'a>| matches!(&node.kind, Kind::Reduced(reduced) if results.contains_key(&Arc::as_ptr(&reduced.reduction)));
    rewrite(
        &roots,
        |node| {
            if is_result(node) {
                &[]
            } else {
                node.parts(Depth::Reductions)
            }
        },
        result,
    )
}

/// An array as a node sees it that stands for it, whose axes are these of the array's.
fn seen<'a>(array: &Arc<Node<'a>>, node: &Node<'a>, axes: &[Option<usize>]) -> Arc<Node<'a>> {
    let Kind::Array(elements) = &array.kind else {
        unreachable!("a result is an array")
    };
    let strides = axes.iter().map(|axis| axis.map_or(0, |axis| elements.strides()[axis]));
    let lying = with_layout(elements, node.shape.to_vec(), strides.collect());
    Node::of_array(lying, node.ty)
}

/// Reductions whose parts are too long for a kernel, as ones of arrays.
fn shorten<'a>(runner: &dyn Runner, ready: &[Arc<Reduction<'a>>]) -> Result<Results<'a>> {
    let mut results = Results::default();
    for reduction in ready {
        let mut parts = Vec::with_capacity(reduction.parts.len());
        for part in &reduction.parts {
            let array = uninit_shape(runner, part.ty, &part.shape)?;
            compute(runner, &cut(runner, &[part])?, &[&*array])?;
            parts.push(Node::of_array(array, part.ty));
        }
        let new = Reduction {
            operator: reduction.operator,
            parts: parts.into(),
            axes: reduction.axes.clone(),
        };
        results.insert(Arc::as_ptr(reduction), Outcome::Reduction(Arc::new(new)));
    }
    Ok(results)
}
