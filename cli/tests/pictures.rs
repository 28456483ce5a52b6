// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands on pictures.

use crate::common::Workplace;
use image::{DynamicImage, GrayImage, ImageFormat, RgbImage, RgbaImage};
use ndarray::{Array3, s};

/// A picture with edges, gradients and every value.
fn pixel(x: u32, y: u32, channel: u32) -> u8 {
    (x * 7 + y * 13 + channel * 85 + (x / 5) * (y / 3) * 11) as u8
}

fn rgb(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([0, 1, 2].map(|c| pixel(x, y, c))))
}

fn rgba(width: u32, height: u32) -> RgbaImage {
    RgbaImage::from_fn(width, height, |x, y| image::Rgba([0, 1, 2, 3].map(|c| pixel(x, y, c))))
}

fn gray(width: u32, height: u32) -> GrayImage {
    GrayImage::from_fn(width, height, |x, y| image::Luma([pixel(x, y, 0)]))
}

/// BT.601, rounded to nearest, halves up.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u8
}

/// The mean of the pixels that exist around each; alpha as it is.
fn blurred(picture: DynamicImage) -> Vec<u8> {
    let shape = [
        picture.height(),
        picture.width(),
        picture.color().channel_count().into(),
    ]
    .map(|n| n as usize);
    let x = Array3::from_shape_vec(shape, picture.into_bytes()).unwrap();
    let mean = |(i, j, c): (usize, usize, usize)| {
        let around = x.slice(s![
            i.saturating_sub(1)..(i + 2).min(shape[0]),
            j.saturating_sub(1)..(j + 2).min(shape[1]),
            c
        ]);
        let sum: f64 = around.iter().map(|&x| f64::from(x)).sum();
        if c == 3 {
            x[[i, j, c]]
        } else {
            (sum / around.len() as f64 + 0.5).floor() as u8
        }
    };
    Array3::from_shape_fn(shape, mean).into_raw_vec_and_offset().0
}

fn open(place: &Workplace, name: &str) -> DynamicImage {
    image::open(place.path(name)).unwrap()
}

#[test]
fn grayscale_of_every_kind() {
    let place = Workplace::new();
    let (color, transparent, plain) = (rgb(67, 45), rgba(67, 45), gray(67, 45));
    place.save_picture("rgb.png", color.clone());
    place.save_picture("rgba.png", transparent.clone());
    place.save_picture("gray.png", plain.clone());
    place.succeed(&["grayscale", "rgb.png", "-o", "out.png"]);
    let want: Vec<u8> = color.pixels().map(|pixel| luma(pixel.0)).collect();
    assert_eq!(open(&place, "out.png").as_luma8().unwrap().as_raw(), &want);
    place.succeed(&["grayscale", "rgba.png", "-o", "out.png"]);
    let want: Vec<u8> = transparent
        .pixels()
        .map(|pixel| luma([pixel[0], pixel[1], pixel[2]]))
        .collect();
    assert_eq!(open(&place, "out.png").as_luma8().unwrap().as_raw(), &want);
    place.succeed(&["grayscale", "gray.png", "-o", "out.png"]);
    assert_eq!(open(&place, "out.png").as_luma8().unwrap(), &plain);
}

#[test]
fn blur_keeps_the_kind() {
    let place = Workplace::new();
    let pictures: [DynamicImage; 5] = [
        rgb(67, 45).into(),
        rgba(33, 9).into(),
        gray(40, 31).into(),
        rgb(1, 1).into(),
        rgba(1, 50).into(),
    ];
    for picture in pictures {
        place.save_picture("in.png", picture.clone());
        place.succeed(&["blur", "in.png", "-o", "out.png"]);
        let got = open(&place, "out.png");
        assert_eq!((got.color(), got.width()), (picture.color(), picture.width()));
        assert_eq!(got.into_bytes(), blurred(picture));
    }
}

#[test]
fn jpeg_in_and_out() {
    let place = Workplace::new();
    place.save_picture("in.jpg", rgb(64, 48));
    let decoded = open(&place, "in.jpg");
    place.succeed(&["blur", "in.jpg", "-o", "out.png"]);
    assert_eq!(open(&place, "out.png").into_bytes(), blurred(decoded));
    for name in ["out.jpg", "out.JPEG"] {
        let object = place.json(&["grayscale", "in.jpg", "-o", name, "--json"]);
        assert_eq!(object["shape"], serde_json::json!([48, 64, 1]));
        assert_eq!(object["output"], name);
        let bytes = std::fs::read(place.path(name)).unwrap();
        let picture = image::load_from_memory_with_format(&bytes, ImageFormat::Jpeg).unwrap();
        assert_eq!(
            (picture.width(), picture.height(), picture.color()),
            (64, 48, image::ColorType::L8)
        );
    }
    // The contents decide, not the name.
    std::fs::copy(place.path("in.jpg"), place.path("misnamed.png")).unwrap();
    place.succeed(&["grayscale", "misnamed.png", "-o", "out.png"]);
}

