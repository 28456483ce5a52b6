// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transformer that learns a text letter by letter: two layers of causal attention and of products with GELU, trained by hand-written
//! gradients and AdamW, a step of which is one launch of a graph:
//! `cargo run --release --example char_transformer [CURVE.svg [TEXT.txt]]`.
//!
//! It learns examples/data/harbour.txt, or another text, and then writes some of its own. On the simulated GPU it has time for no more
//! than to find out which letters are common. The loss of each step is drawn to CURVE.svg,
//! or to a file among the temporary ones.

mod training;

use std::fs;
use std::time::Instant;

use training::{Parameters, Result};
use warpsmith::expr::{self, Expr};
use warpsmith::ndarray::{Array1, Axis, Dimension, Ix1, Ix2, Ix3, Ix4, Ix5, IxDyn, s};
use warpsmith::optim::{self, Adam};
use warpsmith::{Device, DeviceArray, DeviceView, DeviceViewMut, Generator, GraphArrays, HeldArrays, Stream};

/// Rows are letters of a batch, one text after another, columns the numbers that stand for each.
type Matrix = DeviceArray<f32, Ix2>;
type Vector = DeviceArray<f32, Ix1>;
/// Letters, as numbers of the alphabet.
type Letters = DeviceArray<u32, Ix1>;

const WEIGHT_DECAY: f64 = 0.01;
const EPSILON: f64 = 1e-5;
const LAYERS: usize = 2;

/// How much of everything there is.
#[derive(Clone, Copy)]
struct Sizes {
    /// Different letters.
    alphabet: usize,
    /// Numbers that stand for a letter, which `heads` share.
    width: usize,
    heads: usize,
    /// Texts of a batch, and their letters.
    batch: usize,
    length: usize,
    steps: usize,
    learning_rate: f64,
    /// Letters that it writes in the end.
    written: usize,
}

/// The weight and bias of a layer norm, or the gradients by them.
struct Norm {
    weight: Vector,
    bias: Vector,
}

impl Norm {
    fn new(stream: &Stream, width: usize) -> warpsmith::Result<Self> {
        Ok(Self {
            weight: DeviceArray::ones(stream, width)?,
            bias: DeviceArray::zeros(stream, width)?,
        })
    }

    fn forward(&self, x: &Matrix) -> warpsmith::Result<Matrix> {
        x.expr().layer_norm(&[1], &self.weight, &self.bias, EPSILON).eval()
    }

    /// The gradients by weight and bias, and that by `x` together with the one that goes past the norm.
    fn backward(&self, x: &Matrix, gradient: &Matrix, past: &Matrix) -> warpsmith::Result<(Self, Matrix)> {
        let (by_x, weight, bias) = x.expr().layer_norm_backward(&[1], &self.weight, EPSILON, gradient);
        let by_x = (by_x + past).eval()?;
        let (weight, bias) = expr::eval((&weight, &bias))?;
        Ok((Self { weight, bias }, by_x))
    }
}

/// `x ← x + attention(norm x)`, `x ← x + gelu(norm x · up + …) · down + …`; or the gradients by all of these.
struct Layer {
    attention_norm: Norm,
    /// From a letter's numbers to its query, key and value, one beside another.
    qkv: Matrix,
    out: Matrix,
    norm: Norm,
    up: Matrix,
    up_bias: Vector,
    down: Matrix,
    down_bias: Vector,
}

/// What a layer has made on its way, which its gradients want.
struct Made {
    x: Matrix,
    normed: Matrix,
    /// (texts, letters, query, key or value, heads, numbers of a head).
    qkv: DeviceArray<f32, Ix5>,
    /// (texts, heads, letters, numbers of a head).
    attended: DeviceArray<f32, Ix4>,
    log_sums: DeviceArray<f32, Ix3>,
    /// The same as rows of letters.
    heads: Matrix,
    between: Matrix,
    normed_between: Matrix,
    /// Ahead of GELU, and behind it.
    up: Matrix,
    active: Matrix,
}

/// Queries (0), keys (1) or values (2) as attention has them: (texts, heads, letters, numbers of a head).
fn part(qkv: &DeviceArray<f32, Ix5>, which: usize) -> warpsmith::Result<DeviceView<'_, f32, Ix4>> {
    qkv.index_axis(Axis(2), which)?.permuted_axes([0, 2, 1, 3])
}

