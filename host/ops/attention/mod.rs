// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention: softmax of scores, times values, in one kernel.

mod ampere;
mod decode;
mod gradients;
mod hopper;
mod sequences;

use std::f64::consts::LOG2_E;
use std::fmt;

use cuda_std::launch::SafeKernel;
use half::{bf16, f16};
use kernels_gpu::attention::bias_plan::BiasPlan;
use kernels_gpu::attention::tiled::{AttentionStrides, ROWS, THREADS};
use kernels_gpu::attention::{AttentionShape, MAX_LENGTH, MAX_TILES};
use kernels_gpu::compiled::{AttentionDecode, AttentionParams};
use ndarray::{Dimension, Ix3, Ix4, Ix5};

pub use self::sequences::Sequences;

use self::gradients::GradientsTask;
use self::sequences::{Extra, Together};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::Value;
use crate::launch::{LaunchConfig, Words};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;

/// What errors call it.
const OPERATION: &str = "attention";

/// The greatest head dimension.
const MAX_DIM: usize = 256;

/// The bytes of keys and values of heads that are taken together at most: most of Hopper's second cache.
const CACHED: usize = 40 << 20;

/// The bytes of them where there are many more heads, so that a last group of few tiles makes no difference: memory has less to
/// bring, and so the GPU more power for all else (3 % of the time at its limit).
const CACHED_OF_MANY: usize = 16 << 20;

/// How many times as many heads as fit are many more.
const MANY: usize = 8;

/// Elements of a query in all of them at most: as more heads begin, their keys come to the cache anew for each tile of a short one's queries.
const TOGETHER: usize = 4096;

/// The element types of [`attention`](DeviceArrayRef::attention): `f32`, `bf16` and `f16`.
pub trait Attend: Element + AttentionDecode + Value<Element = Self> + sealed::Sealed {
    /// Computes by the kernel for the device's tensor cores, if there is one for such operands.
    #[doc(hidden)]
    fn on_tensor_cores(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// As [`on_tensor_cores`](Self::on_tensor_cores), for few queries.
    #[doc(hidden)]
    fn few_on_tensor_cores(_task: &mut Task<'_, Self>) -> Result<bool> {
        Ok(false)
    }

    /// Gradients by the kernels for the device's tensor cores, if there are some for such operands.
    #[doc(hidden)]
    fn gradients_on_tensor_cores(_task: &GradientsTask<'_, Self>) -> Result<Option<[DeviceArray<Self, Ix4>; 3]>> {
        Ok(None)
    }

    /// The sums that the gradient of a bias of that shape is made of, by the plan for them, by a kernel for the device's tensor cores, if
    /// there is one for such operands.
    #[doc(hidden)]
    fn bias_gradient_on_tensor_cores(
        _task: &GradientsTask<'_, Self>,
        _bias: [u32; 4],
    ) -> Result<Option<(BiasPlan, DeviceArray<f32, Ix5>)>> {
        Ok(None)
    }

    /// An operand as the kernels of gradients for any GPU have it: as `f32`, forwards.
    #[doc(hidden)]
    fn as_f32(x: &DeviceArrayRef<Self, Ix4>) -> Result<Ordered<'_, f32, Ix4>>;

    /// A result of these kernels, rounded.
    #[doc(hidden)]
    fn rounded(x: DeviceArray<f32, Ix4>) -> Result<DeviceArray<Self, Ix4>>;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for f32 {}
    impl Sealed for super::bf16 {}
    impl Sealed for super::f16 {}
}

impl Attend for f32 {
    fn as_f32(x: &DeviceArrayRef<f32, Ix4>) -> Result<Ordered<'_, f32, Ix4>> {
        x.forwards::<Ix4>(None)
    }

    fn rounded(x: DeviceArray<f32, Ix4>) -> Result<DeviceArray<f32, Ix4>> {
        Ok(x)
    }
}

