// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the operating system says of the host's memory.

/// From this size on, an allocation is compared with the memory that is free: asking the system takes longer than a
/// small allocation.
const COMPARED_FROM: usize = 16 << 20;

/// A line of Linux's memory statistics, in bytes.
pub(super) fn memory_info(line: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text
        .lines()
        .find_map(|l| l.strip_prefix(line))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(kib * 1024)
}

/// Whether so many bytes can be allocated and used. Linux promises more memory than there is, and ends the process that
/// uses it; so it is asked beforehand.
pub(super) fn has_room(bytes: usize) -> bool {
    bytes < COMPARED_FROM || memory_info("MemAvailable:").is_none_or(|free| bytes as u64 <= free)
}
