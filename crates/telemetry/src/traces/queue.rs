//! What waits for its export, and the task that exports it.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::TracesOptions;
use super::rejected::{Complaint, LastAnswer};
use crate::{ReasonLabels, TraceMetrics};

/// The end of the queue that spans go into. Never waits: what does not fit is dropped and counted.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    dropped: Counter,
}

impl Queue {
    pub(super) fn new(spans_max: usize, metrics: &TraceMetrics) -> (Self, mpsc::Receiver<SpanData>) {
        let (spans, waiting) = mpsc::channel(spans_max.max(1));
        let dropped = metrics.dropped.get_or_create(&ReasonLabels { reason: "queue_full" }).clone();
        (Self { spans, dropped }, waiting)
    }
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        // Full, or nobody exports any more: the process ends.
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    /// The worker exports in its own time.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Counts the spans that the collector did not take.
pub(super) fn export_failed(metrics: &TraceMetrics) -> Counter {
    metrics.dropped.get_or_create(&ReasonLabels { reason: "export_failed" }).clone()
}

/// Spans of an export whose end is not known: lost when this is dropped before, as at the end of the process.
struct OnTheirWay {
    spans: u64,
    lost: Counter,
}

impl OnTheirWay {
    /// Gives how many they were.
    fn arrived(mut self) -> u64 {
        std::mem::take(&mut self.spans)
    }
}

impl Drop for OnTheirWay {
    fn drop(&mut self) {
        self.lost.inc_by(self.spans);
    }
}

/// Exports batches, one after the other.
pub(super) struct BatchExporter<E> {
    exporter: E,
    answer: LastAnswer,
    waiting: mpsc::Receiver<SpanData>,
    stop: CancellationToken,
    batch_spans_max: usize,
    interval: Duration,
    timeout: Duration,
    metrics: TraceMetrics,
    /// The last export failed: said once, until one succeeds.
    failing: bool,
    complaint: Complaint,
}

impl<E: SpanExporter> BatchExporter<E> {
    pub(super) fn new(
        options: &TracesOptions,
        metrics: TraceMetrics,
        (exporter, answer): (E, LastAnswer),
        waiting: mpsc::Receiver<SpanData>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            exporter,
            answer,
            waiting,
            stop,
            batch_spans_max: options.batch_spans_max.max(1),
            interval: options.export_interval,
            timeout: options.export_timeout,
            metrics,
            failing: false,
            complaint: Complaint::default(),
        }
    }

    /// Exports until the stop, and then what is left.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::new();
        while self.fill(&mut batch).await {
            self.export(std::mem::take(&mut batch)).await;
        }
        self.waiting.close();
        loop {
            let room = self.batch_spans_max.saturating_sub(batch.len());
            if room > 0 && self.waiting.recv_many(&mut batch, room).await > 0 {
                continue;
            }
            if batch.is_empty() {
                return;
            }
            self.export(std::mem::take(&mut batch)).await;
        }
    }

    /// Takes spans until there are enough or the first of them has waited long enough; false at the stop.
    async fn fill(&mut self, batch: &mut Vec<SpanData>) -> bool {
        let mut until: Option<Instant> = None;
        while batch.len() < self.batch_spans_max {
            let room = self.batch_spans_max - batch.len();
            let taken = tokio::select! {
                biased;
                () = self.stop.cancelled() => return false,
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => break,
                taken = self.waiting.recv_many(batch, room) => taken,
            };
            if taken == 0 {
                return false;
            }
            until.get_or_insert_with(|| Instant::now() + self.interval);
        }
        true
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let on_their_way = OnTheirWay { spans: batch.len() as u64, lost: export_failed(&self.metrics) };
        let problem = match timeout(self.timeout, self.exporter.export(batch)).await {
            Ok(Ok(())) => {
                self.arrived(on_their_way.arrived());
                if std::mem::take(&mut self.failing) {
                    tracing::info!("spans are exported again");
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        drop(on_their_way);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(
                problem,
                "spans cannot be exported and are dropped until they can; look at telemetry.traces.otlp_endpoint and \
                 the collector there"
            );
        }
    }
}

impl<E> BatchExporter<E> {
    /// The collector answered with success, which it may have restricted.
    fn arrived(&mut self, spans: u64) {
        let rejected = self.answer.take();
        let lost = rejected.as_ref().map_or(0, |it| it.spans.min(spans));
        self.metrics.exported.inc_by(spans - lost);
        if let Some(rejected) = rejected {
            self.metrics.dropped.get_or_create(&ReasonLabels { reason: "rejected" }).inc_by(lost);
            self.complaint.add(&rejected);
        }
    }
}

impl<E> Drop for BatchExporter<E> {
    fn drop(&mut self) {
        // Empty, unless the end came first.
        export_failed(&self.metrics).inc_by(self.waiting.len() as u64);
    }
}
