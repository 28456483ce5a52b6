// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of axes, in arguments.

use crate::error::{Error, Result};

/// A number for each axis of a convolution or a pooling: the same for all, or an array with one for each.
///
/// # Examples
///
/// ```
/// use warpsmith::ops::PerAxis;
///
/// let _both: PerAxis = 2.into();
/// let _rows_and_columns: PerAxis = [2, 1].into();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerAxis(Numbers);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Numbers {
    All(usize),
    Each(Vec<usize>),
}

impl From<usize> for PerAxis {
    fn from(number: usize) -> Self {
        Self(Numbers::All(number))
    }
}

impl<const N: usize> From<[usize; N]> for PerAxis {
    fn from(numbers: [usize; N]) -> Self {
        Self(Numbers::Each(numbers.to_vec()))
    }
}

impl From<&[usize]> for PerAxis {
    fn from(numbers: &[usize]) -> Self {
        Self(Numbers::Each(numbers.to_vec()))
    }
}

impl PerAxis {
    /// The most that a number may be.
    pub(super) const MOST: usize = 1 << 30;

    /// The numbers of so many axes, at most three, from `least` on; those in front that there are not have `missing`.
    pub(super) fn of(
        &self,
        operation: &'static str,
        parameter: &'static str,
        axes: usize,
        [least, missing]: [usize; 2],
    ) -> Result<[usize; 3]> {
        let numbers = match &self.0 {
            Numbers::All(number) => vec![*number; axes],
            Numbers::Each(numbers) => numbers.clone(),
        };
        let possible = least..=Self::MOST;
        if numbers.len() != axes || numbers.iter().any(|number| !possible.contains(number)) {
            return Err(Error::Parameter {
                operation,
                parameter,
                given: format!("{numbers:?}"),
                wanted: format!("a number of {least} to {} for each of {axes} axes", Self::MOST),
            });
        }
        let mut all = [missing; 3];
        all[3 - axes..].copy_from_slice(&numbers);
        Ok(all)
    }
}
