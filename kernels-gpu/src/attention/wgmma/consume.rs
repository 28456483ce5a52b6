// SPDX-License-Identifier: MIT OR Apache-2.0
//! The consumers: who makes weights of scores, adds weighted values, and stores the results.

use cuda_std::half::pack;
use cuda_std::hint;
use cuda_std::matrix;
use cuda_std::mma::mma;
use cuda_std::prelude::*;
use cuda_std::tma;
use cuda_std::wgmma::{Accumulator, Fragment, InFlight, KMajor, MatrixDescriptor, Registers};

use super::{Block, CONSUMER_ROWS, Half, KEYS, LINE, NONE, Place, Ring};
use crate::attention::Sequence;
use crate::matmul::unroll;

mod by_turns;
mod store;
mod sums;

pub(super) use store::store_line;
use sums::Sums;

/// Registers of the scores of a tile of keys, and words of the weights.
const SCORES: usize = KEYS / 2;
const FRAGMENTS: usize = KEYS / 16;

/// The weights as they are multiplied with values.
struct Weights<T>([Fragment<T>; FRAGMENTS]);

impl<T: Half> Weights<T> {
    /// Packs weights. They are made here, and not behind the opening of the batch that reads them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(weights: &Accumulator<SCORES>) -> Self {
        let of = |j: usize| {
            let pair = |i: usize| pack::<T>(weights.element(8 * j + i), weights.element(8 * j + i + 1));
            Fragment::of_pairs([pair(0), pair(2), pair(4), pair(6)])
        };
        let weights = Self([of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)]);
        weights.keep();
        weights
    }

    /// Keeps the registers from others until here.
    #[inline(always)]
    fn keep(&self) {
        unroll!(8, j => {
            self.0[j].keep();
        });
    }
}

/// A consumer's turn to ask for products: so that one's are computed beside the exponentials of others.
#[derive(Clone, Copy)]
struct Turn {
    /// The consumer, and the one whose turn is next.
    own: u32,
    next: u32,
    /// The parity of the rounds so far. The first consumer's first turn is at once.
    round: u32,
}

impl Turn {
    #[inline(always)]
    fn of(consumer: u32, consumers: u32) -> Self {
        let next = consumer + 1;
        Self {
            own: consumer,
            next: if next == consumers { 0 } else { next },
            round: u32::from(consumer == 0),
        }
    }
}

/// What is said of the queries of a tile.
#[derive(Clone, Copy)]
struct Told {
    /// The number of their head among those of all problems.
    head: u32,
    /// The first query of the block's tile in their sequence.
    row: u32,
    sequence: Sequence,
    /// The first tile of keys that they see, and how many the consumer has: of those that the block's queries see, as many as its own do.
    first: u32,
    tiles: u32,
    /// Whether there is one behind these that later queries of the block see: there is no other, as they are not more than [`KEYS`] queries
    /// further.
    is_one_hidden: bool,
    /// How many tiles are given back ahead of the one that it has, where it has no queries.
    idle: u32,
}

/// The queries of a consumer as they are multiplied with keys.
struct Queries<T> {
    /// The stage.
    stage: u32,
    /// From shared memory.
    lies: MatrixDescriptor<T, KMajor>,
    /// Or from registers, for each 16 elements of the lines.
    fragments: [Fragment<T>; 8],
}

impl<T: Half> Queries<T> {
    /// Keeps the registers from others until here.
    #[inline(always)]
    fn keep(&self) {
        unroll!(8, j => {
            self.fragments[j].keep();
        });
    }
}

