//! The log itself, opened as the roles open it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mailrail_control::DeadLetters;
use mailrail_log::{Log, LogError};
use mailrail_telemetry::{LogOptions, Logs, Metrics, init_logs};

use crate::assemble::open_log;
use crate::roles::{dead_letter_options, pipeline};
use crate::settings::backends::LogKind;
use crate::settings::{Settings, environment};
use crate::topics::Topics;

/// How long the log may flush at the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// What is logged beside the result, unless the settings say more.
const FILTER: &str = "warn";

/// The dead letters in an opened log.
pub(super) struct Topic {
    pub(super) letters: DeadLetters,
    /// Who stands in the ledger.
    pub(super) by: String,
    log: Arc<dyn Log>,
    _logs: Logs,
}

impl Topic {
    pub(super) async fn close(&self) {
        self.log.close(CLOSE_WAIT).await;
    }
}

/// Opens the log that the settings name. `writes`: topics that are not there are made, as a role makes them.
///
/// # Errors
/// When the settings cannot work, or another process has the log, or it does not answer.
pub(super) async fn open(config: Option<&Path>, data: Option<&Path>, writes: bool) -> Result<Topic> {
    let base = data.map_or_else(Settings::default, Settings::dev);
    let settings = base.overlaid(config, environment())?;
    settings.validate_log()?;
    let logs = init_logs(LogOptions { filter: FILTER, ..settings.logs.options() }, &Metrics::new().logs);
    let local = settings.log.kind == LogKind::Local;
    if local {
        let path = &settings.log.path;
        std::fs::metadata(path).with_context(|| format!("there is no local log in {}", path.display()))?;
    }
    let log = match open_log(&settings) {
        Err(error) if matches!(error.downcast_ref(), Some(LogError::InUse(_))) => {
            return Err(error
                .context("a mailrail process has the log: leave --from-topic out and ask its control API"));
        }
        opened => opened?,
    };
    if writes {
        log.ensure_topics(&Topics::named(&settings).specs(&settings)).await?;
    }
    let letters = DeadLetters::new(Arc::clone(&log), pipeline(&settings), dead_letter_options(&settings));
    Ok(Topic { letters, by: by(), log, _logs: logs })
}

/// Who runs this.
fn by() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_else(|| "somebody".to_owned());
    match variable("HOSTNAME") {
        Some(host) => format!("{user}@{host}"),
        None => user,
    }
}
