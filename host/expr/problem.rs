// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of expressions, which can be told more than once.

use crate::error::Error;

/// What went wrong where an expression was put together; evaluating it is that error.
#[derive(Clone, Debug)]
pub(super) enum Problem {
    Shape {
        operation: &'static str,
        given: String,
        wanted: String,
    },
    Devices {
        operation: &'static str,
        given: String,
        wanted: String,
    },
    Axis {
        operation: &'static str,
        given: usize,
        wanted: String,
    },
    Empty {
        operation: &'static str,
        shape: Vec<usize>,
    },
    Parameter {
        operation: &'static str,
        parameter: &'static str,
        given: String,
        wanted: String,
    },
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Shape {
                operation,
                given,
                wanted,
            } => Self::Shape {
                operation,
                given,
                wanted,
            },
            Problem::Devices {
                operation,
                given,
                wanted,
            } => Self::different_devices(operation, &given, &wanted),
            Problem::Axis {
                operation,
                given,
                wanted,
            } => Self::Axes {
                operation,
                given: vec![given],
                wanted,
            },
            Problem::Empty { operation, shape } => Self::Empty { operation, shape },
            Problem::Parameter {
                operation,
                parameter,
                given,
                wanted,
            } => Self::Parameter {
                operation,
                parameter,
                given,
                wanted,
            },
        }
    }
}

/// The error of an operation's parameters, where an expression is put together.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Shape {
                operation,
                given,
                wanted,
            } => Self::Shape {
                operation,
                given,
                wanted,
            },
            Error::Axes {
                operation,
                given,
                wanted,
            } => Self::Axis {
                operation,
                given: given.first().copied().unwrap_or_default(),
                wanted,
            },
            Error::Parameter {
                operation,
                parameter,
                given,
                wanted,
            } => Self::Parameter {
                operation,
                parameter,
                given,
                wanted,
            },
            other => unreachable!("checks of shapes and parameters alone: {other}"),
        }
    }
}
