//! What belongs to the installation and to no tenant: classes of mailboxes, and traffic that is turned away.

use std::collections::{BTreeMap, BTreeSet};

use mailrail_types::{
    ClassId, IntegrationId, MailboxClass, PRIORITY_DEFAULT, PRIORITY_MAX, Provider, ShedRule, TenantId,
};
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::change::{self, Change, ChangeKind, ChangeOp};
use crate::database::{CALL_TIMEOUT, Connection, within};
use crate::read::id;
use crate::setup::{SHED_RULES_MAX, Tally};
use crate::{Error, SetupError, Store};

/// Classes and shed rules, in one snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Installation {
    pub(crate) classes: BTreeMap<ClassId, MailboxClass>,
    pub(crate) shed: Vec<ShedRule>,
}

impl Store {
    /// Every class, by id.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unavailable`].
    pub async fn classes(&self) -> Result<Vec<MailboxClass>, Error> {
        within(CALL_TIMEOUT, async {
            let mut conn = self.database().pool().acquire().await?;
            Ok(classes(&mut conn).await?.into_values().collect())
        })
        .await
    }

    /// Creates or changes a class. Gives the feed's position after it. A class that is in use keeps its
    /// `tolerates_reordering`, and a strict one its `fixed_buckets`: both would move keys to other mailboxes while their
    /// records wait in the old ones.
    ///
    /// # Errors
    /// [`Error::Setup`] when an option is out of range or may not change; [`Error::Unavailable`].
    pub async fn put_class(&self, class: &MailboxClass) -> Result<u64, Error> {
        let call = async {
            let mut tx = self.database().write().await?;
            put_classes(&mut tx, std::slice::from_ref(class)).await?;
            let seq = change::head(&mut tx).await?;
            tx.commit().await?;
            Ok(seq)
        };
        let seq = within(CALL_TIMEOUT, Box::pin(call)).await?;
        self.announce(seq);
        Ok(seq)
    }

    /// Deletes a class that nothing uses and that is not built in.
    ///
    /// # Errors
    /// [`Error::ClassNotFound`]; [`Error::Setup`] when it is in use or built in; [`Error::Unavailable`].
    pub async fn delete_class(&self, class: &ClassId) -> Result<u64, Error> {
        if [MailboxClass::TOLERANT, MailboxClass::STRICT].contains(&class.as_str()) {
            return Err(SetupError::ClassBuiltIn(class.clone()).into());
        }
        let call = async {
            let mut tx = self.database().write().await?;
            if !classes(&mut tx).await?.contains_key(class) {
                return Err(Error::ClassNotFound(class.clone()));
            }
            if let Some(used_by) = user_of(&mut tx, class).await? {
                return Err(SetupError::ClassInUse { class: class.clone(), used_by }.into());
            }
            sqlx::query("DELETE FROM mailbox_classes WHERE id = $1")
                .bind(class.as_str())
                .execute(&mut *tx)
                .await?;
            let seq = note(&mut tx, ChangeKind::Class, class.as_str(), ChangeOp::Delete).await?;
            tx.commit().await?;
            Ok(seq)
        };
        let seq = within(CALL_TIMEOUT, Box::pin(call)).await?;
        self.announce(seq);
        Ok(seq)
    }

    /// The traffic that is turned away now.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Unavailable`].
    pub async fn shed(&self) -> Result<Vec<ShedRule>, Error> {
        within(CALL_TIMEOUT, async {
            let mut conn = self.database().pool().acquire().await?;
            shed(&mut conn).await
        })
        .await
    }

