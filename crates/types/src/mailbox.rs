//! Mailbox identity and the partition that a mailbox lives in.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use xxhash_rust::xxh3::xxh3_64;

use crate::{EndpointId, IntegrationId, TenantId};

/// Left as they are in a key; everything else is percent-encoded, so that no two mailboxes share a key.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The pinned number of partitions of a topic. Configuration, never read back from the broker: a changed count would
/// move keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionCount(pub NonZeroU32);

/// One recipient's queue. A recipient has several of them, told apart by event type and bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mailbox {
    /// The pipeline it belongs to.
    pub pipeline: Arc<str>,
    /// The region it is delivered from; empty where there is one.
    pub region: Arc<str>,
    /// The tenant that owns the endpoint.
    pub tenant: TenantId,
    /// The recipient.
    pub endpoint: EndpointId,
    /// The event type, when it is one of a known set: each is sized by its own rate. Never a text that a sender made up,
    /// or senders could make mailboxes without limit.
    pub event_type: Option<Arc<str>>,
    /// Which of the buckets; 0 is the unsplit mailbox.
    pub bucket: u32,
}

/// One sender's queue on its way to match: the same thing at the front door.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceMailbox {
    /// The pipeline it belongs to.
    pub pipeline: Arc<str>,
    /// The region it was accepted in; empty where there is one.
    pub region: Arc<str>,
    /// The tenant whose events these are.
    pub tenant: TenantId,
    /// The integration that brought them; `None`: the tenant's own producers.
    pub integration: Option<IntegrationId>,
    /// As [`Mailbox::event_type`].
    pub event_type: Option<Arc<str>>,
    /// As [`Mailbox::bucket`].
    pub bucket: u32,
}

/// The text form of a mailbox: record key in Kafka, name in logs and APIs. Injective.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxKey(Arc<str>);

/// A fixed number of parts, each percent-encoded and so without ':', joined by it (acceptance X10). An absent part is
/// empty; a present one never is.
fn joined(parts: [&str; 5], bucket: u32) -> MailboxKey {
    let mut key = String::with_capacity(parts.iter().map(|part| part.len() + 1).sum::<usize>() + 4);
    for part in parts {
        key.extend(utf8_percent_encode(part, KEPT));
        key.push(':');
    }
    key.push_str(&bucket.to_string());
    MailboxKey(key.into())
}

/// What [`joined`] joined. A part that is not UTF-8 once decoded is none of ours.
fn parted(key: &str) -> Option<([Box<str>; 5], u32)> {
    let mut texts = key.split(':');
    let mut parts: [Box<str>; 5] = Default::default();
    for part in &mut parts {
        *part = percent_decode_str(texts.next()?).decode_utf8().ok()?.into();
    }
    let bucket = texts.next()?.parse().ok()?;
    texts.next().is_none().then_some((parts, bucket))
}

/// A part that may be absent.
fn present(part: &str) -> Option<Arc<str>> {
    (!part.is_empty()).then(|| part.into())
}

impl Mailbox {
    /// The mailbox that has this key. `None` for every text that no mailbox has, be it one character off.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        let ([pipeline, region, tenant, endpoint, event_type], bucket) = parted(key)?;
        let mailbox = Self {
            pipeline: pipeline.into(),
            region: region.into(),
            tenant: TenantId::new(&tenant).ok()?,
            endpoint: EndpointId::new(&endpoint).ok()?,
            event_type: present(&event_type),
            bucket,
        };
        (mailbox.key().as_str() == key).then_some(mailbox)
    }

    /// The key, in the order pipeline, region, tenant, endpoint, event type, bucket.
    #[must_use]
    pub fn key(&self) -> MailboxKey {
        let event_type = self.event_type.as_deref().unwrap_or_default();
        let parts =
            [&*self.pipeline, &*self.region, self.tenant.as_str(), self.endpoint.as_str(), event_type];
        joined(parts, self.bucket)
    }
}

