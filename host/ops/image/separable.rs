// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weights that are a column times a row: pictures are filtered by the row and then by the column, by `rows + columns` products for a
//! number in place of `rows · columns`.

/// The fewest rows, and columns, of weights that are taken apart. With as many, the roundings of both passes, and those that the weights
/// are off by, are no more than there are weights.
const LEAST: usize = 7;

/// How far a weight may be from the product, of itself: 16 roundings of `f32`, where those of weights that were computed as products of a
/// column and a row, and divided by their sum, are four, and those of the factors here another four.
const TOLERANCE: f64 = 1.0 / (1 << 20) as f64;

/// Weights along the rows and along the columns.
#[derive(Debug, PartialEq)]
pub struct Factors {
    pub along_rows: Vec<f32>,
    pub along_columns: Vec<f32>,
}

impl Factors {
    /// Those of `weights` in rows of so many `columns`, if they are of rank 1, with an odd number of rows and of columns, so that both
    /// passes have a middle.
    ///
    /// The row is that of the largest weight, and the column's largest is 1, but for a [power of two](Self::scaled): no sum between the
    /// passes is larger than the largest number of the picture. There are none for weights that are not finite, or so large, or so small
    /// beside the largest, that a factor would be no normal number.
    pub fn of(weights: &[f32], columns: usize) -> Option<Self> {
        let rows = weights.len() / columns;
        let is_taken = |n: usize| n >= LEAST && n % 2 == 1;
        let (at, largest) = largest(weights)?;
        if !is_taken(rows) || !is_taken(columns) || !weights.iter().all(|&weight| is_plain(weight, largest)) {
            return None;
        }
        let along_rows = weights[at / columns * columns..][..columns].to_vec();
        let in_column = weights.iter().skip(at % columns).step_by(columns);
        let along_columns = in_column
            .map(|&weight| (f64::from(weight) / f64::from(weights[at])) as f32)
            .collect();
        let factors = Self {
            along_rows,
            along_columns,
        };
        factors.scaled().filter(|factors| factors.are_of(weights))
    }

    /// The same products, of a row whose magnitudes add up to 1 at most: where they are more, it is divided by a power of two, and the
    /// column multiplied by it. Else a sum between the passes might overflow that counts for a result little, or nothing, as in a row
    /// of which the weights are 0. `None` if one of them is not what it should be to the last bit.
    fn scaled(self) -> Option<Self> {
        const FRACTION: u64 = (1 << 52) - 1;
        let sum: f64 = self.along_rows.iter().map(|weight| f64::from(weight.abs())).sum();
        // Rounded sums may be larger, for each weight by a part.
        let sum = sum * (1.0 + self.along_rows.len() as f64 * f64::from(f32::EPSILON));
        if sum <= 1.0 {
            return Some(self);
        }
        // The next power of two: the exponent is one more, unless the fraction is 0.
        let power = f64::from_bits((sum.to_bits() + FRACTION) & !FRACTION);
        Some(Self {
            along_rows: times(&self.along_rows, 1.0 / power)?,
            along_columns: times(&self.along_columns, power)?,
        })
    }

    /// Whether the weights are their products.
    fn are_of(&self, weights: &[f32]) -> bool {
        let rows = weights.chunks(self.along_rows.len()).zip(&self.along_columns);
        rows.flat_map(|(row, &below)| row.iter().zip(&self.along_rows).map(move |of| (of, below)))
            .all(|((&weight, &beside), below)| {
                let (weight, product) = (f64::from(weight), f64::from(beside) * f64::from(below));
                (weight - product).abs() <= TOLERANCE * weight.abs()
            })
    }
}

/// The weights times a power of two, if each is 0 or a normal number, and so exact.
fn times(weights: &[f32], power: f64) -> Option<Vec<f32>> {
    let scaled = weights.iter().map(|&weight| {
        let scaled = (f64::from(weight) * power) as f32;
        (weight == 0.0 || scaled.is_normal()).then_some(scaled)
    });
    scaled.collect()
}

