// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention.

use kernels_gpu::attention::tiled::gradients::{GradientStrides, attention_gradients, blocks};
use kernels_gpu::attention::tiled::{ROWS, THREADS};
use kernels_gpu::attention::{AttentionShape, MAX_TILES};
use ndarray::{Axis, Ix3, Ix4};

use super::sequences::Extra;
use super::{Attend, Attention, OPERATION, scores, steps, strides};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::launch::{LaunchConfig, Words};
use crate::ops::CastTo;

/// What gradients are computed of.
#[doc(hidden)]
pub struct GradientsTask<'a, T> {
    pub(super) q: &'a DeviceArrayRef<T, Ix4>,
    pub(super) k: &'a DeviceArrayRef<T, Ix4>,
    pub(super) v: &'a DeviceArrayRef<T, Ix4>,
    out: &'a DeviceArrayRef<T, Ix4>,
    pub(super) log_sums: &'a DeviceArrayRef<f32, Ix3>,
    pub(super) grad: &'a DeviceArrayRef<T, Ix4>,
    pub(super) shape: AttentionShape,
    blocks: u32,
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
    /// All is computed in `f32`, and each gradient is rounded to its type once. On Hopper's tensor cores weights, and the gradients of
    /// scores, are rounded to the elements' type before they are multiplied.
    ///
    /// A query that sees no key, whose logarithm is −∞, has the gradient 0 and adds nothing to those of keys and values. NaN in what a query
    /// sees makes its gradient NaN, and those of all keys and values that it sees; of those that it does not see some are multiplied by 0.
    ///
    /// On one device the bits are the same each time.
    ///
    /// # Cost
    ///
    /// For each pair of a query and a key that it sees `14 d` operations on Hopper's tensor cores, by which those of `f16` and `bf16` with
    /// a `d` of 64 or 128 are computed where the scale is positive and there is no [`bias`](Self::bias), and `16 d` on ordinary cores, by which all others are: `10 d` is the least,
    /// for which blocks would have to add to the same results, in any order. Memory: the gradients, and two `f32` for each query;
    /// for `f16` and `bf16` on ordinary cores also, until it is done, the operands, `grad` and the gradients as `f32`.
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
        let (shape, extra) = self.shape()?;
        self.check_results(out, log_sums, grad)?;
        let Self { q, k, v, .. } = self;
        let stream = q.stream();
        self.check_devices(&[k.stream(), v.stream(), out.stream(), log_sums.stream(), grad.stream()])?;
        if q.is_empty() || k.is_empty() {
            return Ok([
                DeviceArray::zeros(stream, q.raw_dim())?,
                DeviceArray::zeros(stream, k.raw_dim())?,
                DeviceArray::zeros(stream, v.raw_dim())?,
            ]);
        }
        let blocks = blocks(&shape).ok_or_else(|| {
            self.refuse(format!(
                "no more than {MAX_TILES} tiles of {ROWS} queries, keys and values in all heads"
            ))
        })?;
        T::gradients(&GradientsTask {
            q,
            k,
            v,
            out,
            log_sums,
            grad,
            shape,
            blocks,
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

    /// By the kernel for any GPU, which is one of `f32`.
    pub(super) fn through_f32(&self) -> Result<[DeviceArray<T, Ix4>; 3]>
    where
        T: CastTo<f32>,
        f32: CastTo<T>,
    {
        let [q, k, v, grad] = [self.q, self.k, self.v, self.grad].map(|x| x.cast::<f32>());
        let (q, k, v, grad) = (q?, k?, v?, grad?);
        let bias = self.extra.bias.as_ref().map(|bias| bias.cast::<f32>()).transpose()?;
        let [dq, dk, dv] = self.on_ordinary_cores([&q, &k, &v, &grad], bias.as_deref())?;
        Ok([dq.cast::<T>()?, dk.cast::<T>()?, dv.cast::<T>()?])
    }

    /// By the kernel for any GPU, of queries, keys, values and their gradient as `f32`, and what is added to scores.
    pub(super) fn on_ordinary_cores(
        &self,
        operands: [&DeviceArrayRef<f32, Ix4>; 4],
        bias: Option<&DeviceArrayRef<f32, Ix4>>,
    ) -> Result<[DeviceArray<f32, Ix4>; 3]> {
        // The kernel goes forwards.
        let [q, k, v, grad] = operands.map(|x| x.forwards::<Ix4>(None));
        let (q, k, v, grad) = (q?, k?, v?, grad?);
        let stream = self.q.stream();
        let log_sums = self.log_sums.in_order()?;
        let deltas = self.deltas().eval_on(stream)?;
        let bias = bias.map(|bias| bias.broadcast(scores(&q, &k))).transpose()?;
        let mut gradients = self.results()?;
        let [dq, dk, dv] = &mut gradients;
        let strides = GradientStrides {
            attention: strides(&q, &k, &v, bias.as_deref()),
            grad: steps(&grad),
        };
        let (q, k, v, grad) = (Words::of(&q), Words::of(&k), Words::of(&v), Words::of(&grad));
        let (log_sums, shape, factors) = (Words::of(&log_sums), self.shape, self.factors);
        let (bias, sequences) = (
            bias.as_deref().map(Words::of),
            self.extra.sequences.as_deref().map(Words::of),
        );
        let args = (
            q, k, v, grad, log_sums, &deltas, bias, sequences, dq, dk, dv, shape, strides, factors,
        );
        let config = LaunchConfig::new(self.blocks, THREADS as u32);
        match shape.dim {
            ..=64 => stream.launch::<attention_gradients<8>>(&config, args)?,
            65..=128 => stream.launch::<attention_gradients<16>>(&config, args)?,
            _ => stream.launch::<attention_gradients<32>>(&config, args)?,
        }
        Ok(gradients)
    }
}
