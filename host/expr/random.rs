// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers as parts of expressions: functions of the elements' places, which read nothing.

use std::ops::Range;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::compiled::{RandomFloat, RandomInteger, Real};
use ndarray::{Dimension, IntoDimension, IxDyn};

use super::Expr;
use super::graph::function::{Binary, Random, Ternary, bits_of, random};
use super::graph::parts::Parts;
use super::graph::problem::Problem;
use super::graph::{Node, Part, binary, cast, ternary};
use super::value::Value;
use crate::layout::checked_len;
use crate::ops::random::{
    BERNOULLI_PER_BLOCK, Refused, bernoulli_threshold, check_normal, integer_parameters, uniform_parameters,
};
use crate::ops::{Generator, IntegerRange};

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::Parameter {
            operation: refused.operation,
            parameter: refused.parameter,
            given: refused.given,
            wanted: refused.wanted.into(),
        }
    }
}

/// Random numbers as parts of [expressions](crate::expr), which are in no array: each is computed from its place where it is
/// wanted. They are the numbers that the method without `_expr` would give, to the last bit, and the generator moves on as far.
/// An expression keeps its numbers however often it is evaluated; beside a larger array they are repeated as an array's are.
///
/// An expression of random numbers alone has no array, at whose home it would be computed: that is for
/// [`eval_on`](Expr::eval_on).
///
/// Each number takes a block of the generator, of which the method without `_expr` makes two or four: where numbers are only
/// written to an array, that method is faster.
impl Generator {
    /// Numbers that are equally likely everywhere in `range`: those of [`uniform`](Self::uniform).
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if the range is empty, or its ends or their distance are not
    /// finite; then the generator stays where it is.
    ///
    /// # Examples
    ///
    /// A quarter of a circle has π/4 of its square's points. They are made and counted by one kernel, which reads nothing:
    ///
    /// ```
    /// use warpsmith::{Device, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let points = 100_000;
    /// let mut random = Generator::new(1);
    /// let (x, y) = (random.uniform_expr(points, 0.0f32..1.0), random.uniform_expr(points, 0.0f32..1.0));
    /// let inside = (x.square() + y.square()).less(1.0).count().eval_on(device.default_stream())?;
    /// let pi = 4.0 * inside.to_ndarray()?.into_scalar() as f64 / points as f64;
    /// assert!((pi - 3.14159).abs() < 0.02, "{pi}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn uniform_expr<T: RandomFloat + Value, D: Dimension>(
        &mut self,
        shape: impl IntoDimension<Dim = D>,
        range: Range<T>,
    ) -> Expr<'static, T, D> {
        let is_unit = range == (T::ZERO..T::ONE);
        let numbers = || -> Part<'static> {
            let [low, span, greatest] = uniform_parameters(range)?.map(number);
            let bits = self.number(Random::Bits, shape, T::PER_BLOCK, bits_of(T::TYPE), &[])?;
            let unit = unit(bits, T::TYPE)?;
            if is_unit {
                // What follows would change none.
                return Ok(unit);
            }
            binary(Binary::Minimum, ternary(Ternary::MulAdd, [unit, span, low])?, greatest)
        };
        Expr::of(numbers())
    }

    /// Numbers of the normal distribution with mean 0 and standard deviation 1: those of
    /// [`standard_normal`](Self::standard_normal).
    pub fn standard_normal_expr<T: RandomFloat + Value, D: Dimension>(
        &mut self,
        shape: impl IntoDimension<Dim = D>,
    ) -> Expr<'static, T, D> {
        self.normal_expr(shape, T::ZERO, T::ONE)
    }

    /// Numbers of the normal distribution: those of [`normal`](Self::normal).
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if the mean or the deviation is not finite, or the deviation
    /// is negative; then the generator stays where it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::<f32, _>::zeros(device.default_stream(), (100, 200))?;
    /// let noise = Generator::new(1).normal_expr((100, 200), 0.0f32, 0.1);
    /// x.update(|x| x + &noise)?; // one kernel, and no array for the noise
    /// let array = Generator::new(1).normal(device.default_stream(), (100, 200), 0.0f32, 0.1)?;
    /// assert_eq!(x.to_ndarray()?, array.to_ndarray()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn normal_expr<T: RandomFloat + Value, D: Dimension>(
        &mut self,
        shape: impl IntoDimension<Dim = D>,
        mean: T,
        standard_deviation: T,
    ) -> Expr<'static, T, D> {
        let numbers = || -> Part<'static> {
            check_normal(mean, standard_deviation)?;
            let parameters = [mean, standard_deviation].map(number);
            self.number(Random::Normal, shape, T::PER_BLOCK, T::TYPE, &parameters)
        };
        Expr::of(numbers())
    }

    /// Integers that are equally likely in `range`: those of [`integers`](Self::integers).
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if the range is empty; then the generator stays where it is.
    pub fn integers_expr<T: RandomInteger + Value, D: Dimension>(
        &mut self,
        shape: impl IntoDimension<Dim = D>,
        range: impl IntegerRange<T>,
    ) -> Expr<'static, T, D> {
        let numbers = || -> Part<'static> {
            let parameters = integer_parameters(range)?.map(number);
            self.number(Random::Integer, shape, T::PER_BLOCK, T::TYPE, &parameters)
        };
        Expr::of(numbers())
    }

    /// Conditions that hold with the given probability: those of [`bernoulli`](Self::bernoulli).
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if the probability is not in [0, 1]; then the generator stays
    /// where it is.
    ///
    /// # Examples
    ///
    /// Dropout: a tenth of the numbers become 0.
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Generator, expr};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::<f32, _>::ones(device.default_stream(), (100, 100))?;
    /// let keep = Generator::new(1).bernoulli_expr((100, 100), 0.9);
    /// let y = keep.select(&x / 0.9, expr::scalar(0.0f32)).eval()?;
    /// assert!((y.mean()? - 1.0).abs() < 0.02);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bernoulli_expr<D: Dimension>(
        &mut self,
        shape: impl IntoDimension<Dim = D>,
        probability: f64,
    ) -> Expr<'static, bool, D> {
        let numbers = || -> Part<'static> {
            let threshold = number(bernoulli_threshold(probability)?);
            let word = self.number(Random::Bits, shape, BERNOULLI_PER_BLOCK, ScalarType::U32, &[])?;
            binary(Binary::Less, cast(word, ScalarType::U64)?, threshold)
        };
        Expr::of(numbers())
    }

    /// Numbers of type `ty` for an array of that shape, of the next blocks, each of which makes `per_block`.
    fn number(
        &mut self,
        of: Random,
        shape: impl IntoDimension,
        per_block: u64,
        ty: ScalarType,
        parameters: &[Arc<Node<'static>>],
    ) -> Part<'static> {
        let dim = shape.into_dimension();
        let shape = dim.slice();
        let len = checked_len(shape).ok_or_else(|| Problem::Shape {
            operation: "random numbers",
            given: format!("shape {shape:?}"),
            wanted: "fewer than 2^63 elements".into(),
        })?;
        let axes: Vec<usize> = (0..shape.len()).collect();
        let places = Node::places(shape, &axes)?;
        let place = self.take_place((len as u64).div_ceil(per_block)).map(number);
        let arguments = place.into_iter().chain([places]).chain(parameters.iter().cloned());
        let function = random(of, ty);
        Node::call(function.name, function, ty, arguments.collect::<Parts<'_>>())
    }
}

