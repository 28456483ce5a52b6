// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong with a launch, and where in it.

use std::any::Any;
use std::fmt;
use std::panic::{Location, PanicHookInfo};

use crate::check::Finding;
use crate::dim3::Dim3;

/// Why a launch failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The launch asked for more, or less, than a device has. Nothing was run.
    #[error("kernel `{kernel}`: {limit} is {given}, but must be from {min} to {max}")]
    Config {
        /// The kernel's name.
        kernel: String,
        /// Which part of the configuration is out of range.
        limit: &'static str,
        /// What the launch asked for.
        given: u64,
        /// The least that is allowed.
        min: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// The grid has not a whole number of clusters in each dimension. Nothing was run.
    #[error("kernel `{kernel}`: a grid of {grid} blocks is no multiple of its clusters of {cluster} blocks")]
    Clusters {
        /// The kernel's name.
        kernel: String,
        /// The extents of the grid, in blocks.
        grid: Dim3,
        /// Those of a cluster.
        cluster: Dim3,
    },
    /// A thread panicked or broke a rule of the device. The rest of the grid
    /// was stopped, and what it had written so far is to be thrown away.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// One thread's failure: which thread, where in the source, and what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The kernel's name.
    pub kernel: String,
    /// The block's index in the grid.
    pub block: Dim3,
    /// The thread's index in the block.
    pub thread: Dim3,
    /// Where the thread panicked or called the device function that failed.
    pub location: Option<SourceLocation>,
    /// What happened.
    pub message: String,
    /// What a check has found, in parts, if it was one.
    pub finding: Option<Box<Finding>>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            kernel,
            block,
            thread,
            message,
            ..
        } = self;
        write!(f, "kernel `{kernel}`: block {block}, thread {thread}: {message}")?;
        match &self.location {
            Some(location) => write!(f, ", at {location}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// A place in the source: an owned [`Location`], displayed as `file:line:column`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct SourceLocation {
    /// The file, as the compiler was given it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&Location<'_>> for SourceLocation {
    fn from(location: &Location<'_>) -> Self {
        SourceLocation {
            file: location.file().to_owned(),
            line: location.line(),
            column: location.column(),
        }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A fault as a block sees it: it does not know the kernel's name, and need not
/// know its own index.
pub(crate) struct Failure {
    pub(crate) thread: Dim3,
    pub(crate) location: Option<SourceLocation>,
    pub(crate) message: String,
    pub(crate) finding: Option<Box<Finding>>,
}

/// A panic in a simulated thread, as far as it is known.
pub(crate) struct Panic {
    pub(crate) message: String,
    pub(crate) location: Option<SourceLocation>,
}

const NO_TEXT: &str = "panicked with a value that is no text";

impl Panic {
    /// What the hook is told.
    pub(crate) fn from_hook(info: &PanicHookInfo<'_>) -> Panic {
        Panic {
            location: info.location().map(SourceLocation::from),
            ..Self::from_payload(info.payload())
        }
    }

    /// What is left of a panic that passed the hook by.
    pub(crate) fn from_payload(payload: &(dyn Any + Send)) -> Panic {
        let text =
            (payload.downcast_ref::<&str>().copied()).or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Panic {
            message: text.unwrap_or(NO_TEXT).to_owned(),
            location: None,
        }
    }
}

/// One call of a device function in which threads meet: its name and its place
/// in the source. Threads meet only in the same call.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) at: &'static Location<'static>,
}

impl Call {
    /// The call of `name` that the caller is about.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn new(name: &'static str) -> Call {
        Call {
            name,
            at: Location::caller(),
        }
    }

    /// Whether both are the same call. The addresses decide nearly always; one
    /// source line that was compiled twice has two.
    #[inline(always)]
    pub(crate) fn same(self, other: Call) -> bool {
        (std::ptr::eq(self.at, other.at) && std::ptr::eq(self.name, other.name))
            || (self.at == other.at && self.name == other.name)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}", self.name, self.at)
    }
}