macro_rules! on_tensor_cores {
    ($($type:ty),*) => {$(
        impl Attend for $type {
            fn on_tensor_cores(task: &mut Task<'_, $type>) -> Result<bool> {
                Ok(hopper::compute(task)? || ampere::compute(task)?)
            }

            fn few_on_tensor_cores(task: &mut Task<'_, $type>) -> Result<bool> {
                task.few_on_tensor_cores()
            }

            fn gradients_on_tensor_cores(
                task: &GradientsTask<'_, $type>,
            ) -> Result<Option<[DeviceArray<$type, Ix4>; 3]>> {
                Ok(match hopper::gradients(task)? {
                    Some(gradients) => Some(gradients),
                    None => ampere::gradients(task)?,
                })
            }

            fn bias_gradient_on_tensor_cores(
                task: &GradientsTask<'_, $type>,
                bias: [u32; 4],
            ) -> Result<Option<(BiasPlan, DeviceArray<f32, Ix5>)>> {
                hopper::bias_gradient(task, bias)
            }

            fn as_f32(x: &DeviceArrayRef<$type, Ix4>) -> Result<Ordered<'_, f32, Ix4>> {
                Ok(Ordered::Copied(x.cast::<f32>()?))
            }

            fn rounded(x: DeviceArray<f32, Ix4>) -> Result<DeviceArray<$type, Ix4>> {
                x.cast::<$type>()
            }
        }
    )*};
}

on_tensor_cores!(bf16, f16);

/// Attention, by [`attention`](DeviceArrayRef::attention). Nothing is computed before [`compute`](Self::compute),
/// [`compute_with_log_sum_exp`](Self::compute_with_log_sum_exp), [`gradients`](Self::gradients) or
/// [`bias_gradient`](Self::bias_gradient) is called.
#[must_use = "nothing is computed before `compute`, `compute_with_log_sum_exp`, `gradients` or `bias_gradient`"]
pub struct Attention<'a, T> {
    q: &'a DeviceArrayRef<T, Ix4>,
    k: &'a DeviceArrayRef<T, Ix4>,
    v: &'a DeviceArrayRef<T, Ix4>,
    causal: bool,
    /// How many keys it sees before its own position, and behind it.
    window: [Option<usize>; 2],
    scale: Option<f32>,
    bias: Option<&'a DeviceArrayRef<T, Ix4>>,
    together: Together<'a>,
}

impl<T: Element> fmt::Debug for Attention<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Attention");
        for (name, operand) in [("q", self.q), ("k", self.k), ("v", self.v)] {
            fields.field(name, &operand.shape());
        }
        fields
            .field("causal", &self.causal)
            .field("window", &self.window)
            .field("scale", &self.scale)
            .field("bias", &self.bias.map(|bias| bias.shape()))
            .finish_non_exhaustive()
    }
}

/// An attention whose operands fit, and its results.
#[doc(hidden)]
pub struct Task<'a, T> {
    q: &'a DeviceArrayRef<T, Ix4>,
    k: &'a DeviceArrayRef<T, Ix4>,
    v: &'a DeviceArrayRef<T, Ix4>,
    shape: AttentionShape,
    /// What scores are multiplied with to be exponents of 2.
    factor: f32,
    extra: Extra<'a, T>,
    out: DeviceArray<T, Ix4>,
    /// Empty where they are not wanted.
    log_sums: DeviceArray<f32, Ix3>,
}

