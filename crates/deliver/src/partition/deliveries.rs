//! Records of the deliveries come in.

use mailrail_log::{LogError, StoredRecord};
use mailrail_mailbox::{Mark, Offered};
use mailrail_telemetry::delivery_line;

use super::{Partition, Step, Then};
use crate::decode::{class, decode, shape};
use crate::record::quarantine;

impl Partition {
    pub(super) fn take_deliveries(
        &mut self,
        batch: Result<Vec<StoredRecord>, LogError>,
    ) -> Result<(), LogError> {
        for record in self.read_or_wait("deliveries", batch)? {
            self.take_delivery(&record);
        }
        Ok(())
    }

    fn take_delivery(&mut self, record: &StoredRecord) {
        let (source, bytes, now) = (record.offset, record.value.len(), self.shared.now());
        self.marks.push_back(Mark { offset: source, appended_at: record.appended_at });
        let mut held = match decode(record) {
            Ok(held) => held,
            Err(problem) => return self.take_unreadable(record.clone(), problem),
        };
        let delivery = &held.delivery;
        if !self.recent.insert((delivery.id, delivery.history.redrives)) {
            let partition = self.claim.partition;
            delivery_line!(debug, delivery, "known", partition, offset = source, "known delivery again");
            if self.protocol.offer_ended(source, bytes, now) == Offered::Taken {
                self.protocol.recorded(source, now);
            }
            return self.forget();
        }
        let class = class(&self.shared.directory, delivery);
        let shape = shape(class.as_deref(), delivery, bytes);
        let offered = self.protocol.offer(source, &held.mailbox, shape, now);
        self.forget();
        if offered == Offered::Taken {
            #[cfg(test)]
            if crate::tests::loses(&held.delivery.event.body) {
                return;
            }
            held.class = class;
            self.contents.insert(source, held);
        }
    }

    /// An unreadable record holds nothing but the commit, until it is in quarantine.
    fn take_unreadable(&mut self, unreadable: StoredRecord, problem: String) {
        let (source, partition) = (unreadable.offset, self.claim.partition);
        let now = self.shared.now();
        if self.protocol.offer_ended(source, unreadable.value.len(), now) == Offered::Known {
            return;
        }
        tracing::error!(
            partition,
            offset = source,
            problem,
            outcome = "quarantined",
            "delivery record goes to quarantine"
        );
        let shared = self.shared.clone();
        self.tasks.spawn(async move {
            let written = quarantine(&shared, partition, &unreadable, &problem).await;
            Step::Recorded { source, written, then: Then::Done }
        });
    }
}