impl<T: Half, const R: usize, const FORMS: bool> Block<'_, T, R, FORMS>
where
    [f32; R]: Registers,
{
    /// Whether queries are multiplied from registers: shared memory has less to be read of, where two consumers leave room for it.
    const FROM_REGISTERS: bool = R == 64;

    /// Computes the results of one tile after another. For the warps of the consumers, each of which has 16 queries.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn consume(&self, warp: u32, factor: f32, out: SliceMut<'_, T>, log_sums: SliceMut<'_, f32>) {
        let consumer = warp / 4;
        let row_of_warp = consumer * CONSUMER_ROWS as u32 + warp % 4 * 16;
        let leads = thread::thread_idx_x().is_multiple_of(128);
        let (mut of_q, mut of_k, mut of_v) = (Place::FIRST, Place::FIRST, Place::FIRST);
        let results = (row_of_warp, out, log_sums);
        let mut turn = Turn::of(consumer, Self::consumers());
        self.full(Ring::Queries(consumer), of_q.stage).wait(of_q.round);
        let Some(mut told) = self.said(of_q.stage, consumer) else {
            return;
        };
        let mut queries = self.queries(consumer, of_q.stage);
        self.give_back(Ring::Keys, &told, &mut of_k);
        self.full(Ring::Keys, of_k.stage).wait(of_k.round);
        let mut scores = self.scores(&queries, of_k.stage).wait();
        self.give_back(Ring::Values, &told, &mut of_v);
        loop {
            queries.keep();
            // The scores of the first tile of keys are there, and it is taken for the last, whose values are read. None of this is stored.
            let mut idle = told.idle;
            while Self::GIVES_BACK && idle > 0 {
                idle -= 1;
                self.pass(Ring::Keys, &mut of_k);
                self.pass(Ring::Values, &mut of_v);
                self.take(&turn);
                self.hand(&mut turn);
            }
            if Self::GIVES_BACK && told.is_one_hidden {
                self.take(&turn);
                self.hand(&mut turn);
            }
            let mut sums = Sums::NONE;
            let (values, weights) = self.values(
                (&queries, scores),
                (&told.sequence, told.row + consumer * CONSUMER_ROWS as u32),
                (told.first, told.tiles),
                factor,
                (&mut of_k, &mut of_v),
                (&mut sums, &mut turn),
            );
            self.free(Ring::Queries(consumer), of_q.stage)
                .arrive_if(!Self::FROM_REGISTERS);
            of_q = of_q.next();
            let lines = self.lines(&told);
            self.full(Ring::Queries(consumer), of_q.stage).wait(of_q.round);
            let next = self.said(of_q.stage, consumer);
            self.full(Ring::Values, of_v.stage).wait(of_v.round);
            let Some(next) = next else {
                let values = self.add_values(values, &weights, of_v.stage).wait();
                weights.keep();
                self.store(&values, &sums, lines, results);
                return;
            };
            queries = self.queries(consumer, of_q.stage);
            self.give_back(Ring::Keys, &next, &mut of_k);
            self.full(Ring::Keys, of_k.stage).wait(of_k.round);
            let sum = self.add_values(values, &weights, of_v.stage);
            let first = self.scores(&queries, of_k.stage);
            // SAFETY: the newest batch is that of the scores.
            let values = unsafe { sum.wait_beside_newer() };
            weights.keep();
            self.free(Ring::Values, of_v.stage).arrive_if(leads);
            of_v = of_v.next_of(self.key_stages());
            self.store(&values, &sums, lines, results);
            told = next;
            scores = first.wait();
            self.give_back(Ring::Values, &told, &mut of_v);
        }
    }

    /// Whether consumers may take turns.
    const MAY_TAKE_TURNS: bool = R == 32 && !FORMS;

    /// Waits for the consumer's turn, if they are taken. Each takes one for each tile of keys of the block but the last one, also for those that
    /// its queries do not see: so all have as many.
    #[inline(always)]
    fn take(&self, turn: &Turn) {
        if Self::MAY_TAKE_TURNS && self.has_turns() {
            self.turn(turn.own).wait(turn.round);
        }
    }

    /// Says that it is the next consumer's turn.
    #[inline(always)]
    fn hand(&self, turn: &mut Turn) {
        if Self::MAY_TAKE_TURNS && self.has_turns() {
            self.turn(turn.next)
                .arrive_if(thread::thread_idx_x().is_multiple_of(32));
            turn.round ^= 1;
        }
    }

    /// Whether a consumer gives tiles back that its own queries do not see. Of two consumers each sees what the other does, nearly always; and
    /// where values are set to 0, all consumers are.
    const GIVES_BACK: bool = R == 32 && !FORMS;

    /// Gives the tile of keys, or values, back that none of the consumer's queries sees, though later ones of the block do, if there is one: it is
    /// the first to come.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn give_back(&self, ring: Ring, told: &Told, place: &mut Place) {
        if Self::GIVES_BACK && told.is_one_hidden {
            self.pass(ring, place);
        }
    }

    /// Gives a tile of keys, or values, back as soon as it is there: whoever does not wait for it could take a later one for it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn pass(&self, ring: Ring, place: &mut Place) {
        self.full(ring, place.stage).wait(place.round);
        match ring {
            Ring::Keys => self.give_keys(place.stage),
            _ => self
                .free(ring, place.stage)
                .arrive_if(thread::thread_idx_x().is_multiple_of(128)),
        }
        *place = place.next_of(self.key_stages());
    }

    /// What is said of the queries in a stage: their tile, and its sequence; `None` behind the last tile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn said(&self, stage: u32, consumer: u32) -> Option<Told> {
        let at = Self::place_of_said(stage, consumer);
        // SAFETY (of all): there are as many for each consumer in each stage.
        let word = |i: usize| warp::uniform(unsafe { self.said.get_unchecked(at + i) });
        let head = word(0);
        if head == NONE {
            return None;
        }
        let sequence = match FORMS {
            false => self.shape.whole(),
            true => Sequence {
                first_query: word(2),
                queries: word(3),
                first_key: word(4),
                keys: word(5),
                from: word(6) as i32,
                reach: word(7) as i32,
            },
        };
        let row = word(1);
        let [first, of_block] = Self::key_tiles(&sequence, row);
        let own_row = row + consumer * CONSUMER_ROWS as u32;
        let has_queries = own_row < sequence.queries;
        let tiles = match (Self::GIVES_BACK, has_queries) {
            (false, _) => of_block,
            (true, false) => 1,
            (true, true) => {
                let [_, end] = sequence.keys_of_tile(own_row, CONSUMER_ROWS as u32);
                let end = end.div_ceil(KEYS as u32);
                if end > first { end - first } else { 1 }
            }
        };
        Some(Told {
            head,
            row,
            sequence,
            first,
            tiles,
            is_one_hidden: has_queries && tiles < of_block,
            idle: if has_queries { 0 } else { of_block - tiles },
        })
    }

    /// Makes the values behind a sequence's zeros in a stage, which is full, of which so many lines are the sequence's. For all consumers,
    /// who are together then; nothing of theirs is under way that reads them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn clear_values(&self, stage: u32, lines: u32) {
        // Pieces of 16 bytes of a box, of which swizzling leaves those of a line in it.
        let pieces = LINE / 16;
        let values = self.stage(Ring::Values, stage).cast::<u32>();
        let mut piece = lines as usize * pieces + thread::thread_idx_x() as usize - 128;
        while piece < KEYS * pieces {
            unroll!(R / 32, of_box => {
                // SAFETY: within the stage, at a multiple of 16 bytes.
                unsafe { values.set_vec_unchecked((of_box * KEYS * pieces + piece) * 4, [0u32; 4]) };
            });
            piece += Self::consumers() as usize * 128;
        }
        tma::fence_async();
        match Self::consumers() {
            1 => thread::sync_threads_named::<1, 128>(),
            2 => thread::sync_threads_named::<1, 256>(),
            _ => thread::sync_threads_named::<1, 384>(),
        }
    }

    /// The sums of weighted values of this consumer's queries over their tiles of keys, at least one, whose first scores are there, and where the
    /// first of them is. The last product is under way when it comes back: it is waited for, then the weights are kept, and then
    /// threads arrive at the barrier of its stage. Nothing else is under way.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn values(
        &self,
        (queries, mut scores): (&Queries<T>, Accumulator<SCORES>),
        (sequence, row): (&Sequence, u32),
        (first, tiles): (u32, u32),
        factor: f32,
        (of_k, of_v): (&mut Place, &mut Place),
        (sums, turn): (&mut Sums, &mut Turn),
    ) -> (Accumulator<R>, Weights<T>) {
        let leads = thread::thread_idx_x().is_multiple_of(128);
        let mut left = tiles - 1;
        // All four warps have gone through the instructions together: what one has waited for has been read for all.
        self.give_keys(of_k.stage);
        self.add_bias(&mut scores, *of_k);
        *of_k = of_k.next_of(self.key_stages());
        self.hide(&mut scores, (sequence, row, first + left));
        match R {
            32 => sums.weigh_first::<true>(&mut scores, factor),
            _ => sums.weigh_first::<false>(&mut scores, factor),
        }
        if Self::LOOKS_BEHIND {
            sums.look_for_base();
        }
        let mut weights = Weights::<T>::new(&scores);
        let lines = sequence.keys - (first + left) * KEYS as u32;
        if FORMS && lines < KEYS as u32 {
            self.full(Ring::Values, of_v.stage).wait(of_v.round);
            self.clear_values(of_v.stage, lines);
        }
        let mut values = Accumulator::<R>::zero();
        if Self::ASKS_EARLY && left > 0 {
            self.full(Ring::Keys, of_k.stage).wait(of_k.round);
        }
        while left > 0 {
            left -= 1;
            if !Self::ASKS_EARLY {
                self.full(Ring::Keys, of_k.stage).wait(of_k.round);
            }
            if Self::MAY_TAKE_TURNS && self.has_turns() {
                // In a turn nothing is waited for. Without turns, scores are asked for ahead of this wait.
                self.full(Ring::Values, of_v.stage).wait(of_v.round);
                self.take(turn);
            }
            let next = self.scores(queries, of_k.stage);
            self.full(Ring::Values, of_v.stage).wait(of_v.round);
            let sum = self.add_values(values, &weights, of_v.stage);
            self.hand(turn);
            // SAFETY: the newest batch is that of the values.
            let mut scores = unsafe { next.wait_beside_newer() };
            queries.keep();
            let stage = of_k.stage;
            if !Self::LOOKS_BEHIND {
                // As above; the batch that is under way reads no keys.
                self.give_keys(stage);
            }
            self.add_bias(&mut scores, *of_k);
            *of_k = of_k.next_of(self.key_stages());
            let keys = (sequence, row, first + left);
            self.hide(&mut scores, keys);
            let factors = match Self::LOOKS_BEHIND {
                true => self.weigh_and_look(sums, &mut scores, (queries, stage), keys, factor),
                false => Self::weigh(sums, &mut scores, factor),
            };
            if Self::LOOKS_BEHIND {
                self.give_keys(stage);
            }
            if Self::ASKS_EARLY && left > 0 {
                // No sum of weights is negative, which ptxas does not know: so they are computed ahead of this wait.
                let is_negative = sums.sum[0] < 0.0 || sums.sum[1] < 0.0;
                let round = of_k.round ^ u32::from(is_negative);
                self.full(Ring::Keys, of_k.stage).wait(round);
            }
            values = sum.wait();
            weights.keep();
            self.free(Ring::Values, of_v.stage).arrive_if(leads);
            *of_v = of_v.next_of(self.key_stages());
            weights = Weights::new(&scores);
            if let Some(factors) = factors {
                values.update(|i, sum| sum * factors[i / 2 % 2]);
            }
        }
        (values, weights)
    }

    /// Makes weights of scores: of short lines, whose products take as long as the exponentials, not all of these by the unit for them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weigh(sums: &mut Sums, scores: &mut Accumulator<SCORES>, factor: f32) -> Option<[f32; 2]> {
        match (R, FORMS) {
            (32, _) => sums.weigh::<true, true>(scores, factor),
            (_, false) => sums.weigh::<false, true>(scores, factor),
            (_, true) => sums.weigh::<false, false>(scores, factor),
        }
    }

    /// [`weigh`](Self::weigh), of the scores of these queries and of the keys in this stage, which are kept until then, and those hidden that are said.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weigh_and_look(
        &self,
        sums: &mut Sums,
        scores: &mut Accumulator<SCORES>,
        (queries, stage): (&Queries<T>, u32),
        keys: (&Sequence, u32, u32),
        factor: f32,
    ) -> Option<[f32; 2]> {
        // What comes of this is the same for the whole warp, and seldom.
        if sums.have_base {
            let of_tile = match R {
                32 => sums.powers::<true>(scores, factor),
                _ => sums.powers::<false>(scores, factor),
            };
            if sums.take(of_tile) {
                return None;
            }
            if Sums::can_divide(of_tile) {
                return Some(sums.divide(scores, of_tile));
            }
            *scores = self.scores_of_warp(queries, stage);
            have_read();
            self.hide(scores, keys);
        }
        let factors = Self::weigh(sums, scores, factor);
        sums.look_for_base();
        factors
    }

    /// Says that the consumer is done with the keys in a stage: each warp for itself, where one may read them once more.
    #[inline(always)]
    fn give_keys(&self, stage: u32) {
        let of_one = if Self::LOOKS_BEHIND { 32 } else { 128 };
        let is_one = thread::thread_idx_x().is_multiple_of(of_one);
        self.free(Ring::Keys, stage).arrive_if(is_one);
    }

    /// The scores of the warp's queries and of the keys in a stage, which is full, by the warp alone. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scores_of_warp(&self, queries: &Queries<T>, stage: u32) -> Accumulator<SCORES> {
        let keys = self.stage(Ring::Keys, stage);
        // Computed here: it is the same each time, and registers for it are better spent.
        let lane = hint::pinned(thread::thread_idx_x()) % 32;
        // A lane says where a key's 8 elements begin: of 8 keys, then of the next 8 elements of them.
        let (line, piece) = (lane % 8 * LINE as u32, (lane / 8) ^ (lane % 8));
        let mut all = [0.0; SCORES];
        unroll!(16, group => {
            let mut scores = [0.0; 4];
            unroll!(4, chunk => {
                if chunk < R / 16 {
                    let of_box = (chunk / 2 * KEYS + 8 * group) * LINE;
                    let at = of_box as u32 + line + (piece ^ (chunk as u32 % 2 * 4)) * 16;
                    // SAFETY: 16 bytes of a line of the boxes, with their swizzle; all lanes are here.
                    let words = unsafe { matrix::ldmatrix_x4(keys, at) };
                    unroll!(2, step => {
                        let a = self.fragment(queries, 2 * chunk + step).pairs();
                        scores = mma::<T>(a, [words[2 * step], words[2 * step + 1]], scores);
                    });
                }
            });
            unroll!(4, i => {
                all[4 * group + i] = scores[i];
            });
        });
        let mut scores = Accumulator::<SCORES>::zero();
        scores.update(|i, _| all[i]);
        scores
    }

    /// Elements `16 step` on of the lines of the warp's queries.
    #[inline(always)]
    fn fragment(&self, queries: &Queries<T>, step: usize) -> Fragment<T> {
        match Self::FROM_REGISTERS {
            true => Fragment::of_pairs(queries.fragments[step].pairs()),
            false => {
                let thread = hint::pinned(thread::thread_idx_x());
                let in_stage = self.stage(Ring::Queries(warp::uniform(thread / 128) - 1), queries.stage);
                Self::load_fragment(in_stage, step as u32, thread % 128)
            }
        }
    }

    /// Whether the next keys are waited for before the values, once the weights are there. It is a boundary for ptxas, which moves the
    /// wait for the values up to the beginning of its stretch of code otherwise, in front of the exponentials. With three consumers that
    /// costs more than that the keys have to be there sooner.
    const ASKS_EARLY: bool = R == 32;

    /// The queries of a consumer in a stage, which is full: if they are in registers then, the stage is free. For all of its threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn queries(&self, consumer: u32, stage: u32) -> Queries<T> {
        let queries = self.queries_in_stage(consumer, stage);
        if Self::FROM_REGISTERS {
            have_read();
            self.free(Ring::Queries(consumer), stage).arrive();
        }
        queries
    }

    /// They, as they lie in the stage or as they have been loaded from there. For all of the consumer's threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn queries_in_stage(&self, consumer: u32, stage: u32) -> Queries<T> {
        // As all lanes have the same, products have the descriptors of queries in registers of the warp: ptxas would not know it otherwise.
        let in_stage = self.stage(Ring::Queries(consumer), warp::uniform(stage));
        let thread = thread::thread_idx_x() % 128;
        let fragment = |step: u32| match Self::FROM_REGISTERS {
            true => Self::load_fragment(in_stage, step, thread),
            false => Fragment::of_pairs([0; 4]),
        };
        let queries = Queries {
            stage,
            lies: MatrixDescriptor::new(in_stage, 16, 1024),
            fragments: [
                fragment(0),
                fragment(1),
                fragment(2),
                fragment(3),
                fragment(4),
                fragment(5),
                fragment(6),
                fragment(7),
            ],
        };
        // Loaded here, and neither behind the arrival at the barrier nor behind the opening of a batch.
        queries.keep();
        queries
    }

    /// Elements `16 step` on of the lines of the warp's queries, which lie in this stage, for a thread of the consumer. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load_fragment(in_stage: Shared<T>, step: u32, thread: u32) -> Fragment<T> {
        // A lane says where a line of a matrix of 8 × 8 begins: of the warp's 16, then of the next 8 elements of them.
        let (row, right) = (thread / 32 * 16 + thread % 16, thread % 32 / 16);
        let piece = (2 * (step % 4) + right) ^ (row % 8);
        let at = step / 4 * (CONSUMER_ROWS * LINE) as u32 + row * LINE as u32 + piece * 16;
        // SAFETY: 16 bytes of a line of the boxes, with their swizzle; all lanes are here.
        Fragment::of_pairs(unsafe { matrix::ldmatrix_x4(in_stage, at) })
    }

    /// Has the scores of the keys in a stage, which is full, computed. They are waited for, and only then are the queries kept, and do
    /// threads arrive at the stage's barrier, and at that of the queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scores(&self, queries: &Queries<T>, stage: u32) -> InFlight<SCORES> {
        let k = MatrixDescriptor::<T, KMajor>::new(self.stage(Ring::Keys, stage), 16, 1024);
        let mut batch = Accumulator::<SCORES>::any().start();
        unroll!(R / 8, step => {
            // 32 bytes of the line of a box, or the next box.
            let (of_box, in_line) = (step as u32 / 4 * LINE as u32, step as u32 % 4 * 32);
            let a = queries.lies.advance(of_box * CONSUMER_ROWS as u32 + in_line);
            let b = k.advance(of_box * KEYS as u32 + in_line);
            let fragment = &queries.fragments[step];
            // SAFETY (of all): both are full, and stay as they are until the wait, as said. Fragments were made before.
            batch = match (Self::FROM_REGISTERS, step) {
                (true, 0) => unsafe { batch.mma_fragment_from_zero(fragment, b) },
                (true, _) => unsafe { batch.mma_fragment(fragment, b) },
                (false, 0) => unsafe { batch.mma_from_zero(a, b) },
                (false, _) => unsafe { batch.mma(a, b) },
            };
        });
        batch.commit()
    }

    /// Has weighted values added, of the stage, which is full. The sums are waited for, and only then are the weights kept, and do threads
    /// arrive at the stage's barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_values(&self, values: Accumulator<R>, weights: &Weights<T>, stage: u32) -> InFlight<R> {
        // Boxes of 64 columns, with a line for each key.
        let next_box = (KEYS * LINE) as u32;
        let v = MatrixDescriptor::<T, T::AlongLines>::new(self.stage(Ring::Values, stage), next_box, 1024);
        let mut batch = values.start();
        unroll!(8, step => {
            let b = v.advance(step as u32 * 16 * LINE as u32);
            // SAFETY: the values are there, and stay until the wait, as said. The weights were made before the batch was opened.
            batch = unsafe { batch.mma_fragment(&weights.0[step], b) };
        });
        batch.commit()
    }

    /// Adds what is to be added to the scores of the keys that are at this place in their ring, if there is something.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_bias(&self, scores: &mut Accumulator<SCORES>, of_keys: Place) {
        if !self.has_bias() {
            return;
        }
        let thread = thread::thread_idx_x();
        let ring = Ring::Bias(warp::uniform(thread / 128) - 1);
        let place = Self::place_of_bias(of_keys);
        self.full(ring, place.stage).wait(place.round);
        // SAFETY: there is one, for each of this consumer's queries and the keys.
        unsafe { self.bias.add::<SCORES, true>(self.stage(ring, place.stage), scores) };
        have_read();
        self.free(ring, place.stage).arrive_if(thread.is_multiple_of(32));
    }

    /// Takes the scores of keys that a query does not see for −∞, in tile `number` of keys; `row` is the consumer's first query.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn hide(&self, scores: &mut Accumulator<SCORES>, (sequence, row, number): (&Sequence, u32, u32)) {
        let first = number * KEYS as u32;
        let (own_row, column) = Accumulator::<SCORES>::place(thread::thread_idx_x(), 0);
        if first + KEYS as u32 > sequence.end(row) {
            let end = [sequence.end(row + own_row), sequence.end(row + own_row + 8)];
            scores.update(|i, score| {
                let key = first + column + (i / 4 * 8 + i % 2) as u32;
                if key < end[i / 2 % 2] { score } else { f32::NEG_INFINITY }
            });
        }
        if first < sequence.begin(row + CONSUMER_ROWS as u32 - 1) {
            let begin = [sequence.begin(row + own_row), sequence.begin(row + own_row + 8)];
            scores.update(|i, score| {
                let key = first + column + (i / 4 * 8 + i % 2) as u32;
                if key >= begin[i / 2 % 2] {
                    score
                } else {
                    f32::NEG_INFINITY
                }
            });
        }
    }
}

/// Lets copies fill what the lanes of the warp have read, behind an arrival of one of them.
#[inline(always)]
fn have_read() {
    tma::fence_async();
    warp::sync_warp(warp::FULL_MASK);
}