/// Attention.
impl<T: Attend> DeviceArrayRef<T, Ix4> {
    /// Attention of these queries to the keys `k`, whose values are `v`: `softmax(scale · Q Kᵀ) V` for each head, in one kernel, which
    /// keeps no matrix of scores in memory (FlashAttention). `scale` is `1 / √d`, unless [`scale`](Attention::scale) says otherwise.
    ///
    /// The queries have the shape (batch, heads, queries, d), the keys and the values (batch, heads of keys, keys, d), and the result
    /// that of the queries. `d` is 1 to 256. Heads of queries are a multiple of those of keys: so many of them, one after another,
    /// share a head of keys and values (grouped-query attention; with one head of keys, multi-query attention).
    ///
    /// Operands lie as they like: what is (batch, position, heads, d) in memory is given as a view by
    /// [`permuted_axes`](crate::DeviceView::permuted_axes)`([0, 2, 1, 3])`. Those with an axis that goes backwards are copied.
    ///
    /// # Precision
    ///
    /// Scores, weights and sums are computed in `f32`, and the result is rounded to its type once. On tensor cores weights are
    /// rounded to the elements' type before they are multiplied with values; the sum of weights is not of these.
    ///
    /// A query that sees no key has the result 0, and so has one with scores of −∞ alone. NaN in a query or in a key that it
    /// sees, and a score of +∞, make its result NaN. A weight of 0 times a value that is infinite or NaN is NaN, as in a product of
    /// matrices; of keys that a query does not see some are multiplied so, and some are not read.
    ///
    /// On one device the bits are the same each time.
    ///
    /// # Cost
    ///
    /// `4 d` operations for each pair of a query and a key that it sees. Products of `f16` and `bf16` with a `d` of 64 or 128 are
    /// done by Hopper's tensor cores, and without a [`bias`](Attention::bias) by those of Ampere and later, where the scale is
    /// positive; operands whose lines do not begin at multiples of 16 bytes are copied there first, and so is a bias that does not
    /// lie as it says. Tiles of 128 keys (without Hopper's of 64) that no query sees are skipped. All others are done by ordinary
    /// cores, in `f32`, with `d` rounded up to 64, 128 or 256 in one of the two products. Where at most 16 queries share a head of keys, as in a step of decoding, keys are divided among blocks,
    /// which read them once for several queries: for a `d` that is a multiple of 8, and lines that begin at multiples of 16 bytes; of 16 bits with a `d`
    /// of 64 or 128 by tensor cores, from Ampere's on. Memory: the result,
    /// and results in `f32` of parts of at least 256 keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[[[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0]]]])?;
    /// let y = x.attention(&x, &x).causal().scale(1.0).compute()?.to_ndarray()?;
    /// // The first position sees itself alone, the second has the scores 0 and 1.
    /// let weight = 1.0 / (1.0 + 1f32.exp());
    /// assert_eq!(y[[0, 0, 0, 0]], 1.0);
    /// assert!((y[[0, 0, 1, 0]] - weight).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn attention<'a>(&'a self, k: &'a DeviceArrayRef<T, Ix4>, v: &'a DeviceArrayRef<T, Ix4>) -> Attention<'a, T> {
        Attention {
            q: self,
            k,
            v,
            causal: false,
            window: [None; 2],
            scale: None,
            bias: None,
            together: Together::All,
        }
    }
}

impl<'a, T: Attend> Attention<'a, T> {
    /// Hides from each query the keys behind its own position, where the last query is at the position of the last key: query `i`
    /// sees the keys up to number `i + keys − queries`.
    ///
    /// So queries that come last in a longer sequence, whose keys are kept, see all that was before, as in FlashAttention. (PyTorch's
    /// `is_causal` has the first query at the position of the first key, which is the same where there are as many queries as keys.)
    /// Where there are more queries than keys, the first ones see none.
    pub fn causal(mut self) -> Self {
        self.causal = true;
        self
    }

