//! A class of mailboxes: how wide, and whether order may be given up for width.

use thiserror::Error;

use crate::ClassId;

/// Widest split that can be set. Each bucket is a queue with its own place in a partition: more than this splits a
/// recipient finer than any topic has partitions.
pub const BUCKETS_MAX: u32 = 4096;

/// Options of the mailboxes of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxClass {
    /// Its name.
    pub id: ClassId,
    /// The one attribute that sizing and drain both read. `true`: the width follows the rolling rate, and a failed
    /// delivery is set aside while the rest of its mailbox goes on. `false` (strict): the width never changes, and a
    /// failed delivery holds its mailbox.
    pub tolerates_reordering: bool,
    /// Requests that a pass of the delivery pool has at once; with `payloads_per_thread`, what one mailbox is worth.
    pub threads: u32,
    /// Payloads of each of them in a pass.
    pub payloads_per_thread: u32,
    /// Widest split of a tolerant class; floored to a power of two.
    pub buckets_max: u32,
    /// Width of a strict class.
    pub fixed_buckets: u32,
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
        ];
        for (field, value, max) in options {
            if value == 0 || value > max {
                return Err(ClassError { class: self.id.clone(), field, value, max });
            }
        }
        Ok(())
    }
}
