// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention.

use kernels_gpu::attention::bias_plan::BiasPlan;
use kernels_gpu::attention::tiled::gradients::bias::{TILE, attention_bias_gradient};
use kernels_gpu::attention::tiled::gradients::{GradientStrides, attention_gradients, blocks};
use kernels_gpu::attention::tiled::{ROWS, THREADS};
use kernels_gpu::attention::{AttentionShape, MAX_TILES};
use ndarray::{Axis, Dim, Ix3, Ix4, Ix5};

use super::sequences::Extra;
use super::{Attend, Attention, OPERATION, scores, steps, strides};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::launch::{LaunchConfig, Words};
use crate::ops::transpose::Ordered;

/// What gradients are computed of.
#[doc(hidden)]
pub struct GradientsTask<'a, T> {
    pub(super) q: &'a DeviceArrayRef<T, Ix4>,
    pub(super) k: &'a DeviceArrayRef<T, Ix4>,
    pub(super) v: &'a DeviceArrayRef<T, Ix4>,
    pub(super) out: &'a DeviceArrayRef<T, Ix4>,
    pub(super) log_sums: &'a DeviceArrayRef<f32, Ix3>,
    pub(super) grad: &'a DeviceArrayRef<T, Ix4>,
    pub(super) shape: AttentionShape,
    /// What scores are multiplied with to be exponents of 2, and to be those of e.
    pub(super) factors: [f32; 2],
    pub(super) extra: Extra<'a, T>,
}

