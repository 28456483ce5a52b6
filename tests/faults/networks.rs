// SPDX-License-Identifier: MIT OR Apache-2.0
//! Work that networks are made of, and other products.

use ndarray::{Array2, Array3, Array4, array, s};
use warpsmith::ops::{self, Precision};
use warpsmith::optim::{Adam, LossScale, Sgd, clip_norm, step_all};

use super::*;

pub const WORK: &[(&str, Work)] = &[
    ("convolutions", |_, stream| {
        let x = DeviceArray::<f32, _>::ones(stream, (1, 6, 6, 2))?;
        let weights = DeviceArray::<f32, _>::ones(stream, (2, 3, 3, 2))?;
        let convolution = x.convolve(&weights);
        let out = convolution.compute()?;
        assert_eq!((out.shape(), out.sum()?), (&[1, 4, 4, 2][..], 32.0 * 18.0));
        let gradient = out.ones_like()?;
        assert_eq!(convolution.input_gradient(&gradient)?.sum()?, 32.0 * 18.0);
        assert_eq!(convolution.weight_gradient(&gradient)?.sum()?, 32.0 * 18.0);
        let depthwise = DeviceArray::<f32, _>::ones(stream, (2, 3, 3, 1))?;
        assert_eq!(x.convolve(&depthwise).groups(2).padding(1).compute()?.max()?, 9.0);
        Ok(())
    }),
    ("products over labelled axes", |_, stream| {
        let x = DeviceArray::<f32, _>::ones(stream, (2, 3, 4))?.into_dyn();
        let operands = [x.view(), x.view()];
        assert_eq!(ops::einsum("bij,bkj->bki", &operands)?.sum()?, 72.0);
        // Copied, summed, multiplied.
        assert_eq!(ops::einsum("bij,kij->kb", &[x.view(), x.flip(Axis(1))?])?.sum()?, 48.0);
        assert_eq!(ops::einsum("bij,bij->j", &operands)?.sum()?, 24.0);
        Ok(())
    }),
    ("pooling", |_, stream| {
        let numbers = Array4::from_shape_fn((1, 4, 4, 1), |(_, i, j, _)| (4 * i + j) as f32);
        let x = DeviceArray::from_ndarray(stream, &numbers)?;
        let (max, mean) = (x.max_pool(2), x.average_pool(2));
        assert_eq!((max.compute()?.sum()?, mean.compute()?.sum()?), (40.0, 30.0));
        let gradient = DeviceArray::<f32, _>::ones(stream, (1, 2, 2, 1))?;
        assert_eq!(
            (max.gradient(&gradient)?.sum()?, mean.gradient(&gradient)?.sum()?),
            (4.0, 4.0)
        );
        Ok(())
    }),
    ("attention", |_, stream| {
        let x = DeviceArray::<f32, _>::ones(stream, (1, 2, 5, 8))?;
        let (out, log_sums) = x.attention(&x, &x).causal().compute_with_log_sum_exp()?;
        assert!(out.to_ndarray()?.iter().all(|x| (x - 1.0).abs() < 1e-5));
        let [q, k, v] = x.attention(&x, &x).causal().gradients(&out, &log_sums, &x)?;
        assert!((v.sum()? - 80.0).abs() < 1e-3 && q.max()?.abs() + k.max()?.abs() < 1e-3);
        // One query, as in decoding.
        let last = DeviceArray::<f32, _>::ones(stream, (1, 2, 1, 8))?;
        assert!((last.attention(&x, &x).compute()?.sum()? - 16.0).abs() < 1e-3);
        Ok(())
    }),
    ("normalisation", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((4, 10), |(i, j)| (i * j) as f32 / 8.0))?;
        let (weight, bias) = (ones(stream, 10)?, ones(stream, 10)?);
        assert!((x.expr().softmax(Axis(1)).sum().eval()?.to_ndarray()?.into_scalar() - 4.0).abs() < 1e-5);
        let normed = x.expr().layer_norm(&[1], &weight, &bias, 1e-5).mean().eval()?;
        assert!((normed.to_ndarray()?.into_scalar() - 1.0).abs() < 1e-4);
        Ok(())
    }),
    ("losses and their gradients", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((4, 10), |(i, j)| (i * j) as f32 / 8.0))?;
        let labels = DeviceArray::from_ndarray(stream, &array![0i64, 3, 9, 2])?;
        let loss = x.expr().cross_entropy(Axis(1), &labels).eval()?;
        let gradient = x.expr().cross_entropy_backward(Axis(1), &labels, &loss).sum().eval()?;
        assert!(gradient.to_ndarray()?.into_scalar().abs() < 1e-5);
        Ok(())
    }),
    ("optimisers", |_, stream| {
        let (mut x, gradient) = (ones(stream, 1000)?, ones(stream, 1000)?);
        Sgd::new(&x, 0.5)?.momentum(0.9)?.step(&mut x, &gradient)?;
        assert_eq!(x.max()?, 0.5);
        Adam::new(&x, 0.5)?.step(&mut x, &gradient)?;
        assert!(x.max()?.abs() < 1e-4);
        Ok(())
    }),
    ("steps of several arrays together", |_, stream| {
        let (mut x, mut y, gradient) = (ones(stream, 1000)?, ones(stream, 1000)?, ones(stream, 1000)?);
        let mut adams = [Adam::new(&x, 0.5)?, Adam::new(&y, 0.5)?];
        let [of_x, of_y] = &mut adams;
        let steps = [of_x.defer_step(&mut x, &gradient)?, of_y.defer_step(&mut y, &gradient)?];
        step_all(steps)?;
        assert!((x.max()? - 0.5).abs() < 1e-4 && (y.min()? - 0.5).abs() < 1e-4);
        Ok(())
    }),
    ("norms of gradients and scales of losses", |_, stream| {
        let gradient = ones(stream, 1000)?;
        let mut clipped = gradient.try_clone()?;
        let norm = clip_norm(&mut [clipped.view_mut().into_dyn()], 1.0)?
            .to_ndarray()?
            .into_scalar();
        assert!((norm - 1000f32.sqrt()).abs() < 1e-2);
        let mut scale = LossScale::new(stream, 8.0)?;
        scale.update(&[gradient.view().into_dyn()])?;
        assert_eq!(scale.value().to_ndarray()?.into_scalar(), 8.0);
        Ok(())
    }),
    ("products with more in one kernel", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let b = ones(stream, 30 * 10)?.into_shape((30, 10))?;
        let (bias, residual) = (ones(stream, 10)?, ones(stream, 200)?.into_shape((20, 10))?);
        let layer = a.fused_matmul(&b).bias(&bias).residual(&residual).relu().compute()?;
        assert_eq!((layer.min()?, layer.max()?), (32.0, 32.0));
        Ok(())
    }),
    ("products of other types and precisions", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let b = ones(stream, 30 * 10)?.into_shape((30, 10))?;
        let half = |x: &DeviceArray<f32, Ix2>| x.cast::<f16>();
        assert_eq!(half(&a)?.matmul(&half(&b)?)?.max()?, f16::from_f32(30.0));
        assert_eq!(a.matmul_with(&b, Precision::Tf32)?.max()?, 30.0);
        let (x, y) = (a.cast::<f64>()?, b.cast::<f64>()?);
        assert_eq!(x.matmul(&y)?.max()?, 30.0);
        Ok(())
    }),
    ("products of a transpose and a vector", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let bias = ones(stream, 20)?;
        assert_eq!(a.t().matvec(&bias)?.dot(&ones(stream, 30)?)?, 600.0);
        Ok(())
    }),
    ("products in batches and in groups", |_, stream| {
        let a = DeviceArray::from_ndarray(stream, &Array3::<f32>::ones((3, 4, 5)))?;
        let b = DeviceArray::from_ndarray(stream, &Array3::<f32>::ones((3, 5, 6)))?;
        assert_eq!(a.batched_matmul(&b)?.sum()?, 360.0);
        let rows = ones(stream, 12 * 5)?.into_shape((12, 5))?;
        let ends = DeviceArray::from_ndarray(stream, &array![2i32, 2, 12])?;
        assert_eq!(rows.grouped_matmul(&b, &ends)?.sum()?, 360.0);
        let right = b.index_axis(Axis(0), 0)?;
        let products = ops::grouped_matmul(&[(rows.view(), right.clone()), (rows.slice(s![..3, ..])?, right)])?;
        assert_eq!(products[0].sum()? + products[1].sum()?, 450.0);
        Ok(())
    }),
    ("filters and other borders", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array3::from_elem((10, 15, 1), 2.0f32))?;
        let weights = Array2::from_elem((3, 3), 1.0f32);
        assert_eq!(x.filter(&weights, Border::Reflect)?.sum()?, 18.0 * 150.0);
        Ok(())
    }),
    ("histograms and scans of expressions", |_, stream| {
        let x = DeviceArray::range(stream, 0.0f32, 1000.0, 1.0)?;
        let counts = (&x * 2.0).histogram(4, 0.0..=2000.0).eval()?;
        assert_eq!(counts.to_ndarray()?, array![250, 250, 250, 250]);
        assert_eq!(
            (&x * 2.0)
                .inclusive_scan::<Sum>()
                .max()
                .eval()?
                .to_ndarray()?
                .into_scalar(),
            999_000.0
        );
        Ok(())
    }),
    ("arrays that expressions replace, and several at once", |_, stream| {
        let (mut x, mut y) = (ones(stream, 100)?, ones(stream, 100)?);
        x.update(|x| x * 3.0)?;
        expr::update((&mut x, &mut y), |(x, y)| (&x + &y, x * y))?;
        let (sum, product) = expr::eval((&x.expr().sum(), &y.expr().sum()))?;
        assert_eq!(
            (sum.to_ndarray()?.into_scalar(), product.to_ndarray()?.into_scalar()),
            (400.0, 300.0)
        );
        Ok(())
    }),
];
