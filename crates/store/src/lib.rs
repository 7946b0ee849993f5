//! Tenants, apps, endpoints, subscriptions, keys and secrets in Postgres or SQLite.