/// The place and the magnitude of the largest weight, if there is one that is finite and not 0. NaN is none.
fn largest(weights: &[f32]) -> Option<(usize, f32)> {
    let magnitudes = weights.iter().map(|weight| weight.abs()).enumerate();
    let largest = magnitudes.fold((0, 0.0), |most, next| if next.1 > most.1 { next } else { most });
    (largest.1 > 0.0 && largest.1.is_finite()).then_some(largest)
}

/// Whether it is 0, or a normal number of which the largest weight is no more than 2¹⁰⁰ times as large.
fn is_plain(weight: f32, largest: f32) -> bool {
    let magnitude = weight.abs();
    magnitude == 0.0 || magnitude >= f32::MIN_POSITIVE && magnitude >= largest * 2.0f32.powi(-100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn products(column: &[f32], row: &[f32], scale: f32) -> Vec<f32> {
        column
            .iter()
            .flat_map(|c| row.iter().map(move |r| c * r * scale))
            .collect()
    }

    #[test]
    fn products_are_taken_apart() {
        let row = [1.0, -2.0, 0.0, 4.0, 0.5, 2.0, -1.0, 3.0, 0.3];
        let column = [0.25, 0.0, -0.5, 1.0, 1e-3, 0.7, -0.1];
        // The magnitudes of the row add up to 13.8.
        for (scale, power) in [(1.0, 16.0), (1.0 / 3.0, 8.0), (1e-30, 1.0), (1e30, 2.0f32.powi(104))] {
            let factors = Factors::of(&products(&column, &row, scale), 9).expect("rank 1");
            assert_eq!((factors.along_rows.len(), factors.along_columns.len()), (9, 7));
            assert_eq!(factors.along_columns[3], power);
            assert_eq!(factors.along_rows[3], 4.0 * scale / power);
        }
    }

    #[test]
    fn rows_add_up_to_one_at_most() {
        for (weight, power) in [
            (1.0f32 / 8.0, 1.0),
            // 7 · 1/7 may be rounded to more than 1.
            (1.0 / 7.0, 2.0),
            (1.0, 8.0),
            (1e37, 2.0f32.powi(126)),
        ] {
            let factors = Factors::of(&[weight; 49], 7).expect("rank 1");
            assert_eq!(factors.along_rows, [weight / power; 7], "{weight}");
            assert_eq!(factors.along_columns, [power; 7], "{weight}");
        }
        // Rows without weight stay so, and what would overflow in the column is not taken apart.
        let one_row = |weight: f32| products(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], &[1.0; 7], weight);
        let factors = Factors::of(&one_row(1.0), 7).expect("rank 1");
        assert_eq!(factors.along_columns, [0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 0.0]);
        assert_eq!(Factors::of(&one_row(1e38), 7), None);
        assert_eq!(Factors::of(&[f32::MAX; 49], 7), None);
    }

    #[test]
    fn what_is_scaled_is_exact() {
        assert_eq!(times(&[3.0, -0.0, 0.7], 0.25), Some(vec![0.75, -0.0, 0.175]));
        assert_eq!(times(&[1.0, f32::MAX], 2.0), None);
        assert_eq!(times(&[1.0, f32::MIN_POSITIVE], 0.5), None);
    }

    #[test]
    fn others_are_not() {
        let ones = [1.0; 81];
        assert!(Factors::of(&ones, 9).is_some());
        // Another rank, by one weight that is off.
        for off in [1.0 + 3e-6, 0.0, -1.0, f32::NAN, f32::INFINITY, 1e-35] {
            let mut weights = ones;
            weights[40] = off;
            assert_eq!(Factors::of(&weights, 9), None, "{off}");
        }
        // Few rows or columns, or an even number of them.
        for (count, columns) in [(45, 9), (45, 5), (72, 9), (72, 8)] {
            assert_eq!(
                Factors::of(&ones[..count], columns),
                None,
                "{count} in rows of {columns}"
            );
        }
        // None that is not 0, and such as are no normal numbers.
        assert_eq!(Factors::of(&[0.0; 49], 7), None);
        assert_eq!(Factors::of(&[1e-40; 49], 7), None);
    }
}
