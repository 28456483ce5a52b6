// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith grayscale`, `warpsmith blur` and `warpsmith convolve`: PNG and JPEG pictures, gray or RGB, with or without alpha, of 8 or 16 bits.
//!
//! The result has the depth of the input, and its alpha, as it is.

mod codec;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use ndarray::{Array, Array2, Array3, Axis, Dimension, IntoDimension, Ix2, Ix3, concatenate, s};
use warpsmith::ops::{Border, Pixel, Weights};
use warpsmith::{Device, DeviceArray};

use crate::input::Input;
use crate::npy::NpyFile;
use crate::scalar::Dtype;
use crate::session::{Report, Session};
use crate::timing::Timings;

pub use codec::{Format, Picture, decode, encode, read};

#[derive(Args)]
pub struct Files {
    /// The picture that is read: PNG or JPEG.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The picture that is written, of the input's depth and with its alpha; .png, or without alpha and of 8 bits .jpg or
    /// .jpeg.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
}

#[derive(Args)]
pub struct GrayscaleArgs {
    #[command(flatten)]
    files: Files,
    /// How much red, green and blue count: bt601, bt709, or three numbers.
    #[arg(long, default_value = "bt601", value_name = "bt601|bt709|R,G,B", allow_hyphen_values = true, value_parser = weights)]
    weights: Weights,
}

#[derive(Args)]
pub struct BlurArgs {
    #[command(flatten)]
    files: Files,
    /// Box blur: each pixel becomes the mean of those up to so many rows and columns away [default: 1].
    #[arg(long, value_name = "R", conflicts_with = "sigma")]
    radius: Option<usize>,
    /// Gaussian blur with this standard deviation, in pixels.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// What lies beyond the edges: mean (nothing: the mean is over the pixels that exist), clamp, reflect, wrap,
    /// constant (0), constant:V.
    #[arg(long, default_value = "mean", value_name = "MODE", value_parser = border)]
    border: Border<u16>,
}

#[derive(Args)]
pub struct ConvolveArgs {
    #[command(flatten)]
    files: Files,
    /// The weights, a .npy file of two axes, of floats or integers. As in SciPy's correlate and OpenCV's filter2D they are not
    /// reversed; the middle one is the pixel's own.
    #[arg(value_name = "KERNEL.npy")]
    kernel: PathBuf,
    /// What lies beyond the edges: clamp, reflect, wrap, constant (0), constant:V.
    #[arg(long, default_value = "reflect", value_name = "MODE", value_parser = border)]
    border: Border<u16>,
}

fn weights(text: &str) -> Result<Weights, String> {
    match text {
        "bt601" => return Ok(Weights::Bt601),
        "bt709" => return Ok(Weights::Bt709),
        _ => {}
    }
    let numbers: Option<Vec<f32>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[red, green, blue]) => Ok(Weights::Custom([red, green, blue])),
        _ => Err("wanted bt601, bt709, or three numbers as in 0.3,0.6,0.1".into()),
    }
}

fn border(text: &str) -> Result<Border<u16>, String> {
    match (text, text.strip_prefix("constant:")) {
        ("mean", _) => Ok(Border::Mean),
        ("clamp", _) => Ok(Border::Clamp),
        ("reflect", _) => Ok(Border::Reflect),
        ("wrap", _) => Ok(Border::Wrap),
        ("constant", _) => Ok(Border::Constant(0)),
        (_, Some(value)) => match value.parse() {
            Ok(value) => Ok(Border::Constant(value)),
            Err(_) => Err(format!("{value} is no number from 0 to 65535")),
        },
        _ => Err("wanted mean, clamp, reflect, wrap, constant or constant:V".into()),
    }
}

/// A channel of a picture from a file.
trait Channel: Pixel + TryFrom<u16> {
    fn into_picture(pixels: Array3<Self>) -> Picture;
}

impl Channel for u8 {
    fn into_picture(pixels: Array3<u8>) -> Picture {
        Picture::Bytes(pixels)
    }
}

impl Channel for u16 {
    fn into_picture(pixels: Array3<u16>) -> Picture {
        Picture::Words(pixels)
    }
}

/// `warpsmith grayscale IN -o OUT`
pub fn grayscale(session: &Session, args: &GrayscaleArgs) -> Result<()> {
    args.files
        .filter(session, "grayscale", |picture, timings| match picture {
            // A gray picture is its own gray.
            picture if picture.channels() <= 2 => Ok(picture),
            Picture::Bytes(pixels) => gray_of(&pixels, args.weights, timings),
            Picture::Words(pixels) => gray_of(&pixels, args.weights, timings),
        })
}

fn gray_of<T: Channel>(pixels: &Array3<T>, weights: Weights, timings: &mut Timings) -> Result<Picture> {
    let (height, width, _) = pixels.dim();
    let gray = through_device(pixels, (height, width), timings, |x, out: &mut DeviceArray<T, Ix2>| {
        x.grayscale_with_into(weights, out)
    })?;
    let alpha = pixels.slice(s![.., .., 3..]);
    Ok(T::into_picture(concatenate(
        Axis(2),
        &[gray.insert_axis(Axis(2)).view(), alpha],
    )?))
}

/// `warpsmith blur IN -o OUT`
pub fn blur(session: &Session, args: &BlurArgs) -> Result<()> {
    args.files.filter(session, "blur", |picture, timings| match picture {
        Picture::Bytes(pixels) => blurred(&pixels, args, timings),
        Picture::Words(pixels) => blurred(&pixels, args, timings),
    })
}

