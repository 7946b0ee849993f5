//! Time on the processor, not on the clock: what else the machine does is not counted.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds that this thread has been on a processor.
pub(super) fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Nanoseconds of each call of `work`, run `times` times.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn each(times: usize, mut work: impl FnMut()) -> f64 {
    let before = nanoseconds();
    for _ in 0..times {
        work();
    }
    (nanoseconds() - before) as f64 / times as f64
}

/// Bytes of this process that are in memory.
pub(super) fn resident_bytes() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/self/statm").context("cannot read the memory of this process")?;
    let pages: u64 = text.split_ascii_whitespace().nth(1).context("no resident size")?.parse()?;
    Ok(pages * 4096)
}
