// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith grayscale` and `warpsmith blur`: PNG and JPEG pictures of 8-bit gray, RGB and RGBA.

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ColorType, DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageReader, Limits};
use ndarray::{Array, Array3, ArrayView3, Axis, Dimension, IntoDimension, Ix2, Ix3};
use warpsmith::DeviceArray;
use warpsmith::ops::{Border, Weights};

use crate::npy::open_regular;
use crate::output::Output;
use crate::session::{Report, Session};
use crate::timing::Timings;

/// The most bytes that a decoded picture may take: a small file can claim any size.
const MAX_BYTES: u64 = 1 << 30;

/// Of 100; the quality at which artefacts are not seen.
const JPEG_QUALITY: u8 = 92;

#[derive(Args)]
pub struct Files {
    /// The picture that is read: PNG or JPEG; 8-bit gray, RGB or RGBA.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The picture that is written; .png, .jpg or .jpeg.
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
    border: Border<u8>,
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

fn border(text: &str) -> Result<Border<u8>, String> {
    match (text, text.strip_prefix("constant:")) {
        ("mean", _) => Ok(Border::Mean),
        ("clamp", _) => Ok(Border::Clamp),
        ("reflect", _) => Ok(Border::Reflect),
        ("wrap", _) => Ok(Border::Wrap),
        ("constant", _) => Ok(Border::Constant(0)),
        (_, Some(value)) => match value.parse() {
            Ok(value) => Ok(Border::Constant(value)),
            Err(_) => Err(format!("{value} is no number from 0 to 255")),
        },
        _ => Err("wanted mean, clamp, reflect, wrap, constant or constant:V".into()),
    }
}

/// The format of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Png,
    Jpeg,
}

impl Format {
    fn of(path: &Path) -> Result<Self> {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("png") => Ok(Format::Png),
            Some("jpg" | "jpeg") => Ok(Format::Jpeg),
            Some(other) => bail!("{}: extension .{other}, wanted .png, .jpg or .jpeg", path.display()),
            None => bail!("{}: no extension, wanted .png, .jpg or .jpeg", path.display()),
        }
    }
}

/// `warpsmith grayscale IN -o OUT`
pub fn grayscale(session: &Session, args: &GrayscaleArgs) -> Result<()> {
    args.files.filter(session, "grayscale", |picture, timings| {
        // A gray picture is its own gray.
        if picture.dim().2 == 1 {
            return Ok(picture);
        }
        let (height, width, _) = picture.dim();
        let gray = through_device(
            &picture,
            (height, width),
            timings,
            |x, out: &mut DeviceArray<u8, Ix2>| x.grayscale_with_into(args.weights, out),
        )?;
        Ok(gray.insert_axis(Axis(2)))
    })
}

/// `warpsmith blur IN -o OUT`
pub fn blur(session: &Session, args: &BlurArgs) -> Result<()> {
    args.files.filter(session, "blur", |picture, timings| {
        through_device(&picture, picture.dim(), timings, |x, out| match args.sigma {
            Some(sigma) => x.gaussian_blur_into(sigma, args.border, out),
            None => x.box_blur_into(args.radius.unwrap_or(1), args.border, out),
        })
    })
}

/// Copies the picture to the device, makes a result of that shape of it, and copies it back.
fn through_device<D: Dimension>(
    picture: &Array3<u8>,
    shape: impl IntoDimension<Dim = D>,
    timings: &mut Timings,
    kernel: impl FnOnce(&DeviceArray<u8, Ix3>, &mut DeviceArray<u8, D>) -> warpsmith::Result<()>,
) -> Result<Array<u8, D>> {
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
        make: impl FnOnce(Array3<u8>, &mut Timings) -> Result<Array3<u8>>,
    ) -> Result<()> {
        let format = Format::of(&self.output)?;
        let output = Output::create(&self.output)?;
        let progress = session.progress(operation);
        let picture = load(&self.input).with_context(|| self.input.display().to_string())?;
        let device = session.open_device()?;
        let mut timings = Timings::new(device.default_stream());
        let result = make(picture, &mut timings)?;
        if format == Format::Jpeg && result.dim().2 == 4 {
            bail!(
                "{}: {} has an alpha channel, which JPEG cannot store; wanted .png",
                self.output.display(),
                self.input.display()
            );
        }
        output.commit(|writer| encode(result.view(), format, writer))?;
        drop(progress);
        let report = Report {
            operation: operation.into(),
            dtype: "u8",
            shape: result.shape(),
            output: Some(&self.output),
            value: None,
        };
        session.finish(&report, &device.properties().id, &timings)
    }
}

