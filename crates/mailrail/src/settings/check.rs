//! `mailrail check-config`: says whether a role would start with these settings.

use std::path::PathBuf;
use std::process::ExitCode;

use super::backends::LogKind;
use super::load::environment;
use super::{Role, Settings, SettingsError};
use crate::say::{print, say};

/// Arguments of `mailrail check-config`.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckConfig {
    /// The settings file; without it the environment alone is checked.
    file: Option<PathBuf>,
    /// The role that will read it.
    #[arg(long, value_enum, default_value = "all")]
    role: Role,
}

/// Prints what the settings say, or every problem, and gives the exit status.
pub(crate) fn check_config(args: &CheckConfig) -> ExitCode {
    match report(args, environment()) {
        Ok(summary) => match print(&format!("{summary}\n")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("error: {error:#}"));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            say(&error.report());
            ExitCode::FAILURE
        }
    }
}

fn report(args: &CheckConfig, env: Vec<(String, String)>) -> Result<String, SettingsError> {
    let settings = Settings::load(args.file.as_deref(), env)?;
    settings.validate(args.role)?;
    let log = match settings.log.kind {
        LogKind::Kafka => format!("kafka {}", settings.log.kafka.brokers.join(",")),
        LogKind::Local => format!("local {}", settings.log.path.display()),
    };
    let pipeline = &settings.pipeline;
    Ok(format!(
        "OK: pipeline {} with {} partitions, log {log}, store {}, {} keys set",
        pipeline.name,
        pipeline.partitions,
        settings.store.public_url(),
        settings.origins.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_file_is_summed_up_without_passwords() {
        let key = data_encoding::BASE64.encode(&[7; 32]);
        let env = [
            ("MAILRAIL__LOG__KAFKA__BROKERS", "a:9092"),
            ("MAILRAIL__STORE__URL", "postgres://rail:canary@db/rail"),
            ("MAILRAIL_ENCRYPTION_KEY", key.as_str()),
            ("MAILRAIL_ADMIN_TOKEN", "0123456789abcdef0123456789abcdef"),
        ];
        let env = env.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        let summary = report(&CheckConfig { file: None, role: Role::All }, env).expect("good");
        assert!(summary.starts_with(
            "OK: pipeline default with 64 partitions, log kafka a:9092, store postgres://db/rail"
        ));
        assert!(!summary.contains("canary"));
    }
}
