// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network that learns: two layers, trained by hand-written gradients, a step of which is one launch of a graph:
//! `cargo run --release --example train_mlp [CURVE.svg [IMAGES LABELS]]`.
//!
//! The samples are made on the device: noisy copies of ten patterns. With the files of MNIST, unpacked
//! (`train-images-idx3-ubyte train-labels-idx1-ubyte`), it learns to read digits instead. The loss of each step is drawn to
//! CURVE.svg, or to a file among the temporary ones. On the simulated GPU everything is smaller.

mod training;

use std::fs;
use std::path::Path;
use std::time::Instant;

use training::{Parameters, Result};
use warpsmith::ndarray::{Array1, Array2, Axis, Dimension, Ix1, Ix2, IxDyn, s};
use warpsmith::optim::{self, Sgd};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, DeviceViewMut, Generator, Stream};

type Matrix = DeviceArray<f32, Ix2>;
type Vector = DeviceArray<f32, Ix1>;

const CLASSES: usize = 10;
const LEARNING_RATE: f32 = 0.05;
const MOMENTUM: f32 = 0.9;

/// How much of everything there is.
struct Sizes {
    samples: usize,
    inputs: usize,
    hidden: usize,
    batch: usize,
    steps: usize,
}

/// `logits = relu(x · w1 + b1) · w2 + b2`, or the gradients by these four.
struct Network {
    w1: Matrix,
    b1: Vector,
    w2: Matrix,
    b2: Vector,
}

