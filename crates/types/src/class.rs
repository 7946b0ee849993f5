//! A class of mailboxes: how wide, and whether order may be given up for width.

use thiserror::Error;

use crate::ClassId;

/// Widest split that can be set. Each bucket is a queue with its own place in a partition: more than this splits a
/// recipient finer than any topic has partitions.
pub const BUCKETS_MAX: u32 = 4096;
/// The last priority; 1 is the first.
pub const PRIORITY_MAX: u8 = 10;
/// Priority of a class that names none: room on both sides.
pub const PRIORITY_DEFAULT: u8 = 5;

/// Options of the mailboxes of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxClass {
    /// Its name.
    pub id: ClassId,
    /// The one attribute that sizing and drain both read. `true`: the width follows the rolling rate, and a failed
    /// delivery is set aside while the rest of its mailbox goes on. `false` (strict): the width never changes, and a
    /// failed delivery holds its mailbox.
    pub tolerates_reordering: bool,
    /// Attempts that a tolerant mailbox has at a time, no two about the same ordering key; with `payloads_per_thread`, what one
    /// mailbox is worth. A strict one has one at a time.
    pub threads: u32,
    /// Payloads of each of them in a pass.
    pub payloads_per_thread: u32,
    /// Widest split of a tolerant class; floored to a power of two.
    pub buckets_max: u32,
    /// Width of a strict class.
    pub fixed_buckets: u32,
    /// Whose turn it is when not everything can be sent at once: 1, first, to [`PRIORITY_MAX`]. It decides between
    /// mailboxes and never within one, and a late class is slowed, not starved.
    pub priority: u8,
}

/// Why options cannot be a class's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field} of class '{class}' is {value}: use 1 to {max}")]
pub struct ClassError {
    /// The class.
    pub class: ClassId,
    /// The option.
    pub field: &'static str,
    /// What it was set to.
    pub value: u32,
    /// Largest value.
    pub max: u32,
}

impl MailboxClass {
    /// Name of the class that endpoints and forwarding integrations have unless they say otherwise.
    pub const TOLERANT: &'static str = "tolerant";
    /// Name of the class for order that may never be given up.
    pub const STRICT: &'static str = "strict";

    /// A class with Sentry's defaults: 4 threads of 4 payloads, at most 64 buckets, 10 for a strict one.
    #[must_use]
    pub const fn with_defaults(id: ClassId, tolerates_reordering: bool) -> Self {
        Self {
            id,
            tolerates_reordering,
            threads: 4,
            payloads_per_thread: 4,
            buckets_max: 64,
            fixed_buckets: 10,
            priority: PRIORITY_DEFAULT,
        }
    }

    /// Takes a priority as a person wrote it, so that a number of any size is refused by its own value.
    ///
    /// # Errors
    /// [`ClassError`] when it is not 1 to [`PRIORITY_MAX`]; the class is then as it was.
    pub fn set_priority(&mut self, value: u32) -> Result<(), ClassError> {
        match u8::try_from(value) {
            Ok(priority) if (1..=PRIORITY_MAX).contains(&priority) => {
                self.priority = priority;
                Ok(())
            }
            _ => Err(self.out_of_range("priority", value, u32::from(PRIORITY_MAX))),
        }
    }

    /// Checks the options. (Whoever reads them clamps them all the same.)
    ///
    /// # Errors
    /// [`ClassError`] names the first option out of range.
    pub fn check(&self) -> Result<(), ClassError> {
        let options = [
            ("threads", self.threads, 1024),
            ("payloads_per_thread", self.payloads_per_thread, 1_000_000),
            ("buckets_max", self.buckets_max, BUCKETS_MAX),
            ("fixed_buckets", self.fixed_buckets, BUCKETS_MAX),
            ("priority", u32::from(self.priority), u32::from(PRIORITY_MAX)),
        ];
        for (field, value, max) in options {
            if value == 0 || value > max {
                return Err(self.out_of_range(field, value, max));
            }
        }
        Ok(())
    }

    fn out_of_range(&self, field: &'static str, value: u32, max: u32) -> ClassError {
        ClassError { class: self.id.clone(), field, value, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_1_to_10_and_what_is_refused_changes_nothing() {
        let mut class = MailboxClass::with_defaults(ClassId::of("mine"), true);
        assert_eq!((class.priority, class.check()), (5, Ok(())));
        for good in [1, 10] {
            assert_eq!(class.set_priority(good), Ok(()));
            assert_eq!((u32::from(class.priority), class.check()), (good, Ok(())));
        }
        for bad in [0, 11, 256, u32::MAX] {
            let refused = class.set_priority(bad).expect_err("out of range");
            assert_eq!((refused.field, refused.value, refused.max), ("priority", bad, 10));
            assert_eq!(class.priority, 10);
        }
        for bad in [0, 11] {
            class.priority = bad;
            assert_eq!(class.check().map_err(|refused| refused.field), Err("priority"));
        }
    }
}
