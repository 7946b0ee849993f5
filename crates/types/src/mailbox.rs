//! Mailbox identity and the partition that a mailbox lives in.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use xxhash_rust::xxh3::xxh3_64;

use crate::{EndpointId, TenantId};

/// Left as they are in a key; everything else is percent-encoded, so that no two mailboxes share a key.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The pinned number of partitions of a topic. Configuration, never read back from the broker: a changed count would
/// move keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionCount(pub NonZeroU32);

/// One recipient's queue. A recipient has 1..cap of them, told apart by `bucket`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    /// The pipeline it belongs to.
    pub pipeline: Arc<str>,
    /// The tenant that owns the endpoint.
    pub tenant: TenantId,
    /// The recipient.
    pub endpoint: EndpointId,
    /// Which of the recipient's mailboxes; 0 is the unsplit one.
    pub bucket: u32,
}

/// The text form of a mailbox: record key in Kafka, name in logs and APIs. Injective.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxKey(Arc<str>);

impl Mailbox {
    /// The key: a fixed number of parts, each percent-encoded, joined by ':' (acceptance X10).
    #[must_use]
    pub fn key(&self) -> MailboxKey {
        MailboxKey(
            format!(
                "{}:{}:{}:{}",
                utf8_percent_encode(&self.pipeline, KEPT),
                utf8_percent_encode(self.tenant.as_str(), KEPT),
                utf8_percent_encode(self.endpoint.as_str(), KEPT),
                self.bucket
            )
            .into(),
        )
    }
}

/// The source mailbox of a sender: the key of its events on the way to match. One per tenant.
#[must_use]
pub fn source_mailbox(pipeline: &str, tenant: &TenantId) -> MailboxKey {
    MailboxKey(
        format!("{}:{}", utf8_percent_encode(pipeline, KEPT), utf8_percent_encode(tenant.as_str(), KEPT))
            .into(),
    )
}

impl MailboxKey {
    /// Takes a key as a record carries it.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The key itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The partition of this mailbox: XXH3-64 of the key, modulo the pinned count. Stable across versions and machines.
    #[must_use]
    pub fn partition(&self, count: PartitionCount) -> u32 {
        let bucket = xxh3_64(self.0.as_bytes()) % u64::from(count.0.get());
        u32::try_from(bucket).unwrap_or(0)
    }
}

impl fmt::Display for MailboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MailboxKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mailbox(pipeline: &str, tenant: &str, endpoint: &str, bucket: u32) -> Mailbox {
        Mailbox {
            pipeline: pipeline.into(),
            tenant: TenantId::new(tenant).expect("valid"),
            endpoint: EndpointId::new(endpoint).expect("valid"),
            bucket,
        }
    }

    #[test]
    fn partition_is_pinned() {
        let count = PartitionCount(NonZeroU32::new(64).expect("not zero"));
        let key = mailbox("default", "acme", "shop", 0).key();
        assert_eq!(key.as_str(), "default:acme:shop:0");
        // A change here re-maps every mailbox of every running deployment.
        assert_eq!(key.partition(count), 19);
    }

    proptest! {
        #[test]
        fn x10_no_two_mailboxes_share_a_key(
            a in "[a:%/]{1,4}", b in "[a:%/]{1,4}", t in "[a.-]{0,3}", u in "[a.-]{0,3}", n in 0u32..12, m in 0u32..12,
        ) {
            let left = mailbox(&a, &format!("x{t}"), &format!("y{u}"), n);
            let right = mailbox(&b, &format!("x{u}"), &format!("y{t}"), m);
            prop_assert_eq!(left == right, left.key() == right.key());
        }
    }
}
