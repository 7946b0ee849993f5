//! `mailrail prepare`: makes what the roles need, and verifies what is there.
//!
//! Topics that are missing are made, those that are there are compared with the settings; the store is migrated. Nothing is deleted, no
//! topic is changed. Running it again changes nothing. The roles do the same when they start: this is for those who want to know
//! before, or whose roles may not make topics.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use mailrail_limits::{Error as LimitsError, WhenFull, when_full};
use mailrail_log::LogError;
use mailrail_store::{Error as StoreError, Store};
use mailrail_telemetry::{Metrics, init_logs};
use tokio_util::sync::CancellationToken;

use crate::assemble::{encryption_key, open_log, patiently};
use crate::cli::RoleArgs;
use crate::say::{print, say};
use crate::settings::{Settings, SettingsError, environment};
use crate::shutdown;
use crate::topics::Topics;

/// How long the log may flush at the end: nothing was appended.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Arguments of `prepare`.
#[derive(Debug, Args)]
pub(crate) struct PrepareArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
    /// How long services are waited for that do not answer yet
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
}

/// What kept it from being prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    /// Stable.
    code: &'static str,
    /// Whether the same call may succeed later.
    passes: bool,
    detail: String,
}

impl Trouble {
    fn new(code: &'static str, detail: String) -> Self {
        Self { code, passes: false, detail }
    }

    fn of_log(error: &anyhow::Error) -> Self {
        let (code, passes) = match error.downcast_ref() {
            Some(LogError::Unavailable(_)) => ("log_unavailable", true),
            Some(LogError::Topics(_)) => ("topics_mismatch", false),
            Some(LogError::Config(_)) => ("log_refused", false),
            Some(LogError::InUse(_)) => ("log_in_use", false),
            _ => ("log_failed", false),
        };
        Self { code, passes, detail: format!("{error:#}") }
    }

    fn of_store(error: &anyhow::Error) -> Self {
        let (code, passes) = match error.downcast_ref() {
            Some(StoreError::Unavailable(_)) => ("store_unavailable", true),
            Some(StoreError::WrongKey) => ("store_wrong_key", false),
            Some(StoreError::NewerSchema { .. }) => ("store_newer_schema", false),
            Some(StoreError::Url(_) | StoreError::Key(_)) => ("store_refused", false),
            _ => ("store_failed", false),
        };
        Self { code, passes, detail: format!("{error:#}") }
    }
}

/// Prepares, says what is, and gives the exit status: 0 when all is as the settings say; 1 when something must be changed first; 3
/// when something did not answer, and the same call may succeed later. (2 is a mistake in the command line.)
pub(crate) async fn run(args: PrepareArgs) -> ExitCode {
    let troubles = prepare(&args).await;
    for Trouble { code, detail, .. } in &troubles {
        say(&format!("error[{code}]: {detail}"));
    }
    match troubles.iter().all(|it| it.passes) {
        _ if troubles.is_empty() => ExitCode::SUCCESS,
        true => ExitCode::from(3),
        false => ExitCode::FAILURE,
    }
}

async fn prepare(args: &PrepareArgs) -> Vec<Trouble> {
    let settings = match read(args) {
        Ok(settings) => settings,
        Err(error) => return vec![Trouble::new(SettingsError::CODE, error.detail())],
    };
    let _logs = init_logs(settings.logs.options(), &Metrics::new().logs);
    let stop = CancellationToken::new();
    if let Err(error) = shutdown::on_signal(stop.clone()) {
        return vec![Trouble::new("signals_failed", format!("{error:#}"))];
    }
    let enough = stop.clone();
    let wait = args.wait;
    let _over = tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        enough.cancel();
    });
    let (topics, store, redis) = tokio::join!(
        prepare_topics(&settings, &stop),
        prepare_store(&settings, &stop),
        look_at_redis(&settings)
    );
    let topics = topics.map_err(|error| Trouble::of_log(&error));
    let store = store.map_err(|error| Trouble::of_store(&error));
    let (mut said, mut troubles) = (String::new(), Vec::new());
    for outcome in [topics, store] {
        match outcome {
            Ok(line) => said.push_str(&line),
            Err(trouble) => troubles.push(trouble),
        }
    }
    said.extend(redis);
    if let Err(error) = print(&said) {
        troubles.push(Trouble::new("output_unwritable", format!("{error:#}")));
    }
    troubles
}

