//! One sender over many hours, under every rule at once.

use std::time::Duration;

use mailrail_policy::{COUNTERS_READ, SHARD, SizingOptions};
use mailrail_types::Timestamp;
use rand_xorshift::XorShiftRng;

use super::counters::Counters;
use super::{Arrivals, Changes, Rule};

/// By then every counter that a reading looks at began after the sender did.
const WARM_UP: Duration = SHARD.saturating_mul(COUNTERS_READ as u32);

/// How often the width of a sender of `per_minute` payloads changes in `hours` after its warm-up, per rule as in
/// [`Rule::ALL`], at default options. The width is read with each payload.
#[must_use]
pub fn width_changes(per_minute: f64, arrivals: Arrivals, hours: u32, random: XorShiftRng) -> Changes {
    let options = SizingOptions::default();
    let mut counters = Counters::default();
    let mut widths = [None; 4];
    let mut changes = [0; 4];
    let mut warm = None;
    for now in arrivals.times(per_minute, random) {
        let warm = *warm.get_or_insert_with(|| now.plus(WARM_UP));
        if now > warm.plus(Duration::from_hours(hours.into())) {
            break;
        }
        observe(&mut counters, now, &options, &mut widths, |rule| changes[rule] += u32::from(now > warm));
    }
    changes
}

fn observe(
    counters: &mut Counters,
    now: Timestamp,
    options: &SizingOptions,
    widths: &mut [Option<u32>; 4],
    mut changed: impl FnMut(usize),
) {
    let reading = counters.count(now);
    for (at, (rule, width)) in Rule::ALL.into_iter().zip(widths).enumerate() {
        let next = rule.width(&reading, *width, options);
        if width.is_some_and(|width| width != next) {
            changed(at);
        }
        *width = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn changes(per_minute: f64, arrivals: Arrivals) -> Changes {
        width_changes(per_minute, arrivals, 24, XorShiftRng::seed_from_u64(1))
    }

    /// S12: the rates that the research names, each inside a span in which the plain sum crosses a threshold.
    #[test]
    fn s12_a_steady_sender_keeps_its_width_where_the_plain_rule_flaps() {
        for rate in [2.2, 4.3, 10.0, 18.0, 40.0] {
            let [plain, _, _, ours] = changes(rate, Arrivals::Steady);
            assert!(ours <= 2, "{rate} per minute: ours changed {ours} times");
            // Twice in each of 480 counters; the first and the last one may be cut.
            assert!((950..=962).contains(&plain), "{rate} per minute: the plain rule changed {plain} times");
        }
    }

    #[test]
    fn s12_away_from_a_threshold_no_rule_flaps() {
        for rate in [3.0, 6.0, 24.0] {
            assert_eq!(changes(rate, Arrivals::Steady), [0; 4], "{rate} per minute");
        }
    }

    #[test]
    fn s12_random_arrivals_are_held_by_both_halves_together() {
        let [plain, weighted, held, ours] = changes(10.0, Arrivals::Poisson);
        assert!(ours < 10 && plain > 20 * ours.max(1), "{plain} {weighted} {held} {ours}");
    }
}