/// The derivative of GELU, `x Φ(x)`: `Φ(x) + x φ(x)`.
fn gelu_slope<'a>(x: Expr<'a, f32, Ix2>) -> Expr<'a, f32, Ix2> {
    let below = ((&x * 0.5f32.sqrt()).erf() + 1.0) * 0.5;
    let density = (x.square() * -0.5).exp() * (0.5 * std::f32::consts::FRAC_2_SQRT_PI * 0.5f32.sqrt());
    below + x * density
}

impl Layer {
    /// Weights at random, of a deviation that keeps numbers as large as they were; less for what is added.
    fn new(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<Self> {
        let width = sizes.width;
        let mut weights = |from: usize, to: usize, part: f32| -> warpsmith::Result<Matrix> {
            random.normal(stream, (from, to), 0.0, part / (from as f32).sqrt())
        };
        let added = 1.0 / ((2 * LAYERS) as f32).sqrt();
        Ok(Self {
            attention_norm: Norm::new(stream, width)?,
            qkv: weights(width, 3 * width, 1.0)?,
            out: weights(width, width, added)?,
            norm: Norm::new(stream, width)?,
            up: weights(width, 4 * width, 1.0)?,
            up_bias: DeviceArray::zeros(stream, 4 * width)?,
            down: weights(4 * width, width, added)?,
            down_bias: DeviceArray::zeros(stream, width)?,
        })
    }

    fn forward(&self, x: Matrix, texts: usize, heads: usize) -> warpsmith::Result<(Made, Matrix)> {
        let (letters, width) = x.raw_dim().into_pattern();
        let normed = self.attention_norm.forward(&x)?;
        let qkv = normed.matmul(&self.qkv)?;
        let qkv = qkv.into_shape((texts, letters / texts, 3, heads, width / heads))?;
        let (attended, log_sums) = part(&qkv, 0)?
            .attention(&part(&qkv, 1)?, &part(&qkv, 2)?)
            .causal()
            .compute_with_log_sum_exp()?;
        let in_rows = attended.view().permuted_axes([0, 2, 1, 3])?.to_array()?;
        let in_rows = in_rows.into_shape((letters, width))?;
        let between = in_rows.fused_matmul(&self.out).residual(&x).compute()?;
        let normed_between = self.norm.forward(&between)?;
        let up = normed_between.fused_matmul(&self.up).bias(&self.up_bias).compute()?;
        let active = up.expr().gelu().eval()?;
        let down = active.fused_matmul(&self.down).bias(&self.down_bias);
        let y = down.residual(&between).compute()?;
        let made = Made {
            x,
            normed,
            qkv,
            attended,
            log_sums,
            heads: in_rows,
            between,
            normed_between,
            up,
            active,
        };
        Ok((made, y))
    }

    /// The gradients by all parameters, and that by what came in, of the one by what went out. Of a product `y = a · w` the
    /// gradient by `w` is `aᵀ · dy`, and that by `a` is `dy · wᵀ`.
    fn backward(&self, made: &Made, by_y: &Matrix) -> warpsmith::Result<(Self, Matrix)> {
        let rows = |x: &Matrix| x.expr().sum_axis(Axis(0)).eval();
        let down = made.active.t().matmul(by_y)?;
        let down_bias = rows(by_y)?;
        let mut by_up = by_y.matmul(&self.down.t())?;
        by_up.update(|gradient| gradient * gelu_slope(made.up.expr()))?;
        let up = made.normed_between.t().matmul(&by_up)?;
        let up_bias = rows(&by_up)?;
        let by_normed = by_up.matmul(&self.up.t())?;
        let (norm, by_between) = self.norm.backward(&made.between, &by_normed, by_y)?;

        let out = made.heads.t().matmul(&by_between)?;
        let (texts, heads, letters, of_head) = made.attended.raw_dim().into_pattern();
        let by_heads = by_between.matmul(&self.out.t())?;
        let by_heads = by_heads.into_shape((texts, letters, heads, of_head))?;
        let by_heads = by_heads.view().permuted_axes([0, 2, 1, 3])?;
        let gradients = part(&made.qkv, 0)?
            .attention(&part(&made.qkv, 1)?, &part(&made.qkv, 2)?)
            .causal()
            .gradients(&made.attended, &made.log_sums, &by_heads)?;
        let mut by_qkv = made.qkv.zeros_like()?;
        for (which, gradient) in gradients.iter().enumerate() {
            let gradient = gradient.view().permuted_axes([0, 2, 1, 3])?;
            by_qkv.index_axis_mut(Axis(2), which)?.assign(&gradient)?;
        }
        let by_qkv = by_qkv.into_shape((texts * letters, 3 * heads * of_head))?;
        let qkv = made.normed.t().matmul(&by_qkv)?;
        let by_normed = by_qkv.matmul(&self.qkv.t())?;
        let (attention_norm, by_x) = self.attention_norm.backward(&made.x, &by_normed, &by_between)?;
        let gradients = Self {
            attention_norm,
            qkv,
            out,
            norm,
            up,
            up_bias,
            down,
            down_bias,
        };
        Ok((gradients, by_x))
    }
}

/// A transformer, or the gradients by all of its parameters.
struct Transformer {
    /// A row of numbers for each letter of the alphabet, and one for each place in a text, which is added.
    letters: Matrix,
    places: Matrix,
    layers: Vec<Layer>,
    norm: Norm,
    /// From a letter's numbers to the logits of the next one.
    logits: Matrix,
    heads: usize,
}

impl Transformer {
    fn new(stream: &Stream, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<Self> {
        let Sizes { alphabet, width, .. } = *sizes;
        let letters = random.normal(stream, (alphabet, width), 0.0, 0.5)?;
        let places = random.normal(stream, (sizes.length, width), 0.0, 0.5)?;
        let logits = random.normal(stream, (width, alphabet), 0.0, 1.0 / (width as f32).sqrt())?;
        let layers = (0..LAYERS).map(|_| Layer::new(stream, sizes, random));
        Ok(Self {
            letters,
            places,
            layers: layers.collect::<warpsmith::Result<_>>()?,
            norm: Norm::new(stream, width)?,
            logits,
            heads: sizes.heads,
        })
    }

    /// What the layers have made of some texts of one length, what came out of the last, its norm, and the logits.
    fn forward(&self, letters: &Letters, texts: usize) -> warpsmith::Result<(Vec<Made>, [Matrix; 3])> {
        let (all, width) = (letters.len(), self.letters.shape()[1]);
        let length = all / texts;
        let x = self.letters.take(Axis(0), letters)?;
        let mut x = x.into_shape((texts, length, width))?;
        let places = self.places.slice(s![..length, ..])?;
        x.update(|x| x + &places)?;
        let mut x = x.into_shape((all, width))?;
        let mut made = Vec::new();
        for layer in &self.layers {
            let (of_layer, y) = layer.forward(x, texts, self.heads)?;
            made.push(of_layer);
            x = y;
        }
        let normed = self.norm.forward(&x)?;
        let logits = normed.matmul(&self.logits)?;
        Ok((made, [x, normed, logits]))
    }

    /// The loss of a batch, which stays on the device: how unlikely the next letters were taken to be.
    fn loss(&self, letters: &Letters, next: &Letters, texts: usize) -> warpsmith::Result<Vector> {
        let (_, [_, _, logits]) = self.forward(letters, texts)?;
        loss(&logits, next)
    }

    /// The loss of a batch, and its gradients by all parameters, by the chain rule from the last operation to the first.
    fn gradients(&self, letters: &Letters, next: &Letters, texts: usize) -> warpsmith::Result<(Vector, Self)> {
        let (made, [x, normed, logits]) = self.forward(letters, texts)?;
        let by_logits = logits.expr().cross_entropy_backward(Axis(1), next, 1.0).eval()?;
        let of_logits = normed.t().matmul(&by_logits)?;
        let by_normed = by_logits.matmul(&self.logits.t())?;
        let nothing = x.zeros_like()?;
        let (norm, mut by_x) = self.norm.backward(&x, &by_normed, &nothing)?;
        let mut layers = Vec::new();
        for (layer, made) in self.layers.iter().zip(&made).rev() {
            let (gradients, before) = layer.backward(made, &by_x)?;
            layers.push(gradients);
            by_x = before;
        }
        layers.reverse();
        // A letter's row has the sum of the gradients of all places where it stands, a place's that of all texts.
        let mut of_letters = self.letters.zeros_like()?;
        of_letters.scatter_add(Axis(0), letters, &by_x)?;
        let by_x = by_x.into_shape((texts, letters.len() / texts, self.letters.shape()[1]))?;
        let gradients = Self {
            letters: of_letters,
            places: by_x.expr().sum_axis(Axis(0)).eval()?,
            layers,
            norm,
            logits: of_logits,
            heads: self.heads,
        };
        Ok((loss(&logits, next)?, gradients))
    }

    /// Goes on with a text: each letter is drawn with the probability that the network gives it, those that are unlikely less.
    fn write(&self, stream: &Stream, start: &[u32], count: usize, random: &mut Generator) -> Result<Vec<u32>> {
        const TEMPERATURE: f32 = 0.5;
        let draws = random.uniform(stream, count, 0.0f32..1.0)?.to_ndarray()?;
        let mut text = start.to_vec();
        for draw in draws {
            let seen = &text[text.len().saturating_sub(self.places.shape()[0])..];
            let letters = DeviceArray::from_ndarray(stream, &Array1::from(seen.to_vec()))?;
            let (_, [_, _, logits]) = self.forward(&letters, 1)?;
            let last = logits.index_axis(Axis(0), seen.len() - 1)?;
            let likely = (last.expr() / TEMPERATURE).softmax(Axis(0)).eval()?.to_ndarray()?;
            let mut sum = 0.0;
            let letter = likely.iter().position(|likely| {
                sum += likely;
                sum > draw
            });
            text.push(letter.unwrap_or(likely.len() - 1) as u32);
        }
        Ok(text)
    }
}

fn loss(logits: &Matrix, next: &Letters) -> warpsmith::Result<Vector> {
    let loss = logits.expr().cross_entropy(Axis(1), next);
    loss.insert_axis(Axis(0)).eval()
}

impl Parameters for Transformer {
    fn all(&mut self) -> Vec<(&'static str, DeviceViewMut<'_, f32, IxDyn>)> {
        let mut all = vec![
            ("letters", self.letters.view_mut().into_dyn()),
            ("places", self.places.view_mut().into_dyn()),
        ];
        for layer in &mut self.layers {
            all.extend([
                ("a norm's weight", layer.attention_norm.weight.view_mut().into_dyn()),
                ("a norm's bias", layer.attention_norm.bias.view_mut().into_dyn()),
                ("queries, keys and values", layer.qkv.view_mut().into_dyn()),
                ("the product behind attention", layer.out.view_mut().into_dyn()),
                ("a norm's weight", layer.norm.weight.view_mut().into_dyn()),
                ("a norm's bias", layer.norm.bias.view_mut().into_dyn()),
                ("the product ahead of GELU", layer.up.view_mut().into_dyn()),
                ("its bias", layer.up_bias.view_mut().into_dyn()),
                ("the product behind it", layer.down.view_mut().into_dyn()),
                ("its bias", layer.down_bias.view_mut().into_dyn()),
            ]);
        }
        all.extend([
            ("the last norm's weight", self.norm.weight.view_mut().into_dyn()),
            ("the last norm's bias", self.norm.bias.view_mut().into_dyn()),
            ("logits", self.logits.view_mut().into_dyn()),
        ]);
        all
    }
}

// SAFETY (of all three): their own arrays, which belong to them.
unsafe impl GraphArrays for Norm {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        (&self.weight, &self.bias).arrays(held);
    }
}

unsafe impl GraphArrays for Layer {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        (&self.attention_norm, &self.qkv, &self.out, &self.norm).arrays(held);
        (&self.up, &self.up_bias, &self.down, &self.down_bias).arrays(held);
    }
}