impl<'a, T: Value + Real, D: Dimension> Expr<'a, T, D> {
    /// Dropout: each number becomes 0 with the given probability, and others are divided by the probability that they do not, so
    /// that means stay what they are. Which ones is what [`Generator::bernoulli_expr`] says, of the elements' shape and the
    /// probability that a number stays; it is in no array. (N. Srivastava, G. Hinton and others, "Dropout: a simple way to
    /// prevent neural networks from overfitting", 2014.)
    ///
    /// Its gradient is the dropout of the incoming gradient by a clone of the generator, from before: the same elements. A
    /// [graph](crate::Graph) drops the same ones in each launch.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Parameter`](crate::Error::Parameter) if the probability is not in [0, 1]; then the generator stays
    /// where it is.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray, Generator};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::<f32, _>::ones(device.default_stream(), (100, 100))?;
    /// let mut random = Generator::new(1);
    /// let mut again = random.clone();
    /// let y = x.expr().dropout(0.1, &mut random).eval()?;
    /// assert!((y.mean()? - 1.0).abs() < 0.02 && y.min()? == 0.0 && (y.max()? - 1.0 / 0.9).abs() < 1e-6);
    /// // The gradient of a sum of y by x: what x was multiplied with.
    /// let gradient = DeviceArray::<f32, _>::ones(device.default_stream(), (100, 100))?;
    /// assert_eq!(gradient.expr().dropout(0.1, &mut again).eval()?.to_ndarray()?, y.to_ndarray()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dropout(&self, probability: f64, random: &mut Generator) -> Self {
        Self::of(self.part.clone().and_then(|x| {
            if !(0.0..=1.0).contains(&probability) {
                return Err(Problem::Parameter {
                    operation: "dropout",
                    parameter: "probability",
                    given: probability.to_string(),
                    wanted: "one from 0 to 1".into(),
                });
            }
            let stays = random.bernoulli_expr(IxDyn(&x.shape), 1.0 - probability).into_part()?;
            let wide = if T::TYPE == ScalarType::F64 {
                T::TYPE
            } else {
                ScalarType::F32
            };
            let factor = cast(number(1.0 / (1.0 - probability)), wide)?;
            let kept = cast(binary(Binary::Mul, cast(x, wide)?, factor)?, T::TYPE)?;
            ternary(Ternary::Select, [stays, kept, cast(number(0.0), T::TYPE)?])
        }))
    }
}

/// One number, of no axes.
fn number<T: Value>(value: T) -> Arc<Node<'static>> {
    Node::scalar(T::TYPE, value.bits())
}

/// The number of [0, 1) that [`cuda_std::random`] makes of random bits: the upper ones, as many as the float has.
fn unit<'a>(bits: Arc<Node<'a>>, ty: ScalarType) -> Part<'a> {
    let (shift, scale) = match ty {
        ScalarType::F64 => (number(11u64), number(f64::EPSILON / 2.0)),
        _ => (number(8u32), number(f32::EPSILON / 2.0)),
    };
    binary(Binary::Mul, cast(binary(Binary::Shr, bits, shift)?, ty)?, scale)
}
