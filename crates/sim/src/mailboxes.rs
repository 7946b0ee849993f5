//! Sizing under senders that keep their rate: a width that changes then changes for nothing.

mod arrivals;
mod counters;
mod plot;
mod rule;
mod sender;
mod summary;
mod survey;

pub use arrivals::Arrivals;
pub use plot::plot;
pub use rule::{Changes, Rule};
pub use sender::width_changes;
pub use summary::{CHANGES_MAX, Error, FLAPPING_MIN, Summary};
pub use survey::{RATE_MAX, RATE_MIN, Sample, Survey};
