//! The model's three figures, from recordings.

use super::figures::Role;
use super::recording::{Malformed, Recording, Row};
use super::service::Rates;

/// A role is under way by then: seconds of a recording that are left out.
pub const STARTED_SECONDS: f64 = 10.0;
/// Of the peak of a backlog, the parts between which it is only worked off: all replicas are busy and nothing comes.
const BUSY: (f64, f64) = (0.85, 0.1);
/// Seconds after a change of replicas in which partitions move.
const MOVING: f64 = 5.0;

/// Recorded figures of a role.
///
/// # Errors
///
/// If a recording cannot be read.
pub fn rates(role: Role) -> Result<Rates, Malformed> {
    let (one, steady) = (Recording::of(role, "one")?, Recording::of(role, "steady")?);
    let moved = match role {
        Role::Match => Recording::of(role, "steady")?,
        Role::Deliver => Recording::of(role, "rollout")?,
    };
    Ok(Rates { per_replica: per_replica(&one), behind: behind(&steady), hand_over: hand_over(&moved) })
}

/// Commits a second while a backlog of one replica is worked off.
fn per_replica(one: &Recording) -> f64 {
    let peak = one.rows.iter().map(Row::lag).max().unwrap_or(0) as f64;
    let after = one.rows.iter().skip_while(|row| (row.lag() as f64) < peak);
    let busy: Vec<&Row> =
        after.filter(|row| (BUSY.1 * peak..=BUSY.0 * peak).contains(&(row.lag() as f64))).collect();
    match busy[..] {
        [first, .., last] => (last.committed() - first.committed()) as f64 / (last.at - first.at),
        _ => 0.0,
    }
}

/// Mean lag by mean arrivals, until the replicas change: how long a record takes where nothing waits.
fn behind(steady: &Recording) -> f64 {
    let until = steady.rows.iter().skip(1).find(|row| !row.events.is_empty()).map_or(f64::MAX, |row| row.at);
    let rows: Vec<&Row> = steady.between(STARTED_SECONDS, until).collect();
    match rows[..] {
        [first, .., last] => {
            let rate = (last.arrived() - first.arrived()) as f64 / (last.at - first.at);
            rows.iter().map(|row| row.lag() as f64).sum::<f64>() / rows.len() as f64 / rate
        }
        _ => 0.0,
    }
}

/// How long a partition with lag stood still when replicas came or went, on average over all partitions.
fn hand_over(moved: &Recording) -> f64 {
    let mut still = Vec::new();
    for event in moved.rows.iter().skip(1).filter(|row| row.has("ready") || row.has("stopping")) {
        let rows: Vec<&Row> = moved.between(event.at - 1.0, event.at + MOVING).collect();
        still.extend((0..event.partitions.len()).map(|partition| stood_still(&rows, partition)));
    }
    still.iter().sum::<f64>() / still.len().max(1) as f64
}

/// The longest time that a partition with lag kept its position.
fn stood_still(rows: &[&Row], partition: usize) -> f64 {
    let (mut longest, mut since) = (0.0_f64, None);
    for pair in rows.windows(2) {
        let (before, after) = (pair[0].partitions[partition], pair[1].partitions[partition]);
        let stands = before.lag() > 0 && before.committed == after.committed;
        since = stands.then(|| since.unwrap_or(pair[0].at));
        longest = longest.max(since.map_or(0.0, |since| pair[1].at - since));
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(rows: &[&str]) -> Recording {
        let text = format!("at_ms,replicas,held,events,ends,committed\n{}\n", rows.join("\n"));
        Recording::parse("x", &text).expect("a recording")
    }

    #[test]
    fn a_rate_is_read_where_a_backlog_is_worked_off() {
        let one = recording(&[
            "0,1,0,,1000,0",
            "1000,1,0,,1000,200",
            "2000,1,0,,1000,240",
            "3000,1,0,,1000,290",
            "4000,1,0,,1000,990",
        ]);
        assert!((per_replica(&one) - 45.0).abs() < 1e-9);
    }

    #[test]
    fn the_time_to_a_commit_is_lag_by_arrivals() {
        let steady = recording(&[
            "0,1,0,ready,0,0",
            "17000,1,0,,700,650",
            "18000,1,0,,800,740",
            "19000,1,0,,900,830",
            "20000,1,0,ready,1000,0",
        ]);
        assert!((behind(&steady) - 0.6).abs() < 1e-9);
    }

    #[test]
    fn a_hand_over_is_how_long_partitions_stand_still_after_a_change() {
        let moved = recording(&[
            "0,1,0,ready,5 5,1 1",
            "1000,1,0,,6 6,1 2",
            "30000,1,0,,8 9,6 3",
            "31000,1,0,ready,8 9,7 4",
            "32000,1,0,,9 9,7 8",
            "33000,1,0,,9 9,7 8",
            "34000,1,0,,9 9,7 8",
            "35000,1,0,,9 9,9 9",
        ]);
        // The first partition from 31 to 34 s, the second from 32 to 34 s.
        assert!((hand_over(&moved) - 2.5).abs() < 1e-9, "{}", hand_over(&moved));
    }

    #[test]
    fn the_recorded_figures_are_of_a_role_that_works() {
        for role in Role::ALL {
            let rates = rates(role).expect("recorded");
            assert!(rates.per_replica > 10.0, "{role:?}: {rates:?}");
            assert!(rates.behind > 0.05 && rates.behind < 5.0, "{role:?}: {rates:?}");
            assert!(rates.hand_over < 20.0, "{role:?}: {rates:?}");
        }
    }
}
