//! The store as callers see it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailrail_types::{
    AppId, EndpointId, IntegrationId, KeyId, MailboxClass, Secret, SubscriptionId, Tenant, TenantId,
    Timestamp,
};
use tokio::sync::watch;
use zeroize::Zeroizing;

use crate::change::{self, Change, ChangeKind};
use crate::database::{CALL_TIMEOUT, Database, LONG_CALL_TIMEOUT, within};
use crate::installation::{self, Installation};
use crate::plan::{self, Op};
use crate::read::{self, StoredTenant};
use crate::seal::Sealer;
use crate::setup::{Applied, Counts, TenantSetup};
use crate::{EncryptionKey, Error, SetupError, TenantView, migrate, write};

/// Most changes of one [`Store::changes_after`]: some hundred kilobytes in memory.
const CHANGES_MAX: u32 = 10_000;

/// The database of what tenants set up. A clone is the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

/// What was read in one transaction.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Position of the change feed.
    pub(crate) seq: u64,
    pub(crate) installation: Installation,
    /// The tenants that were asked for; `None`: it does not exist.
    pub(crate) tenants: Vec<(TenantId, Option<StoredTenant>)>,
}

struct Inner {
    database: Database,
    sealer: Sealer,
    /// Position after the newest write of this process: its directory need not wait for the next poll.
    written: watch::Sender<u64>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("dialect", &self.0.database.dialect()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens `postgres://…` or `sqlite:PATH` (created when missing) and migrates it, one process at a time.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::WrongKey`] when the database was created with another key, [`Error::NewerSchema`],
    /// [`Error::Unavailable`].
    pub async fn open(url: &str, key: EncryptionKey) -> Result<Store, Error> {
        let sealer = Sealer::new(&key);
        drop(key);
        let database = within(LONG_CALL_TIMEOUT, Database::connect(url)).await?;
        within(LONG_CALL_TIMEOUT, migrate::migrate(&database, &sealer)).await?;
        Ok(Store(Arc::new(Inner { database, sealer, written: watch::Sender::new(0) })))
    }

    /// Asks the database for an answer.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there is none.
    pub async fn check(&self) -> Result<(), Error> {
        within(CALL_TIMEOUT, async {
            sqlx::query("SELECT COUNT(*) AS n FROM key_check").fetch_one(self.0.database.pool()).await?;
            Ok(())
        })
        .await
    }

    /// Closes the connections. Every later call of every clone fails with [`Error::Unavailable`].
    pub async fn close(&self) {
        self.0.database.pool().close().await;
    }

    /// Makes each tenant of `setups` as described, in one transaction: all of it or nothing. Writes only what differs.
    /// With `prune`, deletes what the named tenants have and their set-up does not list; tenants that are not named are
    /// left alone.
    ///
    /// # Errors
    /// [`Error::Setup`] when the set-up contradicts itself or what is stored; [`Error::Unavailable`].
    pub async fn apply(&self, setups: &[TenantSetup], prune: bool) -> Result<Applied, Error> {
        self.apply_all(&[], setups, prune).await
    }

    /// As [`Self::apply`], and before it makes `classes` as described, in the same transaction. Classes that are not
    /// listed are left alone, also with `prune`: they are nobody's.
    ///
    /// # Errors
    /// As [`Self::apply`] and [`Self::put_class`].
    pub async fn apply_all(
        &self,
        classes: &[MailboxClass],
        setups: &[TenantSetup],
        prune: bool,
    ) -> Result<Applied, Error> {
        let applied = self.try_setups(classes, setups, prune, true).await?;
        self.announce(applied.seq);
        Ok(applied)
    }

    /// What [`Self::apply_all`] would do now, by doing it and rolling it back: every check of it is made, nothing is changed.
    /// The position and the generated secrets in the answer mean nothing.
    ///
    /// # Errors
    /// As [`Self::apply_all`].
    pub async fn preview(
        &self,
        classes: &[MailboxClass],
        setups: &[TenantSetup],
        prune: bool,
    ) -> Result<Applied, Error> {
        self.try_setups(classes, setups, prune, false).await
    }

    async fn try_setups(
        &self,
        classes: &[MailboxClass],
        setups: &[TenantSetup],
        prune: bool,
        commit: bool,
    ) -> Result<Applied, Error> {
        let mut named = HashSet::new();
        if let Some(twice) = setups.iter().map(|setup| &setup.tenant.id).find(|id| !named.insert(*id)) {
            return Err(SetupError::TenantTwice(twice.clone()).into());
        }
        let call = async {
            let mut tx = self.0.database.write().await?;
            let now = now();
            let (mut ops, mut counts, mut secrets) = (Vec::new(), Counts::default(), Vec::new());
            counts.classes = installation::put_classes(&mut tx, classes).await?;
            let known = installation::class_ids(&mut tx).await?;
            for setup in setups {
                let id = &setup.tenant.id;
                let stored = read::one(&mut tx, &self.0.sealer, id).await?;
                let plan = plan::plan(stored.as_ref(), &known, setup, prune, now, generate_secret)?;
                ops.extend(plan.ops.into_iter().map(|op| (id.clone(), op)));
                counts.add(&plan.counts);
                secrets.extend(plan.generated);
            }
            let seq = write::execute(&mut tx, &self.0.sealer, ops).await?;
            if commit { tx.commit().await } else { tx.rollback().await }?;
            Ok(Applied { seq, counts, secrets })
        };
        within(LONG_CALL_TIMEOUT, Box::pin(call)).await
    }

    /// Deletes a tenant and everything in it. Gives the feed's position after it, as all deletions do.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_tenant(&self, tenant: &TenantId) -> Result<u64, Error> {
        self.change(tenant, ChangeKind::Tenant, tenant.as_str(), |stored| Some(plan::delete_tenant(stored)))
            .await
    }

    /// Deletes an app, its endpoints and its subscriptions.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_app(&self, tenant: &TenantId, id: &AppId) -> Result<u64, Error> {
        self.change(tenant, ChangeKind::App, id.as_str(), |stored| plan::delete_app(stored, id)).await
    }

    /// Deletes an endpoint, its secrets and its subscriptions.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_endpoint(&self, tenant: &TenantId, id: &EndpointId) -> Result<u64, Error> {
        self.change(tenant, ChangeKind::Endpoint, id.as_str(), |stored| plan::delete_endpoint(stored, id))
            .await
    }

    /// Deletes a subscription.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_subscription(&self, tenant: &TenantId, id: &SubscriptionId) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            stored.subscriptions.contains_key(id).then(|| vec![Op::DeleteSubscription(id.clone())])
        };
        self.change(tenant, ChangeKind::Subscription, id.as_str(), ops).await
    }

    /// Deletes an integration and its secrets.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_integration(&self, tenant: &TenantId, id: &IntegrationId) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            stored.integrations.contains_key(id).then(|| vec![Op::DeleteIntegration(id.clone())])
        };
        self.change(tenant, ChangeKind::Integration, id.as_str(), ops).await
    }

    /// Takes only the newest secret of an integration from now on: the end of a rotation's overlap.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn revoke_previous_inbound(&self, tenant: &TenantId, id: &IntegrationId) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| plan::revoke_previous(stored, id).map(|op| vec![op]);
        self.change(tenant, ChangeKind::Integration, id.as_str(), ops).await
    }

    /// Forgets an event type. Subscriptions may still name it.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_event_type(&self, tenant: &TenantId, name: &str) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            stored.event_types.contains_key(name).then(|| vec![Op::DeleteEventType(name.to_owned())])
        };
        self.change(tenant, ChangeKind::EventType, name, ops).await
    }

    /// Revokes an API key.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_key(&self, tenant: &TenantId, id: &KeyId) -> Result<u64, Error> {
        let ops =
            |stored: &StoredTenant| stored.keys.contains_key(id).then(|| vec![Op::DeleteKey(id.clone())]);
        self.change(tenant, ChangeKind::Key, id.as_str(), ops).await
    }

    /// Puts `new` first among an endpoint's secrets. With `keep_previous` the others stay behind it, up to
    /// [`crate::SECRETS_MAX`] in all (the oldest goes); without, it is the only one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn rotate_secret(
        &self,
        tenant: &TenantId,
        endpoint: &EndpointId,
        new: Secret,
        keep_previous: bool,
    ) -> Result<u64, Error> {
        let ops = |stored: &StoredTenant| {
            plan::rotate(stored, endpoint, new, keep_previous, now()).map(|op| vec![op])
        };
        self.change(tenant, ChangeKind::Endpoint, endpoint.as_str(), ops).await
    }

    /// Every tenant, by id.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Error> {
        within(CALL_TIMEOUT, async {
            let rows = sqlx::query("SELECT tenant, name, source_class FROM tenants")
                .fetch_all(self.0.database.pool())
                .await?;
            let mut tenants = rows.iter().map(read::tenant).collect::<Result<Vec<_>, Error>>()?;
            // Not by the database: its collation is not ours.
            tenants.sort_by(|a, b| a.id.cmp(&b.id));
            Ok(tenants)
        })
        .await
    }

    /// Names of a tenant's API keys, sorted; `None` when there is no such tenant.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unavailable`].
    pub async fn keys(&self, tenant: &TenantId) -> Result<Option<Vec<KeyId>>, Error> {
        let mut found = Box::pin(self.read_some([tenant])).await?;
        Ok(found.tenants.pop().and_then(|(_, stored)| stored).map(|stored| stored.keys.into_keys().collect()))
    }

