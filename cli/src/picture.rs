// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith grayscale` and `warpsmith blur`: PNG and JPEG pictures of 8-bit gray, RGB and RGBA.

use std::fmt;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ColorType, DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageReader, Limits};
use ndarray::{Array3, ArrayView3, Axis, Ix3};
use warpsmith::DeviceArray;

use crate::npy::open_regular;
use crate::output::Output;
use crate::session::{Report, Session};
use crate::timing::Timings;

/// The most bytes that a decoded picture may take: a small file can claim any size.
const MAX_BYTES: u64 = 1 << 30;

/// Of 100; the quality at which artefacts are not seen.
const JPEG_QUALITY: u8 = 92;

/// What is done to a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Grayscale,
    Blur,
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Filter::Grayscale => "grayscale",
            Filter::Blur => "blur",
        })
    }
}

impl Filter {
    /// The channels of the result.
    fn channels(self, input: usize) -> usize {
        match self {
            Filter::Grayscale => 1,
            Filter::Blur => input,
        }
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

/// `warpsmith grayscale|blur IN -o OUT`
pub fn run(session: &Session, filter: Filter, input: &Path, path: &Path) -> Result<()> {
    let format = Format::of(path)?;
    let output = Output::create(path)?;
    let progress = session.progress(filter.to_string());
    let picture = load(input).with_context(|| input.display().to_string())?;
    if format == Format::Jpeg && filter.channels(picture.dim().2) == 4 {
        bail!(
            "{}: {} has an alpha channel, which JPEG cannot store; wanted .png",
            path.display(),
            input.display()
        );
    }
    let device = session.open_device()?;
    let mut timings = Timings::new(device.default_stream());
    let result = match filter {
        // A gray picture is its own gray.
        Filter::Grayscale if picture.dim().2 == 1 => picture,
        Filter::Grayscale => grayscale(&picture, &mut timings)?,
        Filter::Blur => blur(&picture, &mut timings)?,
    };
    output.commit(|writer| encode(result.view(), format, writer))?;
    drop(progress);
    let report = Report {
        operation: filter.to_string(),
        dtype: "u8",
        shape: result.shape(),
        output: Some(path),
        value: None,
    };
    session.finish(&report, &device.properties().id, &timings)
}

fn grayscale(picture: &Array3<u8>, timings: &mut Timings) -> Result<Array3<u8>> {
    let (height, width, _) = picture.dim();
    let stream = &timings.stream();
    let mut out = timings.time("allocation", || DeviceArray::zeros(stream, (height, width)))?;
    let x = timings.time("copy in", || DeviceArray::from_ndarray(stream, picture))?;
    timings.time("kernel", || x.grayscale_into(&mut out))?;
    let gray = timings.time("copy out", || out.to_ndarray())?;
    Ok(gray.insert_axis(Axis(2)))
}

fn blur(picture: &Array3<u8>, timings: &mut Timings) -> Result<Array3<u8>> {
    let stream = &timings.stream();
    let mut out = timings.time("allocation", || DeviceArray::<u8, Ix3>::zeros(stream, picture.dim()))?;
    let x = timings.time("copy in", || DeviceArray::from_ndarray(stream, picture))?;
    timings.time("kernel", || x.box_blur_3x3_into(&mut out))?;
    Ok(timings.time("copy out", || out.to_ndarray())?)
}

fn load(path: &Path) -> Result<Array3<u8>> {
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
