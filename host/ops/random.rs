// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of random numbers.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use cuda_std::random::Philox4x32;
use kernels_gpu::compiled::{RandomFloat, RandomInteger};
use kernels_gpu::random::{self, Bijection, THREADS, tile_len};
use ndarray::{Dimension, IntoDimension, Ix1};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The ranges of [`Generator::integers`]: all of the standard library whose bounds are the integers themselves, and pairs of
/// [`Bound`]s.
///
/// [`RangeBounds`] is of ranges of references, too, so that by itself it leaves open of which type the integers of `0..10` are. Of
/// these there is one for each type, and so that is [`i32`] where nothing else says.
///
/// ```
/// use warpsmith::{Device, Generator};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let dice = Generator::new(1).integers(device.default_stream(), 100, 1..=6)?;
/// assert!(dice.max()? <= 6_i32);
/// # Ok(())
/// # }
/// ```
pub trait IntegerRange<T>: RangeBounds<T> {}

impl<T> IntegerRange<T> for Range<T> {}
impl<T> IntegerRange<T> for RangeInclusive<T> {}
impl<T> IntegerRange<T> for RangeFrom<T> {}
impl<T> IntegerRange<T> for RangeTo<T> {}
impl<T> IntegerRange<T> for RangeToInclusive<T> {}
impl<T> IntegerRange<T> for RangeFull {}
impl<T> IntegerRange<T> for (Bound<T>, Bound<T>) {}

/// A generator of random arrays: Philox 4×32-10, as [`cuda_std::random`] has it.
///
/// It makes no number itself: it is a seed and a place in the seed's sequence, which each call moves on by what it has
/// used. A seed gives the same numbers, to the last bit, on every device and in every version that does not say
/// otherwise. Clones go on alike; [`with_sequence`](Self::with_sequence) makes others.
///
/// # Layout
///
/// The sequence is one of blocks of four random words of 32 bits; each call begins with a block of its own. Element `i`
/// of an array, in C order, is made of the words that follow from `i`:
///
/// | | words | elements of a block |
/// |---|---|---|
/// | uniform or normal `f32`; Bernoulli; `i32`, `u32` | one (two for a pair of normal ones) | 4 |
/// | uniform or normal `f64`; `i64`, `u64` | two (four for a pair of normal ones) | 2 |
///
/// An integer takes as many words again from [`Philox4x32::more`] of its block, below its own.
///
/// So an array of 1000 numbers of `f32` and one of 24 after it are the array of 1024 numbers, in two pieces, because 1000
/// is a multiple of 4.
///
/// Methods that end with `_expr` give the same numbers as an [expression](crate::expr), which computes them where they are
/// wanted and keeps them in no array.
///
/// # Examples
///
/// ```
/// use warpsmith::{Device, Generator};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut random = Generator::new(42);
/// let weights = random.normal(stream, (100, 200), 0.0f32, 0.1)?;
/// let dice = random.integers(stream, 1000, 1..=6i32)?;
/// assert_eq!((dice.min()?, dice.max()?), (1, 6));
/// assert!(weights.mean()?.abs() < 0.01);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generator {
    seed: u64,
    sequence: u64,
    position: u64,
}

