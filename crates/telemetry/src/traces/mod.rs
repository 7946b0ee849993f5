//! Traces: one from the door through match to the attempt, exported over OTLP.
//!
//! A stage puts the context of its span into the record that it writes ([`Event::trace`]), and the next stage goes on from
//! there: journal, dead letters and replays carry it as they carry the event. The spans are in `spans`, what is waiting for
//! its export in `queue`.
//!
//! **Always holds**: whether an event is traced is decided once, at the door; what waits for its export is bounded, and what
//! does not fit is dropped and counted, so that a collector that is slow or away changes nothing; no span holds a body, a
//! secret, a value of a header, or a URL.
//!
//! **Deliberately absent**: context for recipients. Nothing of a trace is sent with an attempt.

mod asked;
mod context;
mod export;
mod queue;
mod rejected;
mod spans;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailrail_types::{Event, TraceContext};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, SpanExporter};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::TraceMetrics;
use asked::Asked;
pub use export::{Post, PostError, Posting, TracesError};
use queue::{BatchExporter, Queue};
use rejected::LastAnswer;
pub use spans::Span;

/// How traces are made and exported, where they are on.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesOptions {
    /// Where spans are posted to, complete with its path.
    pub url: String,
    /// Share of the events without a context of their producer's that are traced, `0.0..=1.0`.
    pub sample_ratio: f64,
    /// Events per second that are traced because their producer asks for it; those beyond are not traced.
    pub asked_per_second_max: u32,
    /// Spans that may wait for their export; those beyond are dropped.
    pub queue_spans_max: usize,
    /// Spans of one export.
    pub batch_spans_max: usize,
    /// How long a span waits for others to be exported with.
    pub export_interval: Duration,
    /// Total time of an export; its spans are dropped then.
    pub export_timeout: Duration,
    /// How long the export may take at the end.
    pub shutdown_timeout: Duration,
    /// Which process it is.
    pub process: TracedProcess,
}

/// What is said of the process with its spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedProcess {
    /// Role, as the command line names it.
    pub role: String,
    /// Unlike that of any other process.
    pub instance: String,
    /// The pipeline that it works for.
    pub pipeline: String,
    /// The region; empty where there is one.
    pub region: String,
    /// Version of the program.
    pub version: &'static str,
}

/// Makes the spans of a process; or none, which is the default. A clone is the same.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<On>>);

#[derive(Debug)]
struct On {
    tracer: SdkTracer,
    /// Ends the tracer's work when it is dropped.
    _provider: SdkTracerProvider,
    pipeline: opentelemetry::StringValue,
    sample_ratio: f64,
    asked: Mutex<Asked>,
    since: Instant,
    metrics: TraceMetrics,
    stop: CancellationToken,
    worker: Mutex<Option<JoinHandle<()>>>,
    shutdown_timeout: Duration,
}

impl Traces {
    /// Makes none. What records carry of a producer's context is left as it is.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Traces that go out through `post`. Must be called in a runtime, which then exports.
    ///
    /// # Errors
    /// [`TracesError`] when the exporter cannot be made of the options and the `OTEL_EXPORTER_OTLP_*` variables.
    pub fn start(options: &TracesOptions, metrics: TraceMetrics, post: Post) -> Result<Self, TracesError> {
        let answer = LastAnswer::default();
        let exporter = export::exporter(options, post, answer.clone())?;
        Ok(Self::with_exporter(options, metrics, exporter, answer))
    }

    fn with_exporter<E: SpanExporter + 'static>(
        options: &TracesOptions,
        metrics: TraceMetrics,
        mut exporter: E,
        answer: LastAnswer,
    ) -> Self {
        let resource = resource(&options.process);
        exporter.set_resource(&resource);
        let stop = CancellationToken::new();
        let (queue, waiting) = Queue::new(options.queue_spans_max, &metrics);
        let provider = SdkTracerProvider::builder()
            // Who asks for a span has decided already.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(resource)
            .with_span_processor(queue)
            .build();
        let pipeline = options.process.pipeline.clone().into();
        let worker = BatchExporter::new(options, metrics.clone(), (exporter, answer), waiting, stop.clone());
        Self(Some(Arc::new(On {
            tracer: provider.tracer("mailrail"),
            _provider: provider,
            pipeline,
            sample_ratio: options.sample_ratio,
            asked: Mutex::new(Asked::new(options.asked_per_second_max)),
            since: Instant::now(),
            metrics,
            stop,
            worker: Mutex::new(Some(tokio::spawn(worker.run()))),
            shutdown_timeout: options.shutdown_timeout,
        })))
    }

    /// Headers of the record of an event or a delivery: `traceparent` of an event that is traced, for other readers of the
    /// topic. Our own read it from the record, which goes further than its headers.
    #[must_use]
    pub fn headers(&self, event: &Event) -> Vec<(String, bytes::Bytes)> {
        match (&self.0, &event.trace) {
            (Some(_), Some(trace)) if context::is_sampled(trace) => context::headers(trace),
            _ => Vec::new(),
        }
    }

    /// Exports what waits and ends; takes [`TracesOptions::shutdown_timeout`] at most. Spans that end later are dropped.
    pub async fn shutdown(&self) {
        let Some(on) = self.0.as_deref() else { return };
        let worker = on.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut worker) = worker else { return };
        on.stop.cancel();
        if tokio::time::timeout(on.shutdown_timeout, &mut worker).await.is_err() {
            let dropped = queue::export_failed(&on.metrics);
            let before = dropped.get();
            worker.abort();
            // It counts what it had when it is gone, which is at its next await.
            let _ = worker.await;
            let lost = dropped.get() - before;
            tracing::warn!(lost, "the collector is too slow; spans are lost at the end");
        }
    }
}

impl On {
    /// Whether an event that nobody asked to trace is traced.
    fn draws(&self) -> bool {
        self.sample_ratio > 0.0 && rand::random::<f64>() < self.sample_ratio
    }

    /// Whether an event whose producer asks for it is traced; counts those that are not.
    fn grants(&self) -> bool {
        let granted = self.asked.lock().unwrap_or_else(PoisonError::into_inner).grant(self.since.elapsed());
        if !granted {
            self.metrics.asked_over_limit.inc();
        }
        granted
    }
}

impl Drop for On {
    fn drop(&mut self) {
        // Nobody can make a span any more: the worker exports what is left and ends.
        self.stop.cancel();
    }
}

/// The context that goes with a record when the event is traced.
fn sampled(trace: Option<&TraceContext>) -> Option<&TraceContext> {
    trace.filter(|trace| context::is_sampled(trace))
}

fn resource(process: &TracedProcess) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.version", process.version),
        KeyValue::new("service.instance.id", process.instance.clone()),
        KeyValue::new("mailrail.role", process.role.clone()),
    ];
    if !process.region.is_empty() {
        attributes.push(KeyValue::new("mailrail.region", process.region.clone()));
    }
    Resource::builder().with_service_name("mailrail").with_attributes(attributes).build()
}
