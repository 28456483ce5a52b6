// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blurs of pictures: the mean of a square window ([`box_blur`]) and a weighted mean ([`gaussian`]), both as two
//! passes, first along the rows and then along the columns; and the 3 × 3 box in one pass ([`box_3x3`]).
//!
//! A picture is a row-major array of rows × columns × channels, with 1, 3 or 4 channels; of four, the last (alpha) is
//! kept as it is. [`border`] says what lies beyond its edges.

pub mod border;
pub mod box_3x3;
pub mod box_blur;
pub mod filter;
pub mod filter_3x3;
pub mod filter_3x3_lines;
pub mod filter_strips;
pub mod gaussian;
mod sample;
pub mod sums;
