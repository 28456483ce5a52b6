// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one block does, step by step, for who wants to see it.

use std::fmt;

use super::Operation;
use crate::check::{Array, Space};
use crate::error::SourceLocation;

/// The most steps that are kept of a block.
pub(super) const MOST: usize = 10_000;

/// A step of a block, in the order in which the last thread that takes part comes to it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Lanes of a warp access memory, as one request.
    Access {
        /// The warp's number in the block.
        warp: u32,
        /// Which memory.
        space: Space,
        /// How.
        operation: Operation,
        /// Bytes of each lane.
        width: usize,
        /// Where in the source.
        location: SourceLocation,
        /// Each lane that takes part, the array that it accesses, and the first byte there.
        lanes: Vec<(u32, Array, usize)>,
    },
    /// All threads have met at a barrier.
    Barrier,
}

/// Numbers as `0..32`, `0, 2, .. 62`, or one by one.
fn numbers(f: &mut fmt::Formatter<'_>, numbers: &[usize]) -> fmt::Result {
    let distance = |pair: &[usize]| pair[1].wrapping_sub(pair[0]);
    let first = numbers.get(..2).map(distance);
    let even = first.filter(|&first| numbers.windows(2).all(|pair| distance(pair) == first));
    match (numbers, even) {
        ([one], _) => write!(f, "{one}"),
        ([one, ..], Some(0)) => write!(f, "{one}, the same for all"),
        ([first, .., last], Some(1)) => write!(f, "{first}..={last}"),
        ([first, second, _, .., last], Some(_)) => write!(f, "{first}, {second}, .. {last}"),
        _ => {
            let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
            f.write_str(&texts.join(" "))
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step::Access {
            warp,
            space,
            operation,
            width,
            location,
            lanes,
        } = self
        else {
            return f.write_str("all threads meet at a barrier");
        };
        let (space, operation) = (space.name(), operation.name());
        write!(
            f,
            "warp {warp}, {operation} of {width} bytes, {space}, at {location}: lanes "
        )?;
        let number: Vec<usize> = lanes.iter().map(|lane| lane.0 as usize).collect();
        numbers(f, &number)?;
        // As elements, where all are.
        let unit = if lanes.iter().all(|lane| lane.2.is_multiple_of(*width)) {
            f.write_str("; elements ")?;
            *width
        } else {
            f.write_str("; bytes ")?;
            1
        };
        let places: Vec<usize> = lanes.iter().map(|lane| lane.2 / unit).collect();
        numbers(f, &places)?;
        match lanes.first().map(|lane| &lane.1) {
            Some(Array::Shared(at)) => write!(f, " of the shared array at {at}"),
            Some(Array::DynamicShared) => f.write_str(" of the dynamic shared memory"),
            Some(Array::Global { address, bytes }) => write!(f, " of the array of {bytes} bytes at {address:#x}"),
            Some(Array::Unknown) | None => Ok(()),
        }
    }
}