    /// Turns away exactly the traffic that `rules` name from now on; without rules, none. Rules may name what does not
    /// exist yet.
    ///
    /// # Errors
    /// [`Error::Setup`] when there are more than [`SHED_RULES_MAX`]; [`Error::Unavailable`].
    pub async fn set_shed(&self, rules: Vec<ShedRule>) -> Result<u64, Error> {
        if rules.len() > SHED_RULES_MAX {
            return Err(SetupError::ShedRules(rules.len()).into());
        }
        let call = async {
            let mut tx = self.database().write().await?;
            let seq = if shed(&mut tx).await? == rules {
                change::head(&mut tx).await?
            } else {
                replace_shed(&mut tx, &rules).await?
            };
            tx.commit().await?;
            Ok(seq)
        };
        let seq = within(CALL_TIMEOUT, Box::pin(call)).await?;
        self.announce(seq);
        Ok(seq)
    }
}

pub(crate) async fn load(conn: &mut Connection) -> Result<Installation, Error> {
    Ok(Installation { classes: classes(conn).await?, shed: shed(conn).await? })
}

/// Every id of a class, in the caller's transaction.
pub(crate) async fn class_ids(conn: &mut Connection) -> Result<BTreeSet<ClassId>, Error> {
    Ok(classes(conn).await?.into_keys().collect())
}

/// Writes the classes that differ, with their changes, and counts them.
pub(crate) async fn put_classes(conn: &mut Connection, wanted: &[MailboxClass]) -> Result<Tally, Error> {
    let mut tally = Tally::default();
    let have = classes(conn).await?;
    let mut seen = BTreeSet::new();
    for class in wanted {
        if !seen.insert(&class.id) {
            return Err(SetupError::ClassTwice(class.id.clone()).into());
        }
        class.check().map_err(SetupError::ClassOption)?;
        match have.get(&class.id) {
            Some(known) if known == class => {
                tally.unchanged += 1;
                continue;
            }
            Some(known) => {
                check_change(conn, known, class).await?;
                tally.updated += 1;
            }
            None => tally.created += 1,
        }
        put_class(conn, class).await?;
        note(conn, ChangeKind::Class, class.id.as_str(), ChangeOp::Put).await?;
    }
    Ok(tally)
}

/// Refuses what would move the keys of a class whose mailboxes may hold records.
async fn check_change(conn: &mut Connection, from: &MailboxClass, to: &MailboxClass) -> Result<(), Error> {
    let field = if from.tolerates_reordering != to.tolerates_reordering {
        "tolerates_reordering"
    } else if !from.tolerates_reordering && from.fixed_buckets != to.fixed_buckets {
        "fixed_buckets"
    } else {
        return Ok(());
    };
    match user_of(conn, &to.id).await? {
        None => Ok(()),
        Some(used_by) => Err(SetupError::ClassFixed { class: to.id.clone(), field, used_by }.into()),
    }
}

/// One of those that name the class.
async fn user_of(conn: &mut Connection, class: &ClassId) -> Result<Option<String>, Error> {
    let users = [
        ("tenant", "SELECT tenant, tenant AS id FROM tenants WHERE source_class = $1 LIMIT 1"),
        ("endpoint", "SELECT tenant, id FROM endpoints WHERE class = $1 LIMIT 1"),
        ("integration", "SELECT tenant, id FROM integrations WHERE class = $1 LIMIT 1"),
    ];
    for (kind, sql) in users {
        if let Some(row) = sqlx::query(sql).bind(class.as_str()).fetch_optional(&mut *conn).await? {
            let (tenant, id): (&str, &str) = (row.try_get("tenant")?, row.try_get("id")?);
            return Ok(Some(if kind == "tenant" {
                format!("tenant '{tenant}'")
            } else {
                format!("{kind} '{id}' of tenant '{tenant}'")
            }));
        }
    }
    Ok(None)
}

async fn put_class(conn: &mut Connection, class: &MailboxClass) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO mailbox_classes \
         (id, tolerates_reordering, threads, payloads_per_thread, buckets_max, fixed_buckets, priority) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (id) DO UPDATE SET tolerates_reordering = excluded.tolerates_reordering, \
         threads = excluded.threads, payloads_per_thread = excluded.payloads_per_thread, \
         buckets_max = excluded.buckets_max, fixed_buckets = excluded.fixed_buckets, \
         priority = excluded.priority",
    )
    .bind(class.id.as_str())
    .bind(i64::from(class.tolerates_reordering))
    .bind(i64::from(class.threads))
    .bind(i64::from(class.payloads_per_thread))
    .bind(i64::from(class.buckets_max))
    .bind(i64::from(class.fixed_buckets))
    .bind(i64::from(class.priority))
    .execute(conn)
    .await?;
    Ok(())
}

