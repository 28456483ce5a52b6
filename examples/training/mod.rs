// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the examples that train networks share: their arguments, a check of their gradients, and what becomes of the loss.

use std::path::{Path, PathBuf};
use std::{env, fs};

use warpsmith::ndarray::{Array1, IxDyn, s};
use warpsmith::{Device, DeviceViewMut};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A network's parameters, or the gradients by them.
pub trait Parameters {
    /// All of them with their names, in an order that is always the same.
    fn all(&mut self) -> Vec<(&'static str, DeviceViewMut<'_, f32, IxDyn>)>;
}

/// Where the picture of the loss goes, which is the first argument or a file in the folder for temporary ones; and the arguments
/// behind it.
pub fn arguments(example: &str) -> (PathBuf, Vec<PathBuf>) {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let picture = arguments.next();
    (
        picture.unwrap_or_else(|| env::temp_dir().join(format!("{example}.svg"))),
        arguments.collect(),
    )
}

/// The device's name, with what is different on the simulated one.
pub fn describe(device: &Device) -> String {
    let name = &device.properties().name;
    match device.is_simulator() {
        true => format!("{name}, where all is smaller"),
        false => name.clone(),
    }
}

/// How many of the samples are to learn from; the last tenth is for the examination.
#[allow(dead_code)] // char_transformer has none.
pub fn known(samples: usize, batch: usize) -> Result<usize> {
    let known = samples / 10 * 9;
    if known < batch {
        return Err(format!("{samples} samples are too few for batches of {batch}").into());
    }
    Ok(known)
}

/// Compares gradients with differences of the loss, at a distance in either direction. Along the gradient itself, where the loss
/// changes most, its slope is the gradient's length.
pub fn check_gradients<N: Parameters>(
    network: &mut N,
    gradients: &mut N,
    distance: f32,
    loss: impl Fn(&N) -> warpsmith::Result<f32>,
) -> Result<()> {
    for (number, (name, gradient)) in gradients.all().into_iter().enumerate() {
        let length = gradient.expr().square().sum().sqrt().eval()?;
        let length = length.to_ndarray()?.into_scalar();
        let before = network.all()[number].1.to_array()?;
        let mut loss_at = |step: f32| -> Result<f32> {
            network.all()[number].1.axpy(step / length, &gradient)?;
            let loss = loss(network)?;
            network.all()[number].1.assign(&before)?;
            Ok(loss)
        };
        let slope = (loss_at(distance)? - loss_at(-distance)?) / (2.0 * distance);
        println!("gradient by {name}: {length:.5}; by differences of the loss {slope:.5}");
        if (slope - length).abs() > 0.05 * length {
            return Err(format!("the gradient by {name} is wrong").into());
        }
    }
    Ok(())
}

/// Prints how many of the steps are done, as a bar too, and the loss of the last of them.
pub fn report(done: usize, steps: usize, loss: f32) {
    const WIDTH: usize = 30;
    let filled = "#".repeat(done * WIDTH / steps);
    println!("[{filled:.<WIDTH$}] step {done} of {steps}: loss {loss:.4}");
}

/// Draws the loss of each step, the last of which are below that part of the first.
pub fn finish(picture: &Path, losses: &Array1<f32>, part: f32) -> Result<()> {
    draw(picture, losses)?;
    let (first, last) = (losses[0], losses.slice(s![-5..]).mean().ok_or("no step")?);
    match last < part * first {
        true => Ok(()),
        false => Err(format!("the loss has fallen from {first} to {last} only").into()),
    }
}

/// The loss of each step as a picture.
fn draw(path: &Path, losses: &Array1<f32>) -> Result<()> {
    let (width, height, margin) = (640.0, 360.0, 48.0);
    let most = losses.fold(0.0, |a: f32, &b| a.max(b));
    let points = losses.iter().enumerate().map(|(step, loss)| {
        let x = margin + (width - 2.0 * margin) * step as f32 / losses.len() as f32;
        let y = height - margin - (height - 2.0 * margin) * loss / most;
        format!("{x:.1},{y:.1}")
    });
    let points: Vec<String> = points.collect();
    let (right, bottom) = (width - margin, height - margin);
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<path d="M{margin},{margin} V{bottom} H{right}" fill="none" stroke="#888"/>
<text x="{margin}" y="{}">loss: {most:.2} at most, {:.4} at last</text>
<text x="{right}" y="{}" text-anchor="end">{} steps</text>
<polyline points="{}" fill="none" stroke="#0a6" stroke-width="1.5"/>
</svg>
"##,
        margin - 12.0,
        losses[losses.len() - 1],
        bottom + 24.0,
        losses.len(),
        points.join(" ")
    );
    fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("the loss of each step: {}", path.display());
    Ok(())
}