impl<T: Attend> Attention<'_, T> {
    /// The gradients with respect to queries, keys and values, in this order and of their shapes, as new arrays on the stream of the
    /// queries: `out` and `log_sums` are what [`compute_with_log_sum_exp`](Self::compute_with_log_sum_exp) gave for the same operands,
    /// `causal` and `scale`, and `grad` is the gradient with respect to `out`.
    ///
    /// With the weights `P = exp(scale · Q Kᵀ − log_sums)` and, for each query, `δ = Σ grad · out`, they are `scale · S K`, `scale · Sᵀ Q` and
    /// `Pᵀ grad`, where `S = P ∘ (grad Vᵀ − δ)`; those of keys and values are summed over the heads of queries that share them. No matrix
    /// of scores is in memory (T. Dao, "FlashAttention-2", 2023).
    ///
    /// # Precision
    ///
    /// All is computed in `f32`, and each gradient is rounded to its type once. On tensor cores weights, and the gradients of
    /// scores, are rounded to the elements' type before they are multiplied.
    ///
    /// A query that sees no key, whose logarithm is −∞, has the gradient 0 and adds nothing to those of keys and values. NaN in what a query
    /// sees makes its gradient NaN, and those of all keys and values that it sees; of those that it does not see some are multiplied by 0.
    ///
    /// On one device the bits are the same each time.
    ///
    /// # Cost
    ///
    /// Operations for each pair of a query and a key that it sees: `10 d`, the least there is, on Hopper's tensor cores, by which those of `f16`
    /// and `bf16` with a `d` of 64 or 128 are computed where the scale is positive and a [`bias`](Self::bias) is not the same for all keys; `14 d` on
    /// those of Ampere and later, by which they are computed where there is no bias; `16 d` on ordinary cores, by which all others are computed.
    /// Memory: the gradients, and two `f32` for each query; until it is done, on Hopper's tensor cores also the queries' gradients as `f32`, on
    /// ordinary cores for `f16` and `bf16` the operands, `grad` and the gradients as `f32`, and on any tensor cores copies of operands whose lines
    /// do not begin at multiples of 16 bytes.
    ///
    /// # Errors
    ///
    /// Those of [`compute`](Self::compute), and [`Error::Shape`] if `out`, `grad` or `log_sums` have not the shapes of the results.
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
    /// let k = DeviceArray::from_ndarray(stream, &array![[[[0.0f32], [0.0]]]])?;
    /// let v = DeviceArray::from_ndarray(stream, &array![[[[3.0f32], [1.0]]]])?;
    /// let (out, log_sums) = q.attention(&k, &v).compute_with_log_sum_exp()?;
    /// let grad = DeviceArray::from_ndarray(stream, &array![[[[1.0f32]]]])?;
    /// let [_, dk, dv] = q.attention(&k, &v).gradients(&out, &log_sums, &grad)?;
    /// // Both values have the weight ½. More of the first one's would be more.
    /// assert_eq!(dv.to_ndarray()?, array![[[[0.5], [0.5]]]]);
    /// assert_eq!(dk.to_ndarray()?, array![[[[0.5], [-0.5]]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn gradients(
        self,
        out: &DeviceArrayRef<T, Ix4>,
        log_sums: &DeviceArrayRef<f32, Ix3>,
        grad: &DeviceArrayRef<T, Ix4>,
    ) -> Result<[DeviceArray<T, Ix4>; 3]> {
        let task = self.task(out, log_sums, grad)?;
        if task.is_empty() {
            let stream = self.q.stream();
            return Ok([
                DeviceArray::zeros(stream, self.q.raw_dim())?,
                DeviceArray::zeros(stream, self.k.raw_dim())?,
                DeviceArray::zeros(stream, self.v.raw_dim())?,
            ]);
        }
        let blocks = blocks(&task.shape).ok_or_else(|| {
            self.refuse(format!(
                "no more than {MAX_TILES} tiles of {ROWS} queries, keys and values in all heads"
            ))
        })?;
        match T::gradients_on_tensor_cores(&task)? {
            Some(gradients) => Ok(gradients),
            None => task.on_ordinary_cores(blocks),
        }
    }

    /// The gradient with respect to the [`bias`](Self::bias), of its shape, as a new array on the stream of the queries. The arguments are
    /// those of [`gradients`](Self::gradients), which gives the other three.
    ///
    /// It is `S = P ∘ (grad Vᵀ − δ)` (see there), summed over the axes along which the bias is repeated: problems, heads, queries, keys. Where
    /// a query does not see the key, and where the bias is −∞, `S` is 0.
    ///
    /// # Precision
    ///
    /// All is computed and summed in `f32`, and rounded to the bias's type once. On one device the bits are the same each time.
    ///
    /// # Cost
    ///
    /// `4 d` operations for each pair of a query and a key in tiles in which one is seen: of 128 of each on Hopper's tensor cores, which
    /// compute what they compute of [`gradients`](Self::gradients), of 64 on ordinary cores. Memory: the
    /// gradient; sums of parts, in `f32`, of 16 MiB at most, or, where queries are summed, of a sixteenth of the other axes' scores, where
    /// keys are, of a 64th; two `f32` for each query; for `f16` and `bf16` on ordinary cores also the operands as `f32`, until it is done.
    ///
    /// # Errors
    ///
    /// Those of [`gradients`](Self::gradients), and [`Error::Parameter`] if there is no bias.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let q = DeviceArray::<f32, _>::zeros(stream, (1, 1, 1, 1))?;
    /// let k = DeviceArray::<f32, _>::zeros(stream, (1, 1, 3, 1))?;
    /// let v = DeviceArray::from_ndarray(stream, &array![[[[3.0f32], [1.0], [7.0]]]])?;
    /// let bias = DeviceArray::from_ndarray(stream, &array![[[[0.0f32, 0.0, f32::NEG_INFINITY]]]])?;
    /// let (out, log_sums) = q.attention(&k, &v).bias(&bias).compute_with_log_sum_exp()?;
    /// let grad = DeviceArray::<f32, _>::ones(stream, (1, 1, 1, 1))?;
    /// let of_bias = q.attention(&k, &v).bias(&bias).bias_gradient(&out, &log_sums, &grad)?;
    /// // The result is 2. More of the first score would be more, more of the second less.
    /// assert_eq!(of_bias.to_ndarray()?, array![[[[0.5, -0.5, 0.0]]]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bias_gradient(
        self,
        out: &DeviceArrayRef<T, Ix4>,
        log_sums: &DeviceArrayRef<f32, Ix3>,
        grad: &DeviceArrayRef<T, Ix4>,
    ) -> Result<DeviceArray<T, Ix4>> {
        let Some(bias) = self.bias else {
            return Err(Error::Parameter {
                operation: OPERATION,
                parameter: "bias",
                given: "none".into(),
                wanted: "the one whose gradient is computed".into(),
            });
        };
        let task = self.task(out, log_sums, grad)?;
        if task.is_empty() {
            return DeviceArray::zeros(self.q.stream(), bias.raw_dim());
        }
        // Each is 1 or a length of the scores.
        let shape = [0, 1, 2, 3].map(|axis| bias.shape()[axis] as u32);
        let plan = BiasPlan::new(&task.shape, shape, TILE);
        let blocks = plan.blocks(&task.shape).ok_or_else(|| {
            self.refuse(format!(
                "no more than {MAX_TILES} tiles of {ROWS} queries and {ROWS} keys in all heads of the bias"
            ))
        })?;
        let (plan, sums) = match T::bias_gradient_on_tensor_cores(&task, shape)? {
            Some(sums) => sums,
            None => (plan, task.sums_of_bias(&plan, blocks)?),
        };
        T::rounded(task.summed(&plan, sums, bias.raw_dim())?)
    }

    /// What gradients are computed of, if it fits.
    fn task<'a>(
        &'a self,
        out: &'a DeviceArrayRef<T, Ix4>,
        log_sums: &'a DeviceArrayRef<f32, Ix3>,
        grad: &'a DeviceArrayRef<T, Ix4>,
    ) -> Result<GradientsTask<'a, T>> {
        let (shape, extra) = self.shape()?;
        self.check_results(out, log_sums, grad)?;
        let Self { q, k, v, .. } = *self;
        self.check_devices(&[k.stream(), v.stream(), out.stream(), log_sums.stream(), grad.stream()])?;
        Ok(GradientsTask {
            q,
            k,
            v,
            out,
            log_sums,
            grad,
            shape,
            factors: self.factors(),
            extra,
        })
    }

    /// Asks whether what was computed has the shapes of results.
    fn check_results(
        &self,
        out: &DeviceArrayRef<T, Ix4>,
        log_sums: &DeviceArrayRef<f32, Ix3>,
        grad: &DeviceArrayRef<T, Ix4>,
    ) -> Result<()> {
        let q = self.q.shape();
        if out.shape() == q && grad.shape() == q && log_sums.shape() == &q[..3] {
            return Ok(());
        }
        Err(Error::Shape {
            operation: OPERATION,
            given: format!(
                "a result of shape {:?}, logarithms of shape {:?}, a gradient of shape {:?}",
                out.shape(),
                log_sums.shape(),
                grad.shape()
            ),
            wanted: format!("{q:?}, {:?}, and {q:?} again, as of the queries", &q[..3]),
        })
    }
}

