//! The memory that the bodies of all requests share, and how much of it one tenant or one unverified sender may hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody};
use mailrail_types::{IntegrationId, TenantId};

use crate::config::Config;
use crate::problem::{Problem, Refusal};

/// Least bytes that a request counts for: its headers and buffers cost memory too.
const RESERVED_MIN_BYTES: usize = 4096;

/// The first step beyond the least; each further one is twice the one before. A request that sends nothing holds
/// next to nothing, and the shared count is touched a few times a body, not once a packet.
const RESERVED_STEP_BYTES: usize = 64 * 1024;

/// A tenant may hold one in so many of all bytes in flight, so that one alone never shuts the door for the others.
const TENANT_SHARE: usize = 2;

/// An integration may hold one in so many of the bytes that nobody has vouched for yet, so that whoever knows one URL does
/// not shut out the webhooks of all others.
const INTEGRATION_SHARE: usize = 2;

/// Whose share a body counts for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// The tenant: it sent the body itself, or asks for no proof.
    Tenant(TenantId),
    /// A webhook whose signature is still to be checked. Anybody who knows the URL can send one, so it takes nothing of
    /// the tenant's share.
    Unverified(TenantId, IntegrationId),
}

/// The bytes of bodies that are held now, over all requests.
#[derive(Debug, Clone)]
pub(crate) struct InFlight(Arc<Budget>);

/// Each limit has room for one body in any case.
#[derive(Debug)]
struct Budget {
    bytes_max: usize,
    tenant_bytes_max: usize,
    unverified_bytes_max: usize,
    integration_bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    unverified: usize,
    /// Those that hold something: no more than there are requests.
    by_payer: HashMap<Payer, usize>,
}

/// A request's share of the bytes in flight, given back when it is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    payer: Payer,
    bytes: usize,
    /// What the whole body can come to: its announced size, or the limit when it announces none.
    bytes_max: usize,
}

impl InFlight {
    /// Room for the configured bytes, and for one body in any case.
    pub(crate) fn new(config: &Config) -> Self {
        let one = config.body_limit_bytes.max(RESERVED_MIN_BYTES);
        let bytes_max = config.bytes_in_flight_max.max(one);
        let unverified_bytes_max = config.unverified_bytes_in_flight_max.clamp(one, bytes_max);
        Self(Arc::new(Budget {
            bytes_max,
            tenant_bytes_max: (bytes_max / TENANT_SHARE).max(one),
            unverified_bytes_max,
            integration_bytes_max: (unverified_bytes_max / INTEGRATION_SHARE).max(one),
            held: Mutex::default(),
        }))
    }

    /// Lets a body begin. It holds the least there is; [`Reservation::cover`] adds what arrives.
    pub(crate) fn reserve(&self, payer: Payer, body: &Body, limit: usize) -> Result<Reservation, Refusal> {
        let size = body.size_hint();
        if size.lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
            return Err(too_large(limit));
        }
        let announced = size.upper().and_then(|upper| usize::try_from(upper).ok());
        let bytes_max = announced.map_or(limit, |upper| upper.min(limit));
        self.0.take(&payer, RESERVED_MIN_BYTES)?;
        Ok(Reservation { budget: Arc::clone(&self.0), payer, bytes: RESERVED_MIN_BYTES, bytes_max })
    }
}

impl Budget {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, payer: &Payer, bytes: usize) -> Result<(), Refusal> {
        let mut held = self.held();
        if held.bytes + bytes > self.bytes_max {
            return Err(overloaded("too many bytes are being taken in at once; send again later"));
        }
        self.charge(&mut held, payer, bytes)?;
        held.bytes += bytes;
        Ok(())
    }

    /// Adds to the payer's share, not to the whole.
    fn charge(&self, held: &mut Held, payer: &Payer, bytes: usize) -> Result<(), Refusal> {
        let own = held.by_payer.get(payer).copied().unwrap_or_default() + bytes;
        match payer {
            Payer::Tenant(_) if own > self.tenant_bytes_max => {
                return Err(overloaded(
                    "too many bytes of this tenant are being taken in at once; send less at once, or again later",
                ));
            }
            Payer::Tenant(_) => {}
            Payer::Unverified(..) => {
                if own > self.integration_bytes_max || held.unverified + bytes > self.unverified_bytes_max {
                    return Err(overloaded(
                        "too many bytes of webhooks are being taken in whose signature was not checked yet; send again \
                         later",
                    ));
                }
                held.unverified += bytes;
            }
        }
        held.by_payer.insert(payer.clone(), own);
        Ok(())
    }

    /// Takes off the payer's share, not off the whole.
    fn discharge(held: &mut Held, payer: &Payer, bytes: usize) {
        if matches!(payer, Payer::Unverified(..)) {
            held.unverified = held.unverified.saturating_sub(bytes);
        }
        if let Some(own) = held.by_payer.get_mut(payer) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                held.by_payer.remove(payer);
            }
        }
    }
}

impl Reservation {
    /// Holds at least this many bytes, rounded up to the next step but never beyond what the body can come to. Answers what
    /// the buffer of the body may have room for.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<usize, Refusal> {
        if bytes > self.bytes {
            let step = bytes.next_power_of_two().max(RESERVED_STEP_BYTES);
            let wanted = step.min(self.bytes_max).max(bytes);
            self.budget.take(&self.payer, wanted - self.bytes)?;
            self.bytes = wanted;
        }
        Ok(self.bytes.min(self.bytes_max.max(bytes)))
    }

    /// What it holds.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The signature passed: what is held counts for the tenant from now on, as long as it has room for it.
    pub(crate) fn verified(&mut self) -> Result<(), Refusal> {
        let Payer::Unverified(tenant, _) = &self.payer else { return Ok(()) };
        let tenant = Payer::Tenant(tenant.clone());
        let mut held = self.budget.held();
        self.budget.charge(&mut held, &tenant, self.bytes)?;
        Budget::discharge(&mut held, &self.payer, self.bytes);
        drop(held);
        self.payer = tenant;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut held = self.budget.held();
        held.bytes = held.bytes.saturating_sub(self.bytes);
        Budget::discharge(&mut held, &self.payer, self.bytes);
    }
}

