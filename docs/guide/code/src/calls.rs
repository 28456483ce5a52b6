// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every call that the tables of chapter "Coming from…" name: a test in `book.rs` holds the tables against this file.

use std::ops::RangeInclusive;

use half::bf16;
use warpsmith::dlpack::DLManagedTensor;
use warpsmith::expr::{self, Expr};
use warpsmith::ndarray::{Array1, Array2, Axis, Ix1, Ix2, array, s};
use warpsmith::ops::{self, Border, Max, ScanAlgorithm, Side, Sum};
use warpsmith::optim::{self, Adam, Sgd};
use warpsmith::{
    Checks, Device, DeviceArray, DeviceGridBarrier, Generator, LaunchConfig, Module, PinnedArray, Pipeline, Result,
    Stream,
};

use warpsmith_guide_kernels::calls::{mirrored, transposed, uniform, vocabulary};
use warpsmith_guide_kernels::own::{Norm, mix};

#[test]
fn kernels() -> Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(32, |i| i as f32))?;
    let mut out = DeviceArray::zeros(stream, 32)?;
    let mut words = DeviceArray::<u32, _>::zeros(stream, 7)?;
    let (blocks, threads) = (1u32, 32u32);
    let config = LaunchConfig {
        dynamic_shared: 4 * 32,
        ..LaunchConfig::new(blocks, threads)
    };
    stream.launch::<vocabulary>(&config, (&x, &mut out, &mut words, &[0.0f32, 1.0, 2.0, 3.0]))?;
    let words = words.to_ndarray()?;
    assert_eq!(words.to_vec()[..3], [32, 31, 5]);
    assert_eq!((words[4], words[5], words[6]), (u32::MAX, 32, 29));

    let mut barrier = DeviceGridBarrier::new(stream)?;
    let mut data = DeviceArray::<f32, _>::range(stream, 0.0, 30.0, 1.0)?;
    let mut sums = data.zeros_like()?;
    let config = device.cooperative_config::<mirrored>(32, 0)?;
    stream.launch::<mirrored>(&config, (&mut barrier, &mut data, &mut sums))?;
    assert_eq!(sums.to_ndarray()?, Array1::from_elem(30, 58.0));

    let m = DeviceArray::from_ndarray(stream, &Array2::from_shape_fn((30, 40), |(i, j)| (100 * i + j) as f32))?;
    let mut out = DeviceArray::zeros(stream, (40, 30))?;
    let config = LaunchConfig::for_shape((30, 40), (32, 8));
    stream.launch::<transposed>(&config, (&m, &mut out))?;
    assert_eq!(out.to_ndarray()?, m.t().to_ndarray()?);

    let mut random = Generator::new(1);
    let mut numbers = DeviceArray::zeros(stream, 100)?;
    let config = device.launch_config::<uniform>(numbers.len())?;
    stream.launch::<uniform>(&config, (random.take(1), &mut numbers))?;
    assert!(numbers.min()? >= 0.0 && numbers.max()? < 1.0);
    assert!(device.occupancy::<uniform>(256, 0)? >= 1);
    device.preload::<uniform>()?;
    Ok(())
}

