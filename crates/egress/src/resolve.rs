//! From a name to addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Most lookups of the system's resolver at once. Each occupies a thread until the system gives up, which may be long
/// after we did: without a bound, names whose servers never answer would take every thread of the runtime's pool (512).
const LOOKUPS_MAX: usize = 256;

/// The addresses of a name, when they come.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Finds the addresses of names. A seam for tests and simulations: what it answers is vetted all the same.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `name`, which is lower-case, without a final dot, and no IP literal.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// The system's resolver.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        SystemResolver { lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let name = absolute(name);
            let lookup = tokio::task::spawn_blocking(move || {
                // Held by the thread, not by who waits for it: the thread is what is scarce.
                let _held = permit;
                (name.as_str(), 0u16).to_socket_addrs().map(|found| found.map(|addr| addr.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}

/// The name with the root's dot, so that search domains are never tried: `a.b` must not become `a.b.internal.corp`.
/// `localhost` stays as it is: it lives in the hosts file, where dots count.
fn absolute(name: &str) -> String {
    if name == "localhost" { name.to_owned() } else { format!("{name}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n17_t20_names_are_absolute() {
        assert_eq!(absolute("a.b"), "a.b.");
        assert_eq!(absolute("receiver"), "receiver.");
        assert_eq!(absolute("localhost"), "localhost");
    }
}