impl Generator {
    /// The generator at the start of a seed's first sequence.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            sequence: 0,
            position: 0,
        }
    }

    /// The generator at the start of another sequence of its seed: of the 2^64 that there are, no two have a block in
    /// common. One for each worker, say.
    pub fn with_sequence(self, sequence: u64) -> Self {
        Self {
            sequence,
            position: 0,
            ..self
        }
    }

    /// The generator at another block of its sequence.
    pub fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }

    /// The number of the block that the next call begins with.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next `blocks` blocks, for a kernel of one's own: its block 0 is the first of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::Generator;
    ///
    /// let mut random = Generator::new(1);
    /// let (first, second) = (random.take(10), random.take(10));
    /// assert_eq!(first.block(10), second.block(0));
    /// assert_eq!(random.position(), 20);
    /// ```
    pub fn take(&mut self, blocks: u64) -> Philox4x32 {
        let random = self.here();
        self.position = self.position.wrapping_add(blocks);
        random
    }

    /// Seed, sequence and position of the next `blocks` blocks, which it moves on by.
    pub(crate) fn take_place(&mut self, blocks: u64) -> [u64; 3] {
        let place = [self.seed, self.sequence, self.position];
        self.take(blocks);
        place
    }

    fn here(&self) -> Philox4x32 {
        Philox4x32::new(self.seed)
            .with_sequence(self.sequence)
            .skip(self.position)
    }

    /// Numbers that are equally likely everywhere in `range`, from its start up to but not including its end.
    ///
    /// An `f32` is `start + u · (end − start)` with `u` of 24 random bits, an `f64` with 53, rounded once; where that
    /// is the end, it is the number before it.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the range is empty, or its ends or their distance are not finite; those of an allocation
    /// and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = Generator::new(1).uniform(device.default_stream(), (10, 10), -1.0..1.0)?;
    /// assert!(x.min()? >= -1.0 && x.max()? < 1.0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("rand", "random_sample"))]
    pub fn uniform<T: RandomFloat, D: Dimension>(
        &mut self,
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
        range: Range<T>,
    ) -> Result<DeviceArray<T, D>> {
        DeviceArray::made(stream, shape.into_dimension(), &mut |out| {
            self.uniform_into(range.clone(), out)
        })
    }

    /// [`uniform`](Self::uniform) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`uniform`](Self::uniform), but for those of an allocation.
    pub fn uniform_into<T: RandomFloat, D: Dimension>(
        &mut self,
        range: Range<T>,
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        let [low, span, greatest] = uniform_parameters(range)?;
        self.launch(out, T::PER_BLOCK, |stream, random, out, config| {
            stream.launch::<T::Uniform>(config, (random, low, span, greatest, out))
        })
    }

    /// Numbers of the normal distribution with mean 0 and standard deviation 1: [`normal`](Self::normal).
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    #[doc(alias = "randn")]
    pub fn standard_normal<T: RandomFloat, D: Dimension>(
        &mut self,
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
    ) -> Result<DeviceArray<T, D>> {
        self.normal(stream, shape, T::ZERO, T::ONE)
    }

    /// Numbers of the normal distribution.
    ///
    /// By Box and Muller's method, a pair of numbers from a pair of words: [`cuda_std::random::normal_f32`] and
    /// [`normal_f64`](cuda_std::random::normal_f64) say to which error, and where the tails end (6.7 and 9.5 standard
    /// deviations).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the mean or the deviation is not finite, or the deviation is negative; those of an
    /// allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = Generator::new(1).normal(device.default_stream(), 10_000, 5.0f32, 2.0)?;
    /// assert!((x.mean()? - 5.0).abs() < 0.1);
    /// assert!((x.std(0)? - 2.0).abs() < 0.1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn normal<T: RandomFloat, D: Dimension>(
        &mut self,
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
        mean: T,
        standard_deviation: T,
    ) -> Result<DeviceArray<T, D>> {
        DeviceArray::made(stream, shape.into_dimension(), &mut |out| {
            self.normal_into(mean, standard_deviation, out)
        })
    }

    /// [`normal`](Self::normal) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`normal`](Self::normal), but for those of an allocation.
    pub fn normal_into<T: RandomFloat, D: Dimension>(
        &mut self,
        mean: T,
        standard_deviation: T,
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        check_normal(mean, standard_deviation)?;
        self.launch(out, T::PER_BLOCK, |stream, random, out, config| {
            stream.launch::<T::Normal>(config, (random, mean, standard_deviation, out))
        })
    }

    /// Integers that are equally likely in `range`: `0..10`, `1..=6`, or `..` for all that the type has.
    ///
    /// An integer is the upper part of a product of the range's length with 64 random bits (`i32`, `u32`) or 128
    /// (`i64`, `u64`): no value is more likely than another by more than one part in 2^32 or 2^64. The lower half of the
    /// bits is made only where the upper one does not decide: seldom, but for ranges of more than a hundredth of the type's
    /// numbers, which cost up to twice as much.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the range is empty; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = Generator::new(1).integers(device.default_stream(), 1000, -2..2i64)?;
    /// assert_eq!((x.min()?, x.max()?), (-2, 1));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("randint", "choice"))]
    pub fn integers<T: RandomInteger, D: Dimension>(
        &mut self,
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
        range: impl IntegerRange<T>,
    ) -> Result<DeviceArray<T, D>> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        DeviceArray::made(stream, shape.into_dimension(), &mut |out| {
            self.integers_into(range, out)
        })
    }

    /// [`integers`](Self::integers) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`integers`](Self::integers), but for those of an allocation.
    pub fn integers_into<T: RandomInteger, D: Dimension>(
        &mut self,
        range: impl IntegerRange<T>,
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        let [low, last] = integer_parameters(range)?;
        self.launch(out, T::PER_BLOCK, |stream, random, out, config| {
            stream.launch::<T::Integers>(config, (random, low, last, out))
        })
    }

    /// Bytes that are 1 with the given probability, and 0 otherwise, as the library's comparisons give them.
    ///
    /// The probability is rounded to a multiple of 2^-32.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if the probability is not in [0, 1]; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let keep = Generator::new(1).bernoulli(device.default_stream(), 10_000, 0.9)?;
    /// assert!((8800..9200).contains(&keep.sum()?));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "binomial")]
    pub fn bernoulli<D: Dimension>(
        &mut self,
        stream: &Stream,
        shape: impl IntoDimension<Dim = D>,
        probability: f64,
    ) -> Result<DeviceArray<u8, D>> {
        DeviceArray::made(stream, shape.into_dimension(), &mut |out| {
            self.bernoulli_into(probability, out)
        })
    }

    /// [`bernoulli`](Self::bernoulli) into an existing array or view, on its stream.
    ///
    /// # Errors
    ///
    /// As [`bernoulli`](Self::bernoulli), but for those of an allocation.
    pub fn bernoulli_into<D: Dimension>(&mut self, probability: f64, out: &mut DeviceArrayRef<u8, D>) -> Result<()> {
        let threshold = bernoulli_threshold(probability)?;
        self.launch(out, BERNOULLI_PER_BLOCK, |stream, random, out, config| {
            stream.launch::<random::bernoulli>(config, (random, threshold, out))
        })
    }

    /// The numbers below `n` in random order.
    ///
    /// Element `i` is computed from `i` alone, by a Feistel network of 16 rounds (R. Mitchell et al., "Bandwidth-optimal
    /// random shuffling for GPUs", 2022), so this costs no more than to write it. It is made of 64 random bytes: of four
    /// elements each of the 24 orders is as likely as the others, to one part in 10^4, but of more than 20 there are
    /// more orders than seeds, and where `n` is a power of two from 16 on, only even permutations come. It is for
    /// shuffling samples, not for lotteries.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let order = Generator::new(1).permutation(device.default_stream(), 100)?;
    /// let mut order = order.to_ndarray()?.to_vec();
    /// order.sort();
    /// assert!(order.into_iter().eq(0..100));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("shuffle", "randperm"))]
    pub fn permutation(&mut self, stream: &Stream, n: usize) -> Result<DeviceArray<u64, Ix1>> {
        let mut result = DeviceArray::uninit(stream, Ix1(n))?;
        let random = self.here();
        if n > 0 {
            let bijection = Bijection::new(n as u64, |number| random.block(number));
            let config = tiles(n, tile_len::<u64>(), THREADS);
            stream.launch::<random::permutation>(&config, (bijection, &mut result))?;
        }
        self.take(Bijection::BLOCKS);
        Ok(result)
    }

    /// Launches a kernel for an array, if it has elements, and moves on by the blocks that it takes.
    fn launch<T: Element, D: Dimension>(
        &mut self,
        out: &mut DeviceArrayRef<T, D>,
        per_block: u64,
        launch: impl Fn(&Stream, Philox4x32, &mut DeviceArrayRef<T, D>, &crate::LaunchConfig) -> Result<()>,
    ) -> Result<()> {
        let blocks = (out.len() as u64).div_ceil(per_block);
        if blocks > 0 {
            let stream = out.stream().clone();
            let config = tiles(out.len(), tile_len::<T>(), THREADS);
            out.write_in_order(&stream, &mut |out| launch(&stream, self.here(), out, &config))?;
        }
        self.take(blocks);
        Ok(())
    }
}

