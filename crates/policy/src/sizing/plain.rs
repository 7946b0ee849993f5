//! The original rule: payloads of the window over the unit, floored to a power of two, capped.
//!
//! It has no memory. A steady sender whose rate lies between two readings of a 12 to 15 minute sum changes its width
//! twice in each shard, for ever; see [`next_width`](crate::next_width) for what is used instead.

use super::{SizingOptions, power_of_two_below};

/// The width for this many payloads in the window. Unknown (`None`) is the cap: an outage of the counters must not put a
/// busy sender back into one mailbox.
#[must_use]
pub fn plain_width(payloads: Option<u64>, options: &SizingOptions) -> u32 {
    let Some(payloads) = payloads else { return options.cap() };
    let worth = u32::try_from(payloads / u64::from(options.unit())).unwrap_or(u32::MAX);
    power_of_two_below(worth).min(options.cap())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(threads: u32, payloads_per_thread: u32, buckets_max: u32) -> SizingOptions {
        SizingOptions { threads, payloads_per_thread, buckets_max }
    }

    /// S09, S21: the worked table at defaults, every row.
    #[test]
    fn s09_s21_the_table_at_defaults() {
        for (payloads, width) in [
            (0, 1),
            (1, 1),
            (15, 1),
            (16, 1),
            (31, 1),
            (32, 2),
            (47, 2),
            (48, 2),
            (63, 2),
            (64, 4),
            (127, 4),
            (128, 8),
            (255, 8),
            (256, 16),
            (511, 16),
            (512, 32),
            (1023, 32),
            (1024, 64),
            (2047, 64),
            (1_000_000_000, 64),
            (u64::MAX, 64),
        ] {
            assert_eq!(plain_width(Some(payloads), &SizingOptions::default()), width, "{payloads} payloads");
        }
        assert_eq!(plain_width(None, &SizingOptions::default()), 64);
    }

    /// S09, S18: the table of odd options, every row that an unsigned option can be.
    #[test]
    fn s09_s18_the_table_of_options() {
        const MANY: u64 = 1_000_000_000;
        for (buckets_max, width) in
            [(100, 64), (127, 64), (128, 128), (1000, 512), (3, 2), (2, 2), (1, 1), (0, 1)]
        {
            assert_eq!(plain_width(Some(MANY), &options(4, 4, buckets_max)), width, "at most {buckets_max}");
            assert_eq!(
                plain_width(None, &options(4, 4, buckets_max)),
                width,
                "unknown, at most {buckets_max}"
            );
        }
        for (payloads, width) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (63, 32), (64, 64)] {
            assert_eq!(
                plain_width(Some(payloads), &options(0, 4, 64)),
                width,
                "no threads, {payloads} payloads"
            );
        }
        assert_eq!(plain_width(Some(MANY), &options(4, 0, 64)), 64);
        assert_eq!(plain_width(Some(2047), &options(4, 4, 128)), 64);
        assert_eq!(plain_width(Some(2048), &options(4, 4, 128)), 128);
    }

    /// S10: twice as many threads halve the width at the same rate; four threads by default.
    #[test]
    fn s10_the_unit_is_a_pass_of_the_pool() {
        let width = |threads| plain_width(Some(1024), &options(threads, 4, 64));
        assert_eq!([4, 8, 16].map(width), [64, 32, 16]);
    }

    /// S09: the cases of the original's own test of the function, in units.
    #[test]
    fn s09_multiples_of_the_unit() {
        let defaults = SizingOptions::default();
        let unit = u64::from(defaults.unit());
        let widths = [0, unit, 2 * unit - 1, 2 * unit, 4 * unit - 1, 4 * unit]
            .map(|n| plain_width(Some(n), &defaults));
        assert_eq!(widths, [1, 1, 1, 2, 2, 4]);
    }

    /// S09: for 0 to a million payloads the width is a power of two and at most the cap.
    #[test]
    fn s09_every_width_is_a_power_of_two_up_to_the_cap() {
        for options in [SizingOptions::default(), options(1, 1, 100), options(0, 0, 1000), options(3, 7, 0)] {
            for payloads in 0..=1_000_000 {
                let width = plain_width(Some(payloads), &options);
                assert!(width.is_power_of_two() && width <= options.cap(), "{payloads} payloads: {width}");
            }
        }
    }

    /// S09: one thread, four payloads each, everything in one shard: 1 to 7 → 1, 8 to 15 → 2, 16 to 31 → 4, 32 → 8.
    #[test]
    fn s09_the_sequence_of_a_growing_sender() {
        let options = options(1, 4, 64);
        for payload in 1..=32 {
            let width = match payload {
                1..=7 => 1,
                8..=15 => 2,
                16..=31 => 4,
                _ => 8,
            };
            assert_eq!(plain_width(Some(payload), &options), width, "payload {payload}");
        }
    }
}
