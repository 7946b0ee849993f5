//! `mailrail send`: one event to the front door, in CloudEvents binary mode: the data goes out byte for byte.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use data_encoding::BASE32_NOPAD;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Method};
use mailrail_egress::operator::{ApiClient, ApiError};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::Output;
use crate::say::print;

/// Most bytes of data that are read: far above every ingest's limit, which answers with its own.
const DATA_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Longest name of an extension that CloudEvents recommends.
const EXTENSION_NAME_MAX: usize = 20;
/// What CloudEvents escapes in header values (HTTP binding 1.0.2, 3.1.3.2), beside everything outside ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');
/// Attributes that have options of their own, or none.
const NOT_EXTENSIONS: [&str; 9] =
    ["id", "source", "type", "specversion", "subject", "time", "datacontenttype", "dataschema", "data"];

/// Arguments of `mailrail send`.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// Address of ingest
    #[arg(long, env = "MAILRAIL_INGEST_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) url: String,
    /// API key of the tenant; other users of this machine can see it: prefer the variable
    #[arg(long, env = "MAILRAIL_KEY", hide_env_values = true)]
    pub(crate) key: String,
    /// What happened, as com.github.push
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: String,
    /// Who says so, as a URI or path
    #[arg(long)]
    pub(crate) source: String,
    /// Unique per source; the same id again is the same event [default: random]
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// What it happened to
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Ordering key: events with the same key stay in order
    #[arg(long, value_name = "KEY")]
    pub(crate) partition_key: Option<String>,
    /// A further attribute, whose name has 1 to 20 of a-z and 0-9; may be given several times
    #[arg(long = "extension", value_name = "NAME=VALUE", value_parser = extension)]
    pub(crate) extensions: Vec<(String, String)>,
    /// Media type of the data
    #[arg(long, default_value = "application/json")]
    pub(crate) content_type: String,
    /// The data as text; without --data and --data-file, standard input is read
    #[arg(long, value_name = "TEXT", conflicts_with = "data_file")]
    pub(crate) data: Option<String>,
    /// A file with the data; '-' reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) data_file: Option<PathBuf>,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// Sends the event and prints its id.
///
/// # Errors
/// When the event cannot be read or ingest refuses it.
pub(crate) async fn run(args: SendArgs) -> Result<()> {
    let id = args
        .id
        .clone()
        .unwrap_or_else(|| BASE32_NOPAD.encode(&rand::random::<[u8; 16]>()).to_ascii_lowercase());
    let headers = headers(&args, &id)?;
    let data = read_data(&args)?;
    let client = ApiClient::new(&args.url, Some(args.key.trim()))?;
    let answer =
        client.send(Method::POST, "/v1/events", headers, data.into()).await.map_err(|e| unsent(&e, &id))?;
    match args.output {
        // One line for each event: they may be many, and go into one file.
        Output::Json => print(&format!("{answer}\n")),
        Output::Text => {
            let id = answer.get("id").and_then(|id| id.as_str());
            print(&format!("{}\n", id.context("the answer of ingest has no id")?))
        }
    }
}

/// Codes after which nobody knows whether the event was taken: the log did not acknowledge, or the answer was lost on its
/// way, before or behind a proxy.
const UNCLEAR: [&str; 5] = ["log_unavailable", "timeout", "unreachable", "http_502", "http_504"];

/// The refusal; and, where the event may have been taken all the same, how to send it again without doubling it.
fn unsent(error: &ApiError, id: &str) -> anyhow::Error {
    if UNCLEAR.contains(&error.code.as_str()) {
        anyhow!(
            "{error}; the event may have been accepted: sending it again with --id {id} does not double it"
        )
    } else {
        anyhow!("{error}")
    }
}

