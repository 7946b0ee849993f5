//! From settings to traces: who the process is, and how its spans go out.

use std::sync::Arc;

use anyhow::{Context, Result};
use http::{Request, Response};
use mailrail_egress::Collector;
use mailrail_telemetry::{Post, PostError, Posting, TracedProcess, Traces, TracesOptions};

use crate::assemble::Parts;
use crate::settings::{Role, Settings};

/// The traces of a role; none where no collector is set.
pub(crate) fn start(role: Role, instance: String, parts: &Parts) -> Result<Traces> {
    let Some(options) = options(role, instance, &parts.settings) else { return Ok(Traces::off()) };
    let collector = Collector::new(options.export_timeout).context("telemetry.traces")?;
    let post: Post = Arc::new(move |request| post(collector.clone(), request));
    Ok(Traces::start(&options, parts.metrics.traces.clone(), post)?)
}

fn post(collector: Collector, request: Request<bytes::Bytes>) -> Posting {
    Box::pin(async move {
        let answer: Result<Response<bytes::Bytes>, PostError> =
            collector.post(request).await.map_err(Into::into);
        answer
    })
}

fn options(role: Role, instance: String, settings: &Settings) -> Option<TracesOptions> {
    let traces = &settings.telemetry.traces;
    Some(TracesOptions {
        url: traces.url()?.into(),
        sample_ratio: traces.sample_ratio,
        asked_per_second_max: traces.asked_per_second_max,
        queue_spans_max: traces.queue_spans_max,
        batch_spans_max: traces.batch_spans_max,
        export_interval: traces.export_interval,
        export_timeout: traces.export_timeout,
        shutdown_timeout: traces.shutdown_timeout,
        process: TracedProcess {
            role: format!("{role:?}").to_ascii_lowercase(),
            instance,
            pipeline: settings.pipeline.name.clone(),
            region: settings.region.clone(),
            version: env!("CARGO_PKG_VERSION"),
        },
    })
}