#[test]
fn devices_streams_and_copies() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::auto()?;
    let n = 1000;
    let a = Array1::<f32>::ones(n);
    assert!(Device::simulator().is_simulator());
    assert!(Device::checked_simulator(Checks::ALL).is_simulator());
    let sm = device.properties().compute_capability;
    println!("{} {sm:?}, {} bytes", device.properties().name, device.memory()?.free);
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &a)?;
    assert!(device.memory()?.allocated > 0 && !Device::list()?.is_empty());
    let mut y = DeviceArray::<f32, _>::zeros(stream, n)?;
    y.assign_ndarray(&a)?;
    y.assign(&x)?;
    y.fill(0.0)?;
    let mut host = Array1::zeros(n);
    x.copy_to_ndarray(&mut host)?;
    assert_eq!(x.to_ndarray()?, host);
    drop(y);

    let stream = device.create_stream()?;
    let urgent = device.create_stream_with_priority(*device.stream_priorities()?.start())?;
    let start = stream.record()?;
    let on_other = x.to_device(&stream)?;
    let end = stream.record()?;
    urgent.wait(&end)?;
    stream.on_reached(|| println!("done"))?;
    println!("{:?} {}", end.elapsed_since(&start)?, on_other.len());
    end.synchronize()?;
    stream.synchronize()?;
    device.synchronize()?;

    let pinned = PinnedArray::<f32, _>::zeros(&device, n)?;
    let batch = PinnedArray::from_ndarray(&device, &a)?;
    let (z, upload) = DeviceArray::upload_async(&stream, batch)?;
    let download = z.download_async_into(pinned)?;
    assert_eq!(download.wait()?.view(), upload.wait()?.view());

    let batches = (0..4).map(|i| Array1::from_elem(1000, i as f32));
    for y in Pipeline::new(&device).run(batches, |x| x.square()) {
        assert!(y?.view()[0] <= 9.0);
    }
    let mut graph = stream.capture(z, |_, z| z.exp()?.mul_scalar(2.0))?;
    graph.launch()?;
    assert!(graph.output().max()? > 5.0);

    let tensor = x.into_dlpack::<DLManagedTensor>()?;
    // SAFETY: the tensor is valid, and is given away here, once.
    let x = unsafe { DeviceArray::<f32, Ix1>::from_dlpack(&stream, tensor)? };
    assert_eq!(x.len(), n);
    Ok(())
}

#[allow(
    dead_code,
    reason = "it wants two GPUs and a file of PTX: that it compiles is what is shown"
)]
fn foreign(device: &Device, stream: &Stream, ptx: &str, x: &mut DeviceArray<f32, Ix1>) -> Result<()> {
    let function = Module::from_ptx(device, ptx)?.function("scale")?;
    let config = LaunchConfig::for_len(x.len(), 256);
    let second = Device::named("cuda:1")?;
    let there = x.to_device(second.default_stream())?;
    let address = there.as_device_ptr(second.default_stream())?;
    assert!(!address.is_null() && !stream.as_raw().is_null());
    // SAFETY: the caller's PTX takes these parameters.
    unsafe { stream.launch_function(&function, &config, (x, 2.0f32)) }
}

