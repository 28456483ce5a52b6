// SPDX-License-Identifier: MIT OR Apache-2.0
//! What matmul_single.rs and matmul_double.rs check products by.

use crate::common::*;
use warpsmith::Device;

/// The simulated Hopper, and the tests' device if it is one.
pub fn devices() -> Vec<Device> {
    let mut devices = vec![Device::simulated_hopper()];
    if device().properties().tensor_cores == Some((9, 0)) {
        devices.push(device().clone());
    }
    devices
}

macro_rules! chains {
    ($($module:ident: $float:ident),*) => {$(
        pub mod $module {
            use crate::common::*;
            use ndarray::Array3;
            use proptest::prelude::*;

            pub fn stack(shape: (usize, usize, usize), seed: u64) -> Array3<$float> {
                let mut rng = rng(seed);
                Array3::from_shape_simple_fn(shape, || rng.random::<$float>() - 0.5)
            }

            /// What a product is scaled by, and its old elements.
            #[derive(Clone, Copy, Debug)]
            pub struct Scaling {
                pub alpha: $float,
                pub beta: $float,
                pub old: $float,
                /// What the epilogue adds.
                pub added: Option<$float>,
            }

            pub const PLAIN: Scaling = Scaling {
                alpha: 1.0,
                beta: 0.0,
                old: $float::NAN,
                added: None,
            };

            /// Without the old result, which then is not read, and with all there is.
            pub const SCALINGS: [Scaling; 2] = [
                Scaling {
                    alpha: -1.5,
                    beta: 0.0,
                    old: $float::NAN,
                    added: None,
                },
                Scaling {
                    alpha: 0.1,
                    beta: -0.7,
                    old: 3.0,
                    added: Some(0.3),
                },
            ];

            impl Scaling {
                /// What becomes of a sum.
                pub fn of(self, sum: $float) -> $float {
                    let scaled = match self.beta {
                        0.0 => self.alpha * sum,
                        beta => beta.mul_add(self.old, self.alpha * sum),
                    };
                    // A 0 would make 0 of −0.
                    self.added.map_or(scaled, |added| scaled + added)
                }
            }
        }
    )*};
}

chains!(single: f32, double: f64);
