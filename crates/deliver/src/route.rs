//! Endpoint → what every request to it has in common, made once for each version of the endpoint.
//!
//! Reading the secrets, the headers and the URL anew for each attempt was a fifth of the CPU time of a delivery.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use mailrail_egress::{Destination, Egress};
use mailrail_sign::SigningKey;
use mailrail_store::Directory;
use mailrail_types::{Endpoint, EndpointId, ErrorCode, TenantId};

/// Endpoints whose route is kept; beyond it all are forgotten and made again.
const ROUTES_MAX: usize = 10_000;

/// Why no request can be made of the set-up. Says what to change, and never holds the secret.
pub(crate) type Unsendable = String;

/// What the requests to one version of an endpoint have in common.
pub(crate) struct Route {
    /// The version. A changed endpoint is another value.
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) keys: Vec<SigningKey>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Where its URL leads, or why it may not be asked.
    pub(crate) destination: Result<Destination, ErrorCode>,
}

impl Route {
    /// # Errors
    /// What in the endpoint's set-up makes every request impossible.
    pub(crate) fn new(endpoint: Arc<Endpoint>, egress: &Egress) -> Result<Self, Unsendable> {
        let keys = endpoint.secrets.iter().map(SigningKey::parse);
        let keys = keys.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let headers = endpoint.headers.iter().map(|(name, value)| header(name, value));
        let headers = headers.collect::<Result<_, _>>()?;
        let destination = egress.destination(&endpoint.url);
        Ok(Self { keys, headers, destination, endpoint })
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Unsendable> {
    let bad = |part| format!("header '{name}' of the endpoint cannot be sent: its {part} is not valid");
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
    Ok((header, HeaderValue::from_str(value).map_err(|_| bad("value"))?))
}

/// The routes of a process.
#[derive(Default)]
pub(crate) struct Routes(Mutex<HashMap<(TenantId, EndpointId), Arc<Route>>>);

impl Routes {
    /// The route of an endpoint as it is set up now.
    ///
    /// # Errors
    /// As [`Route::new`]; an endpoint that fails is read anew each time, since that is rare.
    pub(crate) fn of(
        &self,
        tenant: &TenantId,
        endpoint: &Arc<Endpoint>,
        egress: &Egress,
    ) -> Result<Arc<Route>, Unsendable> {
        let key = (tenant.clone(), endpoint.id.clone());
        let known = self.lock().get(&key).filter(|route| Arc::ptr_eq(&route.endpoint, endpoint)).cloned();
        if let Some(route) = known {
            return Ok(route);
        }
        let route = Arc::new(Route::new(endpoint.clone(), egress)?);
        let mut routes = self.lock();
        if routes.len() >= ROUTES_MAX {
            routes.clear();
        }
        routes.insert(key, route.clone());
        Ok(route)
    }

    /// Forgets the routes of endpoints that are gone or are set up otherwise now, and with them their keys.
    pub(crate) fn forget_old(&self, directory: &Directory) {
        self.lock().retain(|(tenant, endpoint), route| {
            let view = directory.tenant(tenant);
            let current = view.as_ref().and_then(|view| view.endpoints.get(endpoint));
            current.is_some_and(|current| Arc::ptr_eq(current, &route.endpoint))
        });
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(TenantId, EndpointId), Arc<Route>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
