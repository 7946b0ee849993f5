//! Pausing and resuming endpoints: a person holds an endpoint's mail for now.
//!
//! It is kept apart from the set-up, so that applying a file, by whomever, resumes nothing that somebody paused.

use mailrail_types::{EndpointId, TenantId};

use crate::plan::Op;
use crate::read::StoredTenant;
use crate::store::now;
use crate::{ChangeKind, Error, Pause, Store};

/// Most characters that are kept of who paused an endpoint: a name, not a text.
pub const PAUSED_BY_MAX_CHARS: usize = 200;

impl Store {
    /// Holds an endpoint's mail until [`Self::resume_endpoint`]. `who` is remembered (at most [`PAUSED_BY_MAX_CHARS`]
    /// characters of it, without control characters) with the time. Gives the feed's position after it; when it is
    /// paused already, nothing is written and who paused it first stays.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn pause_endpoint(
        &self,
        tenant: &TenantId,
        endpoint: &EndpointId,
        who: &str,
    ) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            let known = stored.endpoints.get(endpoint)?;
            let by = who.chars().filter(|c| !c.is_control()).take(PAUSED_BY_MAX_CHARS).collect();
            let pause = || Op::PauseEndpoint(endpoint.clone(), Pause { at: now(), by });
            Some(if known.paused { Vec::new() } else { vec![pause()] })
        };
        self.change(tenant, ChangeKind::Endpoint, endpoint.as_str(), ops).await
    }

    /// Lets a paused endpoint's mail go on. Gives the feed's position after it; when it is not paused, nothing is written.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn resume_endpoint(&self, tenant: &TenantId, endpoint: &EndpointId) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            let known = stored.endpoints.get(endpoint)?;
            let resume = || Op::ResumeEndpoint(endpoint.clone());
            Some(if known.paused { vec![resume()] } else { Vec::new() })
        };
        self.change(tenant, ChangeKind::Endpoint, endpoint.as_str(), ops).await
    }
}
