//! Payload → bucket: the class decides how its width comes about, the key which of the buckets.

use mailrail_policy::{Key, SizingOptions, bucket, fixed_width};
use mailrail_telemetry::RoutingLabels;
use mailrail_types::{IntegrationId, Mailbox, MailboxClass, SourceMailbox};

use crate::{Counter, Sizer};

/// Where a payload goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed {
    /// The bucket; 0 is the unsplit mailbox.
    pub bucket: u32,
    /// The width; `None` when none was asked for.
    pub width: Option<u32>,
    /// Why.
    pub reason: Reason,
}

impl Routed {
    /// The labels under which it is counted, as one of `surface`.
    #[must_use]
    pub fn labels(&self, surface: &'static str) -> RoutingLabels {
        RoutingLabels {
            surface,
            bucketed: if self.width.is_some_and(|w| w > 1) { "true" } else { "false" },
            reason: self.reason.code(),
            buckets: self.width,
        }
    }
}

/// Why a payload goes where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has no key: to the unsplit mailbox.
    NoKey,
    /// Its rate is not worth a split.
    UnderRate,
    /// Split by its rate.
    Bucketed,
    /// Its class is strict: the width never changes.
    Fixed,
    /// The rate is not known: the widest split.
    SizingUnavailable,
}

impl Reason {
    /// The stable code, as metrics and APIs carry it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Reason::NoKey => "no_key",
            Reason::UnderRate => "under_rate",
            Reason::Bucketed => "bucketed",
            Reason::Fixed => "fixed",
            Reason::SizingUnavailable => "sizing_unavailable",
        }
    }
}

/// How wide the mailboxes of a sender or recipient are for payloads with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// Over how many mailboxes they are split.
    pub width: u32,
    /// Why; never [`Reason::NoKey`].
    pub reason: Reason,
    /// Payloads of the window that it follows from; `None` for a strict class, and when they are not known.
    pub payloads: Option<u64>,
}

impl Sizer {
    /// The width now, and why. Counts nothing; cannot fail.
    pub async fn width_of(&self, class: &MailboxClass, counter: &Counter) -> Width {
        if !class.tolerates_reordering {
            let width = fixed_width(class.fixed_buckets);
            return Width { width, reason: Reason::Fixed, payloads: None };
        }
        let sizing = self.width(counter, &SizingOptions::from(class)).await;
        let reason = match sizing {
            _ if !sizing.known => Reason::SizingUnavailable,
            _ if sizing.width == 1 => Reason::UnderRate,
            _ => Reason::Bucketed,
        };
        Width { width: sizing.width, reason, payloads: sizing.payloads }
    }

    /// The bucket of a payload with this key in the mailboxes of `class`. Counts nothing; cannot fail.
    pub async fn route(&self, class: &MailboxClass, counter: &Counter, key: Option<&str>) -> Routed {
        let Some(key) = key.map(Key::from_text) else {
            return Routed { bucket: 0, width: None, reason: Reason::NoKey };
        };
        let Width { width, reason, .. } = self.width_of(class, counter).await;
        Routed { bucket: bucket(Some(&key), width), width: Some(width), reason }
    }
}

impl Counter {
    /// The counter of a sender: its source mailbox without region and bucket, so that a payload counts once however wide
    /// its fan-out.
    #[must_use]
    pub fn of_source(mailbox: &SourceMailbox) -> Self {
        let integration = mailbox.integration.as_ref().map_or("", IntegrationId::as_str);
        let event_type = mailbox.event_type.as_deref().unwrap_or_default();
        Self::new("source", &[&mailbox.pipeline, mailbox.tenant.as_str(), integration, event_type])
    }

    /// The counter of a recipient: its mailbox without region and bucket.
    #[must_use]
    pub fn of_recipient(mailbox: &Mailbox) -> Self {
        let event_type = mailbox.event_type.as_deref().unwrap_or_default();
        Self::new(
            "recipient",
            &[&mailbox.pipeline, mailbox.tenant.as_str(), mailbox.endpoint.as_str(), event_type],
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mailrail_types::{ClassId, Timestamp};

    use super::*;
    use crate::LocalWindows;

    fn sizer() -> Sizer {
        Sizer::new(Arc::new(LocalWindows::default()), Arc::new(|| Timestamp::from_secs(1_000_000)))
    }

    /// S15, S16: a strict class has its width whatever the rate; the same attribute flipped sizes it by rate at once.
    #[tokio::test]
    async fn s16_a_strict_class_never_changes_width() {
        let (sizer, counter) = (sizer(), Counter::new("t", &["a"]));
        let mut class = MailboxClass::with_defaults(ClassId::of("c"), false);
        for _ in 0..5_000 {
            sizer.count(&counter);
        }
        let routed = sizer.route(&class, &counter, Some("42")).await;
        assert_eq!(routed, Routed { bucket: 2, width: Some(10), reason: Reason::Fixed });
        class.tolerates_reordering = true;
        let routed = sizer.route(&class, &counter, Some("42")).await;
        assert_eq!(routed, Routed { bucket: 42, width: Some(64), reason: Reason::Bucketed });
    }

    /// S05: without a key it goes to the unsplit mailbox, and no width is asked for.
    #[tokio::test]
    async fn s05_without_a_key_nothing_is_split() {
        let class = MailboxClass::with_defaults(ClassId::of("c"), true);
        let routed = sizer().route(&class, &Counter::new("t", &["a"]), None).await;
        assert_eq!(routed, Routed { bucket: 0, width: None, reason: Reason::NoKey });
        let labels = routed.labels("source");
        assert_eq!((labels.bucketed, labels.reason, labels.buckets), ("false", "no_key", None));
    }

    /// S21: 31 payloads in the window are not worth a split.
    #[tokio::test]
    async fn s21_a_quiet_sender_is_not_split() {
        let (sizer, counter) = (sizer(), Counter::new("t", &["a"]));
        let class = MailboxClass::with_defaults(ClassId::of("c"), true);
        for _ in 0..31 {
            sizer.count(&counter);
        }
        assert_eq!(sizer.route(&class, &counter, Some("x")).await.reason, Reason::UnderRate);
    }
}
