// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures as PNG and JPEG store them.

use std::io::{Cursor, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageReader, Limits};
use ndarray::Array3;

use crate::input::{Input, is_stream};
use crate::scalar::Dtype;

/// The most bytes that a decoded picture may take: a small file can claim any size.
const MAX_BYTES: u64 = 1 << 30;

/// Of 100; the quality at which artefacts are not seen.
const JPEG_QUALITY: u8 = 92;

/// A picture as rows × columns × channels: gray, gray and alpha, RGB, or RGB and alpha.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Of 8 bits for each channel.
    Bytes(Array3<u8>),
    /// Of 16 bits.
    Words(Array3<u16>),
}

impl Picture {
    pub fn shape(&self) -> [usize; 3] {
        let (rows, columns, channels) = match self {
            Picture::Bytes(pixels) => pixels.dim(),
            Picture::Words(pixels) => pixels.dim(),
        };
        [rows, columns, channels]
    }

    pub fn channels(&self) -> usize {
        self.shape()[2]
    }

    pub fn dtype(&self) -> Dtype {
        match self {
            Picture::Bytes(_) => Dtype::U8,
            Picture::Words(_) => Dtype::U16,
        }
    }

    /// What of it JPEG has no place for.
    pub fn beyond_jpeg(&self) -> Option<&'static str> {
        match (self, self.channels()) {
            (_, 2 | 4) => Some("has an alpha channel"),
            (Picture::Words(_), _) => Some("has 16 bits for each channel"),
            _ => None,
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
    /// By the name's extension; of standard output, PNG.
    pub fn of(path: &Path) -> Result<Self> {
        if is_stream(path) {
            return Ok(Format::Png);
        }
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

/// Reads an input; an error does not name it.
pub fn read(input: &Input) -> Result<Picture> {
    let mut bytes = Vec::new();
    input.read(|reader| Ok(reader.take(MAX_BYTES + 1).read_to_end(&mut bytes)?))?;
    ensure!(!bytes.is_empty(), "is empty");
    ensure!(
        bytes.len() as u64 <= MAX_BYTES,
        "more bytes than {MAX_BYTES}, wanted at most so many"
    );
    decode(&bytes)
}

/// The pixels, upright.
pub fn decode(bytes: &[u8]) -> Result<Picture> {
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
    let orientation = decoder.orientation().map_err(broken)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(broken)?;
    picture.apply_orientation(orientation);
    let color = picture.color();
    let shape = (
        picture.height() as usize,
        picture.width() as usize,
        usize::from(color.channel_count()),
    );
    let bytes = |pixels: Vec<u8>| Ok(Picture::Bytes(Array3::from_shape_vec(shape, pixels)?));
    let words = |pixels: Vec<u16>| Ok(Picture::Words(Array3::from_shape_vec(shape, pixels)?));
    match picture {
        DynamicImage::ImageLuma8(pixels) => bytes(pixels.into_raw()),
        DynamicImage::ImageLumaA8(pixels) => bytes(pixels.into_raw()),
        DynamicImage::ImageRgb8(pixels) => bytes(pixels.into_raw()),
        DynamicImage::ImageRgba8(pixels) => bytes(pixels.into_raw()),
        DynamicImage::ImageLuma16(pixels) => words(pixels.into_raw()),
        DynamicImage::ImageLumaA16(pixels) => words(pixels.into_raw()),
        DynamicImage::ImageRgb16(pixels) => words(pixels.into_raw()),
        DynamicImage::ImageRgba16(pixels) => words(pixels.into_raw()),
        _ => bail!("{color:?} pixels, wanted 8 or 16 bits of gray or RGB, with or without alpha"),
    }
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

/// Writes a picture.
pub fn encode(picture: &Picture, format: Format, writer: impl Write) -> Result<()> {
    use ExtendedColorType::{L8, L16, La8, La16, Rgb8, Rgb16, Rgba8, Rgba16};
    let [height, width, channels] = picture.shape();
    let (width, height) = (u32::try_from(width)?, u32::try_from(height)?);
    let (color, words, pixels);
    let bytes: &[u8] = match picture {
        Picture::Bytes(array) => {
            color = [L8, La8, Rgb8, Rgba8][channels - 1];
            pixels = array.as_standard_layout();
            pixels.as_slice().context("pixels in C order")?
        }
        Picture::Words(array) => {
            color = [L16, La16, Rgb16, Rgba16][channels - 1];
            words = array.as_standard_layout();
            bytemuck::cast_slice(words.as_slice().context("pixels in C order")?)
        }
    };
    match format {
        Format::Png => PngEncoder::new(writer).write_image(bytes, width, height, color)?,
        Format::Jpeg => JpegEncoder::new_with_quality(writer, JPEG_QUALITY).write_image(bytes, width, height, color)?,
    }
    Ok(())
}
