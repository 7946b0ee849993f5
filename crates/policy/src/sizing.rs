//! How many mailboxes a sender's or recipient's payloads are split over, and which one a payload goes to.
//!
//! Files: `window` counts what arrived, `plain` is the original rule, `width` is ours, `bucket` sends a
//! key to its mailbox. The rule with its reasons: `docs/mailboxes.md`.

mod bucket;
mod plain;
mod width;
mod window;

use mailrail_types::{BUCKETS_MAX, MailboxClass};

pub use bucket::{Key, bucket};
pub use plain::plain_width;
pub use width::{fixed_width, next_width};
pub use window::{
    COUNTER_TTL, COUNTERS_READ, SHARD, SHARDS, WINDOW, WindowReading, shard_number, shard_start,
};

/// What rate-sizing goes by. Any values are usable: they are clamped where they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SizingOptions {
    /// Requests that one drain of a mailbox has open at a time.
    pub threads: u32,
    /// How many payloads per thread and window are worth one mailbox.
    pub payloads_per_thread: u32,
    /// Most mailboxes. Floored to a power of two, at least 1 and at most [`BUCKETS_MAX`].
    pub buckets_max: u32,
}

impl Default for SizingOptions {
    /// 4 threads, 4 payloads per thread, 64 buckets.
    fn default() -> Self {
        Self { threads: 4, payloads_per_thread: 4, buckets_max: 64 }
    }
}

impl From<&MailboxClass> for SizingOptions {
    fn from(class: &MailboxClass) -> Self {
        let &MailboxClass { threads, payloads_per_thread, buckets_max, .. } = class;
        Self { threads, payloads_per_thread, buckets_max }
    }
}

impl SizingOptions {
    /// Payloads of one window that are worth one mailbox; at least 1, so that nothing divides by zero.
    #[must_use]
    pub fn unit(&self) -> u32 {
        self.threads.saturating_mul(self.payloads_per_thread).max(1)
    }

    /// The widest split: a power of two, because only doublings move no more than half of the keys.
    #[must_use]
    pub fn cap(&self) -> u32 {
        power_of_two_below(self.buckets_max.clamp(1, BUCKETS_MAX))
    }
}

/// The largest power of two that is at most `n`; 1 for 0.
fn power_of_two_below(n: u32) -> u32 {
    1 << n.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S17, S10: options are clamped where they are read; the unit of an option that is 0 is 1.
    #[test]
    fn s17_options_are_clamped_and_never_trusted() {
        let options = |threads, payloads_per_thread, buckets_max| SizingOptions {
            threads,
            payloads_per_thread,
            buckets_max,
        };
        assert_eq!(SizingOptions::default(), options(4, 4, 64));
        assert_eq!((options(4, 4, 64).unit(), options(4, 4, 64).cap()), (16, 64));
        assert_eq!((options(0, 4, 0).unit(), options(0, 4, 0).cap()), (1, 1));
        assert_eq!(options(4, 0, 64).unit(), 1);
        let most = options(u32::MAX, u32::MAX, u32::MAX);
        assert_eq!((most.unit(), most.cap()), (u32::MAX, BUCKETS_MAX));
    }

    #[test]
    fn a_class_has_the_same_defaults() {
        let id = mailrail_types::ClassId::new(MailboxClass::TOLERANT).expect("valid");
        assert_eq!(SizingOptions::from(&MailboxClass::with_defaults(id, true)), SizingOptions::default());
    }

    /// S18: the cap is floored to a power of two: 100 is 64, and less than 1 is 1.
    #[test]
    fn s18_the_cap_is_on_the_ladder() {
        let cap = |buckets_max| SizingOptions { buckets_max, ..SizingOptions::default() }.cap();
        let found = [0, 1, 2, 3, 100, 127, 128, 1000, 4096, 5000].map(cap);
        assert_eq!(found, [1, 1, 2, 2, 64, 64, 128, 512, 4096, 4096]);
        assert!(BUCKETS_MAX.is_power_of_two());
    }
}
