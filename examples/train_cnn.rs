// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network that learns to tell pictures apart: two convolutions, each with relu and max pooling, and a layer of products, trained by
//! hand-written gradients, a step of which is one launch of a graph:
//! `cargo run --release --example train_cnn [CURVE.svg [BATCH.bin…]]`.
//!
//! The pictures are made here: discs, stripes, crosses, rings, squares and checks of any size and place, under noise. With the binary
//! files of CIFAR-10 (`data_batch_1.bin …`), it learns those instead. The loss of each step is drawn to CURVE.svg, or to a file
//! among the temporary ones. On the simulated GPU everything is smaller.

mod training;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use training::{Parameters, Result};
use warpsmith::ndarray::{Array1, Array4, Axis, Dimension, Ix1, Ix2, Ix4, IxDyn, s};
use warpsmith::optim::{self, Adam};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, DeviceViewMut, Generator, GraphArrays, HeldArrays, Stream};

/// Pictures, (images, rows, columns, channels), and what is made of them. Channels lie side by side, as convolutions like it.
type Pictures = DeviceArray<f32, Ix4>;
type Matrix = DeviceArray<f32, Ix2>;
type Vector = DeviceArray<f32, Ix1>;
type Labels = DeviceArray<i32, Ix1>;

/// How much of everything there is.
struct Sizes {
    samples: usize,
    /// Rows and columns of a picture, a multiple of 4, and its channels.
    side: usize,
    channels: usize,
    classes: usize,
    /// The channels that the convolutions make.
    features: [usize; 2],
    batch: usize,
    steps: usize,
    learning_rate: f64,
}

/// A convolution of 3 × 3 with as many rows and columns as before, a bias, relu, and the largest of each 2 × 2; or the gradients by
/// weights and bias.
struct Convolution {
    /// (features, 3, 3, channels).
    weights: Pictures,
    bias: Vector,
}

/// What a convolution has made, which its gradients want.
struct Activated {
    /// Behind relu.
    features: Pictures,
    pooled: Pictures,
}

impl Convolution {
    fn forward(&self, x: &DeviceArrayRef<f32, Ix4>) -> warpsmith::Result<Activated> {
        let mut features = x.convolve(&self.weights).padding(1).compute()?;
        features.update(|x| (x + &self.bias).relu())?;
        let pooled = features.max_pool(2).compute()?;
        Ok(Activated { features, pooled })
    }

    /// The gradients by weights and bias, and that by the feature maps ahead of bias and relu, of the one by what was pooled.
    fn backward(
        &self,
        x: &DeviceArrayRef<f32, Ix4>,
        activated: &Activated,
        by_pooled: &Pictures,
    ) -> warpsmith::Result<(Self, Pictures)> {
        let features = &activated.features;
        let mut by_features = features.max_pool(2).gradient(by_pooled)?;
        // Relu passes on what it was positive for.
        by_features.update(|gradient| features.expr().greater(0.0).select(gradient, 0.0))?;
        // The bias was added at all places of all pictures.
        let bias = by_features.expr().sum_axes(&[0, 1, 2]).eval()?;
        let bias = bias.into_shape(self.bias.len())?;
        let weights = x.convolve(&self.weights).padding(1).weight_gradient(&by_features)?;
        Ok((Self { weights, bias }, by_features))
    }
}

/// Two convolutions, and logits of what they leave of a picture; or the gradients by all parameters.
struct Network {
    first: Convolution,
    second: Convolution,
    weights: Matrix,
    bias: Vector,
}