    /// Multiplies scores by `scale`, in place of `1 / √d`.
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// The result as a new array, on the stream of the queries.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, or are larger than kernels count (2³⁰ queries or keys, 2³¹ − 1 tiles of 64 queries),
    /// [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn compute(self) -> Result<DeviceArray<T, Ix4>> {
        self.run(false).map(|(out, _)| out)
    }

    /// [`compute`](Self::compute), and for each query the natural logarithm of its sum of exponentials, `ln Σ exp(scale · q k)`, in
    /// the shape (batch, heads, queries): what gradients want, and what combines results for parts of the keys. It is −∞ for a query
    /// that sees no key.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let q = DeviceArray::from_ndarray(stream, &array![[[[1.0f32]]]])?;
    /// let k = DeviceArray::from_ndarray(stream, &array![[[[1.0f32], [2.0]]]])?;
    /// let (_, log_sums) = q.attention(&k, &k).compute_with_log_sum_exp()?;
    /// assert!((log_sums.get([0, 0, 0])? - (1f32.exp() + 2f32.exp()).ln()).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compute_with_log_sum_exp(self) -> Result<(DeviceArray<T, Ix4>, DeviceArray<f32, Ix3>)> {
        self.run(true)
    }

    fn run(self, with_log_sums: bool) -> Result<(DeviceArray<T, Ix4>, DeviceArray<f32, Ix3>)> {
        let Self { q, k, v, .. } = self;
        let (shape, extra) = self.shape()?;
        let stream = q.stream();
        self.check_devices(&[k.stream(), v.stream()])?;
        let (batch, heads, queries, _) = q.raw_dim().into_pattern();
        let log_sums = if with_log_sums {
            Ix3(batch, heads, queries)
        } else {
            Ix3(0, 0, 0)
        };
        let mut task = Task {
            q,
            k,
            v,
            shape,
            factor: self.factors()[0],
            extra,
            out: DeviceArray::uninit(stream, q.raw_dim())?,
            log_sums: DeviceArray::uninit(stream, log_sums)?,
        };
        if !task.out.is_empty() && !task.for_few_queries()? && !T::on_tensor_cores(&mut task)? {
            task.on_ordinary_cores()?;
        }
        Ok((task.out, task.log_sums))
    }

    /// What scores are multiplied with to be exponents of 2, and to be those of e.
    fn factors(&self) -> [f32; 2] {
        let dim = self.q.shape()[3] as f64;
        let scale = self.scale.map_or_else(|| 1.0 / dim.sqrt(), f64::from);
        [(scale * LOG2_E) as f32, scale as f32]
    }

    /// Asks whether all of these are of the device of the queries.
    fn check_devices(&self, streams: &[&Stream]) -> Result<()> {
        let own = self.q.stream();
        streams
            .iter()
            .try_for_each(|stream| own.check_device(OPERATION, stream))
    }

    /// The error for operands of these shapes.
    fn refuse(&self, wanted: String) -> Error {
        let (q, k, v) = (self.q.shape(), self.k.shape(), self.v.shape());
        Error::Shape {
            operation: OPERATION,
            given: format!("queries of shape {q:?}, keys of shape {k:?}, values of shape {v:?}"),
            wanted,
        }
    }

    /// The shape, and what kernels are told besides, if all fits together.
    fn shape(&self) -> Result<(AttentionShape, Extra<'a, T>)> {
        let (q, k, v) = (self.q.shape(), self.k.shape(), self.v.shape());
        let fits = k == v && k[0] == q[0] && k[3] == q[3];
        if !fits || (q[1] != 0 && k[1] == 0) || (k[1] != 0 && !q[1].is_multiple_of(k[1])) {
            return Err(self.refuse(
                "(batch, heads, queries, d), and twice (batch, heads of keys, keys, d), with heads a multiple of those of keys".into(),
            ));
        }
        if !(1..=MAX_DIM).contains(&q[3]) {
            return Err(self.refuse(format!("a d of 1 to {MAX_DIM}")));
        }
        let too_large = || {
            self.refuse(format!(
                "no more than {MAX_LENGTH} queries and keys, and {MAX_TILES} tiles of {ROWS} queries in all heads"
            ))
        };
        let number = |n: usize| u32::try_from(n).map_err(|_| too_large());
        let sharing = q[1].checked_div(k[1]).unwrap_or(1).max(1);
        let (queries, keys) = (number(q[2])?, number(k[2])?);
        if queries.max(keys) > MAX_LENGTH {
            return Err(too_large());
        }
        let extra = self.extra()?;
        let [from, reach] = self.reach(queries, keys);
        let shape = AttentionShape {
            batch: number(q[0])?,
            heads: number(q[1])?,
            sharing: number(sharing)?,
            queries,
            keys,
            dim: number(q[3])?,
            from,
            reach,
            group: self.group(sharing),
            packed: number(self.sequences_packed())?,
        };
        // Of an empty result there is no tile, and no group.
        if !self.q.is_empty() && !shape.is_valid(ROWS as u32) {
            return Err(too_large());
        }
        Ok((shape, extra))
    }

    /// How many heads are taken together: with `causal`, where blocks have more to do or less, the longest of several heads first, which fills
    /// multiprocessors evenly. Windows are as wide everywhere.
    fn group(&self, sharing: usize) -> u32 {
        let [batch, heads, ..] = *self.q.shape() else { return 1 };
        if !self.causal || self.window[0].is_some() {
            return 1;
        }
        let of_head = 2 * self.k.shape()[2] * self.k.shape()[3] * size_of::<T>();
        let sharing = sharing.max(1);
        let of_bytes = |bytes: usize| {
            let fitting = (bytes / of_head.max(1)).max(1).saturating_mul(sharing);
            fitting.min(TOGETHER / self.q.shape()[3].max(1)).max(1)
        };
        let heads = batch.saturating_mul(heads);
        let fitting = match of_bytes(CACHED) {
            fitting if heads / MANY > fitting => of_bytes(CACHED_OF_MANY),
            fitting => fitting,
        };
        // As many in each group: a small last one would begin with long tiles when few are left.
        let together = heads.div_ceil(heads.div_ceil(fitting).max(1)).next_multiple_of(sharing);
        together.min(heads).max(1) as u32
    }
}

