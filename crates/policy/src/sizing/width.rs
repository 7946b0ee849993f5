//! The rule in use: the original's ladder, with a window that does not jump and a width that is not given up lightly.

use mailrail_types::BUCKETS_MAX;

use super::{SizingOptions, WindowReading, plain_width, power_of_two_below};

/// A width shrinks only when the window falls below this many hundredths of the least payloads that grow to it. Random
/// arrivals vary by a few per cent around a steady rate; a quarter is beyond them for all but the narrowest widths.
const SHRINK_BELOW_PERCENT: u128 = 75;

/// The width from here on, for a class that tolerates reordering.
///
/// - An unknown reading (`None`) is the cap, as in [`plain_width`]: sizing cannot fail and does not narrow anything.
/// - It grows at once, to what [`plain_width`] says of the weighted window.
/// - It shrinks, also at once to what [`plain_width`] says, only when the window holds less than 75 % of the payloads
///   that the current width begins at. `current` is the width so far; without it (`None`) there is nothing to hold on
///   to. It is brought onto the ladder and under the cap first, whatever it is.
///
/// A width was chosen under the options of its time. A caller whose unit changed passes `None`, so that the new options
/// take effect with the next payload instead of being held back.
#[must_use]
pub fn next_width(reading: Option<&WindowReading>, current: Option<u32>, options: &SizingOptions) -> u32 {
    let Some(reading) = reading else { return options.cap() };
    let payloads = reading.payloads();
    let wanted = plain_width(Some(payloads), options);
    let current = power_of_two_below(current.unwrap_or(1)).min(options.cap());
    let begins_at = u128::from(current) * u128::from(options.unit());
    if wanted >= current || u128::from(payloads) * 100 < begins_at * SHRINK_BELOW_PERCENT {
        wanted
    } else {
        current
    }
}

/// The width of a class that does not tolerate reordering: `n` for ever, brought into 1 ..= [`BUCKETS_MAX`]. It need not be
/// a power of two, because it never changes.
#[must_use]
pub fn fixed_width(n: u32) -> u32 {
    n.clamp(1, BUCKETS_MAX)
}

#[cfg(test)]
mod tests {
    use mailrail_types::{ClassId, MailboxClass, Timestamp};
    use proptest::prelude::*;

    use super::super::COUNTERS_READ;
    use super::*;

    const DEFAULTS: SizingOptions = SizingOptions { threads: 4, payloads_per_thread: 4, buckets_max: 64 };

    fn holding(payloads: u64) -> WindowReading {
        let mut shards = [0; COUNTERS_READ];
        shards[1] = payloads;
        WindowReading { at: Timestamp::ZERO, shards }
    }

    fn next(payloads: u64, current: u32) -> u32 {
        next_width(Some(&holding(payloads)), Some(current), &DEFAULTS)
    }

    /// S12: a width shrinks only when the rate is below three quarters of where that width begins.
    #[test]
    fn s12_a_width_is_held_down_to_three_quarters_of_where_it_begins() {
        // 32 payloads grow to 2, 64 to 4, 128 to 8, 1,024 to 64.
        assert_eq!([32, 31, 24, 23].map(|n| next(n, 2)), [2, 2, 2, 1]);
        assert_eq!([64, 63, 48, 47].map(|n| next(n, 4)), [4, 4, 4, 2]);
        assert_eq!([1024, 1023, 768, 767].map(|n| next(n, 64)), [64, 64, 64, 32]);
    }

    /// S12: a bucket is added when the rate has doubled, and then at once.
    #[test]
    fn s12_growth_is_immediate() {
        assert_eq!([31, 32, 63, 64, 1_000_000].map(|n| next(n, 1)), [1, 2, 2, 4, 64]);
        assert_eq!([128, 127].map(|n| next(n, 4)), [8, 4]);
    }

    /// S21: a sender that went quiet loses its split at once.
    #[test]
    fn s21_a_sender_that_went_quiet_loses_its_split_at_once() {
        assert_eq!([0, 31, 32, 64].map(|n| next(n, 64)), [1, 1, 2, 4]);
    }

