// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results as they are printed: text in brackets, and JSON.

use std::fmt;

use ndarray::{Array, ArrayViewD, Axis, Dimension};
use serde_json::Value;

use crate::scalar::Number;
use crate::stored::Stored;

/// An element, shown so that it reads back as the same value.
struct Shown<T>(T, Stored);

impl<T: Number> fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Stored::Bool => write!(f, "{}", self.0.nearest_f64() != 0.0),
            _ => write!(f, "{:?}", self.0),
        }
    }
}

/// The array in brackets, as NumPy prints it. Of a long one the elements in the middle of an axis are left out; the last
/// line says so.
pub fn text<T: Number, D: Dimension>(array: &Array<T, D>, stored: Stored) -> String {
    let mut text = array.map(|&x| Shown(x, stored)).to_string();
    if text.contains("...") {
        let (len, shape) = (array.len(), array.shape());
        text += &format!(
            "\n({len} elements of shape {shape:?}, not all shown: -o OUT.npy writes them, --json prints them)"
        );
    }
    text
}

/// The array as nested lists.
pub fn json<T: Number>(array: ArrayViewD<T>, stored: Stored) -> Value {
    match (array.ndim(), stored, array.first()) {
        (0, Stored::Bool, Some(x)) => (x.nearest_f64() != 0.0).into(),
        (0, _, Some(x)) => x.to_json(),
        (0, _, None) => Value::Null,
        _ => array.axis_iter(Axis(0)).map(|part| json(part, stored)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, array};

    use super::*;
    use crate::scalar::Dtype;

    const F32: Stored = Stored::Of(Dtype::F32);

    #[test]
    fn arrays_are_shown_in_brackets() {
        assert_eq!(
            text(&array![[1.5f32, 1e30], [f32::NAN, -0.0]], F32),
            "[[1.5, 1e30],\n [NaN, -0.0]]"
        );
        assert_eq!(text(&array![0u8, 1], Stored::Bool), "[false, true]");
        assert_eq!(
            json(array![[1u8], [0]].into_dyn().view(), Stored::Bool),
            serde_json::json!([[true], [false]])
        );
        assert_eq!(
            json(array![f32::INFINITY, 1.0].into_dyn().view(), F32),
            serde_json::json!(["inf", 1.0])
        );
    }

    #[test]
    fn long_arrays_say_that_they_are_abbreviated() {
        let text = text(&Array1::from_iter(0..100_000i32), Stored::Of(Dtype::I32));
        assert!(
            text.starts_with("[0, 1, 2,") && text.contains("99999]\n(100000 elements of shape [100000]"),
            "{text}"
        );
        assert!(text.len() < 500, "{text}");
    }
}
