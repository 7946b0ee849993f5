//! The model of a role's replicas: what they finish, and what waits meanwhile.
//!
//! Each replica finishes so many records a second, in equal parts from the partitions that it owns. Partitions are spread evenly,
//! and as few as possible change their owner when replicas come and go; one that does stands still for a while. What is
//! finished is committed a moment later, and not before the group has settled when replicas came or went. The three figures are
//! recorded, and [`super::proof`] holds the model against recordings.

/// What is known of a role from recordings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Records that one replica finishes in a second.
    pub per_replica: f64,
    /// Seconds from the arrival of a record to the commit that covers it, where nothing waits.
    pub behind: f64,
    /// Seconds that a partition stands still when its owner changes, and that the whole group commits nothing.
    pub hand_over: f64,
}

/// Which replicas go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Those of an old version, in a rollout.
    Oldest,
    /// Those that came last, when there are to be fewer.
    Newest,
}

/// The replicas and their partitions.
#[derive(Debug, Clone)]
pub struct Service {
    rates: Rates,
    now: f64,
    /// Nothing is committed until then.
    settled_at: f64,
    partitions: Vec<Partition>,
    /// From the oldest to the newest.
    members: Vec<u32>,
    next_member: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Partition {
    backlog: f64,
    /// Records a second, of the last step.
    served: f64,
    /// Finished and not committed, because the group had not settled.
    unseen: f64,
    owner: Option<u32>,
    still_until: f64,
}

impl Service {
    /// Replicas that own everything, and nothing waits.
    #[must_use]
    pub fn new(rates: Rates, partitions: u32, replicas: u32) -> Self {
        let partitions = vec![Partition::default(); partitions as usize];
        let mut service =
            Self { rates, now: 0.0, settled_at: 0.0, partitions, members: Vec::new(), next_member: 0 };
        service.join(replicas);
        service.partitions.iter_mut().for_each(|partition| partition.still_until = 0.0);
        service.settled_at = 0.0;
        service
    }

    /// How many replicas are members.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.members.len() as u32
    }

    /// Replicas come, all at once.
    pub fn join(&mut self, count: u32) {
        self.members.extend(self.next_member..self.next_member + count);
        self.next_member += count;
        self.changed(count);
    }

    /// Replicas go, all at once.
    pub fn leave(&mut self, count: u32, which: Leaving) {
        let count = (count as usize).min(self.members.len());
        match which {
            Leaving::Oldest => drop(self.members.drain(..count)),
            Leaving::Newest => self.members.truncate(self.members.len() - count),
        }
        self.changed(count as u32);
    }

    /// So much waits already in each partition.
    pub fn owe(&mut self, lags: &[u64]) {
        for (partition, lag) in self.partitions.iter_mut().zip(lags) {
            partition.backlog += *lag as f64;
        }
    }

    /// Time passes, and records come, for each partition so many.
    ///
    /// # Panics
    ///
    /// If there is not one number for each partition.
    pub fn step(&mut self, seconds: f64, arrivals: &[f64]) {
        assert_eq!(arrivals.len(), self.partitions.len(), "arrivals of each partition");
        self.now += seconds;
        for (partition, came) in self.partitions.iter_mut().zip(arrivals) {
            partition.backlog += came;
            partition.served = 0.0;
        }
        let now = self.now;
        let mut active: Vec<&mut Partition> = self
            .partitions
            .iter_mut()
            .filter(|partition| partition.owner.is_some() && partition.still_until <= now)
            .collect();
        active.sort_by(|a, b| a.owner.cmp(&b.owner).then(a.backlog.total_cmp(&b.backlog)));
        for owned in active.chunk_by_mut(|a, b| a.owner == b.owner) {
            serve(owned, self.rates.per_replica, seconds);
        }
        let settled = self.settled_at <= now;
        for partition in &mut self.partitions {
            partition.unseen = if settled { 0.0 } else { partition.unseen + partition.served * seconds };
        }
    }

    /// Lag of each partition, as KEDA would see it: what waits, and what is finished and not yet committed.
    #[must_use]
    pub fn lags(&self) -> Vec<u64> {
        let done = |partition: &Partition| partition.unseen.max(partition.served * self.rates.behind);
        let (mut exact, mut whole) = (0.0, 0);
        let lag = |partition: &Partition| {
            // Rounded so that the sum is right: small lags of many partitions are not lost.
            exact += partition.backlog + done(partition);
            let before = std::mem::replace(&mut whole, exact.round() as u64);
            whole - before
        };
        self.partitions.iter().map(lag).collect()
    }

    fn changed(&mut self, replicas: u32) {
        if replicas > 0 {
            self.settled_at = self.now + self.rates.hand_over;
            self.assign();
        }
    }

