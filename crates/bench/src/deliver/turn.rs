//! One turn of deliveries/s: deliver from a backlog that is there already, or the bare client.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Args;
use super::rig::Rig;
use crate::process::Process;
use crate::sink::Receipts;

/// This part of a turn is not measured: connections are open and the group has its partitions by then.
const WARM_UP_DIVISOR: u64 = 10;
/// Between two looks at what came.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Longest wait for the next delivery.
const STALL_MAX: Duration = Duration::from_secs(60);

/// Of one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    pub(super) per_s: f64,
    /// CPU time of the process for each delivery; `None` where the system does not tell.
    pub(super) cpu_us: Option<f64>,
    /// Connections that were opened to the sink.
    pub(super) connections: u64,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu_us.map_or_else(|| "-".to_owned(), |it| format!("{it:.0}"));
        write!(f, "{:.0}/s, CPU {cpu} us each, {} connections", self.per_s, self.connections)
    }
}

/// Events of a turn, by number.
#[derive(Clone, Copy)]
struct Range {
    first: u64,
    count: u64,
}

/// Fills the backlog, starts deliver, and measures until everything came.
pub(super) async fn deliver(args: &Args, rig: &mut Rig) -> Result<Turn> {
    let range = next_range(args, rig);
    let records = (range.first..range.first + range.count).map(|n| rig.mail.delivery(n, rig.to(n)));
    crate::mail::append(&rig.log, &rig.recipe.topic("deliveries"), records).await?;
    rig.owed += range.count;
    let before = rig.receipts.counts().connections;
    rig.role(args, "deliver", None).await?;
    let receipts = rig.receipts.clone();
    let process = rig.running.last_mut().context("deliver runs")?;
    let turn = measure(process, &receipts, range, before).await?;
    rig.stop_roles().await?;
    Ok(turn)
}

/// The same events from the bare client.
pub(super) async fn floor(args: &Args, rig: &mut Rig) -> Result<Turn> {
    let range = next_range(args, rig);
    let before = rig.receipts.counts().connections;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["post", "--address", &rig.sink.to_string(), "--first", &range.first.to_string()])
        .args(["--count", &range.count.to_string(), "--connections", &args.in_flight.to_string()])
        .args(["--seed", &args.seed.to_string()])
        .env("TOKIO_WORKER_THREADS", args.workers.to_string());
    let mut process = Process::start("floor", rig.folder.path(), &mut command)?;
    let turn = measure(&mut process, &rig.receipts, range, before).await;
    turn.with_context(|| process.last_log_lines())
}

fn next_range(args: &Args, rig: &mut Rig) -> Range {
    let range = Range { first: rig.next, count: u64::from(args.deliveries) };
    rig.next += range.count;
    range
}

async fn measure(
    process: &mut Process,
    receipts: &Receipts,
    range: Range,
    connections_before: u64,
) -> Result<Turn> {
    let Range { first, count } = range;
    let warm = count / WARM_UP_DIVISOR;
    reached(process, receipts, first + warm).await?;
    let (warmed, cpu) = (receipts.counts().total - first, process.cpu());
    reached(process, receipts, first + count).await?;
    let cpu = process.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let connections = receipts.counts().connections - connections_before;
    let mut times: Vec<u64> = (first..first + count).filter_map(|n| receipts.at(n)).collect();
    times.sort_unstable();
    let at = |place: u64| usize::try_from(place).ok().and_then(|it| times.get(it)).copied();
    let (Some(begin), Some(end)) = (at(warm), at(count - 1)) else {
        bail!("{} of {count} deliveries came", times.len());
    };
    Ok(figures(count - warm - 1, end - begin, cpu, count - warmed, connections))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn figures(measured: u64, micros: u64, cpu: Option<Duration>, with_cpu: u64, connections: u64) -> Turn {
    Turn {
        per_s: measured as f64 * 1e6 / micros.max(1) as f64,
        cpu_us: cpu.map(|it| it.as_secs_f64() * 1e6 / with_cpu.max(1) as f64),
        connections,
    }
}

/// Waits until so many events came in all.
async fn reached(process: &mut Process, receipts: &Receipts, total: u64) -> Result<()> {
    let (mut seen, mut quiet) = (0, Duration::ZERO);
    loop {
        let now = receipts.counts().total;
        if now >= total {
            return Ok(());
        }
        quiet = if now == seen { quiet + LOOK_EVERY } else { Duration::ZERO };
        seen = now;
        process.check()?;
        if quiet > STALL_MAX {
            bail!("{} events are missing, and none came for {STALL_MAX:?}", total - now);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_by_what_was_measured() {
        let turn = figures(1_000, 500_000, Some(Duration::from_millis(100)), 2_000, 3);
        assert_eq!((turn.per_s, turn.cpu_us, turn.connections), (2_000.0, Some(50.0), 3));
        assert_eq!(turn.to_string(), "2000/s, CPU 50 us each, 3 connections");
    }
}
