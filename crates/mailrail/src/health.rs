//! `mailrail health`: asks a process at its admin port whether it is ready; for health checks where nothing else can ask, as there is
//! no shell in the image.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use http::StatusCode;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cli::RoleArgs;
use crate::say::print;
use crate::settings::{Settings, environment};

/// Most bytes of an answer.
const ANSWER_MAX_BYTES: u64 = 64 * 1024;

/// Arguments of `health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    #[command(flatten)]
    pub(crate) role: RoleArgs,
    /// The admin port to ask [default: `admin.listen` of the settings, on this machine]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// Ask only whether the process answers, not whether it is ready
    #[arg(long)]
    pub(crate) live: bool,
    /// Longest time for the answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

/// Prints what the process says.
///
/// # Errors
/// When it is not ready, with the reasons; when it does not answer in time.
pub(crate) async fn run(args: HealthArgs) -> Result<()> {
    let address = match args.address {
        Some(address) => address,
        None => here(Settings::load(args.role.config.as_deref(), environment())?.admin.listen).to_string(),
    };
    let path = if args.live { "/livez" } else { "/readyz" };
    let asked = tokio::time::timeout(args.timeout, ask(&address, path)).await;
    let timeout = humantime::format_duration(args.timeout);
    let (status, body) = asked
        .with_context(|| format!("no answer within {timeout}"))
        .and_then(|answer| answer)
        .with_context(|| {
            format!(
                "{address} is not healthy; is the process there, and is this its admin port (admin.listen)"
            )
        })?;
    if !status.is_success() {
        bail!("not ready: {}", reasons(status, &body));
    }
    print(if args.live { "alive\n" } else { "ready\n" })
}

/// Where a process of this machine is asked that listens on `listen`: one that listens everywhere is here, too.
fn here(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// One request on a connection of its own. The admin port answers whole and closes; this is no client for anything else.
async fn ask(address: &str, path: &str) -> Result<(StatusCode, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).await?;
    taken_apart(&answer).context("it does not answer as an admin port does")
}

/// Status and body of an answer.
fn taken_apart(answer: &[u8]) -> Option<(StatusCode, Vec<u8>)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?.parse().ok()?;
    Some((status, answer.get(end + 4..)?.to_vec()))
}

/// Why it is not ready, as far as its answer says.
fn reasons(status: StatusCode, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let failed = body["checks"].as_array().into_iter().flatten().filter(|check| check["ok"] == false);
    let mut reasons: Vec<String> = failed
        .map(|check| {
            let text = |field: &str| check[field].as_str().unwrap_or("failed").to_owned();
            format!("{}: {}", text("name"), text("error"))
        })
        .collect();
    if body["draining"] == true {
        reasons.insert(0, "it is draining".to_owned());
    }
    if reasons.is_empty() { format!("it answers {status}") } else { reasons.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_answer() {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let body = br#"{"ready":false,"draining":true,"checks":[{"name":"log","ok":true},{"name":"store","ok":false,"error":"away"}]}"#;
        assert_eq!(reasons(status, body), "it is draining; store: away");
        assert_eq!(reasons(status, b"<html>"), "it answers 503 Service Unavailable");
    }

    #[test]
    fn an_answer_is_taken_apart_and_what_is_none_is_not() {
        let answer = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(taken_apart(answer), Some((StatusCode::SERVICE_UNAVAILABLE, b"{}".to_vec())));
        for other in [&b""[..], b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\n"] {
            assert_eq!(taken_apart(other), None);
        }
    }

    #[test]
    fn a_process_that_listens_everywhere_is_asked_here() {
        for (listen, asked) in
            [("0.0.0.0:9464", "127.0.0.1:9464"), ("[::]:1", "[::1]:1"), ("10.0.0.1:2", "10.0.0.1:2")]
        {
            assert_eq!(here(listen.parse().expect("an address")).to_string(), asked);
        }
    }
}