    /// Gives everybody as many partitions, the fullest one more where they do not divide evenly. What moves stands still.
    fn assign(&mut self) {
        let Some(each) = self.partitions.len().checked_div(self.members.len()) else { return self.orphan() };
        let with_one_more = self.partitions.len() % self.members.len();
        let owned = |partitions: &[Partition], member| {
            partitions.iter().filter(|partition| partition.owner == Some(member)).count()
        };
        let mut by_size = self.members.clone();
        by_size.sort_by_key(|member| std::cmp::Reverse(owned(&self.partitions, *member)));
        let mut room: Vec<(u32, usize)> = by_size
            .iter()
            .enumerate()
            .map(|(n, member)| (*member, each + usize::from(n < with_one_more)))
            .collect();
        let mut moving = Vec::new();
        for (place, partition) in self.partitions.iter().enumerate() {
            match room.iter_mut().find(|(member, left)| partition.owner == Some(*member) && *left > 0) {
                Some((_, left)) => *left -= 1,
                None => moving.push(place),
            }
        }
        for place in moving {
            let Some((member, left)) = room.iter_mut().find(|(_, left)| *left > 0) else { continue };
            *left -= 1;
            let still_until = self.now + self.rates.hand_over;
            self.partitions[place].owner = Some(*member);
            self.partitions[place].still_until = still_until;
        }
    }

    fn orphan(&mut self) {
        self.partitions.iter_mut().for_each(|partition| partition.owner = None);
    }
}

/// What one replica does for its partitions, those with the least waiting first: equal parts; what a partition does not need goes to
/// the others.
fn serve(owned: &mut [&mut Partition], rate: f64, seconds: f64) {
    let mut left = rate * seconds;
    let count = owned.len();
    for (place, partition) in owned.iter_mut().enumerate() {
        let done = partition.backlog.min(left / (count - place) as f64);
        partition.backlog -= done;
        partition.served = done / seconds;
        left -= done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { per_replica: 50.0, behind: 0.5, hand_over: 3.0 };

    fn lag(service: &Service) -> u64 {
        service.lags().iter().sum()
    }

    #[test]
    fn replicas_that_keep_up_show_what_is_not_yet_committed() {
        let mut service = Service::new(RATES, 8, 2);
        service.step(1.0, &[5.0; 8]);
        assert_eq!(service.lags(), [3, 2, 3, 2, 3, 2, 3, 2], "5 a second, half a second behind");
        service.step(1.0, &[0.0; 8]);
        assert_eq!(lag(&service), 0);
    }

    #[test]
    fn a_backlog_shrinks_by_what_the_replicas_do() {
        let mut service = Service::new(RATES, 8, 2);
        service.step(1.0, &[100.0; 8]);
        assert_eq!(lag(&service), 800 - 100 + 50);
        service.step(1.0, &[0.0; 8]);
        assert_eq!(lag(&service), 800 - 200 + 50);
        service.join(2);
        // Half of the partitions moved and stand still; the first two replicas do as much as before, with the other half. Nothing
        // is committed until the group has settled.
        service.step(1.0, &[0.0; 8]);
        assert_eq!(lag(&service), 800 - 200);
        service.step(1.0, &[0.0; 8]);
        service.step(1.0, &[0.0; 8]);
        assert_eq!(lag(&service), 800 - 600 + 100);
    }

    #[test]
    fn a_replica_spends_what_one_partition_does_not_need_on_the_others() {
        let mut service = Service::new(RATES, 2, 1);
        service.step(1.0, &[10.0, 100.0]);
        assert_eq!(service.lags(), [5, 80]);
    }

    #[test]
    fn few_partitions_move_and_all_are_owned() {
        let moved = |service: &Service| {
            service.partitions.iter().filter(|partition| partition.still_until > service.now).count()
        };
        let mut service = Service::new(RATES, 64, 2);
        service.join(6);
        assert_eq!(moved(&service), 48);
        service.step(10.0, &[0.0; 64]);
        service.leave(1, Leaving::Oldest);
        assert_eq!((moved(&service), service.replicas()), (8, 7));
        service.step(10.0, &[0.0; 64]);
        service.leave(5, Leaving::Newest);
        assert_eq!(service.replicas(), 2);
        assert!(
            service
                .partitions
                .iter()
                .all(|it| it.owner.is_some_and(|owner| service.members.contains(&owner)))
        );
    }

    #[test]
    fn without_replicas_nothing_is_done() {
        let mut service = Service::new(RATES, 4, 1);
        service.leave(1, Leaving::Newest);
        service.step(1.0, &[10.0; 4]);
        assert_eq!((lag(&service), service.replicas()), (40, 0));
        service.join(1);
        service.step(4.0, &[0.0; 4]);
        assert_eq!(lag(&service), 5, "all done, and not yet all committed");
    }
}