async fn classes(conn: &mut Connection) -> Result<BTreeMap<ClassId, MailboxClass>, Error> {
    let rows = sqlx::query(
        "SELECT id, tolerates_reordering, threads, payloads_per_thread, buckets_max, fixed_buckets, priority \
         FROM mailbox_classes",
    )
    .fetch_all(conn)
    .await?;
    rows.iter().map(|row| class(row).map(|class| (class.id.clone(), class))).collect()
}

fn class(row: &AnyRow) -> Result<MailboxClass, Error> {
    // Clamped, not refused: whoever reads options clamps them again, and a number must not stop the mail.
    let option = |column| -> Result<u32, Error> {
        Ok(u32::try_from(row.try_get::<i64, _>(column)?.max(0)).unwrap_or(u32::MAX))
    };
    let priority = row.try_get::<i64, _>("priority")?.clamp(1, i64::from(PRIORITY_MAX));
    Ok(MailboxClass {
        id: id(row, "id", ClassId::new)?,
        tolerates_reordering: row.try_get::<i64, _>("tolerates_reordering")? != 0,
        threads: option("threads")?,
        payloads_per_thread: option("payloads_per_thread")?,
        buckets_max: option("buckets_max")?,
        fixed_buckets: option("fixed_buckets")?,
        priority: u8::try_from(priority).unwrap_or(PRIORITY_DEFAULT),
    })
}

async fn replace_shed(conn: &mut Connection, rules: &[ShedRule]) -> Result<u64, Error> {
    sqlx::query("DELETE FROM shed").execute(&mut *conn).await?;
    for (position, rule) in (0_i64..).zip(rules) {
        sqlx::query("INSERT INTO shed (position, provider, tenant, integration) VALUES ($1, $2, $3, $4)")
            .bind(position)
            .bind(rule.provider.name())
            .bind(rule.tenant.as_ref().map(TenantId::as_str))
            .bind(rule.integration.as_ref().map(IntegrationId::as_str))
            .execute(&mut *conn)
            .await?;
    }
    note(conn, ChangeKind::Shed, "", ChangeOp::Put).await
}

async fn shed(conn: &mut Connection) -> Result<Vec<ShedRule>, Error> {
    let rows = sqlx::query("SELECT provider, tenant, integration FROM shed ORDER BY position")
        .fetch_all(conn)
        .await?;
    let mut rules = Vec::new();
    for row in &rows {
        let name: &str = row.try_get("provider")?;
        // A newer mailrail knows more providers; this one takes nothing from them.
        let Some(provider) = Provider::from_name(name) else {
            tracing::warn!(provider = name, "a shed rule names a provider that is not known here");
            continue;
        };
        let tenant = row.try_get::<Option<&str>, _>("tenant")?.map(TenantId::new).transpose();
        let integration = row.try_get::<Option<&str>, _>("integration")?.map(IntegrationId::new).transpose();
        let damaged = |e: mailrail_types::IdError| Error::damaged("a shed rule", e);
        rules.push(ShedRule {
            provider,
            tenant: tenant.map_err(damaged)?,
            integration: integration.map_err(damaged)?,
        });
    }
    Ok(rules)
}

/// Appends a change that belongs to no tenant. Gives its number.
async fn note(conn: &mut Connection, kind: ChangeKind, entity: &str, op: ChangeOp) -> Result<u64, Error> {
    let seq = change::head(conn).await? + 1;
    let change = Change { seq, tenant: None, kind, entity: entity.to_owned(), op };
    change::append(conn, &change).await?;
    change::trim(conn, seq).await?;
    Ok(seq)
}