fn extension(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if name.is_empty() || name.len() > EXTENSION_NAME_MAX || !plain {
        return Err(format!("a name has 1 to {EXTENSION_NAME_MAX} of a-z and 0-9"));
    }
    if NOT_EXTENSIONS.contains(&name) {
        return Err(format!("'{name}' is not an extension; see the other options"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn headers(args: &SendArgs, id: &str) -> Result<Vec<(HeaderName, HeaderValue)>> {
    let media_type = args.content_type.trim().to_ascii_lowercase();
    if media_type.starts_with("application/cloudevents") {
        bail!(
            "--content-type is the media type of the data; the event itself is made from the other options"
        );
    }
    let content_type = HeaderValue::from_str(args.content_type.trim()).context("--content-type")?;
    let mut headers = vec![(CONTENT_TYPE, content_type)];
    let mut attributes =
        vec![("specversion", "1.0"), ("id", id), ("source", &args.source), ("type", &args.event_type)];
    attributes.extend(args.subject.as_deref().map(|subject| ("subject", subject)));
    attributes.extend(args.partition_key.as_deref().map(|key| ("partitionkey", key)));
    attributes.extend(args.extensions.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for (name, value) in attributes {
        let header: HeaderName =
            format!("ce-{name}").parse().with_context(|| format!("attribute '{name}'"))?;
        if headers.iter().any(|(known, _)| *known == header) {
            bail!("attribute '{name}' is given twice; give it once");
        }
        let escaped = utf8_percent_encode(value, ESCAPED).to_string();
        headers
            .push((header, HeaderValue::from_str(&escaped).with_context(|| format!("attribute '{name}'"))?));
    }
    Ok(headers)
}

fn read_data(args: &SendArgs) -> Result<Vec<u8>> {
    if let Some(text) = &args.data {
        return Ok(text.clone().into_bytes());
    }
    let mut data = Vec::new();
    match args.data_file.as_deref().filter(|file| *file != Path::new("-")) {
        Some(file) => std::fs::File::open(file)
            .and_then(|f| f.take(DATA_MAX_BYTES + 1).read_to_end(&mut data))
            .with_context(|| format!("data file {}", file.display()))?,
        None if args.data_file.is_none() && std::io::stdin().is_terminal() => {
            bail!("there is no data: give --data or --data-file, or pipe it in")
        }
        None => std::io::stdin().take(DATA_MAX_BYTES + 1).read_to_end(&mut data).context("standard input")?,
    };
    if data.len() as u64 > DATA_MAX_BYTES {
        bail!("the data is larger than 64 MiB");
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        send: SendArgs,
    }

    fn parse(more: &[&str]) -> Result<SendArgs, clap::Error> {
        let base = ["send", "--key", "k", "--type", "t", "--source", "/s"];
        Cli::try_parse_from(base.iter().chain(more)).map(|cli| cli.send)
    }

    fn value(args: &SendArgs, name: &str) -> Option<String> {
        let headers = headers(args, "the id").expect("headers");
        headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn n01_attributes_become_escaped_headers() {
        let args = parse(&[
            "--subject",
            "Grüße \"%\"",
            "--partition-key",
            "42",
            "--extension",
            "team=pay=eu",
            "--data",
            "",
        ])
        .expect("arguments");
        assert_eq!(value(&args, "ce-specversion").as_deref(), Some("1.0"));
        assert_eq!(value(&args, "ce-id").as_deref(), Some("the%20id"));
        assert_eq!(value(&args, "ce-type").as_deref(), Some("t"));
        assert_eq!(value(&args, "ce-source").as_deref(), Some("/s"));
        assert_eq!(value(&args, "ce-subject").as_deref(), Some("Gr%C3%BC%C3%9Fe%20%22%25%22"));
        assert_eq!(value(&args, "ce-partitionkey").as_deref(), Some("42"));
        assert_eq!(value(&args, "ce-team").as_deref(), Some("pay=eu"));
        assert_eq!(value(&args, "content-type").as_deref(), Some("application/json"));
        assert_eq!(read_data(&args).expect("data"), b"");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for bad in ["novalue", "=v", "Big=v", "a-b=v", "id=v", "data=v", "abcdefghijklmnopqrstu=v"] {
            assert!(parse(&["--extension", bad]).is_err(), "{bad}");
        }
        assert!(parse(&["--data", "a", "--data-file", "b"]).is_err());
        let twice = parse(&["--extension", "a=1", "--extension", "a=2"]).expect("arguments");
        assert!(headers(&twice, "i").expect_err("twice").to_string().contains("'a' is given twice"));
        let twice = parse(&["--partition-key", "1", "--extension", "partitionkey=2"]).expect("arguments");
        assert!(headers(&twice, "i").is_err());
        let structured = parse(&["--content-type", "application/CloudEvents+json"]).expect("arguments");
        assert!(headers(&structured, "i").is_err());
    }

    #[test]
    fn n05_data_is_read_byte_for_byte() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data");
        let bytes = b"\xff\x00{\"a\":1, \"a\":2}\r\n";
        std::fs::write(&file, bytes).expect("write");
        let args = parse(&["--data-file", file.to_str().expect("text")]).expect("arguments");
        assert_eq!(read_data(&args).expect("data"), bytes);
    }

    #[test]
    fn only_an_unclear_failure_suggests_to_send_again() {
        let text = |status, code: &str| {
            let error =
                ApiError { status, code: code.into(), detail: "d".into(), field: None, problems: Vec::new() };
            unsent(&error, "x").to_string()
        };
        for (status, code) in [(401, "unauthorized"), (413, "body_too_large"), (503, "overloaded")] {
            assert_eq!(text(Some(status), code), format!("d ({code})"), "it was not taken for sure");
        }
        for (status, code) in [
            (Some(503), "log_unavailable"),
            (Some(502), "http_502"),
            (None, "timeout"),
            (None, "unreachable"),
        ] {
            assert!(text(status, code).contains("may have been accepted"), "{code}");
            assert!(text(status, code).contains("--id x"), "{code}");
        }
    }
}
