//! The control API: declarative set-up, status.