/// A body over the limit.
pub(crate) fn too_large(limit: usize) -> Refusal {
    Refusal::new(Problem::BodyTooLarge, format!("the body is over {limit} bytes; send less at a time"))
}

fn overloaded(detail: &'static str) -> Refusal {
    Refusal::new(Problem::Overloaded, detail)
}

#[cfg(test)]
mod tests {
    use mailrail_types::PartitionCount;

    use super::*;

    const LIMIT: usize = 10_000;

    fn in_flight(bytes_in_flight_max: usize, unverified_bytes_in_flight_max: usize) -> InFlight {
        let partitions = PartitionCount(std::num::NonZeroU32::MIN);
        let config = Config::new("default".to_owned(), "events".to_owned(), partitions);
        InFlight::new(&Config {
            body_limit_bytes: LIMIT,
            bytes_in_flight_max,
            unverified_bytes_in_flight_max,
            ..config
        })
    }

    fn tenant() -> Payer {
        Payer::Tenant(TenantId::of("acme"))
    }

    fn unverified(integration: &'static str) -> Payer {
        Payer::Unverified(TenantId::of("acme"), IntegrationId::of(integration))
    }

    /// Reserves as for a whole body.
    fn whole(in_flight: &InFlight, payer: Payer) -> Result<Reservation, Refusal> {
        let mut reservation = in_flight.reserve(payer, &Body::from(vec![0; LIMIT]), LIMIT)?;
        assert_eq!(reservation.cover(LIMIT)?, LIMIT);
        Ok(reservation)
    }

    fn held(in_flight: &InFlight) -> (usize, usize, usize) {
        let held = in_flight.0.held();
        (held.bytes, held.unverified, held.by_payer.len())
    }

    #[test]
    fn unverified_bodies_take_nothing_of_the_tenants_share() {
        let in_flight = in_flight(80_000, 40_000);
        let mut strangers = vec![
            whole(&in_flight, unverified("gh")).expect("1"),
            whole(&in_flight, unverified("gh")).expect("2"),
        ];
        let over = whole(&in_flight, unverified("gh")).expect_err("half of it for one integration");
        assert_eq!(over.problem, Problem::Overloaded);
        strangers.push(whole(&in_flight, unverified("gl")).expect("another integration"));
        strangers.push(whole(&in_flight, unverified("gl")).expect("another integration"));
        assert!(whole(&in_flight, unverified("ji")).is_err(), "all of it is held");
        let own: Vec<_> =
            (0..4).map(|_| whole(&in_flight, tenant()).expect("the tenant's half is free")).collect();
        assert!(whole(&in_flight, tenant()).is_err());
        drop((strangers, own));
        assert_eq!(held(&in_flight), (0, 0, 0), "all of it is back");
    }

    #[test]
    fn a_verified_body_moves_to_the_tenants_share() {
        let in_flight = in_flight(40_000, 20_000);
        let mut webhook = whole(&in_flight, unverified("gh")).expect("room");
        assert_eq!(held(&in_flight), (LIMIT, LIMIT, 1));
        webhook.verified().expect("the tenant has room");
        webhook.verified().expect("and it moves once");
        assert_eq!(held(&in_flight), (LIMIT, 0, 1));
        let own = whole(&in_flight, tenant()).expect("the other half of the share");
        assert!(whole(&in_flight, tenant()).is_err(), "the webhook is in it");
        let mut late = whole(&in_flight, unverified("gh")).expect("room for one that is not verified");
        assert_eq!(late.verified().expect_err("the share is full").problem, Problem::Overloaded);
        assert_eq!(held(&in_flight), (3 * LIMIT, LIMIT, 2), "it stays what it was");
        drop((webhook, own, late));
        assert_eq!(held(&in_flight), (0, 0, 0));
    }

    #[test]
    fn each_limit_has_room_for_one_body() {
        let in_flight = in_flight(0, 0);
        let webhook = whole(&in_flight, unverified("gh")).expect("room");
        assert!(whole(&in_flight, tenant()).is_err());
        drop(webhook);
        assert!(whole(&in_flight, tenant()).is_ok());
    }

    #[test]
    fn what_is_held_doubles_up_to_what_the_body_can_come_to() {
        let in_flight = InFlight::new(&Config {
            body_limit_bytes: 300_000,
            ..Config::new(
                "default".to_owned(),
                "events".to_owned(),
                PartitionCount(std::num::NonZeroU32::MIN),
            )
        });
        let unknown = Body::from_stream(futures::stream::empty::<Result<bytes::Bytes, std::io::Error>>());
        let mut reservation = in_flight.reserve(tenant(), &unknown, 300_000).expect("room");
        let steps = [(1, 4_096), (4_097, 65_536), (65_537, 131_072), (100, 131_072), (262_145, 300_000)];
        for (bytes, holds) in steps {
            assert_eq!(reservation.cover(bytes), Ok(holds), "{bytes}");
        }
        let mut small = in_flight.reserve(tenant(), &Body::from("seven b"), 300_000).expect("room");
        assert_eq!(small.cover(7), Ok(7), "no more than was announced");
    }
}