/// A camera held upright stores the picture lying, and says so.
#[test]
fn jpeg_orientation_is_applied() {
    let place = Workplace::new();
    place.save_picture("in.jpg", gray(64, 48));
    let mut bytes = std::fs::read(place.path("in.jpg")).unwrap();
    // An Exif block with one entry: orientation (0x0112), a 16-bit number, 6: turn right.
    let mut exif = b"\xff\xe1\x00\x22Exif\0\0II\x2a\x00\x08\x00\x00\x00\x01\x00".to_vec();
    exif.extend(b"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00");
    bytes.splice(2..2, exif);
    place.write("turned.jpg", &bytes);
    place.succeed(&["grayscale", "turned.jpg", "-o", "out.png"]);
    assert_eq!(
        open(&place, "out.png").as_luma8().unwrap(),
        open(&place, "in.jpg").rotate90().as_luma8().unwrap()
    );
}

#[test]
fn a_palette_is_expanded() {
    let place = Workplace::new();
    // 2 × 1 pixels of 1 bit each, 0 and 1, in the colours red and white.
    place.write(
        "palette.png",
        &png(2, 1, 1, 3, &[b"PLTE\xff\x00\x00\xff\xff\xff"], &[0, 0b0100_0000]),
    );
    place.succeed(&["grayscale", "palette.png", "-o", "out.png"]);
    assert_eq!(open(&place, "out.png").as_luma8().unwrap().as_raw(), &[76, 255]);
}

#[test]
fn bad_pictures() {
    let place = Workplace::new();
    place.save_picture("good.png", rgb(64, 64));
    place.save_picture("good.jpg", rgb(64, 64));
    for name in ["good.png", "good.jpg"] {
        let bytes = std::fs::read(place.path(name)).unwrap();
        place.write("truncated", &bytes[..bytes.len() / 2]);
        place.fail(
            &["blur", "truncated", "-o", "out.png"],
            &["truncated: is no valid picture"],
        );
        place.write("start", &bytes[..20]);
        place.fail(&["blur", "start", "-o", "out.png"], &["start: is no valid picture"]);
    }
    place.write("empty.png", b"");
    place.fail(&["grayscale", "empty.png", "-o", "out.png"], &["empty.png: is empty"]);
    place.write("text.png", b"not a picture at all, but a text");
    place.fail(
        &["grayscale", "text.png", "-o", "out.png"],
        &["text.png: is no PNG or JPEG picture"],
    );
    place.write("gif.png", b"GIF89a\x01\x00\x01\x00\x00\x00\x00;");
    place.fail(
        &["grayscale", "gif.png", "-o", "out.png"],
        &["gif.png: is no PNG or JPEG picture"],
    );
    place.fail(
        &["blur", "missing.png", "-o", "out.png"],
        &["missing.png: cannot be read", "No such file"],
    );
    place.fail(&["blur", ".", "-o", "out.png"], &[".: is a folder, wanted a file"]);
    place.save_picture("deep.png", DynamicImage::new_rgb16(2, 2));
    place.fail(
        &["blur", "deep.png", "-o", "out.png"],
        &["deep.png: 16-bit RGB", "wanted 8-bit gray, RGB or RGBA"],
    );
    place.save_picture("la.png", DynamicImage::new_luma_a8(2, 2));
    place.fail(
        &["blur", "la.png", "-o", "out.png"],
        &["la.png: 8-bit gray-and-alpha", "wanted 8-bit gray, RGB"],
    );
    place.write("bomb.png", &png(60_000, 60_000, 8, 6, &[], &[]));
    place.fail(
        &["blur", "bomb.png", "-o", "out.png"],
        &["bomb.png: 60000 × 60000 pixels take 14400000000 bytes"],
    );
}

#[test]
fn bad_picture_outputs() {
    let place = Workplace::new();
    place.save_picture("rgb.png", rgb(8, 8));
    place.save_picture("rgba.png", rgba(8, 8));
    place.fail(
        &["blur", "rgb.png", "-o", "out.bmp"],
        &["out.bmp: extension .bmp, wanted .png, .jpg or .jpeg"],
    );
    place.fail(&["blur", "rgb.png", "-o", "out"], &["out: no extension, wanted .png"]);
    place.fail(
        &["blur", "rgba.png", "-o", "out.jpg"],
        &["out.jpg", "rgba.png has an alpha channel", "wanted .png"],
    );
    // Its gray has none.
    place.succeed(&["grayscale", "rgba.png", "-o", "out.jpg"]);
    place.fail(
        &["blur", "rgb.png", "-o", "none/out.png"],
        &["none/out.png: cannot be written"],
    );
}

/// A PNG file of these header fields, chunks (name and contents) and unpacked data.
fn png(width: u32, height: u32, depth: u8, color: u8, chunks: &[&[u8]], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |contents: &[u8]| {
        bytes.extend((contents.len() as u32 - 4).to_be_bytes());
        bytes.extend(contents);
        bytes.extend(crc32(contents).to_be_bytes());
    };
    let (width, height) = (width.to_be_bytes(), height.to_be_bytes());
    chunk(&[b"IHDR", &width[..], &height, &[depth, color, 0, 0, 0]].concat());
    chunks.iter().for_each(|contents| chunk(contents));
    // One block of deflate that stores its bytes, in a zlib frame.
    let len = data.len() as u16;
    let frame = [
        &[0x78, 0x01, 1],
        &len.to_le_bytes()[..],
        &(!len).to_le_bytes(),
        data,
        &adler32(data).to_be_bytes(),
    ];
    chunk(&[b"IDAT", &frame.concat()[..]].concat());
    chunk(b"IEND");
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}
