// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulated GPU tells of a launch, in parts: what a check has found, and what was counted.
//!
//! | From | there is | with |
//! |---|---|---|
//! | [`Device::checked_simulator`](crate::Device::checked_simulator) | [`Finding`], in the [`Fault`](crate::Fault) of an [`Error`](crate::Error) | [`FindingKind`], [`Array`], [`Access`] ([`Kind`], [`Scope`], [`SourceLocation`]) |
//! | [`Device::counting_simulator`](crate::Device::counting_simulator) | [`LaunchCounters`] | [`LineCounters`], [`Counts`] of a [`Space`] and an [`Operation`] |
//! | [`Device::tracing_simulator`](crate::Device::tracing_simulator) | [`Step`]s of one block, in its [`LaunchCounters`] | [`Operands`] |

pub use cuda_sim::{
    Access, Array, Counts, Finding, FindingKind, Kind, LaunchCounters, LineCounters, Operands, Operation, Scope,
    SourceLocation, Space, Step,
};