impl<T: Attend> GradientsTask<'_, T> {
    /// The product of each query's result and gradient.
    pub(super) fn deltas(&self) -> Expr<'_, f32, Ix3> {
        (self.grad.expr().cast::<f32>() * self.out.expr().cast::<f32>()).sum_axis(Axis(3))
    }

    /// Arrays for the gradients.
    pub(super) fn results<U: Element>(&self) -> Result<[DeviceArray<U, Ix4>; 3]> {
        let stream = self.q.stream();
        Ok([
            DeviceArray::uninit(stream, self.q.raw_dim())?,
            DeviceArray::uninit(stream, self.k.raw_dim())?,
            DeviceArray::uninit(stream, self.v.raw_dim())?,
        ])
    }

    /// Whether there is no query or no key.
    fn is_empty(&self) -> bool {
        self.q.is_empty() || self.k.is_empty()
    }

    /// By the kernel for any GPU, in so many blocks.
    fn on_ordinary_cores(&self, blocks: u32) -> Result<[DeviceArray<T, Ix4>; 3]> {
        let operands = self.operands()?;
        let mut gradients = self.results()?;
        let [dq, dk, dv] = &mut gradients;
        let ([q, k, v, grad], bias, strides) = operands.for_kernel()?;
        let sequences = self.extra.sequences.as_deref().map(Words::of);
        let args = (
            q,
            k,
            v,
            grad,
            Words::of(&operands.log_sums),
            &operands.deltas,
            bias,
            sequences,
            dq,
            dk,
            dv,
            self.shape,
            strides,
            self.factors,
        );
        let (stream, config) = (self.q.stream(), LaunchConfig::new(blocks, THREADS as u32));
        match self.shape.dim {
            ..=64 => stream.launch::<attention_gradients<8>>(&config, args)?,
            65..=128 => stream.launch::<attention_gradients<16>>(&config, args)?,
            _ => stream.launch::<attention_gradients<32>>(&config, args)?,
        }
        let [dq, dk, dv] = gradients;
        Ok([T::rounded(dq)?, T::rounded(dk)?, T::rounded(dv)?])
    }

    /// The sums that the gradient of a bias is made of, by the kernel for any GPU, in so many blocks.
    fn sums_of_bias(&self, plan: &BiasPlan, blocks: u32) -> Result<DeviceArray<f32, Ix5>> {
        let operands = self.operands()?;
        let stream = self.q.stream();
        let mut sums = DeviceArray::uninit(stream, Dim(plan.sums(&self.shape).map(|n| n as usize)))?;
        let ([q, k, v, grad], of_kernel, strides) = operands.for_kernel()?;
        let sequences = self.extra.sequences.as_deref().map(Words::of);
        let args = (
            q,
            k,
            v,
            grad,
            Words::of(&operands.log_sums),
            &operands.deltas,
            of_kernel,
            sequences,
            &mut sums,
            self.shape,
            strides,
            *plan,
            self.factors[0],
        );
        stream.launch::<attention_bias_gradient>(&LaunchConfig::new(blocks, THREADS as u32), args)?;
        Ok(sums)
    }

    /// The gradient of a bias of that shape, of the sums that a plan has it made of.
    fn summed(&self, plan: &BiasPlan, sums: DeviceArray<f32, Ix5>, bias: Ix4) -> Result<DeviceArray<f32, Ix4>> {
        let [over_queries, over_keys] = plan.is_over(&self.shape);
        let is_over = [plan.parts > 1, false, false, over_queries, over_keys];
        let axes: Vec<usize> = (0..5).filter(|&axis| is_over[axis]).collect();
        match axes.is_empty() {
            true => sums.into_shape(bias),
            false => sums.sum_axes(&axes)?.into_shape(bias),
        }
    }

    /// The operands as the kernels for any GPU have them.
    fn operands(&self) -> Result<Operands<'_>> {
        Ok(Operands {
            q: T::as_f32(self.q)?,
            k: T::as_f32(self.k)?,
            v: T::as_f32(self.v)?,
            grad: T::as_f32(self.grad)?,
            bias: self.extra.bias.as_deref().map(T::as_f32).transpose()?,
            log_sums: self.log_sums.in_order()?,
            deltas: self.deltas().eval_on(self.q.stream())?,
        })
    }
}

