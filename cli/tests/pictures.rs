// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands on pictures.

use crate::common::Workplace;
use image::{DynamicImage, GrayImage, ImageBuffer, ImageFormat, Luma, LumaA, Rgb, RgbImage, Rgba, RgbaImage};
use ndarray::{Array1, Array3, Axis, array, s};

/// A picture with edges, gradients and every value.
fn pixel(x: u32, y: u32, channel: u32) -> u8 {
    (x * 7 + y * 13 + channel * 85 + (x / 5) * (y / 3) * 11) as u8
}

fn rgb(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([0, 1, 2].map(|c| pixel(x, y, c))))
}

fn rgba(width: u32, height: u32) -> RgbaImage {
    RgbaImage::from_fn(width, height, |x, y| Rgba([0, 1, 2, 3].map(|c| pixel(x, y, c))))
}

/// 16 bits, of which neither byte is the other.
fn word(x: u32, y: u32, channel: u32) -> u16 {
    u16::from(pixel(x, y, channel)) << 8 | u16::from(pixel(y, x + 3, channel))
}

fn rgb16(width: u32, height: u32) -> DynamicImage {
    ImageBuffer::from_fn(width, height, |x, y| Rgb([0, 1, 2].map(|c| word(x, y, c)))).into()
}

fn rgba16(width: u32, height: u32) -> DynamicImage {
    ImageBuffer::from_fn(width, height, |x, y| Rgba([0, 1, 2, 3].map(|c| word(x, y, c)))).into()
}

fn gray16(width: u32, height: u32) -> DynamicImage {
    ImageBuffer::from_fn(width, height, |x, y| Luma([word(x, y, 0)])).into()
}

fn gray_alpha(width: u32, height: u32) -> DynamicImage {
    ImageBuffer::from_fn(width, height, |x, y| LumaA([0, 1].map(|c| pixel(x, y, c)))).into()
}

fn gray_alpha16(width: u32, height: u32) -> DynamicImage {
    ImageBuffer::from_fn(width, height, |x, y| LumaA([0, 1].map(|c| word(x, y, c)))).into()
}

fn gray(width: u32, height: u32) -> GrayImage {
    GrayImage::from_fn(width, height, |x, y| Luma([pixel(x, y, 0)]))
}

/// BT.601, rounded to nearest, halves up.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u8
}

/// What each channel of each pixel has.
fn samples(picture: &DynamicImage) -> Vec<u16> {
    let (color, bytes) = (picture.color(), picture.as_bytes());
    if color.bytes_per_pixel() == color.channel_count() {
        return bytes.iter().map(|&x| u16::from(x)).collect();
    }
    let pairs = bytes.chunks_exact(2);
    pairs.map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect()
}

