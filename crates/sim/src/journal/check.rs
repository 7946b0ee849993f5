//! What must hold of every owner all the time, and of everything at the end.

use std::time::Duration;

use super::failure::Failure;
use super::owner::{Owner, Phase};
use super::world::World;

/// The largest delivery of a run.
const DELIVERY_MAX: usize = 600;
/// Time for an entry to be written and read back, and an end to be recorded, when nothing is lost.
const WRITES: Duration = Duration::from_secs(3);
/// Entries of a journal of which nothing is owed: a snapshot, and what was written since.
const JOURNAL_MAX: usize = 12;

impl World<'_> {
    pub(super) fn check_owner(&mut self, owner: &mut Owner) {
        let Some(protocol) = &owner.protocol else { return };
        let (config, partition) = (self.plan.config, owner.partition);
        let mailboxes = self.plan.mailboxes.len();
        let threads: usize = self.plan.mailboxes.iter().map(|m| m.traits.threads).sum();
        let sizes = [
            ("window records", protocol.records(), config.window.records_max),
            (
                "bytes",
                protocol.bytes(),
                config.window.bytes_max + config.content_max + (1 + mailboxes + 2 * threads) * DELIVERY_MAX,
            ),
            (
                "contents",
                owner.contents.values().map(|content| content.bytes).sum(),
                config.window.bytes_max + config.content_max + (1 + mailboxes + 2 * threads) * DELIVERY_MAX,
            ),
            ("timers", protocol.timers(), 2000),
        ];
        for (what, size, most) in sizes {
            if size > most {
                self.oracle.fail(Failure::Memory { partition, what, size, most });
            }
        }
        self.check_pinned(owner);
    }

    /// I8: while entries can be written, nothing that waits or takes long holds the commit.
    fn check_pinned(&mut self, owner: &mut Owner) {
        let Some(protocol) = &owner.protocol else { return };
        let at = protocol.checkpoint().offset;
        let leased = self.processes[owner.process].lease > self.now;
        let writes = self.plan.faults.entry_late == 0.0 && self.plan.faults.entry_lost == 0.0;
        // An isolated partition tries one delivery at a time, and waits for others that do.
        let works = owner.phase == Phase::Working && writes && leased && !protocol.is_isolated();
        let works = works && self.processes[owner.process].alone.is_none();
        let pinned = owner.pinned.filter(|(before, _)| *before == at);
        let is_open = protocol.records() > 0 && works;
        owner.pinned = is_open.then_some(pinned.unwrap_or((at, self.now)));
        let Some((_, since)) = pinned.filter(|_| is_open) else { return };
        let stands = self.now.since(since);
        if stands > 2 * self.plan.config.park_after + WRITES {
            let (partition, millis) = (owner.partition, stands.as_millis() as u64);
            self.oracle.fail(Failure::Pinned { partition, at, millis });
        }
    }

    pub(super) fn check_end(&mut self) {
        if let Some(lost) = self.oracle.lost() {
            return self.oracle.fail(lost);
        }
        let owners: Vec<&Owner> =
            self.owners.values().filter(|owner| owner.phase == Phase::Working).collect();
        let mut failures = Vec::new();
        for owner in owners {
            let partition = owner.partition;
            let Some(protocol) = &owner.protocol else { continue };
            let left = protocol.at_hand();
            if !left.is_empty() || !owner.contents.is_empty() {
                let what = format!("{left:?}, contents of {:?}", owner.contents.keys());
                failures.push(Failure::LeftOver { partition, what });
            }
            let entries = self.partitions[partition].journal.len();
            if entries > JOURNAL_MAX {
                failures.push(Failure::JournalGrew { partition, entries });
            }
        }
        failures.extend(self.too_many_duplicates());
        if let Some(failure) = failures.into_iter().next() {
            self.oracle.fail(failure);
        }
    }

    /// Duplicates by takeovers must be accounted for by what an owner has open at a time.
    fn too_many_duplicates(&self) -> Option<Failure> {
        let config = self.plan.config;
        if self.plan.faults.garbled > 0.0 || self.plan.faults.forget > 0.0 {
            // Everything may be replayed.
            return None;
        }
        let unsaved = self.plan.mailboxes.len() * (config.save_every as usize + 3) + config.asides_max;
        let takeovers = self.oracle.takeovers();
        let most = takeovers * (config.window.records_max + unsaved) as u64;
        let count = self.oracle.duplicates.takeover;
        (count > most).then_some(Failure::Duplicates { count, takeovers, most })
    }
}
