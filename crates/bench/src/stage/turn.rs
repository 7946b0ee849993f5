//! One turn: the stage or the floor goes through the records of a round.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mailrail_log::Log;

use super::rig::Rig;
use super::{Args, ONE_IN};
use crate::process::Process;
use crate::recipe::{free_address, ready};

/// This part of a turn is not measured: clients are connected and the group has its partitions by then.
const WARM_UP_DIVISOR: u64 = 10;
/// Between two looks at how many records there are.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest wait for the next record.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Records that are read at once.
const BATCH: usize = 1_000;

/// Of one turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Turn {
    pub(super) per_s: f64,
    /// CPU time of the process for each event; `None` where the system does not tell.
    pub(super) cpu_us: Option<f64>,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu_us.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
        write!(f, "{:.0} events/s, CPU {cpu} us each", self.per_s)
    }
}

/// `mailrail match`, from where its group is.
pub(super) async fn stage(args: &Args, rig: &Rig) -> Result<Turn> {
    let topic = rig.recipe.topic("deliveries");
    let before = rig.ends(&topic).await?;
    let admin = free_address()?;
    let mut command = rig.recipe.mailrail("match", &[("ADMIN", admin)])?;
    command.env("MAILRAIL__LIMITS__REDIS", &args.services.redis);
    let mut process = Process::start("match", rig.folder.path(), &mut command)?;
    ready(&mut process, admin, "/readyz").await?;
    let turn = measure(args, rig, &mut process, &topic, &before).await;
    let turn = turn.with_context(|| process.last_log_lines())?;
    process.stop().await?;
    Ok(turn)
}

/// The bare loop, from the first record of the round.
pub(super) async fn floor(args: &Args, rig: &Rig, from: &[u64]) -> Result<Turn> {
    let before = rig.ends(&rig.floor_topic).await?;
    let offsets: Vec<String> = from.iter().map(ToString::to_string).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["loop", "--kafka", &args.services.kafka, "--from", &rig.recipe.topic("events")])
        .args(["--offsets", &offsets.join(","), "--records", &args.events.to_string()])
        .args(["--to", &rig.floor_topic]);
    let mut process = Process::start("floor", rig.folder.path(), &mut command)?;
    let turn = measure(args, rig, &mut process, &rig.floor_topic, &before).await;
    turn.with_context(|| process.last_log_lines())
}

async fn measure(
    args: &Args,
    rig: &Rig,
    process: &mut Process,
    topic: &str,
    before: &BTreeMap<u32, u64>,
) -> Result<Turn> {
    let owed = args.events / ONE_IN;
    let warm = owed / WARM_UP_DIVISOR;
    let (warmed, cpu) = (reached(rig, process, topic, before, warm).await?, process.cpu());
    let came = reached(rig, process, topic, before, owed).await?;
    ensure!(came == owed, "{came} records were produced, and {owed} were owed");
    let cpu = process.cpu().zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let times = times(rig, topic, before).await?;
    let at = |place: u64| usize::try_from(place).ok().and_then(|it| times.get(it)).copied();
    let (Some(begin), Some(end)) = (at(warm), at(owed - 1)) else { bail!("{} records came", times.len()) };
    Ok(figures((owed - 1 - warm) * ONE_IN, end - begin, cpu, (owed - warmed) * ONE_IN))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
fn figures(events: u64, millis: i64, cpu: Option<Duration>, with_cpu: u64) -> Turn {
    Turn {
        per_s: events as f64 * 1e3 / millis.max(1) as f64,
        cpu_us: cpu.map(|it| it.as_secs_f64() * 1e6 / with_cpu.max(1) as f64),
    }
}

/// Waits until so many records were produced, and says how many there are.
async fn reached(
    rig: &Rig,
    process: &mut Process,
    topic: &str,
    before: &BTreeMap<u32, u64>,
    wanted: u64,
) -> Result<u64> {
    let (mut seen, mut quiet) = (0, Duration::ZERO);
    let before: u64 = before.values().sum();
    loop {
        let now = rig.ends(topic).await?.values().sum::<u64>() - before;
        if now >= wanted {
            return Ok(now);
        }
        quiet = if now == seen { quiet + LOOK_EVERY } else { Duration::ZERO };
        seen = now;
        process.check()?;
        ensure!(quiet <= STALL_MAX, "{} records are missing, and none came for {STALL_MAX:?}", wanted - now);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// When each record was produced, in milliseconds, sorted.
async fn times(rig: &Rig, topic: &str, from: &BTreeMap<u32, u64>) -> Result<Vec<i64>> {
    let (readers, mut times) = (rig.log.readers()?, Vec::new());
    for (partition, end) in rig.ends(topic).await? {
        let mut next = from.get(&partition).copied().unwrap_or(0);
        let mut reader = readers.open(topic, partition, next)?;
        while next < end {
            let batch = tokio::time::timeout(STALL_MAX, reader.next(BATCH))
                .await
                .context("a record is missing")??;
            next = batch.last().map_or(next, |record| record.offset + 1);
            times.extend(batch.iter().map(|record| record.appended_at.millis()));
        }
    }
    times.sort_unstable();
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_told_by_what_was_measured() {
        let turn = figures(100_000, 500, Some(Duration::from_millis(100)), 50_000);
        assert_eq!((turn.per_s, turn.cpu_us), (200_000.0, Some(2.0)));
        assert_eq!(turn.to_string(), "200000 events/s, CPU 2.0 us each");
    }
}