#[test]
fn arrays() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let n = 12;
    let x = DeviceArray::<f32, _>::linspace(stream, 0.0, 1.0, n)?;
    let numbers = DeviceArray::<i32, _>::range(stream, 0, 10, 1)?;
    let mut y = DeviceArray::from_elem(stream, n, 2.0f32)?;
    let ones = DeviceArray::<f32, _>::ones(stream, n)?;
    let identity = DeviceArray::<f32, _>::eye(stream, 3)?;
    assert_eq!((identity.ndim(), identity.shape(), identity.len()), (2, &[3, 3][..], 9));

    assert_eq!(x.add(&y)?.sub(&y)?.mul(&ones)?.div(&ones)?.shape(), [n]);
    assert_eq!(x.mul_scalar(2.0)?.max()?, 2.0);
    assert_eq!((&x + &y * 2.0).eval()?.max()?, 5.0);
    y.add_assign(&x)?;
    y.mul_assign_scalar(0.5)?;
    x.exp_into(&mut y)?;
    let mask = x.greater(&ones)?;
    assert_eq!(x.less_scalar(0.5)?.select(&x, &y)?.len(), n);
    assert_eq!(x.to_vec()?, x.to_ndarray()?.to_vec());
    assert_eq!(x.compress(&mask)?.len(), 0);
    assert_eq!(mask.flatnonzero()?.len(), 0);
    assert_eq!(x.expr().greater(0.5).select(&x, 0.0).eval()?.len(), n);
    assert_eq!(x.expr().greater(0.5).select(255u8, 0).eval()?.max()?, 255);
    y.update(|y| y.greater(0.5).select(0.0f32, y))?;
    y.fill_where(&mask, 0.0)?;
    y.assign_where(&mask, &ones)?;
    assert!(y.max()? <= 0.5);
    assert_eq!(mask.argwhere()?.shape(), [0, 1]);
    assert_eq!(x.floor()?.max()?, 1.0);
    assert_eq!(x.log10()?.max()?, 0.0);
    assert_eq!((&x % 2.0).eval()?.max()?, 1.0);
    assert_eq!(x.clamp(0.2, 0.8)?.max()?, 0.8);
    let low = x.mul_scalar(0.5)?;
    assert_eq!(x.expr().clamp(&low, 0.8).eval()?.max()?, 0.8);
    assert_eq!(x.powi(3)?.max()?, 1.0);
    assert_eq!(x.pow_scalar(0.5)?.len() + x.pow(&y)?.len(), 2 * n);
    assert_eq!(x.cast::<i32>()?.len() + x.cast::<bf16>()?.len(), 2 * n);

    let copy = x.try_clone()?;
    assert_eq!(copy.reshape((3, 4))?.shape(), x.reshape((3, 4))?.shape());
    let mut m = x.into_shape((3, 4))?;
    m.set([0, 1], 5.0)?;
    assert_eq!(m.get([0, 1])?, 5.0);
    assert_eq!(m.slice(s![0, 1])?.item()?, 5.0);
    assert_eq!(m.slice(s![1.., ..;2])?.shape(), [2, 2]);
    assert_eq!(m.flip_axes(&[0, 1])?.get([2, 2])?, 5.0);
    assert_eq!(m.rot90(1, Axis(0), Axis(1))?.get([2, 0])?, 5.0);
    m.slice_mut(s![0, ..])?.fill(0.0)?;
    assert_eq!(m.t().to_array()?.to_ndarray()?, m.transpose()?.to_ndarray()?);
    assert_eq!(m.flip(Axis(0))?.insert_axis(Axis(0))?.shape(), [1, 3, 4]);
    assert_eq!(m.index_axis(Axis(1), 0)?.broadcast((5, 3))?.shape(), [5, 3]);
    assert_eq!(ops::concatenate(Axis(0), &[m.view(), m.view()])?.shape(), [6, 4]);
    assert_eq!(ops::stack(Axis(0), &[m.view(), m.view()])?.shape(), [2, 3, 4]);
    assert_eq!(m.roll(Axis(0), 1)?.tile((2, 1))?.repeat(Axis(1), 2)?.shape(), [6, 8]);
    assert_eq!(m.pad(&[[1, 1], [0, 0]], Border::Constant(0.0))?.shape(), [5, 4]);
    let indices = DeviceArray::from_ndarray(stream, &array![0i64, 2])?;
    let rows = m.take(Axis(0), &indices)?;
    assert_eq!(m.take(Axis(0), &[2, 0])?.shape(), [2, 4]);
    m.scatter_add(Axis(0), &indices, &rows)?;
    m.scatter_add_in_order(Axis(0), &indices, &rows)?;
    m.assign_at(Axis(0), &indices, &rows)?;
    m.fill_at(Axis(1), &[0, 3], 0.0)?;

    assert!(m.sum()? > 0.0 && m.mean()? > 0.0 && m.std(0)? > 0.0 && m.variance(1)? > 0.0);
    assert_eq!((m.min()?, m.argmin()?, m.any()?, m.all()?), (0.0, 0, true, false));
    assert_eq!(m.sum_axis(Axis(0))?.len() + m.argmax_axis(Axis(1))?.len(), 7);
    assert_eq!(m.sum_axes(&[0, 1])?.len(), 1);
    let (largest, places) = m.top_k(Axis(1), 2)?;
    assert_eq!((largest.shape(), places.shape()), (&[3, 2][..], &[3, 2][..]));
    assert_eq!(
        m.cumsum_axis(Axis(0))?.shape(),
        m.inclusive_scan_axis::<Max>(Axis(0))?.shape()
    );
    assert_eq!((numbers.cumsum()?.get([9])?, numbers.cumprod()?.get([9])?), (45, 0));
    assert_eq!(m.reshape(m.len())?.shape(), [12]);
    assert_eq!(numbers.inclusive_scan::<Sum>()?.get([9])?, 45);
    assert_eq!(numbers.exclusive_scan::<Sum>()?.get([9])?, 36);
    assert_eq!(numbers.inclusive_scan_by::<Sum>(ScanAlgorithm::Blelloch)?.len(), 10);

    assert_eq!(m.sort(Axis(0))?.shape(), [3, 4]);
    let sorted = m.take_along_axis(Axis(1), &m.argsort(Axis(1))?)?;
    assert_eq!(sorted.to_ndarray()?, m.sort(Axis(1))?.to_ndarray()?);
    assert_eq!(numbers.argsort(Axis(0))?.get(9)?, 9);
    assert!(m.unique()?.len() == m.unique_counts()?.1.len() && m.median()? <= m.quantile(0.9)?);
    let v = DeviceArray::from_ndarray(stream, &array![2.0f32, 4.0, 8.0])?;
    let k = DeviceArray::from_ndarray(stream, &array![3.0f32, 1.0, 2.0])?;
    assert_eq!(
        v.take(Axis(0), &k.argsort(Axis(0))?)?.to_ndarray()?,
        array![4.0, 8.0, 2.0]
    );
    assert_eq!(m.median_axis(Axis(1))?.shape(), m.quantile_axis(Axis(1), 0.9)?.shape());
    let edges = DeviceArray::from_ndarray(stream, &array![0.0f32, 4.0])?;
    assert_eq!(edges.searchsorted(&v, Side::Left)?.to_ndarray()?, array![1, 1, 2]);
    assert_eq!(edges.searchsorted(&v, Side::Right)?.to_ndarray()?, array![1, 2, 2]);
    assert_eq!(m.isin(&v)?.shape(), [3, 4]);
    let weights = DeviceArray::<f32, _>::ones(stream, 4)?;
    let sums = ops::einsum("ij,j->i", &[m.view().into_dyn(), weights.view().into_dyn()])?;
    assert_eq!(sums.shape(), [3]);
    assert_eq!(v.diff(Axis(0))?.to_ndarray()?, array![2.0, 4.0]);
    assert_eq!(v.diff(Axis(0))?.diff(Axis(0))?.item()?, 2.0);
    assert_eq!(v.gradient(Axis(0), 0.5)?.to_ndarray()?, array![4.0, 6.0, 8.0]);
    assert_eq!(m.gradient(Axis(1), 0.5)?.shape(), [3, 4]);
    assert_eq!(v.trapezoid(Axis(0), 0.5)?.item()?, 4.5);
    assert_eq!(v.trapezoid_at(Axis(0), &k)?.item()?, 0.0);
    let values = DeviceArray::from_slice(stream, &[1.5f32, 2.0])?;
    assert_eq!(m.interp(&edges, &values)?.to_vec()?.len(), 12);
    assert_eq!(m.covariance(1)?.shape(), m.correlation()?.shape());
    assert_eq!(m.swap_axes(Axis(0), Axis(1))?.shape(), [4, 3]);
    assert_eq!(DeviceArray::from_diag(&v)?.to_ndarray()?.diag(), v.to_ndarray()?);
    m.diag_mut().fill(1.0)?;
    assert_eq!(m.diag().sum()?, 3.0);
    assert_eq!(m.expr().tril(0).eval()?.get([0, 1])?, 0.0);
    assert_eq!(m.expr().triu(1).eval()?.get([0, 0])?, 0.0);
    assert_eq!(v.insert_axis(Axis(1))?.mul(&k)?.get([2, 0])?, 24.0);
    assert_eq!(v.insert_axis(Axis(1))?.add(&k)?.get([2, 0])?, 11.0);
    assert_eq!(expr::index((3, 4), 0).eval_on(stream)?.get([2, 0])?, 2);
    let decades = DeviceArray::logspace(stream, 10.0f32, 0.0, 2.0, 3)?;
    assert_eq!(
        decades.to_ndarray()?,
        DeviceArray::geomspace(stream, 1.0f32, 100.0, 3)?.to_ndarray()?
    );
    assert!(!v.is_nan()?.any()?);
    assert_eq!(v.nan_to_num()?.sum()?, 14.0);
    assert_eq!(v.expr().is_nan().select(-1.0f32, &v).eval()?.sum()?, 14.0);
    assert_eq!((v.nan_sum()?, v.nan_min()?, v.nan_max()?), (14.0, 2.0, 8.0));
    assert!(v.nan_mean()? > 4.0 && v.nan_variance(0)? > v.nan_std(0)?);
    assert_eq!(
        (m.nan_mean_axis(Axis(1))?.len(), m.nan_mean_axes(&[0, 1])?.len()),
        (3, 1)
    );
    assert_eq!(v.hypot(&k)?.len() + v.atan2(&k)?.len() + v.copysign(&k)?.len(), 9);
    assert_eq!(v.lerp(&k, 0.25)?.to_ndarray()?, array![2.25, 3.25, 6.5]);
    assert_eq!(v.rem(&k)?.to_ndarray()?, (&v % &k).eval()?.to_ndarray()?);
    assert_eq!(v.expr().sum().item()?, v.sum()?);
    assert_eq!((v.norm()?, m.norm_axis(Axis(1))?.len()), (84f32.sqrt(), 3));
    assert_eq!((v.count_nonzero()?, m.count_nonzero_axis(Axis(1))?.len()), (3, 3));
    assert_eq!(v.expr().greater(2.0).count().eval()?.item()?, 2);
    assert_eq!((v.ptp()?, m.ptp_axis(Axis(1))?.len()), (6.0, 3));
    assert!((m.weighted_mean(&weights)? - m.mean()?).abs() < 1e-5);
    assert_eq!(m.weighted_mean_axis(Axis(1), &weights)?.len(), 3);
    assert!(!v.all_close(&k, 1e-5, 1e-8)? && !v.equal(&k)?.all()?);

    let range: RangeInclusive<f64> = 0.0..=10.0;
    assert_eq!(m.histogram(16, range)?.sum()?, 12);
    assert_eq!(m.histogram_auto(16)?.0.len(), 16);
    assert_eq!(numbers.bincount()?.len(), 10);
    let mut counts = DeviceArray::<u64, _>::zeros(stream, 20)?;
    numbers.bincount_into(&mut counts)?;
    assert_eq!((counts.get(9)?, counts.get(19)?), (1, 0));

    let mut random = Generator::new(1);
    let u = random.uniform(stream, n, 0.0f32..1.0)?;
    let g = random.normal(stream, (3, 4), 0.0f32, 1.0)?;
    let dice = random.integers(stream, n, 1..7)?;
    let order = random.permutation(stream, n)?;
    assert_eq!(u.len() + g.len() + dice.len() + order.len(), 4 * n);

    let gauss = expr::compile(|x: Expr<f32, Ix1>| (-x.square()).exp());
    assert_eq!(gauss.call(&u)?.len(), n);
    Ok(())
}

