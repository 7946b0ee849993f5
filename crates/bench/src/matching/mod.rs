//! `match`: the index of filters beside crates that match or read JSON, on one thread, in time on the processor (acceptance A15,
//! A06, A60: evaluations a second, and what an event that nobody wants costs beside one that matches).
//!
//! All take turns in every round. Before, each must give the same number of matches. Needs no service.

mod cpu;
mod engines;
mod lots;
mod lots_contest;
pub(crate) mod workload;

use anyhow::{Result, ensure};
use mailrail_filter::index::{Change, FilterId, ShardTable};
use mailrail_types::{Attribute, AttributeValue, Attributes};
use serde_json::json;

use self::engines::Engine;
use self::workload::Bodies;
use crate::figures::{median, ratio, rounded};

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Rounds; each engine takes a turn in every one.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The largest number of filters.
    #[arg(long, default_value_t = 1_000_000)]
    filters_max: usize,
}

/// Bodies that an engine reads in one turn, at 1 KB; a tenth of it at 10 KB.
const TURN: usize = 3_000;

/// Filters from which an engine that is linear in them, or slow to build, is left out.
const QUAMINA_MAX: usize = 100_000;
const A_TREE_MAX: usize = 1_000;
const CEL_MAX: usize = 10;

struct Contestant {
    name: &'static str,
    filters: usize,
    engine: Engine,
    /// Nanoseconds for an event, by round.
    rounds: Vec<f64>,
}

/// Measures, prints a table, and the summary as one line of JSON.
pub(crate) fn run(args: &Args) -> Result<()> {
    let miss = miss(args.rounds)?;
    println!("no shard for (tenant, type), 1,000,000 shards: {miss:.1} ns");
    let attributes = attribute_only(args.rounds)?;
    println!("1,000 filters on attributes only: {attributes:.1} ns, with any body");
    let small = contest(1_024, args)?;
    let large = contest(10_240, args)?;
    let lots = lots_contest::run(args.rounds)?;
    let (bytes, resident) = memory(args.filters_max)?;
    println!(
        "memory: {bytes:.0} bytes of heap for a filter, {resident:.0} resident, {} filters",
        args.filters_max
    );
    let of = |all: &[Contestant], name: &str, n: usize| {
        all.iter().find(|c| c.name == name && c.filters == n).map(|c| c.rounds.clone()).unwrap_or_default()
    };
    let quamina = |all: &[Contestant]| rounded(ratio(&of(all, "quamina", 1_000), &of(all, "index", 1_000)));
    let summary = json!({
        "miss_ns": rounded(miss),
        "attribute_only_ns": rounded(attributes),
        "vs_quamina_1k": quamina(&small),
        "vs_quamina_10k": quamina(&large),
        "n1m_over_n10": rounded(ratio(&of(&small, "index", args.filters_max), &of(&small, "index", 10))),
        "bytes_per_subscription": rounded(bytes),
        "lots_vs_quamina": lots,
    });
    println!("{summary}");
    Ok(())
}

