//! What is known of third parties' webhooks, so that the stages need not know any third party.
//!
//! The `forward` surface takes a webhook as it is and sends it on byte for byte. For each [`Provider`] a [`Preset`] says
//! what it is about ([`bucket_key`]), what happened ([`event_type`]), which delivery it is ([`delivery_id`]), which of its
//! headers go on ([`kept_headers`]), and how its mailboxes behave ([`integration_class`]). [`classify_forwarded`] says
//! what a cell's answer means.
//!
//! [`Provider`]: mailrail_types::Provider
//!
//! **Always holds**: no input is an error and none panics: what cannot be read is not there; an event type is one of a
//! closed list, so that no sender makes mailboxes; a header that carries a credential or frames a request is never kept.
//!
//! **Deliberately absent**: signatures (crate `sign`), HTTP, clocks, randomness; a way to change a body.

mod bucket_key;
mod cell_url;
mod class;
mod delivery_id;
mod event_type;
mod failure;
mod header;
mod media_type;
mod preset;

pub use bucket_key::{BUCKET_KEY_MAX_BYTES, bucket_key};
pub use cell_url::cell_url;
pub use class::{integration_class, mailbox_class};
pub use delivery_id::{DELIVERY_ID_MAX_BYTES, delivery_id};
pub use event_type::{OTHER, attribute_type, event_type, is_type_of, mailbox_type};
pub use failure::{
    FORWARD_ATTEMPTS_MAX, FORWARD_DEAD_STATUSES, FORWARD_LIFETIME, classify_forwarded, forward_schedule,
};
pub use header::{KEPT_BYTES_MAX, KEPT_HEADERS_MAX, kept_headers};
pub use media_type::is_json;
pub use preset::{Place, Preset, preset};