pub fn load(path: &Path) -> Result<Array3<u8>> {
    let mut file = open_regular(path)?;
    let len = file.metadata()?.len();
    ensure!(len <= MAX_BYTES, "{len} bytes, wanted at most {MAX_BYTES}");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    decode(&bytes)
}

/// The pixels as rows × columns × channels, upright.
pub fn decode(bytes: &[u8]) -> Result<Array3<u8>> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    if !matches!(
        reader.format(),
        Some(image::ImageFormat::Png | image::ImageFormat::Jpeg)
    ) {
        bail!("is no PNG or JPEG picture");
    }
    // The decoder fills what a truncated one lacks with gray.
    if reader.format() == Some(image::ImageFormat::Jpeg) && !reaches_end_marker(bytes) {
        bail!("is no valid picture: truncated");
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let broken = |error: image::ImageError| anyhow!("is no valid picture: {error}");
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let (width, height) = decoder.dimensions();
    let bytes = decoder.total_bytes();
    ensure!(
        bytes <= MAX_BYTES,
        "{width} × {height} pixels take {bytes} bytes, wanted at most {MAX_BYTES}"
    );
    let channels = match decoder.color_type() {
        ColorType::L8 => 1,
        ColorType::Rgb8 => 3,
        ColorType::Rgba8 => 4,
        other => bail!("{} pixels, wanted 8-bit gray, RGB or RGBA", color_name(other)),
    };
    let orientation = decoder.orientation().map_err(broken)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    picture.apply_orientation(orientation);
    let shape = (picture.height() as usize, picture.width() as usize, channels);
    Ok(Array3::from_shape_vec(shape, picture.into_bytes())?)
}

/// Whether a JPEG file goes on to its end marker: segments, which tell their lengths, and the data of
/// scans, in which only stuffed bytes and restart markers follow 0xff.
fn reaches_end_marker(jpeg: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[byte, code]) = jpeg.get(at..at + 2) {
        at += match (byte, code) {
            (0xff, 0xd9) => return true,
            (0xff, 0x00 | 0x01 | 0xd0..=0xd7) => 2,
            (0xff, 0x02..=0xfe) => match jpeg.get(at + 2..at + 4) {
                Some(&[high, low]) => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => return false,
            },
            _ => 1,
        };
    }
    false
}

fn color_name(color: ColorType) -> String {
    let channels = match color.channel_count() {
        1 => "gray",
        2 => "gray-and-alpha",
        3 => "RGB",
        _ => "RGBA",
    };
    let bits = color.bits_per_pixel() / u16::from(color.channel_count());
    format!("{bits}-bit {channels}")
}

/// Writes a picture of 1, 3 or 4 channels in C order.
pub fn encode(picture: ArrayView3<u8>, format: Format, writer: impl Write) -> Result<()> {
    let (height, width, channels) = picture.dim();
    let color = match channels {
        1 => ExtendedColorType::L8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    let pixels = picture.as_standard_layout();
    let pixels = pixels.as_slice().context("pixels in C order")?;
    let (width, height) = (u32::try_from(width)?, u32::try_from(height)?);
    match format {
        Format::Png => PngEncoder::new(writer).write_image(pixels, width, height, color)?,
        Format::Jpeg => {
            JpegEncoder::new_with_quality(writer, JPEG_QUALITY).write_image(pixels, width, height, color)?
        }
    }
    Ok(())
}