unsafe impl GraphArrays for Training {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        let network = &self.network;
        (&network.letters, &network.places, &network.layers).arrays(held);
        (&network.norm, &network.logits, &self.optimizers).arrays(held);
    }
}

/// What changes at each step: the parameters, and what the optimisers keep.
struct Training {
    network: Transformer,
    optimizers: Vec<Adam<f32>>,
}

impl Training {
    fn new(mut network: Transformer, learning_rate: f64) -> warpsmith::Result<Self> {
        let parameters = network.all();
        let optimizers = parameters
            .iter()
            .map(|(_, parameters)| Adam::new(parameters, learning_rate)?.decoupled_weight_decay(WEIGHT_DECAY));
        let optimizers = optimizers.collect::<warpsmith::Result<_>>()?;
        Ok(Self { network, optimizers })
    }

    /// One step, whose loss is what the parameters gave before it.
    fn step(&mut self, letters: &Letters, next: &Letters, texts: usize) -> warpsmith::Result<Vector> {
        let (loss, mut gradients) = self.network.gradients(letters, next, texts)?;
        let (mut parameters, gradients) = (self.network.all(), gradients.all());
        let all = parameters.iter_mut().zip(&gradients).zip(&mut self.optimizers);
        let steps = all.map(|(((_, parameters), (_, gradient)), adam)| adam.defer_step(parameters, gradient));
        optim::step_all(steps.collect::<warpsmith::Result<Vec<_>>>()?)?;
        Ok(loss)
    }
}

