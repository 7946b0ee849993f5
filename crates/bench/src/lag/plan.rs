//! What is recorded: the load second by second, and what happens to the replicas and the receiver meanwhile.

/// One recording.
pub(super) struct Plan {
    /// Name of the file.
    pub(super) name: &'static str,
    /// What it is for, in its header.
    pub(super) about: &'static str,
    pub(super) role: Role,
    /// Replicas at the start; none: the group has never committed when the first ones come.
    pub(super) replicas: u32,
    pub(super) load: &'static [Load],
    pub(super) acts: &'static [(u32, Act)],
}

/// Whose lag it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Match,
    Deliver,
}

impl Role {
    /// The subcommand, and the kind of its consumer group.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Deliver => "deliver",
        }
    }

    /// Kind of the topic that it consumes.
    pub(super) fn topic(self) -> &'static str {
        match self {
            Self::Match => "events",
            Self::Deliver => "deliveries",
        }
    }
}

/// So many records a second for so long.
pub(super) struct Load {
    pub(super) seconds: u32,
    pub(super) rate: u32,
}

/// Something that happens at a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// So many more replicas.
    Start(u32),
    /// The oldest replica is replaced as a rollout does: the new one is ready first.
    Replace,
    /// Half of the endpoints answer 503.
    Outage,
    /// They answer again.
    Recovery,
}

impl Plan {
    /// Length of the load.
    pub(super) fn seconds(&self) -> u32 {
        self.load.iter().map(|load| load.seconds).sum()
    }

    /// Records per second at this time, in seconds since the start.
    pub(super) fn rate(&self, at: f64) -> u32 {
        let mut end = 0.0;
        for load in self.load {
            end += f64::from(load.seconds);
            if at < end {
                return load.rate;
            }
        }
        0
    }
}

const fn load(seconds: u32, rate: u32) -> Load {
    Load { seconds, rate }
}

/// All of them. A deliver process does about 50 records a second as the receiver and the limit are set, so that a burst is
/// a few thousand records and not a load on the machine.
pub(super) const PLANS: &[Plan] = &[
    Plan {
        name: "deliver-one",
        about: "one replica, ten times its usual load for 10 s, then nothing: what a replica does in a second",
        role: Role::Deliver,
        replicas: 1,
        load: &[load(20, 35), load(10, 350), load(90, 0)],
        acts: &[],
    },
    Plan {
        name: "deliver-two",
        about: "two replicas, ten times their usual load for 10 s, then nothing: proves the model",
        role: Role::Deliver,
        replicas: 2,
        load: &[load(20, 70), load(10, 700), load(90, 0)],
        acts: &[],
    },
    Plan {
        name: "deliver-grow",
        about: "a burst that one replica meets, a second one after 30 s, two more after 60 s: proves the model where it scales",
        role: Role::Deliver,
        replicas: 1,
        load: &[load(10, 35), load(20, 500), load(90, 35)],
        acts: &[(30, Act::Start(1)), (60, Act::Start(2))],
    },
    Plan {
        name: "deliver-steady",
        about: "two replicas under their usual load, which varies",
        role: Role::Deliver,
        replicas: 2,
        load: &[load(120, 70)],
        acts: &[],
    },
    Plan {
        name: "deliver-outage",
        about: "two replicas under their usual load; half of the endpoints answer 503 from second 20 to 90",
        role: Role::Deliver,
        replicas: 2,
        load: &[load(130, 70)],
        acts: &[(20, Act::Outage), (90, Act::Recovery)],
    },
    Plan {
        name: "deliver-rollout",
        about: "two replicas under their usual load, each replaced as a rollout does",
        role: Role::Deliver,
        replicas: 2,
        load: &[load(110, 70)],
        acts: &[(20, Act::Replace), (55, Act::Replace)],
    },
    Plan {
        name: "match-one",
        about: "a backlog that nobody works off, then one replica: a group that never committed, and what a replica does in a second",
        role: Role::Match,
        replicas: 0,
        load: &[load(20, 6_000), load(30, 400)],
        acts: &[(20, Act::Start(1))],
    },
    Plan {
        name: "match-steady",
        about: "two replicas under a load that varies, one of them replaced as a rollout does",
        role: Role::Match,
        replicas: 2,
        load: &[load(90, 400)],
        acts: &[(40, Act::Replace)],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_as_the_plan_says() {
        let plan = PLANS.iter().find(|plan| plan.name == "deliver-two").expect("planned");
        assert_eq!(plan.seconds(), 120);
        assert_eq!([0.0, 19.9, 20.0, 29.9, 30.0, 500.0].map(|at| plan.rate(at)), [70, 70, 700, 700, 0, 0]);
    }

    #[test]
    fn names_are_unique_and_acts_happen_in_order_under_load() {
        let mut names: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PLANS.len());
        for plan in PLANS {
            assert!(plan.acts.is_sorted_by_key(|(at, _)| *at), "{}", plan.name);
            assert!(plan.acts.iter().all(|(at, _)| *at < plan.seconds()), "{}", plan.name);
        }
    }
}
