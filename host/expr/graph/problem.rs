// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of expressions, which can be told more than once.

use crate::error::Error;

/// The errors that there are of expressions, with the fields that they have as such.
macro_rules! problems {
    ($($variant:ident { $($field:ident: $type:ty),* };)*) => {
        /// What went wrong where an expression was put together; evaluating it is that error.
        #[derive(Clone, Debug)]
        pub(in crate::expr) enum Problem {
            $($variant { $($field: $type),* },)*
        }

        impl From<Problem> for Error {
            fn from(problem: Problem) -> Self {
                match problem {
                    $(Problem::$variant { $($field),* } => Self::$variant { $($field),* },)*
                }
            }
        }

        /// The error of an operation's checks, where an expression is put together.
        impl From<Error> for Problem {
            fn from(error: Error) -> Self {
                match error {
                    $(Error::$variant { $($field),* } => Self::$variant { $($field),* },)*
                    other => unreachable!("checks of shapes, devices and parameters alone: {other}"),
                }
            }
        }
    };
}

problems! {
    Shape { operation: &'static str, given: String, wanted: String };
    DifferentDevices { operation: &'static str, given: String, wanted: String };
    Axes { operation: &'static str, given: Vec<usize>, wanted: String };
    Empty { operation: &'static str, shape: Vec<usize> };
    Parameter { operation: &'static str, parameter: &'static str, given: String, wanted: String };
}