/// A text as numbers of its alphabet.
struct Text {
    alphabet: Vec<char>,
    letters: Letters,
}

impl Text {
    fn new(stream: &Stream, text: &str) -> Result<Self> {
        let mut alphabet: Vec<char> = text.chars().collect();
        alphabet.sort_unstable();
        alphabet.dedup();
        let letters = Self::numbers(&alphabet, text);
        Ok(Self {
            letters: DeviceArray::from_ndarray(stream, &Array1::from(letters))?,
            alphabet,
        })
    }

    /// Letters that the alphabet does not have are left out.
    fn numbers(alphabet: &[char], text: &str) -> Vec<u32> {
        let number = |letter: char| alphabet.binary_search(&letter).ok();
        text.chars().filter_map(number).map(|number| number as u32).collect()
    }

    /// Parts of the text from places at random, one after another, and the letters that come next.
    fn batch(&self, sizes: &Sizes, random: &mut Generator) -> warpsmith::Result<(Letters, Letters)> {
        let (stream, all) = (self.letters.stream(), sizes.batch * sizes.length);
        let starts = random.integers(stream, sizes.batch, 0..(self.letters.len() - sizes.length) as u64)?;
        let places = starts.expr().insert_axis(Axis(1)) + expr::index((sizes.batch, sizes.length), 1);
        let part = |places: Expr<'_, u64, Ix2>| self.letters.take(Axis(0), &places.eval()?.into_shape(all)?);
        Ok((part(places.clone())?, part(places + 1)?))
    }
}