fn blurred<T: Channel>(pixels: &Array3<T>, args: &BlurArgs, timings: &mut Timings) -> Result<Picture> {
    let border = border_of::<T>("blur", args.border)?;
    but_alpha(pixels, timings, |x, out| match args.sigma {
        Some(sigma) => x.gaussian_blur_into(sigma, border, out),
        None => x.box_blur_into(args.radius.unwrap_or(1), border, out),
    })
}

/// `warpsmith convolve IN KERNEL.npy -o OUT`
pub fn convolve(session: &Session, args: &ConvolveArgs) -> Result<()> {
    let weights = filter_weights(&NpyFile::open(&args.kernel)?, &session.open_device()?)?;
    args.files
        .filter(session, "convolve", |picture, timings| match picture {
            Picture::Bytes(pixels) => convolved(&pixels, args, &weights, timings),
            Picture::Words(pixels) => convolved(&pixels, args, &weights, timings),
        })
}

/// The weights in a file, as `f32`.
fn filter_weights(file: &NpyFile, device: &Device) -> Result<Array2<f32>> {
    let weights = match file.stored.dtype() {
        Dtype::F32 => file.read::<f32>(device)?,
        Dtype::F64 => file.read::<f64>(device)?.mapv(|x| x as f32),
        Dtype::I32 => file.read::<i32>(device)?.mapv(|x| x as f32),
        Dtype::I64 => file.read::<i64>(device)?.mapv(|x| x as f32),
        other => bail!(
            "{}: weights of {}, wanted f32, f64, or integers of 8 to 64 bits with a sign",
            file.name(),
            other.name()
        ),
    };
    let shape = weights.shape().to_vec();
    weights
        .into_dimensionality()
        .map_err(|_| anyhow!("{}: weights of shape {shape:?}, wanted two axes", file.name()))
}

fn convolved<T: Channel>(
    pixels: &Array3<T>,
    args: &ConvolveArgs,
    weights: &Array2<f32>,
    timings: &mut Timings,
) -> Result<Picture> {
    let border = border_of::<T>("convolve", args.border)?;
    but_alpha(pixels, timings, |x, out| x.filter_into(weights, border, out))
}

/// What `make` makes of a picture on the device; alpha stays as it is, and the library has no pictures of two channels.
fn but_alpha<T: Channel>(
    pixels: &Array3<T>,
    timings: &mut Timings,
    make: impl Fn(&DeviceArray<T, Ix3>, &mut DeviceArray<T, Ix3>) -> warpsmith::Result<()>,
) -> Result<Picture> {
    let mut of = |pixels: &Array3<T>| through_device(pixels, pixels.dim(), timings, &make);
    Ok(T::into_picture(match pixels.dim().2 {
        2 => {
            let gray = of(&pixels.slice(s![.., .., ..1]).to_owned())?;
            concatenate(Axis(2), &[gray.view(), pixels.slice(s![.., .., 1..])])?
        }
        _ => of(pixels)?,
    }))
}

/// The border of a picture of such channels.
fn border_of<T: Channel>(operation: &str, border: Border<u16>) -> Result<Border<T>> {
    Ok(match border {
        Border::Mean => Border::Mean,
        Border::Clamp => Border::Clamp,
        Border::Reflect => Border::Reflect,
        Border::Wrap => Border::Wrap,
        Border::Constant(value) => Border::Constant(T::try_from(value).map_err(|_| {
            anyhow!("{operation}: --border constant:{value} of an 8-bit picture, wanted a number from 0 to 255")
        })?),
    })
}

/// Copies the picture to the device, makes a result of that shape of it, and copies it back.
fn through_device<T: Pixel, D: Dimension>(
    picture: &Array3<T>,
    shape: impl IntoDimension<Dim = D>,
    timings: &mut Timings,
    kernel: impl FnOnce(&DeviceArray<T, Ix3>, &mut DeviceArray<T, D>) -> warpsmith::Result<()>,
) -> Result<Array<T, D>> {
    let stream = &timings.stream();
    let mut out = timings.time("allocation", || DeviceArray::zeros(stream, shape))?;
    let x = timings.time("copy in", || DeviceArray::from_ndarray(stream, picture))?;
    timings.time("kernel", || kernel(&x, &mut out))?;
    Ok(timings.time("copy out", || out.to_ndarray())?)
}

impl Files {
    /// Reads the picture, lets `make` make another of it, and writes that.
    fn filter(
        &self,
        session: &Session,
        operation: &str,
        make: impl FnOnce(Picture, &mut Timings) -> Result<Picture>,
    ) -> Result<()> {
        let format = Format::of(&self.output)?;
        let output = session.create_output(&self.output)?;
        let progress = session.progress(operation);
        let input = Input::open(&self.input)?;
        let picture = read(&input).with_context(|| input.name().to_string())?;
        if let (Format::Jpeg, Some(what)) = (format, picture.beyond_jpeg()) {
            bail!(
                "{}: {} {what}, which JPEG cannot store; wanted .png",
                self.output.display(),
                input.name()
            );
        }
        let device = session.open_device()?;
        let mut timings = Timings::new(device.default_stream());
        let result = make(picture, &mut timings)?;
        output.commit(|writer| encode(&result, format, writer))?;
        drop(progress);
        let report = Report {
            operation: operation.into(),
            dtype: result.dtype().name(),
            shape: &result.shape(),
            output: Some(&self.output),
            value: None,
        };
        session.finish(&report, &device.properties().id, &timings)
    }
}
