//! The nouns and ids of mailrail.
//!
//! Everything the stages talk about is defined here once: [`Event`], [`Delivery`], [`Mailbox`], [`Attempt`],
//! [`Outcome`], [`DeadLetter`], and what a tenant sets up ([`Tenant`], [`App`], [`Endpoint`], [`Subscription`]).
//!
//! **Always holds**: a constructed id is valid; an event's body is bytes and nothing here re-serialises it; the id of a
//! delivery follows from its event and its subscription alone, so matching twice gives the same id.
//!
//! **Deliberately absent**: I/O, clocks, randomness, async, serialisation formats. `now` is always an argument.

mod attempt;
mod class;
mod delivery;
mod error_policy;
mod event;
mod id;
mod integration;
mod mailbox;
mod permission;
mod redrive;
mod setup;
mod time;

pub use attempt::{
    Attempt, AttemptResult, CancelReason, DeadReason, ErrorCode, HoldReason, Outcome, RetryReason,
};
pub use class::{BUCKETS_MAX, ClassError, MailboxClass, PRIORITY_DEFAULT, PRIORITY_MAX};
pub use delivery::{DeadLetter, Delivery, History};
pub use error_policy::FilterErrorPolicy;
pub use event::{Attribute, AttributeValue, Attributes, Event, Forwarded, TraceContext};
pub use id::{
    AppId, ClassId, DeliveryId, EndpointId, EventId, IdError, IntegrationId, KeyId, ReplayId, SubscriptionId,
    TenantId,
};
pub use integration::{Integration, Provider, ShedRule};
pub use mailbox::{Mailbox, MailboxKey, PartitionCount, SourceMailbox};
pub use permission::{PERMISSION_ATTRIBUTE, PERMISSION_MAX_CHARS, PERMISSIONS_MAX};
pub use redrive::{
    LetterFilter, LetterRange, RedriveBatch, RedriveEntry, Redriven, ReplayOrder, ReplayStep, Unsent,
    UnsentReason,
};
pub use setup::{
    ApiKey, App, Endpoint, EventType, FilterLanguage, FilterSource, HeaderError, IN_FLIGHT_MAX, JsonPath,
    JsonPathError, RATE_PER_SECOND_MAX, Secret, Subscription, Tenant, check_header,
};
pub use time::Timestamp;
