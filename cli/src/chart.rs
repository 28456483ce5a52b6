// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms to look at: bars of text for a terminal, and a plot for a PNG file.
//!
//! Where there are more bins than rows or columns, neighbours share one, and their counts are added.

use std::fmt::Write;
use std::ops::RangeInclusive;

use font8x8::{BASIC_FONTS, UnicodeFonts};
use ndarray::{Array3, s};

/// Rows of a bar chart at most.
const ROWS: usize = 64;

/// Characters of the longest bar.
const BAR: usize = 50;

/// The plot's pixels.
const WIDTH: usize = 800;
const HEIGHT: usize = 400;

/// The pixels around the bars, in which the labels stand.
const MARGIN: usize = 30;

/// The sides of a character.
const CHARACTER: usize = 8;

/// The counts of one channel.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its name; empty where there is only one.
    pub name: &'static str,
    /// One count for each bin.
    pub counts: Vec<u64>,
}

/// Adds the counts of neighbours, so that at most `most` are left; also says how many bins share one.
fn grouped(counts: &[u64], most: usize) -> (Vec<u64>, usize) {
    let share = counts.len().div_ceil(most).max(1);
    (counts.chunks(share).map(|bins| bins.iter().sum()).collect(), share)
}

/// A line for each bin: where it begins, its count, and a bar. Where several bins share a line, the last line says so.
pub fn bars(channels: &[Channel], range: &RangeInclusive<f64>) -> String {
    let mut text = String::new();
    let mut shared = None;
    for Channel { name, counts } in channels {
        let (rows, share) = grouped(counts, ROWS);
        shared = (share > 1).then_some((share, counts.len()));
        let most = rows.iter().copied().max().unwrap_or(0).max(1);
        let step = (range.end() - range.start()) / counts.len() as f64 * share as f64;
        if !name.is_empty() {
            let _ = writeln!(text, "{name}");
        }
        for (row, &count) in rows.iter().enumerate() {
            let start = range.start() + row as f64 * step;
            let _ = writeln!(text, "{start:>12.5} {count:>12} {}", bar(count, most));
        }
    }
    if let Some((share, bins)) = shared {
        let _ = writeln!(
            text,
            "({bins} bins; each row is the sum of {share}{})",
            match bins % share {
                0 => String::new(),
                rest => format!(", the last one of {rest}"),
            }
        );
    }
    text
}

/// A bar whose length is the count's share of the largest, to an eighth of a character.
fn bar(count: u64, most: u64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (count as f64 / most as f64 * (8 * BAR) as f64).round() as usize;
    // A bin with any count shows.
    let eighths = if count > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// The histogram as a picture: a row of bars, with the range below and the largest count above; several channels in
/// their colours, one over the other.
pub fn plot(channels: &[Channel], range: &RangeInclusive<f64>) -> Array3<u8> {
    let mut picture = Array3::from_elem((HEIGHT, WIDTH, 3), 255u8);
    let (columns, height) = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN);
    let bars: Vec<_> = channels.iter().map(|it| grouped(&it.counts, columns).0).collect();
    let most = bars.iter().flatten().copied().max().unwrap_or(0).max(1);
    for (channel, bars) in bars.iter().enumerate() {
        for column in 0..columns {
            let count = bars[column * bars.len() / columns];
            let pixels = (count as f64 / most as f64 * height as f64).ceil() as usize;
            let (x, top) = (MARGIN + column, MARGIN + height - pixels);
            darken(&mut picture, x, top..MARGIN + height, channel, channels.len());
        }
    }
    picture
        .slice_mut(s![MARGIN + height, MARGIN..WIDTH - MARGIN, ..])
        .fill(0);
    let below = MARGIN + height + CHARACTER;
    write_text(&mut picture, MARGIN, below, &range.start().to_string());
    let high = range.end().to_string();
    write_text(
        &mut picture,
        (WIDTH - MARGIN).saturating_sub(high.len() * CHARACTER),
        below,
        &high,
    );
    write_text(&mut picture, MARGIN, MARGIN - 2 * CHARACTER, &most.to_string());
    picture
}

/// A part of a bar: gray for one channel; of several, each takes away the light of the two other colours, so that they
/// mix where they overlap.
fn darken(picture: &mut Array3<u8>, x: usize, rows: std::ops::Range<usize>, channel: usize, channels: usize) {
    for color in 0..3 {
        // One or two channels: gray, and alpha.
        let darker = if channels <= 2 || channel == 3 {
            150
        } else if channel == color {
            0
        } else {
            110
        };
        picture
            .slice_mut(s![rows.clone(), x, color])
            .mapv_inplace(|light| light.saturating_sub(darker));
    }
}

fn write_text(picture: &mut Array3<u8>, left: usize, top: usize, text: &str) {
    for (i, character) in text.chars().enumerate() {
        let glyph = BASIC_FONTS.get(character).unwrap_or_default();
        for (row, bits) in glyph.into_iter().enumerate() {
            for column in (0..CHARACTER).filter(|column| bits >> column & 1 == 1) {
                let pixel = [top + row, left + i * CHARACTER + column];
                if pixel[1] < WIDTH {
                    picture.slice_mut(s![pixel[0], pixel[1], ..]).fill(0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_counts() {
        let channel = Channel {
            name: "",
            counts: vec![0, 1, 50, 100],
        };
        let text = bars(&[channel], &(0.0..=4.0));
        let lengths: Vec<_> = text.lines().map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [0, 0, 25, 50]);
        assert!(text.lines().nth(1).unwrap().ends_with('▌'), "{text}");
    }

    #[test]
    fn many_bins_share_rows_and_lose_no_count() {
        let (rows, share) = grouped(&[3; 1000], ROWS);
        assert_eq!((rows.len(), share, rows.iter().sum::<u64>()), (63, 16, 3000));
    }

    #[test]
    fn bars_that_stand_for_several_bins_say_so() {
        let text = |bins: usize| {
            let channel = Channel {
                name: "",
                counts: vec![1; bins],
            };
            bars(&[channel], &(0.0..=1.0))
        };
        assert_eq!(text(33).lines().count(), 33);
        assert_eq!(text(64).lines().count(), 64);
        let shared = text(65);
        assert_eq!(shared.lines().count(), 34);
        assert_eq!(
            shared.lines().last(),
            Some("(65 bins; each row is the sum of 2, the last one of 1)")
        );
        assert_eq!(text(128).lines().last(), Some("(128 bins; each row is the sum of 2)"));
    }

    #[test]
    fn plots_are_high_where_counts_are() {
        let channel = Channel {
            name: "",
            counts: vec![10, 5],
        };
        let picture = plot(&[channel], &(-1.0..=1.0));
        let dark = |x: usize| (0..HEIGHT).filter(|&y| picture[[y, x, 0]] == 105).count();
        assert_eq!((dark(200), dark(600)), (340, 170));
    }
}