/// Operators and functions of one's own, which a GPU would have to be given.
#[test]
fn bits() -> Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let m = DeviceArray::from_ndarray(stream, &array![12, 10])?;
    let n = DeviceArray::from_ndarray(stream, &array![10, 3])?;
    assert_eq!(m.bitand(&n)?.to_ndarray()?, array![8, 2]);
    assert_eq!((&m & &n).eval()?.to_ndarray()?, array![8, 2]);
    Ok(())
}

#[test]
fn own_functions() -> Result<()> {
    let device = Device::simulator();
    let stream = device.default_stream();
    let m = DeviceArray::<f32, _>::ones(stream, (3, 3))?;
    assert_eq!(m.reduce::<Norm>()?, 3.0);
    let bytes = DeviceArray::<u8, _>::ones(stream, 10)?;
    let mixed = ops::elementwise::<mix, _>((&bytes, &bytes, &bytes))?;
    assert_eq!(mixed.to_ndarray()?, bytes.to_ndarray()?);
    Ok(())
}

#[test]
fn pictures_and_files() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let picture = DeviceArray::<u8, _>::ones(stream, (8, 9, 3))?;
    let table = DeviceArray::<u8, _>::range(stream, 7, 255, 1)?;
    let seen = table
        .take(Axis(0), &picture.cast::<u32>()?.reshape(8 * 27)?)?
        .into_shape((8, 9, 3))?;
    assert_eq!((seen.shape(), seen.min()?, seen.max()?), (&[8, 9, 3][..], 8, 8));
    assert_eq!(picture.grayscale()?.shape(), [8, 9]);
    assert_eq!(picture.box_blur(2, Border::Clamp)?.shape(), [8, 9, 3]);
    assert_eq!(picture.gaussian_blur(1.5, Border::Clamp)?.shape(), [8, 9, 3]);
    let x = DeviceArray::<f32, _>::ones(stream, (8, 9))?;
    let path = std::env::temp_dir().join(format!("warpsmith-guide-{}.npy", std::process::id()));
    x.save_npy(&path)?;
    let back = DeviceArray::<f32, Ix2>::load_npy(stream, &path);
    std::fs::remove_file(&path).expect("it was written");
    assert_eq!(back?.to_ndarray()?, Array2::ones((8, 9)));
    Ok(())
}

