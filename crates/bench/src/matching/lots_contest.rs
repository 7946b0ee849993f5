//! The rule sets over city lots: ours beside crate `quamina`, equal numbers of matches asserted for every body.

use anyhow::{Result, ensure};
use mailrail_types::Attributes;
use serde_json::{Map, Value, json};

use super::cpu;
use super::engines::{self, Engine};
use super::lots::{RULE_SETS, RuleSet, bodies};
use crate::figures::{median, ratio, rounded};

/// Prints a table; gives for each set how many times our time crate `quamina` takes.
pub(super) fn run(rounds: usize) -> Result<Value> {
    let bodies = bodies();
    println!(
        "\ncity lots, five rules, ns of CPU for an event (median), and matches in {} bodies:",
        bodies.len()
    );
    let mut ratios = Map::new();
    for set in &RULE_SETS {
        ratios.insert(set.name.to_owned(), json!(rounded(contest(set, &bodies, rounds)?)));
    }
    Ok(Value::Object(ratios))
}

fn contest(set: &RuleSet, bodies: &[Vec<u8>], rounds: usize) -> Result<f64> {
    let index = engines::index(set.rules.len(), false, |i| set.rules[i].to_owned())?;
    let mut both: [(Engine, Vec<f64>); 2] = [
        (engines::ours(index.snapshot(), Attributes::default()), Vec::new()),
        (engines::quamina(set.rules.len(), |i| set.rules[i].to_owned())?, Vec::new()),
    ];
    let mut matches = 0;
    for body in bodies {
        let [ours, theirs] = [0, 1].map(|engine| (both[engine].0)(body));
        ensure!(
            ours == theirs,
            "{}: {ours} and {theirs} matches in {}",
            set.name,
            String::from_utf8_lossy(body)
        );
        matches += ours;
    }
    ensure!(matches > 0, "{} matches nothing", set.name);
    for _ in 0..rounds {
        for (engine, times) in &mut both {
            let mut next = bodies.iter().cycle();
            let mut found = 0;
            times.push(cpu::each(bodies.len() * 4, || found += next.next().map_or(0, |body| engine(body))));
            ensure!(found == matches * 4, "{}: {found} matches", set.name);
        }
    }
    let [(_, ours), (_, theirs)] = both;
    println!(
        "{:<16} index {:>7.0}   quamina {:>7.0}   {matches} matches",
        set.name,
        median(ours.clone()),
        median(theirs.clone())
    );
    Ok(ratio(&theirs, &ours))
}