impl Network {
    /// Weights at random, of a deviation that keeps the numbers of the next layer as large as those of the one before
    /// (K. He and others, 2015); biases of 0.
    fn new(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<Self> {
        let mut convolution = |from: usize, to: usize| -> warpsmith::Result<Convolution> {
            let deviation = (2.0 / (9 * from) as f32).sqrt();
            Ok(Convolution {
                weights: random.normal(stream, (to, 3, 3, from), 0.0, deviation)?,
                bias: DeviceArray::zeros(stream, to)?,
            })
        };
        let [first, second] = sizes.features;
        let (of_first, of_second) = (convolution(sizes.channels, first)?, convolution(first, second)?);
        let left = sizes.side / 4 * (sizes.side / 4) * second;
        Ok(Self {
            first: of_first,
            second: of_second,
            weights: random.normal(stream, (left, sizes.classes), 0.0, (1.0 / left as f32).sqrt())?,
            bias: DeviceArray::zeros(stream, sizes.classes)?,
        })
    }

    /// What the layers make of pictures, the last one logits.
    fn forward(&self, x: &DeviceArrayRef<f32, Ix4>) -> warpsmith::Result<(Activated, Activated, Matrix)> {
        let first = self.first.forward(x)?;
        let second = self.second.forward(&first.pooled)?;
        let logits = self
            .rows(&second)?
            .fused_matmul(&self.weights)
            .bias(&self.bias)
            .compute()?;
        Ok((first, second, logits))
    }

    /// What the second convolution has left of each picture, as a row.
    fn rows(&self, second: &Activated) -> warpsmith::Result<Matrix> {
        let pooled = second.pooled.try_clone()?;
        pooled.into_shape((second.pooled.shape()[0], self.weights.shape()[0]))
    }

    /// The loss of a batch, which stays on the device.
    fn loss(&self, x: &Pictures, labels: &Labels) -> warpsmith::Result<Vector> {
        let (_, _, logits) = self.forward(x)?;
        loss(&logits, labels)
    }

    /// The loss of a batch, and its gradients by all parameters, by the chain rule from the last operation to the first.
    fn gradients(&self, x: &Pictures, labels: &Labels) -> warpsmith::Result<(Vector, Self)> {
        let (first, second, logits) = self.forward(x)?;
        let by_logits = logits.expr().cross_entropy_backward(Axis(1), labels, 1.0).eval()?;
        // Of a product y = a · w the gradient by w is aᵀ · dy, and that by a is dy · wᵀ.
        let shape = second.pooled.raw_dim();
        let all = second
            .pooled
            .try_clone()?
            .into_shape((x.shape()[0], self.weights.shape()[0]))?;
        let weights = all.t().matmul(&by_logits)?;
        let bias = by_logits.expr().sum_axis(Axis(0)).eval()?;
        let by_pooled = by_logits.matmul(&self.weights.t())?.into_shape(shape)?;
        let (of_second, by_features) = self.second.backward(&first.pooled, &second, &by_pooled)?;
        let convolution = first.pooled.convolve(&self.second.weights).padding(1);
        let by_pooled = convolution.input_gradient(&by_features)?;
        let (of_first, _) = self.first.backward(x, &first, &by_pooled)?;
        let gradients = Self {
            first: of_first,
            second: of_second,
            weights,
            bias,
        };
        Ok((loss(&logits, labels)?, gradients))
    }

    /// The part of the pictures whose likeliest class is the right one.
    fn accuracy(&self, samples: &Samples, batch: usize) -> Result<f64> {
        let (mut right, all) = (0, samples.labels.len());
        for start in (0..all).step_by(batch) {
            let range = start..all.min(start + batch);
            let (_, _, logits) = self.forward(&samples.x.slice(s![range.clone(), .., .., ..])?)?;
            let labels = samples.labels.slice(s![range])?;
            let guesses = logits.expr().argmax_axis(Axis(1)).cast::<i32>();
            let count = guesses.equal(&labels).count().eval()?;
            right += count.to_ndarray()?.into_scalar();
        }
        Ok(right as f64 / all as f64)
    }
}

fn loss(logits: &Matrix, labels: &Labels) -> warpsmith::Result<Vector> {
    let loss = logits.expr().cross_entropy(Axis(1), labels);
    loss.insert_axis(Axis(0)).eval()
}

impl Parameters for Network {
    fn all(&mut self) -> Vec<(&'static str, DeviceViewMut<'_, f32, IxDyn>)> {
        vec![
            ("the first convolution", self.first.weights.view_mut().into_dyn()),
            ("its bias", self.first.bias.view_mut().into_dyn()),
            ("the second convolution", self.second.weights.view_mut().into_dyn()),
            ("its bias", self.second.bias.view_mut().into_dyn()),
            ("the last weights", self.weights.view_mut().into_dyn()),
            ("the last bias", self.bias.view_mut().into_dyn()),
        ]
    }
}

/// Pictures and their labels.
struct Samples {
    x: Pictures,
    labels: Labels,
}

impl Samples {
    /// Shapes of which each has a place, a size, a brightness and a turn of its own, under noise.
    fn generate(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> Result<Self> {
        let labels = random.integers(stream, sizes.samples, 0..sizes.classes as i32)?;
        let of_each = random.uniform(stream, (sizes.samples, 5), 0.0f32..1.0)?.to_ndarray()?;
        let which = labels.to_ndarray()?;
        let side = sizes.side as f32;
        let pictures = Array4::from_shape_fn((sizes.samples, sizes.side, sizes.side, 1), |(n, row, column, _)| {
            let [a, b, size, brightness, turn] = [0, 1, 2, 3, 4].map(|k| of_each[[n, k]]);
            let radius = side * (0.2 + 0.2 * size);
            // From the middle of the shape, in radii.
            let from_middle = |at: usize, place: f32| (at as f32 - side * (0.35 + 0.3 * place)) / radius;
            let (y, x) = (from_middle(row, a), from_middle(column, b));
            let is_drawn = x.abs() <= 1.0 && y.abs() <= 1.0 && is_in_shape(which[n], x, y, turn);
            if is_drawn { 0.6 + 0.4 * brightness } else { 0.0 }
        });
        let mut x = DeviceArray::from_ndarray(stream, &pictures)?;
        let noise = random.normal_expr::<f32, _>(x.raw_dim(), 0.0, 0.1);
        x.update(|x| x + noise)?;
        Ok(Self { x, labels })
    }

    /// Those of CIFAR-10's binary files: each picture is a byte for its class, and 32 rows of 32 bytes for each of three channels.
    fn load(stream: &Stream, files: &[PathBuf]) -> Result<Self> {
        const PIXELS: usize = 32 * 32;
        let (mut pictures, mut labels) = (Vec::new(), Vec::new());
        for file in files {
            let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
            if bytes.is_empty() || bytes.len() % (1 + 3 * PIXELS) != 0 {
                return Err(format!(
                    "{} has {} bytes, no number of CIFAR-10's pictures",
                    file.display(),
                    bytes.len()
                )
                .into());
            }
            for picture in bytes.chunks(1 + 3 * PIXELS) {
                labels.push(i32::from(picture[0]));
                let pixel = |at: usize, channel: usize| f32::from(picture[1 + channel * PIXELS + at]) / 255.0 - 0.47;
                pictures.extend((0..PIXELS).flat_map(|at| [pixel(at, 0), pixel(at, 1), pixel(at, 2)]));
            }
        }
        let pictures = Array4::from_shape_vec((labels.len(), 32, 32, 3), pictures)?;
        Ok(Self {
            x: DeviceArray::from_ndarray(stream, &pictures)?,
            labels: DeviceArray::from_ndarray(stream, &Array1::from(labels))?,
        })
    }

    /// The pictures from number `start` to before `end`.
    fn part(&self, start: usize, end: usize) -> Result<Self> {
        Ok(Self {
            x: self.x.slice(s![start..end, .., .., ..])?.to_array()?,
            labels: self.labels.slice(s![start..end])?.to_array()?,
        })
    }
}

/// Whether a point belongs to a shape, where -1 to 1 is as far as that reaches.
fn is_in_shape(shape: i32, x: f32, y: f32, turn: f32) -> bool {
    let radius = x.hypot(y);
    let stripe = |at: f32| (2.0 * at + turn).rem_euclid(2.0) < 1.0;
    match shape {
        0 => radius < 0.95,
        1 => stripe(if turn < 0.5 { x } else { y }),
        2 => x.abs() < 0.3 || y.abs() < 0.3,
        3 => (0.55..0.95).contains(&radius),
        4 => true,
        _ => stripe(x) != stripe(y),
    }
}

/// What changes at each step: the parameters, and what the optimisers keep.
struct Training {
    network: Network,
    optimizers: Vec<Adam<f32>>,
}

// SAFETY: its own arrays, which belong to it.
unsafe impl GraphArrays for Training {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        let Network {
            first,
            second,
            weights,
            bias,
        } = &self.network;
        (
            (&first.weights, &first.bias),
            (&second.weights, &second.bias),
            (weights, bias),
        )
            .arrays(held);
        self.optimizers.arrays(held);
    }
}

impl Training {
    fn new(mut network: Network, learning_rate: f64) -> warpsmith::Result<Self> {
        let parameters = network.all();
        let optimizers = parameters
            .iter()
            .map(|(_, parameters)| Adam::new(parameters, learning_rate));
        let optimizers = optimizers.collect::<warpsmith::Result<_>>()?;
        Ok(Self { network, optimizers })
    }

