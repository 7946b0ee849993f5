//! What a subscription wants when its filter gives no verdict on an event.

/// What becomes of an event on which the filter of a subscription gives no verdict: evaluating it took too many steps, or its
/// stored text does not compile here (a newer version wrote it). An event that the filter rejects is no such case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FilterErrorPolicy {
    /// The subscription does not get the event; that is counted as a failure, and logged.
    #[default]
    DropAndCount,
    /// The subscription does not get the event.
    Drop,
    /// The subscription gets the event.
    Deliver,
    /// The subscription gets the event; that is counted as a failure, and logged.
    DeliverAndCount,
}

impl FilterErrorPolicy {
    /// Every policy.
    pub const ALL: [FilterErrorPolicy; 4] = [
        FilterErrorPolicy::DropAndCount,
        FilterErrorPolicy::Drop,
        FilterErrorPolicy::Deliver,
        FilterErrorPolicy::DeliverAndCount,
    ];

    /// The name in files and APIs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FilterErrorPolicy::DropAndCount => "drop-and-count",
            FilterErrorPolicy::Drop => "drop",
            FilterErrorPolicy::Deliver => "deliver",
            FilterErrorPolicy::DeliverAndCount => "deliver-and-count",
        }
    }

    /// The policy with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether the subscription gets the event.
    #[must_use]
    pub const fn delivers(self) -> bool {
        matches!(self, FilterErrorPolicy::Deliver | FilterErrorPolicy::DeliverAndCount)
    }

    /// Whether it is counted as a failure, and logged.
    #[must_use]
    pub const fn counts(self) -> bool {
        matches!(self, FilterErrorPolicy::DropAndCount | FilterErrorPolicy::DeliverAndCount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A08: there are the four policies, each with a name of its own.
    #[test]
    fn a08_every_policy_has_a_name_of_its_own() {
        for policy in FilterErrorPolicy::ALL {
            assert_eq!(FilterErrorPolicy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(FilterErrorPolicy::from_name("Drop"), None);
        assert_eq!(FilterErrorPolicy::default().name(), "drop-and-count");
        let of = |name| FilterErrorPolicy::from_name(name).map(|it| (it.delivers(), it.counts()));
        assert_eq!([of("deliver"), of("drop")], [Some((true, false)), Some((false, false))]);
    }
}
