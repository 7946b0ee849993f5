//! A gauge that shows the largest, or the smallest, of what several parts of a process say.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// No label. A family of it has one sample, or none: nothing to say is not zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Unlabelled {}

pub(crate) type Shown = Family<Unlabelled, Gauge<f64, AtomicU64>>;

/// The gauge. A cheap clone.
#[derive(Debug, Clone)]
pub struct Extreme {
    shown: Shown,
    parts: Arc<Mutex<Parts>>,
}

#[derive(Debug)]
struct Parts {
    pick: fn(f64, f64) -> f64,
    /// What is shown when no part says anything; `None`: no sample at all.
    at_rest: Option<f64>,
    next: u64,
    said: HashMap<u64, f64>,
}

impl Extreme {
    /// Shows the largest; 0 when there is none.
    pub(crate) fn largest() -> Self {
        Self::new(f64::max, Some(0.0))
    }

    /// Shows the smallest; no sample when there is none.
    pub(crate) fn smallest() -> Self {
        Self::new(f64::min, None)
    }

    fn new(pick: fn(f64, f64) -> f64, at_rest: Option<f64>) -> Self {
        let parts = Parts { pick, at_rest, next: 0, said: HashMap::new() };
        let new = Self { shown: Family::default(), parts: Arc::new(Mutex::new(parts)) };
        new.change(|_| {});
        new
    }

    /// What is registered.
    pub(crate) fn metric(&self) -> Shown {
        self.shown.clone()
    }

    /// A part that says nothing yet.
    #[must_use]
    pub fn part(&self) -> Part {
        let mut id = 0;
        self.change(|parts| {
            id = parts.next;
            parts.next += 1;
        });
        Part { of: self.clone(), id }
    }

    /// What is shown now.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        self.shown.get(&Unlabelled {}).map(|gauge| gauge.get())
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parts);
        match parts.said.values().copied().reduce(parts.pick).or(parts.at_rest) {
            Some(value) => {
                self.shown.get_or_create(&Unlabelled {}).set(value);
            }
            None => {
                self.shown.remove(&Unlabelled {});
            }
        }
    }
}

/// What one part says of an [`Extreme`]; dropped, it says nothing any more.
#[derive(Debug)]
pub struct Part {
    of: Extreme,
    id: u64,
}

impl Part {
    /// Says this value from now on; `None`: nothing.
    pub fn set(&self, value: Option<f64>) {
        self.of.change(|parts| match value {
            Some(value) => drop(parts.said.insert(self.id, value)),
            None => drop(parts.said.remove(&self.id)),
        });
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extreme_of_what_is_said_is_shown_and_given_back() {
        let largest = Extreme::largest();
        assert_eq!(largest.get(), Some(0.0));
        let (a, b) = (largest.part(), largest.part());
        a.set(Some(2.5));
        b.set(Some(7.0));
        assert_eq!(largest.get(), Some(7.0));
        b.set(Some(1.0));
        assert_eq!(largest.get(), Some(2.5));
        drop(a);
        assert_eq!(largest.get(), Some(1.0));
        b.set(None);
        assert_eq!(largest.get(), Some(0.0));

        let smallest = Extreme::smallest();
        assert_eq!(smallest.get(), None, "nothing to say is not zero");
        let (a, b) = (smallest.part(), smallest.part());
        a.set(Some(5.0));
        b.set(Some(-1.0));
        assert_eq!(smallest.get(), Some(-1.0));
        drop(b);
        assert_eq!(smallest.get(), Some(5.0));
        drop(a);
        assert_eq!(smallest.get(), None);
    }
}