    /// A tenant as it is now; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unavailable`].
    pub async fn tenant_view(&self, tenant: &TenantId) -> Result<Option<TenantView>, Error> {
        let mut found = Box::pin(self.read_some([tenant])).await?;
        Ok(found.tenants.pop().and_then(|(_, stored)| stored).map(|stored| stored.into_view(found.seq, None)))
    }

    /// Changes after number `seq`, oldest first, at most `limit` (and at most 10,000). When the first one is not `seq`
    /// + 1, older ones were forgotten: read everything again.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn changes_after(&self, seq: u64, limit: u32) -> Result<Vec<Change>, Error> {
        self.changes_from(seq.saturating_add(1), limit).await
    }

    pub(crate) async fn changes_from(&self, seq: u64, limit: u32) -> Result<Vec<Change>, Error> {
        within(CALL_TIMEOUT, async {
            let mut conn = self.0.database.pool().acquire().await?;
            change::from(&mut conn, seq, limit.min(CHANGES_MAX)).await
        })
        .await
    }

    pub(crate) fn database(&self) -> &Database {
        &self.0.database
    }

    /// Tells when this process writes.
    pub(crate) fn written(&self) -> watch::Receiver<u64> {
        self.0.written.subscribe()
    }

    /// Everything in one snapshot.
    pub(crate) async fn read_all(&self) -> Result<Snapshot, Error> {
        within(LONG_CALL_TIMEOUT, async {
            let mut tx = self.0.database.snapshot().await?;
            let seq = change::head(&mut tx).await?;
            let installation = installation::load(&mut tx).await?;
            let tenants = read::all(&mut tx, &self.0.sealer).await?;
            tx.rollback().await?;
            let tenants = tenants.into_iter().map(|(id, stored)| (id, Some(stored))).collect();
            Ok(Snapshot { seq, installation, tenants })
        })
        .await
    }

    /// Some tenants in one snapshot, with what belongs to none: a tenant never names a class that is not in it.
    pub(crate) async fn read_some<'a>(
        &self,
        tenants: impl IntoIterator<Item = &'a TenantId>,
    ) -> Result<Snapshot, Error> {
        within(LONG_CALL_TIMEOUT, async {
            let mut tx = self.0.database.snapshot().await?;
            let seq = change::head(&mut tx).await?;
            let installation = installation::load(&mut tx).await?;
            let mut found = Vec::new();
            for tenant in tenants {
                found.push((tenant.clone(), read::one(&mut tx, &self.0.sealer, tenant).await?));
            }
            tx.rollback().await?;
            Ok(Snapshot { seq, installation, tenants: found })
        })
        .await
    }

    /// Carries out what `ops` makes of the stored tenant; `None` from it means that the entity does not exist.
    pub(crate) async fn change(
        &self,
        tenant: &TenantId,
        kind: ChangeKind,
        id: &str,
        ops: impl FnOnce(&StoredTenant) -> Option<Vec<Op>>,
    ) -> Result<u64, Error> {
        let call = async {
            let mut tx = self.0.database.write().await?;
            let stored = read::one(&mut tx, &self.0.sealer, tenant).await?;
            let Some(ops) = stored.as_ref().and_then(ops) else {
                return Err(Error::NotFound { kind, tenant: tenant.clone(), id: id.to_owned() });
            };
            let ops = ops.into_iter().map(|op| (tenant.clone(), op)).collect();
            let seq = write::execute(&mut tx, &self.0.sealer, ops).await?;
            tx.commit().await?;
            Ok(seq)
        };
        let seq = within(LONG_CALL_TIMEOUT, Box::pin(call)).await?;
        self.announce(seq);
        Ok(seq)
    }

    pub(crate) fn announce(&self, seq: u64) {
        self.0.written.send_if_modified(|written| {
            let newer = seq > *written;
            *written = seq.max(*written);
            newer
        });
    }
}

fn generate_secret() -> Secret {
    let mut bytes = Zeroizing::new([0; 32]);
    rand::fill(bytes.as_mut_slice());
    Secret::new(format!("whsec_{}", STANDARD.encode(bytes.as_slice())))
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
