//! The only outbound HTTP: address policy, DNS, TLS, caps, deadlines.
//!
//! [`Egress::post`] brings one request to an endpoint that a stranger named. [`check_url`] tells that stranger early
//! what would not work. [`operator`] is the other, trusting direction: the command line's calls to our own APIs;
//! so is [`Collector`], which takes telemetry where the operator wants it.
//!
//! **Always holds**
//! - Whether an address may be dialled is decided on the socket address, in the connector, for names and for literals
//!   alike; a name with one denied address among its addresses is refused whole, and only vetted addresses are dialled.
//! - One deadline covers everything from the name's resolution to the last byte; what is read of an answer is bounded.
//! - A post ends in a status or an [`ErrorCode`](mailrail_types::ErrorCode), never in a panic or an endless wait.
//! - Where a caller asked for it, whether a request may be sent is asked again right before its first byte is written.
//!
//! **Deliberately absent**: redirects, proxies from the environment, cookies, decompression, HTTP/2, and retries of
//! anything that may have reached the endpoint. (A request is sent again only when a kept connection turned out to be
//! closed before a byte of the request was written to it.)
//!
//! Every role posts through this crate and none opens connections itself: peers leaked at their second path out.

mod address;
mod client;
mod collector;
mod destination;
mod dial;
mod error;
mod fault;
mod guard;
pub mod operator;
mod pool;
mod resolve;
mod tls;

pub use address::AddressPolicy;
pub use client::{
    BODY_MAX_BYTES, Destination, Egress, EgressConfig, HEAD_MAX_BYTES, HEADERS_MAX, INFORMATIONAL_MAX,
    Limits, Request, Response, TIMEOUT_MAX,
};
pub use collector::{Collector, CollectorError};
pub use destination::{URL_MAX_BYTES, UrlError, UrlPolicy, check_url};
pub use dial::ADDRESSES_MAX;
pub use error::Error;
pub use resolve::{Resolve, Resolving, SystemResolver};
