// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted means of windows of pictures.

/// What lies outside a picture.
#[derive(Clone, Copy)]
pub enum Outside<T> {
    Is(T),
    /// Nothing: the mean is that of what is inside.
    Ignored,
}

/// A pass along `axis` of a picture of that shape: rows, columns and channels, of which the fourth stays. Element `i` along the
/// axis has the weighted sum of those at `windows[i]`, where a place outside is `None`.
pub type Pass<T> = fn(&[T], [usize; 3], usize, &[T], &[Vec<Option<usize>>], Outside<T>) -> Vec<T>;

macro_rules! pass {
    ($name:ident: $type:ty, $doc:literal, $fma:expr) => {
        #[doc = $doc]
        pub fn $name(
            x: &[$type],
            shape: [usize; 3],
            axis: usize,
            weights: &[$type],
            windows: &[Vec<Option<usize>>],
            outside: Outside<$type>,
        ) -> Vec<$type> {
            let [_, columns, channels] = shape;
            let stride = [columns * channels, channels, 1][axis];
            let of_element = |(number, &own): (usize, &$type)| {
                if number % channels == 3 {
                    return own;
                }
                let place = number / stride % shape[axis];
                let line = number - place * stride;
                let (mut sum, mut total, mut all) = (0.0, 0.0, true);
                for (&weight, source) in weights.iter().zip(&windows[place]) {
                    let value = match (source, outside) {
                        (Some(source), _) => {
                            total += weight;
                            x[line + source * stride]
                        }
                        (None, Outside::Is(value)) => value,
                        (None, Outside::Ignored) => {
                            all = false;
                            0.0
                        }
                    };
                    sum = $fma(weight, value, sum);
                }
                if all { sum } else { sum / total }
            };
            x.iter().enumerate().map(of_element).collect()
        }
    };
}

pass!(pass_f32: f32, "As the kernels compute it: each product is added in one step, in order.", f32::mul_add);
pass!(pass_f64: f64, "To compare with within bounds.", |weight, value, sum| weight * value + sum);

/// The means of the elements around each, 3 × 3 of its channel or as many as there are, of a picture of that shape: rows, columns and
/// channels, of which the fourth stays.
pub fn means_3x3(x: &[u8], [rows, columns, channels]: [usize; 3]) -> Vec<f64> {
    let around = |at: usize, len: usize| at.saturating_sub(1)..len.min(at + 2);
    let of_element = |number: usize| {
        let (place, channel) = (number / channels, number % channels);
        if channel == 3 {
            return f64::from(x[number]);
        }
        let (mut sum, mut count) = (0.0, 0);
        for row in around(place / columns, rows) {
            for column in around(place % columns, columns) {
                sum += f64::from(x[(row * columns + column) * channels + channel]);
                count += 1;
            }
        }
        sum / f64::from(count)
    };
    (0..x.len()).map(of_element).collect()
}
