//! The settings of the front door: where it listens, what it appends to, and every limit.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mailrail_types::PartitionCount;

/// Settings of [`crate::Service`]. [`Config::new`] gives the defaults written at each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the binary binds the listener that [`crate::Service::run`] gets. Default 127.0.0.1:8080.
    pub listen: SocketAddr,
    /// Name of the pipeline; a part of every source mailbox.
    pub pipeline: String,
    /// The region that source mailboxes carry; empty where there is one.
    pub region: String,
    /// The events topic.
    pub topic: String,
    /// The pinned number of its partitions.
    pub partitions: PartitionCount,
    /// Most bytes of a request body. Default 1 MiB: what Kafka takes by default, and four times what senders of webhooks
    /// allow themselves.
    pub body_limit_bytes: usize,
    /// Largest record that the log takes. Default body limit and 512 KiB for attributes.
    pub record_bytes_max: usize,
    /// Most events in a batch. Default 100: answers stay short and one append stays small.
    pub batch_events_max: usize,
    /// Most bytes of request line and headers. Default 16 KiB; more is answered 431 by the HTTP layer, without a problem.
    pub header_bytes_max: usize,
    /// Most headers of a request. Default 100; more is answered 431 by the HTTP layer, without a problem.
    pub headers_max: usize,
    /// Most bytes of bodies held at once, over all requests. Default 64 MiB. Never below [`Config::body_limit_bytes`]:
    /// the larger of both holds. One tenant may hold half of it.
    pub bytes_in_flight_max: usize,
    /// Most bytes of webhooks held at once whose signature was not checked yet: anybody who knows a URL can send those, so
    /// they have a budget of their own, within [`Config::bytes_in_flight_max`] and beside the shares of tenants. One
    /// integration may hold half of it. Default 16 MiB; as much as one body at least.
    pub unverified_bytes_in_flight_max: usize,
    /// Most connections at once; the next one waits in the listener's backlog. Default 1,024.
    pub connections_max: usize,
    /// Longest time for the headers of a request, and longest idle time between two. Default 10 s.
    pub header_timeout: Duration,
    /// Longest time for a request body. Default 30 s.
    pub body_timeout: Duration,
    /// Longest time for the log to acknowledge. Default 10 s, under the usual 15 s to 30 s of an HTTP client.
    pub append_timeout: Duration,
    /// Age at which a connection is closed between two requests, so that producers spread over new processes and no
    /// connection stays for ever. Default 10 min.
    pub connection_age_max: Duration,
    /// Longest time that requests have to end after the stop. Default 20 s, which the chart's grace period counts with.
    pub drain_timeout: Duration,
}

impl Config {
    /// The defaults, for this pipeline and its events topic.
    #[must_use]
    pub fn new(pipeline: String, topic: String, partitions: PartitionCount) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            pipeline,
            region: String::new(),
            topic,
            partitions,
            body_limit_bytes: 1024 * 1024,
            record_bytes_max: 1536 * 1024,
            batch_events_max: 100,
            header_bytes_max: 16 * 1024,
            headers_max: 100,
            bytes_in_flight_max: 64 * 1024 * 1024,
            unverified_bytes_in_flight_max: 16 * 1024 * 1024,
            connections_max: 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            append_timeout: Duration::from_secs(10),
            connection_age_max: Duration::from_secs(600),
            drain_timeout: Duration::from_secs(20),
        }
    }

    /// What of it connections are held to. A connection that is asked to end may finish the longest request there is.
    pub(crate) fn of_connections(&self) -> mailrail_serve::Limits {
        mailrail_serve::Limits {
            name: "ingest",
            connections_max: self.connections_max,
            headers_max: self.headers_max,
            header_bytes_max: self.header_bytes_max,
            header_timeout: self.header_timeout,
            age_max: self.connection_age_max,
            end_grace: self.header_timeout + self.body_timeout + self.append_timeout,
            drain_timeout: self.drain_timeout,
        }
    }
}
