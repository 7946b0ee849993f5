//! An append call and its records, while they wait for the brokers.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::oneshot;

use super::unacknowledged::Reserved;
use crate::Offset;

/// One record of a call on its way.
pub(super) struct Waiting {
    call: Arc<Call>,
    index: usize,
}

/// What an append call comes to.
pub(super) type Outcome = Result<Vec<Offset>, RDKafkaErrorCode>;

/// An append call: answered when every record that was queued has its report.
pub(super) struct Call {
    state: Mutex<CallState>,
    /// Returned when the last record of the call is done, also when its caller went away.
    _reserved: Reserved,
}

struct CallState {
    offsets: Vec<Offset>,
    waiting: usize,
    failed: Option<RDKafkaErrorCode>,
    answer: Option<oneshot::Sender<Outcome>>,
}

impl Waiting {
    /// The report of the record.
    pub(super) fn reported(&self, outcome: Result<Offset, RDKafkaErrorCode>) {
        self.call.reported(self.index, outcome);
    }
}

impl Call {
    /// A call of so many records, whose outcome comes through the receiver.
    pub(super) fn new(records: usize, reserved: Reserved) -> (Arc<Self>, oneshot::Receiver<Outcome>) {
        let (answer, answered) = oneshot::channel();
        let state =
            CallState { offsets: vec![0; records], waiting: records, failed: None, answer: Some(answer) };
        (Arc::new(Self { state: Mutex::new(state), _reserved: reserved }), answered)
    }

    /// The record at this place in the call.
    pub(super) fn record(self: &Arc<Self>, index: usize) -> Box<Waiting> {
        Box::new(Waiting { call: self.clone(), index })
    }

    fn reported(&self, index: usize, outcome: Result<Offset, RDKafkaErrorCode>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(offset) => state.offsets[index] = offset,
            Err(code) => state.failed = state.failed.or(Some(code)),
        }
        state.waiting -= 1;
        state.answer_when_done();
    }

    /// Records from here on were not queued.
    pub(super) fn cut(&self, rest: usize, code: RDKafkaErrorCode) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failed = state.failed.or(Some(code));
        state.waiting -= rest;
        state.answer_when_done();
    }
}

impl CallState {
    fn answer_when_done(&mut self) {
        if self.waiting > 0 {
            return;
        }
        if let Some(answer) = self.answer.take() {
            let offsets = std::mem::take(&mut self.offsets);
            // A caller that went away does not need its answer.
            let _ = answer.send(self.failed.map_or(Ok(offsets), Err));
        }
    }
}