impl Network {
    /// Weights at random, of a deviation that keeps the numbers of the next layer as large as those of the one before
    /// (K. He and others, 2015); biases of 0.
    fn new(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<Self> {
        let mut weights = |from: usize, to: usize| {
            let deviation = (2.0 / from as f32).sqrt();
            random.normal(stream, (from, to), 0.0, deviation)
        };
        Ok(Self {
            w1: weights(sizes.inputs, sizes.hidden)?,
            b1: DeviceArray::zeros(stream, sizes.hidden)?,
            w2: weights(sizes.hidden, CLASSES)?,
            b2: DeviceArray::zeros(stream, CLASSES)?,
        })
    }

    /// The hidden layer, and the logits: bias and relu are part of the product's kernel.
    fn forward(&self, x: &DeviceArrayRef<f32, Ix2>) -> warpsmith::Result<(Matrix, Matrix)> {
        let hidden = x.fused_matmul(&self.w1).bias(&self.b1).relu().compute()?;
        let logits = hidden.fused_matmul(&self.w2).bias(&self.b2).compute()?;
        Ok((hidden, logits))
    }

    /// The loss of a batch, which stays on the device, and its gradients by all parameters, by the chain rule from the last
    /// operation to the first.
    fn gradients(&self, x: &Matrix, labels: &DeviceArray<i32, Ix1>) -> warpsmith::Result<(Vector, Self)> {
        let (hidden, logits) = self.forward(x)?;
        // By the logits: the classes' probabilities, less 1 at the label, over the size of the batch.
        let (loss, by_logits) = logits.expr().cross_entropy_with_gradient(Axis(1), labels, 1.0)?;
        // Of a product y = a · w the gradient by w is aᵀ · dy, and that by a is dy · wᵀ; that by a row which was added to
        // all rows is the sum of the rows.
        let w2 = hidden.t().matmul(&by_logits)?;
        let b2 = by_logits.expr().sum_axis(Axis(0)).eval()?;
        let mut by_hidden = by_logits.matmul(&self.w2.t())?;
        // Relu passes on what it was positive for.
        by_hidden.update(|dh| hidden.expr().greater(0.0).select(dh, 0.0))?;
        let w1 = x.t().matmul(&by_hidden)?;
        let b1 = by_hidden.expr().sum_axis(Axis(0)).eval()?;
        Ok((loss.into_shape(1)?, Self { w1, b1, w2, b2 }))
    }

    /// The part of the samples whose likeliest class is the right one.
    fn accuracy(&self, x: &DeviceArrayRef<f32, Ix2>, labels: &DeviceArrayRef<i32, Ix1>) -> warpsmith::Result<f64> {
        let (_, logits) = self.forward(x)?;
        let guesses = logits.expr().argmax_axis(Axis(1)).cast::<i32>();
        let right = guesses.equal(labels.expr()).count().eval()?.to_ndarray()?.into_scalar();
        Ok(right as f64 / labels.len() as f64)
    }
}

impl Parameters for Network {
    fn all(&mut self) -> Vec<(&'static str, DeviceViewMut<'_, f32, IxDyn>)> {
        vec![
            ("w1", self.w1.view_mut().into_dyn()),
            ("b1", self.b1.view_mut().into_dyn()),
            ("w2", self.w2.view_mut().into_dyn()),
            ("b2", self.b2.view_mut().into_dyn()),
        ]
    }
}

/// Samples and their labels.
struct Samples {
    x: Matrix,
    labels: DeviceArray<i32, Ix1>,
}

impl Samples {
    /// Ten patterns at random; each sample is one of them, under noise that is four times as strong.
    fn generate(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<Self> {
        let patterns: Matrix = random.normal(stream, (CLASSES, sizes.inputs), 0.0, 0.25)?;
        let labels = random.integers(stream, sizes.samples, 0..CLASSES as i32)?;
        let mut x = patterns.take(Axis(0), &labels.cast::<u32>()?)?;
        let noise = random.standard_normal_expr::<f32, _>((sizes.samples, sizes.inputs));
        x.update(|x| x + noise)?;
        Ok(Self { x, labels })
    }

    /// Those of MNIST's files.
    fn load(stream: &Stream, images: &Path, labels: &Path) -> Result<Self> {
        let (shape, bytes) = idx(images)?;
        let [count, height, width] = shape[..] else {
            return Err(format!("{} has shape {shape:?}, not that of images", images.display()).into());
        };
        let x = Array2::from_shape_vec((count, height * width), bytes)?.mapv(|byte| f32::from(byte) / 255.0 - 0.13);
        let (shape, bytes) = idx(labels)?;
        if shape != [count] {
            return Err(format!("{} has shape {shape:?}, for {count} images", labels.display()).into());
        }
        let labels = Array1::from(bytes).mapv(i32::from);
        Ok(Self {
            x: DeviceArray::from_ndarray(stream, &x)?,
            labels: DeviceArray::from_ndarray(stream, &labels)?,
        })
    }
}

/// The shape and the bytes of a file in MNIST's format: 0, 0, 8 for bytes, the number of axes, their lengths, all else.
fn idx(path: &Path) -> Result<(Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parsed = || {
        let (&[0, 0, 8, axes], mut rest) = bytes.split_first_chunk()? else {
            return None;
        };
        let mut shape = Vec::new();
        for _ in 0..axes {
            let (length, others) = rest.split_first_chunk()?;
            shape.push(u32::from_be_bytes(*length) as usize);
            rest = others;
        }
        (shape.iter().product::<usize>() == rest.len()).then(|| (shape, rest.to_vec()))
    };
    parsed().ok_or_else(|| format!("{} is no file of bytes in MNIST's format, unpacked", path.display()).into())
}

/// The same step by ndarray, on one of the host's threads.
struct OnHost {
    w: [Array2<f32>; 2],
    b: [Array1<f32>; 2],
    /// Of the momentum.
    velocities: ([Array2<f32>; 2], [Array1<f32>; 2]),
}

impl OnHost {
    fn new(network: &Network) -> Result<Self> {
        let w = [network.w1.to_ndarray()?, network.w2.to_ndarray()?];
        let b = [network.b1.to_ndarray()?, network.b2.to_ndarray()?];
        let velocities = (w.each_ref().map(|w| w * 0.0), b.each_ref().map(|b| b * 0.0));
        Ok(Self { w, b, velocities })
    }