/// The mean of the pixels that exist around each; alpha as it is.
fn blurred(picture: DynamicImage) -> Vec<u16> {
    let shape = [
        picture.height(),
        picture.width(),
        picture.color().channel_count().into(),
    ]
    .map(|n| n as usize);
    let x = Array3::from_shape_vec(shape, samples(&picture)).unwrap();
    let mean = |(i, j, c): (usize, usize, usize)| {
        let around = x.slice(s![
            i.saturating_sub(1)..(i + 2).min(shape[0]),
            j.saturating_sub(1)..(j + 2).min(shape[1]),
            c
        ]);
        let sum: f64 = around.iter().map(|&x| f64::from(x)).sum();
        if c % 2 == 1 && c + 1 == shape[2] {
            x[[i, j, c]]
        } else {
            (sum / around.len() as f64 + 0.5).floor() as u16
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
        .flat_map(|pixel| [luma([pixel[0], pixel[1], pixel[2]]), pixel[3]])
        .collect();
    assert_eq!(open(&place, "out.png").as_luma_alpha8().unwrap().as_raw(), &want);
    place.succeed(&["grayscale", "gray.png", "-o", "out.png"]);
    assert_eq!(open(&place, "out.png").as_luma8().unwrap(), &plain);
}

/// 16 bits stay 16 bits, alpha stays as it is.
#[test]
fn grayscale_of_16_bits_and_of_alpha() {
    let place = Workplace::new();
    for picture in [gray_alpha(30, 20), gray_alpha16(30, 20), gray16(30, 20)] {
        place.save_picture("in.png", picture.clone());
        place.succeed(&["grayscale", "in.png", "-o", "out.png"]);
        assert_eq!(open(&place, "out.png"), picture, "its own gray");
    }
    let luma =
        |r: u16, g: u16, b: u16| ((299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b) + 500) / 1000) as u16;
    place.save_picture("in.png", rgb16(67, 45));
    place.succeed(&["grayscale", "in.png", "-o", "out.png"]);
    let want: Vec<u16> = samples(&rgb16(67, 45))
        .chunks(3)
        .map(|p| luma(p[0], p[1], p[2]))
        .collect();
    assert_eq!(open(&place, "out.png").as_luma16().unwrap().as_raw(), &want);
    place.save_picture("in.png", rgba16(33, 9));
    let object = place.json(&["grayscale", "in.png", "-o", "out.png", "--json"]);
    let pixels = samples(&rgba16(33, 9));
    let want: Vec<u16> = pixels.chunks(4).flat_map(|p| [luma(p[0], p[1], p[2]), p[3]]).collect();
    assert_eq!(open(&place, "out.png").as_luma_alpha16().unwrap().as_raw(), &want);
    assert_eq!(
        (&object["dtype"], &object["shape"]),
        (&"u16".into(), &serde_json::json!([9, 33, 2]))
    );
}

#[test]
fn histogram_and_border_of_16_bits() {
    let place = Workplace::new();
    place.save_picture("in.png", gray16(40, 31));
    place.succeed(&["histogram", "in.png", "--bins", "256", "-o", "out.npy"]);
    let mut want = Array1::<u64>::zeros(256);
    samples(&gray16(40, 31))
        .iter()
        .for_each(|&x| want[usize::from(x >> 8)] += 1);
    assert_eq!(place.load::<u64>("out.npy"), want.insert_axis(Axis(0)).into_dyn());
    place.save_picture("la.png", gray_alpha(40, 31));
    let text = place.succeed(&["histogram", "la.png", "--bins", "2"]);
    assert!(text.contains("gray\n") && text.contains("alpha\n"), "{text}");
    let wide = ["blur", "in.png", "-o", "out.png", "--border", "constant:65535"];
    place.succeed(&wide);
    let corner = open(&place, "out.png").as_luma16().unwrap().get_pixel(0, 0).0[0];
    let sum: u64 = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .map(|(x, y)| u64::from(word(x, y, 0)))
        .iter()
        .sum();
    assert_eq!(u64::from(corner), (sum + 5 * 65535 + 4) / 9);
    place.succeed(&["blur", "in.png", "-o", "out.png", "--sigma", "1.5"]);
    assert_eq!(open(&place, "out.png").color(), image::ColorType::L16);
    place.fail(
        &["blur", "la.png", "-o", "none.png", "--border", "constant:256"],
        &["blur: --border constant:256 of an 8-bit picture, wanted a number from 0 to 255"],
    );
}

#[test]
fn blur_keeps_the_kind() {
    let place = Workplace::new();
    let pictures: [DynamicImage; 10] = [
        gray16(40, 31),
        rgb16(67, 45),
        rgba16(33, 9),
        gray_alpha(40, 31),
        gray_alpha16(31, 40),
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
        assert_eq!(samples(&got), blurred(picture));
    }
}

/// Each pixel minus the one to the left of it, of all kinds, and of weights of all types.
#[test]
fn convolve_by_weights_of_a_file() {
    let place = Workplace::new();
    place.save("step.npy", &array![[-1.0f32, 1.0, 0.0]]);
    for picture in [gray(9, 5).into(), rgba(7, 4).into(), gray_alpha(5, 6), rgb16(4, 5)] {
        let picture: DynamicImage = picture;
        place.save_picture("in.png", picture.clone());
        place.succeed(&["convolve", "in.png", "step.npy", "-o", "out.png", "--border", "wrap"]);
        let got = open(&place, "out.png");
        assert_eq!(got.color(), picture.color());
        let (channels, width) = (usize::from(picture.color().channel_count()), picture.width() as usize);
        let (all, got) = (samples(&picture), samples(&got));
        for (i, &x) in all.iter().enumerate() {
            let (row, column, channel) = (i / channels / width, i / channels % width, i % channels);
            let left = all[(row * width + (column + width - 1) % width) * channels + channel];
            let is_alpha = channels.is_multiple_of(2) && channel == channels - 1;
            let wanted = if is_alpha { x } else { x.saturating_sub(left) };
            assert_eq!(got[i], wanted, "{:?}, {row}, {column}, {channel}", picture.color());
        }
    }
    place.save_picture("in.png", gray(9, 5));
    place.succeed(&["convolve", "in.png", "step.npy", "-o", "f32.png"]);
    place.save("f64.npy", &array![[-1.0f64, 1.0, 0.0]]);
    place.save("i32.npy", &array![[-1i32, 1, 0]]);
    place.save("i64.npy", &array![[-1i64, 1, 0]]);
    for dtype in ["f64", "i32", "i64"] {
        place.succeed(&["convolve", "in.png", &format!("{dtype}.npy"), "-o", "out.png"]);
        assert_eq!(samples(&open(&place, "out.png")), samples(&open(&place, "f32.png")));
    }
    place.save("u8.npy", &array![[1u8]]);
    let refused = |kernel: &str, more: &[&str], parts: &[&str]| {
        place.fail(
            &[&["convolve", "in.png", kernel, "-o", "none.png"], more].concat(),
            parts,
        );
    };
    refused("u8.npy", &[], &["u8.npy: weights of u8, wanted f32"]);
    place.save("line.npy", &array![1.0f32]);
    refused("line.npy", &[], &["line.npy: weights of shape [1], wanted two axes"]);
    refused("step.npy", &["--border", "mean"], &["filter: border: given Mean"]);
    refused(
        "step.npy",
        &["--border", "constant:256"],
        &["convolve: --border constant:256 of an 8-bit picture"],
    );
}

#[test]
fn jpeg_in_and_out() {
    let place = Workplace::new();
    place.save_picture("in.jpg", rgb(64, 48));
    let decoded = open(&place, "in.jpg");
    place.succeed(&["blur", "in.jpg", "-o", "out.png"]);
    assert_eq!(samples(&open(&place, "out.png")), blurred(decoded));
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
    // Its gray has it too.
    place.fail(
        &["grayscale", "rgba.png", "-o", "out.jpg"],
        &["out.jpg", "rgba.png has an alpha channel", "wanted .png"],
    );
    place.save_picture("deep.png", rgb16(8, 8));
    place.fail(
        &["blur", "deep.png", "-o", "out.jpg"],
        &["out.jpg: deep.png has 16 bits for each channel, which JPEG cannot store; wanted .png"],
    );
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
