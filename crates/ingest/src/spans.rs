//! The spans of the events of a request that are traced; most have none.

use std::time::SystemTime;

use mailrail_telemetry::{Span, Traces};
use mailrail_types::Event;

use crate::problem::Refusal;

/// Spans that are open until the log has acknowledged, or not. Dropped, they say no outcome: nobody waited for the answer.
pub(crate) struct Spans(Vec<Span>);

impl Spans {
    /// Decides for each event whether it is traced; those that are carry their context on. `begun`: when the request came.
    pub(crate) fn begin(traces: &Traces, events: &mut [Event], begun: Option<SystemTime>) -> Self {
        Self(events.iter_mut().filter_map(|event| traces.accept(event, begun)).collect())
    }

    /// Says what became of the events, which is the same for all of them.
    pub(crate) fn end(self, stored: &Result<(), Refusal>) {
        for span in self.0 {
            match stored {
                Ok(()) => span.end("accepted"),
                Err(refusal) => span.fail(refusal.problem.code()),
            }
        }
    }
}