/// The operands of the kernels for any GPU, of `f32`, with strides that go forwards.
struct Operands<'a> {
    q: Ordered<'a, f32, Ix4>,
    k: Ordered<'a, f32, Ix4>,
    v: Ordered<'a, f32, Ix4>,
    grad: Ordered<'a, f32, Ix4>,
    bias: Option<Ordered<'a, f32, Ix4>>,
    log_sums: Ordered<'a, f32, Ix3>,
    deltas: DeviceArray<f32, Ix3>,
}

impl Operands<'_> {
    /// The elements of queries, keys, values and their gradient, those of the bias, and all strides.
    #[allow(clippy::type_complexity, reason = "what a launch takes")]
    fn for_kernel(&self) -> Result<([Words<'_, f32>; 4], Option<Words<'_, f32>>, GradientStrides)> {
        let Self {
            q, k, v, grad, bias, ..
        } = self;
        let repeated = bias.as_ref().map(|bias| bias.broadcast(scores(q, k))).transpose()?;
        let strides = GradientStrides {
            attention: strides(q, k, v, repeated.as_deref()),
            grad: steps(grad),
        };
        let words = [Words::of(q), Words::of(k), Words::of(v), Words::of(grad)];
        Ok((words, bias.as_deref().map(Words::of), strides))
    }
}