/// Trains for all steps, and gives the loss of each and the seconds that a step took; then has the network write.
fn train(training: Training, text: &Text, sizes: &Sizes, random: &mut Generator) -> Result<(Array1<f32>, f64, String)> {
    let stream = text.letters.stream();
    let (letters, next) = text.batch(sizes, random)?;
    let texts = sizes.batch;
    // All kernels of a step, recorded once; the graph has the parameters, and a batch whose contents change.
    let args = (training, letters, next);
    let mut step = stream.capture(args, |_, (training, letters, next)| training.step(letters, next, texts))?;
    let mut losses = DeviceArray::zeros(stream, sizes.steps)?;
    let start = Instant::now();
    for number in 0..sizes.steps {
        let (new_letters, new_next) = text.batch(sizes, random)?;
        let (_, letters, next) = step.args_mut();
        letters.assign(&new_letters)?;
        next.assign(&new_next)?;
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
    let network = &step.args().0.network;
    let written = network.write(stream, &Text::numbers(&text.alphabet, "the "), sizes.written, random)?;
    let written = written.iter().map(|&letter| text.alphabet[letter as usize]).collect();
    Ok((losses, seconds, written))
}

fn main() -> Result<()> {
    let (curve, files) = training::arguments("char_transformer");
    let device = Device::auto()?;
    let stream = device.default_stream();
    let text = match &files[..] {
        [] => include_str!("data/harbour.txt").to_owned(),
        [file] => fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?,
        _ => return Err("wanted: [CURVE.svg [TEXT.txt]]".into()),
    };
    let text = Text::new(stream, &text)?;
    let mut sizes = match device.is_simulator() {
        false => Sizes {
            alphabet: 0,
            width: 256,
            heads: 4,
            batch: 32,
            length: 128,
            steps: 1000,
            learning_rate: 0.001,
            written: 600,
        },
        true => Sizes {
            alphabet: 0,
            width: 16,
            heads: 2,
            batch: 2,
            length: 16,
            steps: 10,
            learning_rate: 0.02,
            written: 8,
        },
    };
    sizes.alphabet = text.alphabet.len();
    if text.letters.len() <= sizes.length {
        return Err(format!(
            "a text of {} letters is too short for parts of {}",
            text.letters.len(),
            sizes.length
        )
        .into());
    }
    println!(
        "{LAYERS} layers of {} numbers and {} heads on {}: batches of {} parts of {} letters, {} steps",
        sizes.width,
        sizes.heads,
        training::describe(&device),
        sizes.batch,
        sizes.length,
        sizes.steps
    );
    let mut random = Generator::new(2026);
    let mut network = Transformer::new(stream, &sizes, &mut random)?;
    let (letters, next) = text.batch(&sizes, &mut random)?;
    let (_, mut gradients) = network.gradients(&letters, &next, sizes.batch)?;
    training::check_gradients(&mut network, &mut gradients, 0.02, |network| {
        network.loss(&letters, &next, sizes.batch)?.get(0)
    })?;
    let (losses, seconds, written) = train(Training::new(network, sizes.learning_rate)?, &text, &sizes, &mut random)?;
    println!("{:.1} µs a step", seconds * 1e6);
    println!("it writes:\n{written}");
    training::finish(&curve, &losses, 0.9)
}
