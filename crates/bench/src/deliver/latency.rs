//! End to end at a constant rate: from the door through match and deliver to the sink, beside two bare hops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::Args;
use super::hops::Hops;
use super::report::{Latency, Report, Way};
use super::rig::Rig;
use crate::events::{Bodies, write_post};
use crate::figures::percentile;
use crate::http::Connection;
use crate::mail::{TENANT, event_type};
use crate::recipe::free_address;
use crate::sink::Receipts;

/// Sent on each way before the first turn.
pub(super) const WARM_UP_SECONDS: u64 = 3;
/// Connections to the door. With more the door is not faster at these rates; with fewer an event could wait for one.
const CONNECTIONS: u32 = 128;
/// How long the last event of a turn may take.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether it came.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Takes turns: the pipeline, hops with the same settings, hops that never wait for more records.
pub(super) async fn run(args: &Args, rig: &mut Rig, report: &mut Report) -> Result<()> {
    let door = free_address()?;
    rig.role(args, "ingest", Some(door)).await?;
    rig.role(args, "match", None).await?;
    rig.role(args, "deliver", None).await?;
    let events = events_of_way(args);
    let same = Hops::start(args, rig, "same", args.linger_ms, events).await?;
    let eager = Hops::start(args, rig, "eager", 0, events).await?;
    eprintln!("latency: warming up at {} events/s", args.rate);
    let warm = u64::from(args.rate) * WARM_UP_SECONDS;
    through_door(args, rig, door, warm).await?;
    for hops in [&same, &eager] {
        through_hops(args, hops, warm).await?;
    }
    let count = u64::from(args.rate) * u64::from(args.seconds);
    for round in 0..args.latency_rounds {
        let mut order = Way::ALL;
        order.rotate_left(round as usize % Way::ALL.len());
        let mut line = format!("latency {} of {}:", round + 1, args.latency_rounds);
        for way in order {
            let latency = match way {
                Way::Mailrail => through_door(args, rig, door, count).await?,
                Way::Hops => through_hops(args, &same, count).await?,
                Way::EagerHops => through_hops(args, &eager, count).await?,
            };
            line += &format!("  {} p50 {:.2} ms p99 {:.1} ms", way.name(), latency.p50_ms, latency.p99_ms);
            report.add_latency(way, latency);
        }
        eprintln!("{line}");
    }
    same.end();
    eager.end();
    rig.stop_roles().await
}

/// Events that go one of the ways in all.
fn events_of_way(args: &Args) -> u64 {
    let seconds = WARM_UP_SECONDS + u64::from(args.latency_rounds) * u64::from(args.seconds);
    seconds * u64::from(args.rate)
}

/// Calls `each` with its number at its time, from a thread of its own: an async timer is late by a millisecond. Gives the
/// time of the first.
pub(super) fn pace(
    rate: u32,
    count: u64,
    mut each: impl FnMut(u64) -> Result<()> + Send + 'static,
) -> Result<(Instant, JoinHandle<Result<()>>)> {
    let start = Instant::now() + Duration::from_millis(50);
    let thread = std::thread::Builder::new().name("pace".to_owned()).spawn(move || {
        for number in 0..count {
            std::thread::sleep(due(start, rate, number).saturating_duration_since(Instant::now()));
            each(number)?;
        }
        Ok(())
    })?;
    Ok((start, thread))
}

fn due(start: Instant, rate: u32, number: u64) -> Instant {
    start + Duration::from_micros(number * 1_000_000 / u64::from(rate))
}

/// Times from when each event was due until it came, once all are there. They begin at `first` of the receipts.
async fn latency(receipts: &Receipts, first: u64, count: u64, start: Instant, rate: u32) -> Result<Latency> {
    let came = |number: u64| receipts.at(first + number);
    let deadline = Instant::now() + ARRIVAL_MAX;
    while let Some(missing) = (0..count).rev().find(|number| came(*number).is_none()) {
        if Instant::now() > deadline {
            bail!("event {} did not come within {ARRIVAL_MAX:?}", first + missing);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let taken = |number: u64| {
        let due = receipts.micros(due(start, rate, number));
        u32::try_from(came(number).unwrap_or(due).saturating_sub(due)).unwrap_or(u32::MAX)
    };
    let mut all: Vec<u32> = (0..count).map(taken).collect();
    all.sort_unstable();
    let ms = |share| f64::from(percentile(&all, share)) / 1_000.0;
    Ok(Latency { p50_ms: ms(0.50), p99_ms: ms(0.99) })
}

async fn through_hops(args: &Args, hops: &Hops, count: u64) -> Result<Latency> {
    let (first, start, thread) = hops.send(args.rate, count)?;
    let latency = latency(&hops.receipts, first, count, start, args.rate).await?;
    joined(thread)?;
    Ok(latency)
}

fn joined(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow::anyhow!("the thread that sends panicked"))?
}

/// An event for the door.
struct Post {
    number: u64,
    event_type: String,
}

async fn through_door(args: &Args, rig: &mut Rig, door: SocketAddr, count: u64) -> Result<Latency> {
    let first = rig.next;
    rig.next += count;
    rig.owed += count;
    // Room for all of them: an event that waits for a connection holds up none behind it.
    let (send, posts) = mpsc::channel(usize::try_from(count)?);
    let posts = Arc::new(Mutex::new(posts));
    let token: Arc<str> = rig.recipe.token(TENANT).into();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let connection = Connection::open(door).await?;
        tasks.spawn(post_all(connection, posts.clone(), token.clone(), rig.bodies.clone()));
    }
    let endpoints = args.endpoints;
    let (start, thread) = pace(args.rate, count, move |number| {
        let endpoint = u32::try_from(number % u64::from(endpoints)).unwrap_or(0);
        send.try_send(Post { number: first + number, event_type: event_type(endpoint) })
            .context("nobody posts any more")
    })?;
    while let Some(ended) = tasks.join_next().await {
        ended.context("a connection's task")??;
    }
    joined(thread)?;
    for process in &mut rig.running {
        process.check()?;
    }
    latency(&rig.receipts, first, count, start, args.rate).await
}

/// Posts what comes until nothing more does.
async fn post_all(
    mut connection: Connection,
    posts: Arc<Mutex<mpsc::Receiver<Post>>>,
    token: Arc<str>,
    bodies: Bodies,
) -> Result<()> {
    let mut request = Vec::new();
    loop {
        let post = posts.lock().await.recv().await;
        let Some(Post { number, event_type }) = post else { return Ok(()) };
        write_post(&mut request, &token, number, &event_type, bodies.of(number));
        let answer = connection.ask(&request).await?;
        ensure!(answer.status == 202, "an event was answered {}: {}", answer.status, answer.shown());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_due_at_the_rate() {
        let start = Instant::now();
        assert_eq!(due(start, 1_000, 2_500) - start, Duration::from_millis(2_500));
    }

    #[tokio::test]
    async fn latencies_are_counted_from_when_an_event_was_due() {
        let receipts = Receipts::new(2);
        let start = Instant::now();
        receipts.note(0);
        receipts.note(1);
        let latency = latency(&receipts, 0, 2, start, 1).await.expect("both came");
        // The second one came before its time, which is no time at all.
        assert!(latency.p50_ms < 1_000.0 && latency.p99_ms < 1_000.0, "{latency:?}");
    }
}