    fn step(&mut self, x: &Array2<f32>, labels: &Array1<i32>) -> f32 {
        let hidden = (x.dot(&self.w[0]) + &self.b[0]).mapv(|x| x.max(0.0));
        let logits = hidden.dot(&self.w[1]) + &self.b[1];
        let (mut loss, mut by_logits) = (0.0, logits);
        for (mut row, &label) in by_logits.rows_mut().into_iter().zip(labels) {
            let largest = row.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
            row.mapv_inplace(|x| (x - largest).exp());
            let sum = row.sum();
            row /= sum;
            loss -= row[label as usize].ln() / labels.len() as f32;
            row[label as usize] -= 1.0;
        }
        by_logits /= labels.len() as f32;
        let mut by_hidden = by_logits.dot(&self.w[1].t());
        by_hidden.zip_mut_with(&hidden, |dh, &h| *dh *= f32::from(u8::from(h > 0.0)));
        let by_w = [x.t().dot(&by_hidden), hidden.t().dot(&by_logits)];
        let by_b = [by_hidden.sum_axis(Axis(0)), by_logits.sum_axis(Axis(0))];
        for layer in 0..2 {
            let (w, b) = (&mut self.velocities.0[layer], &mut self.velocities.1[layer]);
            *w = &*w * MOMENTUM + &by_w[layer];
            *b = &*b * MOMENTUM + &by_b[layer];
            self.w[layer].scaled_add(-LEARNING_RATE, w);
            self.b[layer].scaled_add(-LEARNING_RATE, b);
        }
        loss
    }
}

/// What changes at each step: the parameters, and what the optimisers keep.
struct Training {
    network: Network,
    optimizers: [Sgd<f32>; 4],
}

// SAFETY: its own arrays, which belong to it.
unsafe impl warpsmith::GraphArrays for Training {
    fn arrays(&self, held: &mut warpsmith::HeldArrays<'_>) {
        let Network { w1, b1, w2, b2 } = &self.network;
        ((w1, b1), (w2, b2), &self.optimizers).arrays(held);
    }
}

impl Training {
    fn new(network: Network) -> warpsmith::Result<Self> {
        fn sgd<D: Dimension>(parameters: &DeviceArray<f32, D>) -> warpsmith::Result<Sgd<f32>> {
            Sgd::new(parameters, LEARNING_RATE.into())?.momentum(MOMENTUM.into())
        }
        let Network { w1, b1, w2, b2 } = &network;
        let optimizers = [sgd(w1)?, sgd(b1)?, sgd(w2)?, sgd(b2)?];
        Ok(Self { network, optimizers })
    }