impl<T: Attend> Task<'_, T> {
    /// By the kernel for any GPU.
    fn on_ordinary_cores(&mut self) -> Result<()> {
        match self.shape.dim {
            ..=64 => self.launch::<T::D64>(),
            65..=128 => self.launch::<T::D128>(),
            _ => self.launch::<T::D256>(),
        }
    }

    fn launch<K: SafeKernel<Params = AttentionParams<T>>>(&mut self) -> Result<()> {
        // The kernel goes forwards.
        let (q, k, v) = (
            self.q.forwards::<Ix4>(None)?,
            self.k.forwards::<Ix4>(None)?,
            self.v.forwards::<Ix4>(None)?,
        );
        let bias = self.extra.bias(scores(&q, &k))?;
        let config = LaunchConfig::new(self.shape.tiles(ROWS as u32), THREADS as u32);
        let args = (
            Words::of(&q),
            Words::of(&k),
            Words::of(&v),
            bias.as_deref().map(Words::of),
            self.extra.sequences.as_deref().map(Words::of),
            &mut self.out,
            &mut self.log_sums,
            self.shape,
            strides(&q, &k, &v, bias.as_deref()),
            self.factor,
        );
        self.q.stream().launch::<K>(&config, args)
    }
}

/// The shape of the scores.
fn scores<T: Element>(q: &DeviceArrayRef<T, Ix4>, k: &DeviceArrayRef<T, Ix4>) -> [usize; 4] {
    let [batch, heads, queries] = [0, 1, 2].map(|axis| q.shape()[axis]);
    [batch, heads, queries, k.shape()[2]]
}

/// Whether there are keys, and greater scores are greater exponents: what the kernels for tensor cores are written for.
fn has_ordered_exponents(keys: u32, factor: f32) -> bool {
    keys > 0 && factor > 0.0 && factor.is_finite()
}

/// The strides of the operands.
fn strides<T: Element>(
    q: &DeviceArrayRef<T, Ix4>,
    k: &DeviceArrayRef<T, Ix4>,
    v: &DeviceArrayRef<T, Ix4>,
    bias: Option<&DeviceArrayRef<T, Ix4>>,
) -> AttentionStrides {
    AttentionStrides {
        q: steps(q),
        k: steps(k),
        v: steps(v),
        bias: bias.map_or([0; 4], steps),
    }
}

/// The strides of an operand, which goes forwards.
fn steps<T: Element>(x: &DeviceArrayRef<T, Ix4>) -> [usize; 4] {
    let steps = x.steps();
    [steps[0], steps[1], steps[2], steps[3]]
}