fn read(args: &PrepareArgs) -> Result<Settings, SettingsError> {
    let settings = Settings::load(args.role.config.as_deref(), environment())?;
    settings.validate_prepare()?;
    Ok(settings)
}

/// Makes the topics and gives the line that says so.
async fn prepare_topics(settings: &Settings, stop: &CancellationToken) -> anyhow::Result<String> {
    let log = open_log(settings)?;
    let specs = Topics::named(settings).specs(settings);
    let transient = |error: &LogError| matches!(error, LogError::Unavailable(_));
    let done = patiently("log", stop, transient, || log.ensure_topics(&specs)).await;
    log.close(CLOSE_WAIT).await;
    done?;
    let names: Vec<&str> = specs.iter().map(|it| it.name.as_str()).collect();
    Ok(format!("topics: as the settings say: {}\n", names.join(", ")))
}

/// Migrates the store and gives the line that says so.
async fn prepare_store(settings: &Settings, stop: &CancellationToken) -> anyhow::Result<String> {
    let key = encryption_key(settings)?;
    let transient = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
    let store = patiently("store", stop, transient, || Store::open(&settings.store.url, key.clone())).await?;
    store.close().await;
    Ok(format!("store: migrated: {}\n", settings.store.public_url()))
}

/// Gives the line of what Redis does when it is full, or warns of it. Nothing fails by it: it need not be there.
async fn look_at_redis(settings: &Settings) -> Option<&'static str> {
    match warning_of_redis(settings).await {
        Some((code, text)) => {
            say(&format!("warning[{code}]: {text}"));
            None
        }
        None if settings.limits.redis.is_empty() => Some("redis: none; each process counts for itself\n"),
        None => Some("redis: there, and keeps its keys\n"),
    }
}

/// The stable code and the text of what is wrong with Redis; none when nothing is, or there is none.
pub(crate) async fn warning_of_redis(settings: &Settings) -> Option<(&'static str, String)> {
    let urls = &settings.limits.redis;
    if urls.is_empty() {
        return None;
    }
    warning_when_full(when_full(urls).await)
}

fn warning_when_full(answer: Result<WhenFull, LimitsError>) -> Option<(&'static str, String)> {
    let why = match answer {
        Ok(WhenFull::Refuses) => return None,
        Ok(WhenFull::Evicts(policy)) => {
            return Some((
                "redis_evicts",
                format!(
                    "Redis throws keys away when it is full (maxmemory-policy {policy}): limits of endpoints and sizes of mailboxes are \
                     forgotten then; set maxmemory-policy to noeviction"
                ),
            ));
        }
        Ok(_) => "its INFO has no maxmemory_policy".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = format!(
        "Redis does not say what it does when it is full: {why}; maxmemory-policy must be noeviction"
    );
    Some(("redis_unknown", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_that_may_forget_or_does_not_say_is_warned_of() {
        let code = |answer| warning_when_full(answer).map(|(code, _)| code);
        assert_eq!(code(Ok(WhenFull::Refuses)), None);
        assert_eq!(code(Ok(WhenFull::Evicts("allkeys-lru".to_owned()))), Some("redis_evicts"));
        assert_eq!(code(Ok(WhenFull::Unknown)), Some("redis_unknown"));
        assert_eq!(code(Err(LimitsError::Timeout)), Some("redis_unknown"));
    }

    #[test]
    fn codes_say_whether_to_try_again_or_what_to_change() {
        let log = |error: LogError| Trouble::of_log(&error.into());
        let store = |error: StoreError| Trouble::of_store(&error.into());
        for (trouble, code, passes) in [
            (log(LogError::Unavailable("x".to_owned())), "log_unavailable", true),
            (log(LogError::Topics(Vec::new())), "topics_mismatch", false),
            (log(LogError::Config("x".to_owned())), "log_refused", false),
            (log(LogError::Closed), "log_failed", false),
            (store(StoreError::Unavailable("x".to_owned())), "store_unavailable", true),
            (store(StoreError::WrongKey), "store_wrong_key", false),
            (store(StoreError::NewerSchema { found: 9, known: 1 }), "store_newer_schema", false),
        ] {
            assert_eq!((trouble.code, trouble.passes), (code, passes), "{trouble:?}");
        }
    }
}