    /// One step, whose loss is what the parameters gave before it.
    fn step(&mut self, x: &Matrix, labels: &DeviceArray<i32, Ix1>) -> warpsmith::Result<Vector> {
        let (loss, gradients) = self.network.gradients(x, labels)?;
        let [w1, b1, w2, b2] = &mut self.optimizers;
        // By one kernel.
        optim::step_all([
            w1.defer_step(&mut self.network.w1, &gradients.w1)?,
            b1.defer_step(&mut self.network.b1, &gradients.b1)?,
            w2.defer_step(&mut self.network.w2, &gradients.w2)?,
            b2.defer_step(&mut self.network.b2, &gradients.b2)?,
        ])?;
        Ok(loss)
    }
}

/// Trains for all steps, and gives the parameters, the loss of each step, and the seconds that a step took.
fn train(training: Training, samples: &Samples, sizes: &Sizes) -> Result<(Network, Array1<f32>, f64)> {
    let stream = samples.x.stream();
    let x = DeviceArray::zeros(stream, (sizes.batch, sizes.inputs))?;
    let labels = DeviceArray::zeros(stream, sizes.batch)?;
    // Some fifteen kernels, recorded once; the graph has the parameters, and a batch whose contents change.
    let args = (training, x, labels);
    let mut step = stream.capture(args, |_, (training, x, labels)| training.step(x, labels))?;
    let mut losses = DeviceArray::zeros(stream, sizes.steps)?;
    let batches = sizes.samples / sizes.batch;
    let start = Instant::now();
    for number in 0..sizes.steps {
        let at = number % batches * sizes.batch;
        let (_, x, labels) = step.args_mut();
        x.assign(&samples.x.slice(s![at..at + sizes.batch, ..])?)?;
        labels.assign(&samples.labels.slice(s![at..at + sizes.batch])?)?;
        step.launch()?;
        // The host does not wait for the loss: it is kept on the device.
        losses.slice_mut(s![number..number + 1])?.assign(step.output())?;
        if (number + 1) % (sizes.steps / 5) == 0 {
            // Only here, for the sake of the line.
            training::report(number + 1, sizes.steps, losses.get(number)?);
        }
    }
    let losses = losses.to_ndarray()?;
    let seconds = start.elapsed().as_secs_f64() / sizes.steps as f64;
    // A graph keeps its arguments: copies of the parameters leave it.
    let Network { w1, b1, w2, b2 } = &step.args().0.network;
    let network = Network {
        w1: w1.try_clone()?,
        b1: b1.try_clone()?,
        w2: w2.try_clone()?,
        b2: b2.try_clone()?,
    };
    Ok((network, losses, seconds))
}

fn main() -> Result<()> {
    let (curve, files) = training::arguments("train_mlp");
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut sizes = match device.is_simulator() {
        false => Sizes {
            samples: 16_384,
            inputs: 784,
            hidden: 512,
            batch: 256,
            steps: 2000,
        },
        true => Sizes {
            samples: 640,
            inputs: 100,
            hidden: 32,
            batch: 64,
            steps: 50,
        },
    };
    let mut random = Generator::new(2026);
    let samples = match &files[..] {
        [] => Samples::generate(stream, &sizes, &mut random)?,
        [images, labels] => Samples::load(stream, images, labels)?,
        _ => return Err("wanted: [CURVE.svg [IMAGES LABELS]]".into()),
    };
    (sizes.samples, sizes.inputs) = (samples.x.shape()[0], samples.x.shape()[1]);
    let (all, known) = (sizes.samples, training::known(sizes.samples, sizes.batch)?);
    sizes.samples = known;
    println!(
        "{}-{}-{CLASSES} on {}: batches of {} of {known} samples, {} steps",
        sizes.inputs,
        sizes.hidden,
        training::describe(&device),
        sizes.batch,
        sizes.steps
    );

    let mut network = Network::new(stream, &sizes, &mut random)?;
    let first = Samples {
        x: samples.x.slice(s![..sizes.batch, ..])?.to_array()?,
        labels: samples.labels.slice(s![..sizes.batch])?.to_array()?,
    };
    let (_, mut gradients) = network.gradients(&first.x, &first.labels)?;
    training::check_gradients(&mut network, &mut gradients, 0.02, |network| {
        network.gradients(&first.x, &first.labels)?.0.get(0)
    })?;

    // The host's steps, with the same parameters and the same batch.
    let (x, labels) = (first.x.to_ndarray()?, first.labels.to_ndarray()?);
    let mut host = OnHost::new(&network)?;
    let host_loss = host.step(&x, &labels);
    let host_steps = 5;
    let start = Instant::now();
    for _ in 0..host_steps {
        host.step(&x, &labels);
    }
    let host_seconds = start.elapsed().as_secs_f64() / f64::from(host_steps);

    let training = Training::new(network)?;
    let (network, losses, seconds) = train(training, &samples, &sizes)?;
    println!(
        "{:.1} µs a step; by ndarray, on one thread of the host, {:.1} µs: a speed-up of {:.2}",
        seconds * 1e6,
        host_seconds * 1e6,
        host_seconds / seconds
    );
    assert!(
        (losses[0] - host_loss).abs() < 1e-4 * host_loss,
        "{} {host_loss}",
        losses[0]
    );
    let unseen = (samples.x.slice(s![known.., ..])?, samples.labels.slice(s![known..])?);
    let accuracy = network.accuracy(&unseen.0, &unseen.1)?;
    println!(
        "of {} samples that it has not seen, {:.1} % are recognised",
        all - known,
        accuracy * 100.0
    );
    training::finish(&curve, &losses, 0.5)?;
    assert!(accuracy > 0.5, "{accuracy}");
    Ok(())
}