/// Parameters that there are no random numbers with.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) operation: &'static str,
    pub(crate) parameter: &'static str,
    pub(crate) given: String,
    pub(crate) wanted: &'static str,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Parameter {
            operation: refused.operation,
            parameter: refused.parameter,
            given: refused.given,
            wanted: refused.wanted.into(),
        }
    }
}

type Checked<T> = std::result::Result<T, Refused>;

/// The words of a Bernoulli number: one.
pub(crate) const BERNOULLI_PER_BLOCK: u64 = 4;

/// The least uniform number, the distance of the range's ends, and the greatest number.
pub(crate) fn uniform_parameters<T: RandomFloat>(Range { start, end }: Range<T>) -> Checked<[T; 3]> {
    let span = end - start;
    // The ends are finite if their distance is; NaN is not less.
    if start < end && span < T::GREATEST {
        return Ok([start, span, end.below()]);
    }
    Err(Refused {
        operation: "uniform",
        parameter: "range",
        given: format!("{start} to {end}"),
        wanted: "a finite start that is less than the end, at a finite distance",
    })
}

pub(crate) fn check_normal<T: RandomFloat>(mean: T, standard_deviation: T) -> Checked<()> {
    let is_finite = |x: T| T::LEAST < x && x < T::GREATEST;
    if is_finite(mean) && is_finite(standard_deviation) && standard_deviation >= T::ZERO {
        return Ok(());
    }
    Err(Refused {
        operation: "normal",
        parameter: "mean and standard deviation",
        given: format!("{mean} and {standard_deviation}"),
        wanted: "finite numbers, the deviation not negative",
    })
}

