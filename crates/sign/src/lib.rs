//! Standard Webhooks signatures and secrets.