impl SourceMailbox {
    /// As [`Mailbox::from_key`].
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        let ([pipeline, region, tenant, integration, event_type], bucket) = parted(key)?;
        let integration = match &*integration {
            "" => None,
            id => Some(IntegrationId::new(id).ok()?),
        };
        let mailbox = Self {
            pipeline: pipeline.into(),
            region: region.into(),
            tenant: TenantId::new(&tenant).ok()?,
            integration,
            event_type: present(&event_type),
            bucket,
        };
        (mailbox.key().as_str() == key).then_some(mailbox)
    }

    /// The key, in the order pipeline, region, tenant, integration, event type, bucket.
    #[must_use]
    pub fn key(&self) -> MailboxKey {
        let integration = self.integration.as_ref().map_or("", IntegrationId::as_str);
        let event_type = self.event_type.as_deref().unwrap_or_default();
        joined([&*self.pipeline, &*self.region, self.tenant.as_str(), integration, event_type], self.bucket)
    }
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

    /// The part of the key that all mailboxes of a recipient share: up to its endpoint, or integration.
    #[must_use]
    pub fn recipient(&self) -> &str {
        let end = self.0.match_indices(':').nth(3).map_or(self.0.len(), |(at, _)| at);
        &self.0[..end]
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

    fn mailbox(
        pipeline: &str,
        event_type: Option<&str>,
        tenant: &str,
        endpoint: &str,
        bucket: u32,
    ) -> Mailbox {
        Mailbox {
            pipeline: pipeline.into(),
            region: "".into(),
            tenant: TenantId::new(tenant).expect("valid"),
            endpoint: EndpointId::new(endpoint).expect("valid"),
            event_type: event_type.map(Into::into),
            bucket,
        }
    }

    #[test]
    fn partition_is_pinned() {
        let count = PartitionCount(NonZeroU32::new(64).expect("not zero"));
        let key = mailbox("default", Some("com.github.push"), "acme", "shop", 3).key();
        assert_eq!(key.as_str(), "default::acme:shop:com.github.push:3");
        // A change here re-maps every mailbox of every running deployment.
        assert_eq!(key.partition(count), 57);
    }

    /// X10: a mailbox of an integration and one of a tenant never share a key.
    #[test]
    fn x10_a_senders_mailbox_says_whether_an_integration_brought_it() {
        let source = |integration: Option<&str>| SourceMailbox {
            pipeline: "default".into(),
            region: "eu".into(),
            tenant: TenantId::new("acme").expect("valid"),
            integration: integration.map(|i| IntegrationId::new(i).expect("valid")),
            event_type: None,
            bucket: 0,
        };
        assert_eq!(source(None).key().as_str(), "default:eu:acme:::0");
        assert_eq!(source(Some("gh")).key().as_str(), "default:eu:acme:gh::0");
    }

    /// X10: a text that no mailbox has for its key is none.
    #[test]
    fn x10_a_text_that_no_mailbox_has_is_none() {
        let key = "default:eu:acme:shop:a%2Fb:3";
        assert_eq!(Mailbox::from_key(key).and_then(|m| m.event_type).as_deref(), Some("a/b"));
        for text in [
            "",
            "default:eu:acme:shop:a:",
            "default:eu:acme:shop:a:-1",
            "default:eu:acme:shop:a:+3",
            "default:eu:acme:shop:a:03",
            "default:eu:acme:shop:a:4294967296",
            "default:eu:acme:shop:a:3:4",
            "default:eu:acme:shop:3",
            "default:eu:Acme:shop:a:3",
            "default:eu:acme::a:3",
            "default:eu:acme:shop:a/b:3",
            "default:eu:acme:shop:a%2fb:3",
            "default:eu:acme:shop:%61:3",
            "default:eu:acme:shop:%FF:3",
            "default:eu:acme:shop:%:3",
        ] {
            assert_eq!(Mailbox::from_key(text), None, "{text}");
        }
        assert_eq!(SourceMailbox::from_key("default:eu:acme:Gh:a:3"), None);
    }

    proptest! {
        /// X10: every part is read back from the key, whatever characters it has.
        #[test]
        fn x10_a_mailbox_is_read_back_from_its_key(
            pipeline in ".{1,6}", region in ".{0,6}", endpoint in "[a-z0-9][a-z0-9_.-]{0,8}", bucket in any::<u32>(),
            event_type in proptest::option::of(".{1,12}"), integration in proptest::option::of("[a-z0-9][a-z0-9_.-]{0,8}"),
        ) {
            let (pipeline, region): (Arc<str>, Arc<str>) = (pipeline.into(), region.into());
            let event_type: Option<Arc<str>> = event_type.map(Into::into);
            let tenant = TenantId::of("acme");
            let recipient = Mailbox {
                pipeline: pipeline.clone(),
                region: region.clone(),
                tenant: tenant.clone(),
                endpoint: EndpointId::new(&endpoint).expect("valid"),
                event_type: event_type.clone(),
                bucket,
            };
            prop_assert_eq!(Mailbox::from_key(recipient.key().as_str()), Some(recipient));
            let integration = integration.map(|id| IntegrationId::new(&id).expect("valid"));
            let source = SourceMailbox { pipeline, region, tenant, integration, event_type, bucket };
            prop_assert_eq!(SourceMailbox::from_key(source.key().as_str()), Some(source));
        }

        #[test]
        fn what_is_read_has_the_key_it_was_read_from(text in "[a-c%:/0-9A-F]{0,24}") {
            for key in [text.clone(), format!("p:r:t:e:{text}:1")] {
                prop_assert!(Mailbox::from_key(&key).is_none_or(|m| m.key().as_str() == key));
                prop_assert!(SourceMailbox::from_key(&key).is_none_or(|m| m.key().as_str() == key));
            }
        }

        /// X10: no two mailboxes share a key, with `:` and `%` in their parts.
        #[test]
        fn x10_no_two_mailboxes_share_a_key(
            a in "[a:%/]{1,4}", b in "[a:%/]{1,4}", t in "[a.-]{0,3}", u in "[a.-]{0,3}", n in 0u32..12, m in 0u32..12,
            e in proptest::option::of("[a:%]{1,3}"), f in proptest::option::of("[a:%]{1,3}"),
        ) {
            let left = mailbox(&a, e.as_deref(), &format!("x{t}"), &format!("y{u}"), n);
            let right = mailbox(&b, f.as_deref(), &format!("x{u}"), &format!("y{t}"), m);
            prop_assert_eq!(left == right, left.key() == right.key());
        }
    }
}