/// The least integer of the range, and how much greater the greatest one is.
pub(crate) fn integer_parameters<T: RandomInteger>(range: impl IntegerRange<T>) -> Checked<[T; 2]> {
    let low = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&start) => start.neighbours()[1],
        Bound::Unbounded => Some(T::LEAST),
    };
    let high = match range.end_bound() {
        Bound::Included(&end) => Some(end),
        Bound::Excluded(&end) => end.neighbours()[0],
        Bound::Unbounded => Some(T::GREATEST),
    };
    if let (Some(low), Some(high)) = (low, high)
        && low <= high
    {
        return Ok([low, high.sub(low)]);
    }
    let bound = |bound: Bound<&T>| match bound {
        Bound::Included(end) => format!("{end} included"),
        Bound::Excluded(end) => format!("{end} excluded"),
        Bound::Unbounded => "unbounded".into(),
    };
    Err(Refused {
        operation: "integers",
        parameter: "range",
        given: format!("{} to {}", bound(range.start_bound()), bound(range.end_bound())),
        wanted: "a range with a number in it",
    })
}

/// How many of the 2^32 words are a 1.
pub(crate) fn bernoulli_threshold(probability: f64) -> Checked<u64> {
    if (0.0..=1.0).contains(&probability) {
        return Ok((probability * 4_294_967_296.0).round() as u64);
    }
    Err(Refused {
        operation: "bernoulli",
        parameter: "probability",
        given: probability.to_string(),
        wanted: "0 to 1",
    })
}
