//! Rate windows and leases on real Redis servers and on a real Redis Cluster.
//!
//! The contract runs against the server that `MAILRAIL_TEST_REDIS` names; failures need `redis-server` and `redis-cli`, which
//! the tests start and end themselves. Without them tests say that they were skipped, and fail instead when
//! `MAILRAIL_TEST_REQUIRE=1`.

mod bench;
mod cluster;
mod contract;
mod eviction;
mod failures;
mod leases;
mod servers;