#[test]
fn networks() -> Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut random = Generator::new(1);
    let x = random.normal(stream, (16, 8), 0.0f32, 1.0)?;
    let mut w = random.normal(stream, (8, 4), 0.0f32, 1.0)?;
    let bias = DeviceArray::<f32, _>::zeros(stream, 4)?;
    let labels = random.integers(stream, 16, 0..4)?;

    let mut out = x.matmul(&w)?;
    out.gemm(2.0, &x, &w, 0.5)?;
    let hidden = x.fused_matmul(&w).bias(&bias).relu().compute()?;
    assert_eq!(hidden.shape(), [16, 4]);
    let (xs, ws) = (x.reshape((2, 8, 8))?, w.reshape((1, 8, 4))?);
    assert_eq!(x.stream().device(), device);
    assert_eq!(xs.batched_matmul(&ws)?.shape(), [2, 8, 4]);
    assert_eq!(w.t().matvec(&DeviceArray::ones(stream, 8)?)?.dot(&bias)?, 0.0);

    let p = out.softmax(Axis(1))?;
    assert_eq!(out.log_softmax(Axis(1))?.shape(), p.shape());
    let y = x.expr().layer_norm(&[1], 1.0, 0.0, 1e-5).gelu().eval()?;
    let loss = y.expr().square().mean().eval()?;
    assert!(loss.item()? > 0.0);
    let dropped = y.expr().dropout(0.1, &mut random).eval()?;
    assert_eq!((p.shape(), dropped.shape()), (&[16, 4][..], &[16, 8][..]));
    let loss = out.expr().cross_entropy(Axis(1), &labels).eval()?;
    assert!(loss.to_ndarray()?.into_scalar() > 0.0);

    let by_out = out.expr().cross_entropy_backward(Axis(1), &labels, 1.0).eval()?;
    let mut gradient = x.t().matmul(&by_out)?;
    let norm = optim::clip_norm(&mut [gradient.view_mut().into_dyn()], 1.0)?;
    assert!(norm.to_ndarray()?.into_scalar() > 0.0);
    let mut adam = Adam::new(&w, 1e-3)?.decoupled_weight_decay(0.01)?;
    adam.step(&mut w, &gradient)?;
    let state = adam.state()?;
    adam.set_state(&state)?;
    assert_eq!(adam.state()?.steps, 1);
    let mut sgd = Sgd::new(&w, 1e-2)?.momentum(0.9)?;
    sgd.step(&mut w, &gradient)?;

    let q = random.normal(stream, (1, 2, 16, 8), 0.0f32, 1.0)?;
    assert_eq!(q.attention(&q, &q).causal().compute()?.shape(), [1, 2, 16, 8]);
    let pictures = random.normal(stream, (2, 8, 8, 3), 0.0f32, 1.0)?;
    let filters = random.normal(stream, (4, 3, 3, 3), 0.0f32, 1.0)?;
    let maps = pictures.convolve(&filters).padding(1).stride(2).compute()?;
    assert_eq!(maps.max_pool(2).compute()?.shape(), [2, 2, 2, 4]);
    Ok(())
}
