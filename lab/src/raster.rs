// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pixels for plots: plotters draws lines and areas by single pixels, and letters are those of a font of 8 × 8, so that a
//! PNG file needs neither a font of the system nor a library that reads one.

use std::convert::Infallible;

use font8x8::{BASIC_FONTS, GREEK_FONTS, LATIN_FONTS, UnicodeFonts};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};

/// The sides of a character.
const CHARACTER: i32 = 8;

/// A picture of red, green and blue, row by row.
pub struct Raster<'a> {
    size: (u32, u32),
    pixels: &'a mut [u8],
}

impl<'a> Raster<'a> {
    /// Draws on these pixels.
    ///
    /// # Panics
    ///
    /// If there are not three bytes for each pixel.
    pub fn new(size: (u32, u32), pixels: &'a mut [u8]) -> Self {
        assert_eq!(
            pixels.len(),
            3 * size.0 as usize * size.1 as usize,
            "three bytes for each pixel"
        );
        Self { size, pixels }
    }
}

/// The rows of a character, whose lowest bits are leftmost; of what the fonts lack, what is nearest to it.
fn glyph(character: char) -> [u8; 8] {
    let character = match character {
        '⁹' => '9',
        '–' | '−' => '-',
        // The sign, which is Greek's letter elsewhere.
        'µ' => 'μ',
        other => other,
    };
    let fonts = [
        BASIC_FONTS.get(character),
        LATIN_FONTS.get(character),
        GREEK_FONTS.get(character),
    ];
    fonts
        .into_iter()
        .flatten()
        .next()
        .or(BASIC_FONTS.get('?'))
        .unwrap_or_default()
}

/// How many pixels a font's pixel has on each side.
fn scale(style: &impl BackendTextStyle) -> i32 {
    if style.size() >= 16.0 { 2 } else { 1 }
}

impl DrawingBackend for Raster<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        let (width, height) = (self.size.0 as i32, self.size.1 as i32);
        if (0..width).contains(&x) && (0..height).contains(&y) {
            let at = 3 * (y * width + x) as usize;
            let (red, green, blue) = color.rgb;
            for (pixel, new) in self.pixels[at..at + 3].iter_mut().zip([red, green, blue]) {
                let mixed = f64::from(*pixel) * (1.0 - color.alpha) + f64::from(new) * color.alpha;
                *pixel = mixed.round() as u8;
            }
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let (scale, anchor) = (scale(style), style.anchor());
        let (width, height) = (text.chars().count() as i32 * CHARACTER * scale, CHARACTER * scale);
        let left = match anchor.h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        for (i, character) in text.chars().enumerate() {
            for (row, bits) in glyph(character).into_iter().enumerate() {
                for column in (0..CHARACTER).filter(|column| bits >> column & 1 == 1) {
                    for part in 0..scale * scale {
                        let right = (i as i32 * CHARACTER + column) * scale + part % scale;
                        let down = row as i32 * scale + part / scale;
                        let (dx, dy) = style.transform().transform(left + right, top + down);
                        self.draw_pixel((x + dx, y + dy), style.color())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (scale, characters) = (scale(style), text.chars().count() as i32);
        Ok(((characters * CHARACTER * scale) as u32, (CHARACTER * scale) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_labels_have_are_there() {
        let unknown = glyph('?');
        for letter in "aZ0µ×·π⁹–,%/".chars() {
            let glyph = glyph(letter);
            assert!(glyph != unknown && glyph != [0; 8], "{letter}");
        }
        assert_eq!(glyph('漢'), unknown);
    }

    #[test]
    fn pixels_are_mixed_and_those_outside_are_left_out() {
        let mut pixels = [255; 3 * 2 * 2];
        let mut raster = Raster::new((2, 2), &mut pixels);
        let half = BackendColor {
            alpha: 0.5,
            rgb: (255, 0, 1),
        };
        for place in [(1, 0), (2, 0), (0, -1), (-1, 1), (0, 2)] {
            raster.draw_pixel(place, half).unwrap();
        }
        assert_eq!(pixels[..6], [255, 255, 255, 255, 128, 128]);
        assert_eq!(pixels[6..], [255; 6]);
    }
}
