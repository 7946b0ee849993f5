//! Ids: names that people choose (tenant, app, endpoint, subscription, key) and ids that follow from content.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use data_encoding::Encoding;
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Longest name in characters. Chosen so that a mailbox key of six parts stays under 512 bytes.
const NAME_MAX_CHARS: usize = 64;

/// Why a text is not an id. The text says what to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// Empty, too long, or a character outside `a-z 0-9 _ - .`, or not starting with a letter or digit.
    #[error(
        "'{0}' is not a valid {1} id: use 1 to 64 of a-z, 0-9, '_', '-' and '.', starting with a letter or digit"
    )]
    Name(String, &'static str),
    /// Not the text form of an event, delivery or replay id.
    #[error("'{0}' is not a valid {1} id: expected '{2}' and 26 characters of base32")]
    Content(String, &'static str, &'static str),
}

fn valid_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ok = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    !bytes.is_empty()
        && bytes.len() <= NAME_MAX_CHARS
        && bytes.first().is_some_and(ok)
        && bytes.iter().all(|b| ok(b) || matches!(b, b'_' | b'-' | b'.'))
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name: 1 to 64 of `a-z 0-9 _ - .`, starting with a letter or digit.
            ///
            /// # Errors
            /// [`IdError::Name`] when it is anything else.
            pub fn new(text: &str) -> Result<Self, IdError> {
                if valid_name(text) { Ok(Self(text.into())) } else { Err(IdError::Name(text.to_owned(), $kind)) }
            }

            /// A name that is known to be valid, such as one of the built-in ones.
            ///
            /// # Panics
            /// When it is not valid.
            #[must_use]
            pub fn of(text: &'static str) -> Self {
                Self::new(text).expect("a built-in name is valid")
            }

            /// The name itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_id!(
    /// The customer whose events these are.
    TenantId, "tenant"
);
name_id!(
    /// A consumer that subscribes; unique within its tenant.
    AppId, "app"
);
name_id!(
    /// A recipient; unique within its tenant.
    EndpointId, "endpoint"
);
name_id!(
    /// A subscription; unique within its tenant.
    SubscriptionId, "subscription"
);
name_id!(
    /// The public name of an API key; unique within its tenant.
    KeyId, "key"
);

name_id!(
    /// A class of mailboxes; unique within the installation.
    ClassId, "class"
);
name_id!(
    /// An integration with a third party; unique within its tenant.
    IntegrationId, "integration"
);

/// RFC 4648 base32, lower case, no padding: safe in headers, URLs and file names, and free of the '.' that
/// Standard Webhooks forbids in a `webhook-id`.
const BASE32: Encoding = data_encoding::BASE32_NOPAD_NOCASE;

/// First 16 bytes of SHA-256 over length-prefixed parts: no two lists of parts give the same input.
fn digest16(domain: &str, parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(domain.as_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut out = [0; 16];
    out.copy_from_slice(&hash.finalize()[..16]);
    out
}

macro_rules! content_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// From its 16 bytes, as records carry it.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Its 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                f.write_str(&BASE32.encode(&self.0).to_ascii_lowercase())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let bad = || IdError::Content(text.chars().take(64).collect(), $kind, $prefix);
                let digits = text.strip_prefix($prefix).ok_or_else(bad)?;
                let bytes = BASE32.decode(digits.as_bytes()).map_err(|_| bad())?;
                Ok(Self(bytes.try_into().map_err(|_| bad())?))
            }
        }
    };
}

content_id!(
    /// An accepted event. Follows from tenant, CloudEvents `source` and CloudEvents `id`, which together name one
    /// occurrence (CloudEvents 1.0, "source + id is unique"): a producer that sends again after a lost answer gives the
    /// same event.
    EventId, "event", "evt_"
);
content_id!(
    /// One event owed to one subscription; the `webhook-id` of every attempt, stable for ever.
    DeliveryId, "delivery", "dlv_"
);
content_id!(
    /// A replay of dead letters. Random: each order is another one.
    ReplayId, "replay", "rpl_"
);

impl EventId {
    /// The id of the occurrence that `source` and `id` name for `tenant`.
    #[must_use]
    pub fn derive(tenant: &TenantId, source: &str, id: &str) -> Self {
        Self(digest16("mailrail.event.v1", &[tenant.as_str().as_bytes(), source.as_bytes(), id.as_bytes()]))
    }
}

impl DeliveryId {
    /// The id of `event` owed to `subscription` of `tenant`. Matching twice gives the same id (acceptance A19, A42).
    #[must_use]
    pub fn derive(event: &EventId, tenant: &TenantId, subscription: &SubscriptionId) -> Self {
        Self(digest16(
            "mailrail.delivery.v1",
            &[event.as_bytes(), tenant.as_str().as_bytes(), subscription.as_str().as_bytes()],
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "acme", "a-b_c.d", "0", &"x".repeat(64)] {
            assert_eq!(TenantId::new(good).expect(good).as_str(), good);
        }
        for bad in ["", "A", "-a", ".a", "a b", "a/b", "a:b", "é", &"x".repeat(65)] {
            assert!(TenantId::new(bad).is_err(), "{bad:?} must be refused");
        }
    }

    /// A42: the id follows from event and subscription, and differs between two subscriptions of one event.
    #[test]
    fn a42_delivery_id_is_stable_and_differs_between_subscriptions() {
        let tenant = TenantId::new("acme").expect("valid");
        let event = EventId::derive(&tenant, "/repo", "1");
        let a = SubscriptionId::new("a").expect("valid");
        let b = SubscriptionId::new("b").expect("valid");
        assert_eq!(DeliveryId::derive(&event, &tenant, &a), DeliveryId::derive(&event, &tenant, &a));
        assert_ne!(DeliveryId::derive(&event, &tenant, &a), DeliveryId::derive(&event, &tenant, &b));
        // Pinned: changing the derivation would break de-duplication at every receiver during a rollout.
        assert_eq!(event.to_string(), "evt_iyygiqs6wlo4ua36axol474yee");
        assert_eq!(event.to_string().parse::<EventId>().expect("round trip"), event);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let tenant = TenantId::new("acme").expect("valid");
        assert_ne!(EventId::derive(&tenant, "ab", "c"), EventId::derive(&tenant, "a", "bc"));
    }
}
