//! What KEDA's Kafka trigger makes of offsets, as its source has it (2.18 to 2.20).

use serde::Deserialize;

/// One partition at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// Offset of the next record.
    pub end: u64,
    /// What the group committed; `None`: it never did.
    pub committed: Option<u64>,
}

impl PartitionOffsets {
    /// Records that wait, as the trigger counts them with `offsetResetPolicy: earliest`. Without a commit that is all that the
    /// partition ever had, also what retention deleted (fixed in KEDA 2.21).
    #[must_use]
    pub fn lag(self) -> u64 {
        self.end.saturating_sub(self.committed.unwrap_or(0))
    }
}

/// The trigger's settings that decide its metric; the names are those of the chart's `keda` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trigger {
    /// Records that one replica may have waiting. At least 1.
    pub lag_threshold: u64,
    /// Only numbers of replicas that divide the partitions.
    pub ensure_even_distribution_of_partitions: bool,
    /// Not more replicas than partitions with lag.
    pub limit_to_partitions_with_lag: bool,
    /// More replicas than partitions.
    pub allow_idle_consumers: bool,
    /// Leaves out partitions whose position stood still. Not simulated.
    pub exclude_persistent_lag: bool,
}

impl Trigger {
    /// The metric for the lags of all partitions. The autoscaler wants the metric divided by the threshold, rounded up.
    #[must_use]
    pub fn metric(&self, lags: &[u64]) -> u64 {
        let partitions = lags.len() as u64;
        let mut total: u64 = lags.iter().sum();
        if self.ensure_even_distribution_of_partitions {
            total = self.next_factor(total, partitions) * self.lag_threshold;
        }
        if !self.allow_idle_consumers || self.limit_to_partitions_with_lag {
            let with_lag = lags.iter().filter(|lag| **lag > 0).count() as u64;
            let most = if self.limit_to_partitions_with_lag { with_lag } else { partitions };
            if total / self.lag_threshold > most {
                total = most * self.lag_threshold;
            }
        }
        total
    }

    /// The smallest divisor of the partitions that is enough for the lag.
    fn next_factor(&self, lag: u64, partitions: u64) -> u64 {
        (1..=partitions)
            .find(|factor| partitions.is_multiple_of(*factor) && factor * self.lag_threshold >= lag)
            .unwrap_or(partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger() -> Trigger {
        Trigger {
            lag_threshold: 500,
            ensure_even_distribution_of_partitions: false,
            limit_to_partitions_with_lag: false,
            allow_idle_consumers: false,
            exclude_persistent_lag: false,
        }
    }

    #[test]
    fn a_partition_without_a_commit_counts_from_its_first_record() {
        let at = |end, committed| PartitionOffsets { end, committed }.lag();
        assert_eq!([at(90, None), at(90, Some(40)), at(90, Some(90))], [90, 50, 0]);
        // The end was read before the commit moved past it.
        assert_eq!(at(90, Some(91)), 0);
    }

    #[test]
    fn the_metric_is_the_sum_and_at_most_the_partitions() {
        assert_eq!(trigger().metric(&[300, 0, 400, 1]), 701);
        assert_eq!(trigger().metric(&[3_000, 0, 400, 1]), 2_000);
        // 4.9 thresholds are not more than 4 partitions: Go divides whole numbers.
        assert_eq!(trigger().metric(&[2_499, 0, 0, 0]), 2_499);
        let idle = Trigger { allow_idle_consumers: true, ..trigger() };
        assert_eq!(idle.metric(&[3_000, 0, 400, 1]), 3_401);
        let hot = Trigger { limit_to_partitions_with_lag: true, ..trigger() };
        assert_eq!(hot.metric(&[3_000, 0, 0, 0]), 500);
    }

    #[test]
    fn even_distribution_rounds_up_to_a_divisor_of_the_partitions() {
        let even = Trigger { ensure_even_distribution_of_partitions: true, ..trigger() };
        let of = |lag: u64| {
            let mut lags = [0; 24];
            lags[3] = lag;
            even.metric(&lags) / 500
        };
        assert_eq!([0, 500, 501, 2_000, 2_001, 4_001, 6_001, 99_999].map(of), [1, 1, 2, 4, 6, 12, 24, 24]);
    }
}
