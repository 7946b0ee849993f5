//! Checks that the parts themselves make: what a part would refuse when it is made, or would take for something else, is refused before
//! anything is.

use mailrail_egress::{Egress, EgressConfig};
use mailrail_limits::RedisWindows;
use mailrail_store::{EncryptionKey, check_url};
use mailrail_telemetry::filter_problem;

use crate::assemble::{kafka_config, record_bytes_max};

use super::load::ENCRYPTION_KEY_ENV;
use super::validate::{Found, Role};

impl Found<'_> {
    pub(super) fn logs(&mut self) {
        let problem = filter_problem(&self.settings.logs.filter);
        self.check(problem.is_none(), "logs.filter", || problem.unwrap_or_default());
    }

    /// Only where nothing else is wrong: it says one problem at a time, and not by which key.
    pub(super) fn kafka_clients(&mut self) {
        let config = kafka_config(&self.settings.log.kafka, record_bytes_max(self.settings));
        if let Err(error) = config.check() {
            self.check(false, "log.kafka", || format!("cannot be used: {error}"));
        }
    }

    pub(super) fn redis(&mut self) {
        let (urls, prefix) = (&self.settings.limits.redis, &self.settings.topic_prefix);
        if urls.is_empty() {
            return;
        }
        // Not echoed: a URL may hold a password, and the errors hold none.
        if let Err(error) = RedisWindows::new(urls, "") {
            self.check(false, "limits.redis", || format!("cannot be used: {error}"));
        } else if let Err(error) = RedisWindows::new(urls, prefix) {
            self.check(false, "topic_prefix", || {
                format!("begins the keys in Redis (limits.redis) too: {error}")
            });
        }
    }

    pub(super) fn store(&mut self, role: Role) {
        let store = &self.settings.store;
        // Not echoed: a mistyped URL may hold a password.
        match check_url(&store.url) {
            Ok(()) => {}
            Err(_) if store.url.is_empty() => self.check(false, "store.url", || {
                "is not set: set it to postgres://user@host/database or sqlite:PATH".to_owned()
            }),
            Err(error) => self.check(false, "store.url", || {
                format!("is not a store: {error}; set it to postgres://user@host/database or sqlite:PATH")
            }),
        }
        match &store.encryption_key {
            None => self.check(role == Role::Dev, "store.encryption_key_file", || {
                format!("is not set: set {ENCRYPTION_KEY_ENV} or name a file that holds the key (32 bytes in hex or base64)")
            }),
            Some(key) => {
                let good = EncryptionKey::parse(key.expose()).is_ok();
                self.check(good, "store.encryption_key_file", || {
                    "does not give a key: make one of 32 bytes, for example with `openssl rand -hex 32`".to_owned()
                });
            }
        }
    }

    pub(super) fn authorities(&mut self, role: Role) {
        let Some(file) = self.settings.egress.ca_file.as_ref().filter(|_| role.delivers()) else { return };
        let problem = match std::fs::read(file) {
            Err(error) => Some(format!("cannot be read: {}: {error}", file.display())),
            Ok(pem) => {
                let config = EgressConfig { extra_ca_pem: Some(pem), ..EgressConfig::default() };
                Egress::new(config).err().map(|error| format!("cannot be used: {}: {error}", file.display()))
            }
        };
        self.check(problem.is_none(), "egress.ca_file", || problem.unwrap_or_default());
    }
}
