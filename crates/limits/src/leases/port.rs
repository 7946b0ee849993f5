//! The port itself: leases of a recipient, given out in one place to every process. One contract, two adapters.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use mailrail_types::{EndpointId, TenantId};

use crate::{Counter, Error};

/// Whose requests are limited: an endpoint of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recipient {
    /// Whose endpoint.
    pub tenant: TenantId,
    /// The endpoint.
    pub endpoint: EndpointId,
}

impl Recipient {
    /// Text that no two recipients share, as counters have it.
    pub(crate) fn name(&self) -> Counter {
        Counter::new("endpoint", &[self.tenant.as_str(), self.endpoint.as_str()])
    }
}

/// Names one lease. Never used twice, so that a late or second release frees nobody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    /// A random number that the process made when it started.
    pub process: u64,
    /// Counted up within the process.
    pub number: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.process, self.number)
    }
}

/// What a process does to the leases of one recipient, in one atomic step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// Most leases of the recipient, over all processes.
    pub limit: u32,
    /// Most leases that this process may have while the store has not known the recipient for a `term`: it may have
    /// forgotten leases of others, who say so when they renew.
    pub share: u32,
    /// How long a lease lives unless it is renewed.
    pub term: Duration,
    /// How long a process that gets less than it wants keeps its place in the queue without asking again.
    pub queue_for: Duration,
    /// Who asks.
    pub process: u64,
    /// Leases that the process has, those given back here not counted.
    pub held: u32,
    /// Given back. One that is not there any more is no error.
    pub give: Vec<Token>,
    /// Live for another `term`, also when they are not there any more, and whatever the limit is: they are in use.
    pub renew: Vec<Token>,
    /// Wanted.
    pub take: Vec<Token>,
}

/// What came of an [`Exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exchanged {
    /// So many of the wanted leases are given, the first ones.
    pub granted: u32,
    /// So many of the renewed ones were not there.
    pub unknown: u32,
    /// The store has not known the recipient for a term.
    pub young: bool,
}

/// Where leases live.
#[async_trait]
pub trait LeaseStore: Send + Sync {
    /// Does all of `exchange` or, with an error, possibly a part of it. Doing it again is safe.
    ///
    /// # Errors
    /// Anything that leaves open whether leases were given.
    async fn exchange(&self, recipient: &Recipient, exchange: &Exchange) -> Result<Exchanged, Error>;

    /// Takes one request of `per_second`, or says in what time to ask again; zero when it was taken.
    ///
    /// # Errors
    /// Anything that leaves the answer open.
    async fn take_rate(&self, recipient: &Recipient, per_second: u32) -> Result<Duration, Error>;

    /// Says that `process` is alive, for as long as `lasts`; answers how many are.
    ///
    /// # Errors
    /// Anything that leaves the answer open.
    async fn beat(&self, process: u64, lasts: Duration) -> Result<u32, Error>;

    /// Says that `process` is gone.
    ///
    /// # Errors
    /// Anything; it is forgotten by itself then.
    async fn leave(&self, process: u64) -> Result<(), Error>;

    /// Whether other processes take leases of it as well.
    fn is_shared(&self) -> bool;
}