/// All engines at all numbers of filters, on bodies of one size that match nothing.
fn contest(size: usize, args: &Args) -> Result<Vec<Contestant>> {
    let bodies = Bodies::new(size);
    let mut all = Vec::new();
    let mut enter =
        |name, filters, engine| all.push(Contestant { name, filters, engine, rounds: Vec::new() });
    for n in [10, 1_000, 100_000, 1_000_000].into_iter().filter(|n| *n <= args.filters_max) {
        enter(
            "index",
            n,
            engines::ours(engines::index(n, false, workload::filter)?.snapshot(), Attributes::default()),
        );
        if n == 10 {
            let index = engines::index(n, true, workload::filter)?;
            enter("index, literals first", n, engines::ours(index.snapshot(), Attributes::default()));
        }
        if n <= QUAMINA_MAX {
            enter("quamina", n, engines::quamina(n, workload::filter)?);
        }
        enter("sonic-rs get_many + table", n, engines::sonic(n));
        if n <= A_TREE_MAX {
            enter("a-tree (fields by sonic-rs)", n, engines::a_tree(n)?);
        }
        if n <= CEL_MAX {
            enter("cel (fields by sonic-rs)", n, engines::cel(n)?);
        }
    }
    for contestant in &mut all {
        let mut count = |bodies: &[Vec<u8>]| bodies.iter().map(|b| (contestant.engine)(b)).sum::<usize>();
        let found = (count(&bodies.misses), count(&bodies.hits));
        ensure!(
            found == (0, bodies.hits.len()),
            "{} at {}: {found:?} matches",
            contestant.name,
            contestant.filters
        );
    }
    let turn = TURN * 1_024 / size;
    for _ in 0..args.rounds {
        for contestant in &mut all {
            let mut next = bodies.misses.iter().cycle();
            let mut found = 0;
            let times = if contestant.name.starts_with("cel") { turn / 10 } else { turn };
            let each = cpu::each(times, || found += next.next().map_or(0, |body| (contestant.engine)(body)));
            ensure!(found == 0, "{} found matches", contestant.name);
            contestant.rounds.push(each);
        }
    }
    println!("\n{size} bytes, no match, ns of CPU for an event (least, median):");
    for Contestant { name, filters, rounds, .. } in &all {
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{name:<28} {filters:>9} {least:>10.0} {:>10.0}", median(rounds.clone()));
    }
    Ok(all)
}

/// The look-up of events whose type nobody subscribed to.
fn miss(rounds: usize) -> Result<f64> {
    let mut shards = ShardTable::default();
    for i in 0..1_000_000_u32 {
        shards.insert(&format!("tenant-{}", i % 50_000), &format!("com.example.order.v{}", i / 50_000), i);
    }
    let names: Vec<_> =
        (0..4_096).map(|i| (format!("tenant-{}", i * 7), format!("com.example.other.v{i}"))).collect();
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let mut found = 0;
        let mut next = names.iter().cycle();
        let look_up = || {
            found += next.next().map_or(0, |(tenant, kind)| usize::from(shards.get(tenant, kind).is_some()));
        };
        measured.push(cpu::each(200_000, look_up));
        ensure!(found == 0, "an absent shard was found");
    }
    Ok(median(measured))
}

/// Filters on attributes: the body is never read, so its size does not matter.
fn attribute_only(rounds: usize) -> Result<f64> {
    let text = |i: usize| format!(r#"{{"$attributes":{{"subject":["s{i}"],"region":["eu"]}}}}"#);
    let index = engines::index(1_000, false, text)?;
    ensure!(index.snapshot().is_attribute_only(), "these filters are on attributes only");
    let region = Attribute { name: "region".to_owned(), value: AttributeValue::String("eu".to_owned()) };
    let attributes =
        Attributes { subject: Some("other".to_owned()), extensions: vec![region], ..Attributes::default() };
    let mut engine = engines::ours(index.snapshot(), attributes);
    let body = vec![b'x'; 10_240];
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let mut found = 0;
        measured.push(cpu::each(100_000, || found += engine(&body)));
        ensure!(found == 0, "nothing matches");
    }
    Ok(median(measured))
}

/// Bytes for a filter, and what building and changing cost.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn memory(n: usize) -> Result<(f64, f64)> {
    let before = (cpu::nanoseconds(), cpu::resident_bytes()?);
    let mut index = engines::index(n, false, workload::filter)?;
    let seconds = (cpu::nanoseconds() - before.0) as f64 / 1e9;
    let resident = cpu::resident_bytes()?.saturating_sub(before.1) as f64 / n as f64;
    println!("\nbuilt from texts: {:.0} filters a second", n as f64 / seconds);
    let filter = engines::compile(workload::filter(n + 1))?;
    let mut id = u32::try_from(n)?;
    let each = cpu::each(1_000, || {
        id += 1;
        index.apply(&[Change::Put(FilterId(id), &filter)]);
    });
    println!("one added to {n}: {:.1} microseconds until the next snapshot has it", each / 1_000.0);
    let stats = index.stats();
    Ok((stats.heap_bytes as f64 / stats.filters as f64, resident))
}
