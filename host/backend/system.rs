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

/// Of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Asks the system for huge pages in memory that nobody has touched yet: it is clearing pages that a download into such
/// memory takes its time for, and locking them, and 512 small ones take several times as long as a huge one.
pub(crate) fn prefer_huge_pages(address: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_void};
        const MADV_HUGEPAGE: c_int = 14;
        unsafe extern "C" {
            fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int;
        }
        let skip = address.align_offset(HUGE_PAGE);
        if let Some(bytes @ HUGE_PAGE..) = bytes.checked_sub(skip) {
            // SAFETY: whole pages within one allocation. The advice changes no contents; where the system does not take
            // it, nothing is lost but time.
            let _ = unsafe {
                madvise(
                    address.wrapping_add(skip).cast(),
                    bytes / HUGE_PAGE * HUGE_PAGE,
                    MADV_HUGEPAGE,
                )
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (address, bytes);
}
