//! Time on the processor, not on the clock: what else the machine does is not counted.

use anyhow::{Context, Result};

/// Nanoseconds that this thread has been on a processor.
pub(super) fn nanoseconds() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")
        .context("cannot read the time of this thread: the benchmark runs on Linux")?;
    let first = text.split_ascii_whitespace().next().context("the time of this thread is empty")?;
    first.parse().context("the time of this thread is not a number")
}

/// Nanoseconds of each call of `work`, run `times` times.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn each(times: usize, mut work: impl FnMut()) -> Result<f64> {
    let before = nanoseconds()?;
    for _ in 0..times {
        work();
    }
    Ok((nanoseconds()? - before) as f64 / times as f64)
}

/// Bytes of this process that are in memory.
pub(super) fn resident_bytes() -> Result<u64> {
    let text =
        std::fs::read_to_string("/proc/self/statm").context("cannot read the memory of this process")?;
    let pages: u64 = text.split_ascii_whitespace().nth(1).context("no resident size")?.parse()?;
    Ok(pages * 4096)
}