    /// One step, whose loss is what the parameters gave before it.
    fn step(&mut self, x: &Pictures, labels: &Labels) -> warpsmith::Result<Vector> {
        let (loss, mut gradients) = self.network.gradients(x, labels)?;
        let (mut parameters, gradients) = (self.network.all(), gradients.all());
        let all = parameters.iter_mut().zip(&gradients).zip(&mut self.optimizers);
        let steps = all.map(|(((_, parameters), (_, gradient)), adam)| adam.defer_step(parameters, gradient));
        optim::step_all(steps.collect::<warpsmith::Result<Vec<_>>>()?)?;
        Ok(loss)
    }
}

/// Trains for all steps, and gives the network, the loss of each step, and the seconds that a step took.
fn train(training: Training, samples: &Samples, sizes: &Sizes) -> Result<(Network, Array1<f32>, f64)> {
    let stream = samples.x.stream();
    let Samples { x, labels } = samples.part(0, sizes.batch)?;
    // All kernels of a step, recorded once; the graph has the parameters, and a batch whose contents change.
    let args = (training, x, labels);
    let mut step = stream.capture(args, |_, (training, x, labels)| training.step(x, labels))?;
    let mut losses = DeviceArray::zeros(stream, sizes.steps)?;
    let batches = sizes.samples / sizes.batch;
    let start = Instant::now();
    for number in 0..sizes.steps {
        let at = number % batches * sizes.batch;
        let (_, x, labels) = step.args_mut();
        x.assign(&samples.x.slice(s![at..at + sizes.batch, .., .., ..])?)?;
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
    // A graph keeps its arguments: a copy of the network leaves it.
    fn copy<D: Dimension>(x: &DeviceArray<f32, D>) -> warpsmith::Result<DeviceArray<f32, D>> {
        x.try_clone()
    }
    let trained = &step.args().0.network;
    let convolution = |layer: &Convolution| -> Result<Convolution> {
        Ok(Convolution {
            weights: copy(&layer.weights)?,
            bias: copy(&layer.bias)?,
        })
    };
    let network = Network {
        first: convolution(&trained.first)?,
        second: convolution(&trained.second)?,
        weights: copy(&trained.weights)?,
        bias: copy(&trained.bias)?,
    };
    Ok((network, losses, seconds))
}

fn main() -> Result<()> {
    let (curve, files) = training::arguments("train_cnn");
    let device = Device::auto()?;
    let stream = device.default_stream();
    let mut sizes = match device.is_simulator() {
        false => Sizes {
            samples: 20_000,
            side: 32,
            channels: 1,
            classes: 6,
            features: [32, 64],
            batch: 128,
            steps: 1000,
            learning_rate: 0.002,
        },
        true => Sizes {
            samples: 200,
            side: 12,
            channels: 1,
            classes: 3,
            features: [4, 8],
            batch: 18,
            steps: 20,
            learning_rate: 0.02,
        },
    };
    let mut random = Generator::new(2026);
    let samples = match &files[..] {
        [] => Samples::generate(stream, &sizes, &mut random)?,
        files => {
            (sizes.side, sizes.channels, sizes.classes) = (32, 3, 10);
            Samples::load(stream, files)?
        }
    };
    let all = samples.labels.len();
    let known = training::known(all, sizes.batch)?;
    sizes.samples = known;
    println!(
        "{0} × {0} × {1} on {2}: {3:?} features, batches of {4} of {known} pictures, {5} steps",
        sizes.side,
        sizes.channels,
        training::describe(&device),
        sizes.features,
        sizes.batch,
        sizes.steps
    );
    let mut network = Network::new(stream, &sizes, &mut random)?;
    let Samples { x, labels } = samples.part(0, sizes.batch)?;
    let (_, mut gradients) = network.gradients(&x, &labels)?;
    training::check_gradients(&mut network, &mut gradients, 0.005, |network| {
        network.loss(&x, &labels)?.get(0)
    })?;
    let (network, losses, seconds) = train(Training::new(network, sizes.learning_rate)?, &samples, &sizes)?;
    println!("{:.1} µs a step", seconds * 1e6);
    let accuracy = network.accuracy(&samples.part(known, all)?, sizes.batch)?;
    println!(
        "of {} pictures that it has not seen, {:.1} % are recognised",
        all - known,
        accuracy * 100.0
    );
    training::finish(&curve, &losses, 0.7)?;
    // By chance it would be one of as many classes.
    assert!(accuracy > 1.5 / sizes.classes as f64, "{accuracy}");
    Ok(())
}