    /// S13, S14: an unknown rate is the cap, whatever the width was before.
    #[test]
    fn s13_s14_an_unknown_rate_is_the_cap_whatever_the_width_was() {
        for current in [None, Some(0), Some(1), Some(64), Some(u32::MAX)] {
            assert_eq!(next_width(None, current, &DEFAULTS), 64, "{current:?}");
        }
    }

    /// S09: without a width to hold on to, the width is that of the plain rule.
    #[test]
    fn s09_without_a_current_width_it_is_the_plain_rule() {
        for payloads in 0..5_000 {
            let plain = plain_width(Some(payloads), &DEFAULTS);
            assert_eq!(next_width(Some(&holding(payloads)), None, &DEFAULTS), plain, "{payloads} payloads");
        }
    }

    /// S17: when options change, the width that was comes onto the ladder of the new ones and under their cap.
    #[test]
    fn s17_a_width_of_other_options_comes_onto_the_ladder_and_under_the_cap() {
        assert_eq!([0, 3, 100, 1_000].map(|current| next(1_000, current)), [32, 32, 64, 64]);
        let lower = SizingOptions { buckets_max: 8, ..DEFAULTS };
        assert_eq!(next_width(Some(&holding(1_000)), Some(64), &lower), 8);
        let coarser = SizingOptions { threads: 8, ..DEFAULTS };
        let width = |current| next_width(Some(&holding(1_000)), current, &coarser);
        assert_eq!((width(Some(32)), width(None)), (32, 16));
    }

    /// S16: a strict class has ten buckets by default, and its width is only clamped.
    #[test]
    fn s16_a_fixed_width_is_only_clamped() {
        assert_eq!([0, 1, 10, 100, u32::MAX].map(fixed_width), [1, 1, 10, 100, BUCKETS_MAX]);
        let strict = ClassId::new(MailboxClass::STRICT).expect("valid");
        assert_eq!(fixed_width(MailboxClass::with_defaults(strict, false).fixed_buckets), 10);
    }

    /// S12: the worked example of docs/mailboxes.md: 20, 36, 30 and 25 payloads per minute.
    #[test]
    fn s12_the_worked_example() {
        let at = |per_minute: u64, current| {
            let whole = 3 * per_minute;
            let shards = [per_minute, whole, whole, whole, whole, whole];
            let reading = WindowReading { at: Timestamp::from_secs(60), shards };
            (reading.payloads(), next_width(Some(&reading), current, &DEFAULTS))
        };
        assert_eq!(at(20, None), (300, 16));
        assert_eq!(at(36, Some(16)), (540, 32));
        assert_eq!(at(30, Some(32)), (450, 32));
        assert_eq!(at(25, Some(32)), (375, 16));
        assert_eq!([240, 300].map(|sum| plain_width(Some(sum), &DEFAULTS)), [8, 16]);
    }

    proptest! {
        /// S12: whatever the numbers, the same payloads again change no width.
        #[test]
        fn s12_any_width_is_on_the_ladder_and_holds(
            payloads in prop_oneof![0u64..4_000, any::<u64>()],
            current in any::<u32>(),
            threads in prop_oneof![0u32..40, any::<u32>()],
            payloads_per_thread in 0u32..40,
            buckets_max in prop_oneof![0u32..200, any::<u32>()],
        ) {
            let options = SizingOptions { threads, payloads_per_thread, buckets_max };
            let width = next_width(Some(&holding(payloads)), Some(current), &options);
            prop_assert!(width.is_power_of_two() && width <= options.cap());
            prop_assert!(width >= plain_width(Some(payloads), &options), "never narrower than the plain rule");
            // The same payloads again change nothing.
            prop_assert_eq!(next_width(Some(&holding(payloads)), Some(width), &options), width);
            // From there, a loss of less than a quarter is held, and so is any growth to below the next level.
            if payloads < 1 << 60 {
                let fewer = payloads - payloads / 5;
                let started = plain_width(Some(payloads), &options);
                if u64::from(started) * u64::from(options.unit()) <= payloads {
                    prop_assert_eq!(next_width(Some(&holding(fewer)), Some(started), &options), started);
                }
            }
        }
    }
}
