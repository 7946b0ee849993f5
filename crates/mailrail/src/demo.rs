//! `mailrail dev --demo`: sets up two tenants, plays webhook payloads through them, as events and as
//! webhooks to forward, and closes the books.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use mailrail_demo::books::Pipeline;
use mailrail_demo::show::Demo;
use mailrail_egress::operator::ApiClient;
use mailrail_log::TopicSpec;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::assemble::Parts;
use crate::cli::DevArgs;
use crate::client::apply::{Options, apply_text};
use crate::roles::Running;
use crate::say::say;

/// How long one event is posted again while the front door is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the demo waits for everything to come to its end: the retries of the demo's failing endpoint included.
const SETTLE: Duration = Duration::from_secs(180);

/// Plays the demo and gives its line of JSON. Without `--exit` the receiver stays up until `stop`.
///
/// # Errors
/// When a step fails, or the books do not balance.
pub(crate) async fn run(
    args: &DevArgs,
    running: &Running,
    parts: &Arc<Parts>,
    stop: &CancellationToken,
) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("the receiver cannot listen")?;
    let demo = Demo::prepare(listener, !args.exit).await?;
    let control = running.doors.control.context("control does not run")?;
    let token = parts.settings.control.token.as_ref().context("there is no token")?;
    let api = ApiClient::new(&format!("http://{control}"), Some(token.expose()))?;
    apply_text(&api, "the demo's set-up", &demo.setup_text(), Options::default()).await?;

    let ingest = format!("http://{}", running.doors.ingest.context("ingest does not run")?);
    let events = args.events.map(usize::try_from).transpose()?;
    let books = demo.open_books(parts.log.clone(), pipeline(parts)).await?;
    let played = demo.play(&ingest, events, PATIENCE).await?;
    let statement = demo.settle(books, &played, SETTLE).await?;
    say(&format!("\n{}", demo.summary(&played, &statement)));
    let line = statement.json_line();
    if !statement.balanced || statement.order_violations > 0 {
        bail!("the books do not balance: {line}");
    }
    if !args.exit {
        next_steps(args, &ingest);
        stop.cancelled().await;
    }
    demo.stop().await;
    Ok(line)
}

fn pipeline(parts: &Parts) -> Pipeline {
    let topics = &parts.topics;
    let spec = |name: &String| TopicSpec {
        name: name.clone(),
        partitions: parts.settings.pipeline.partitions,
        retention: None,
    };
    Pipeline {
        events: spec(&topics.events),
        deliveries: spec(&topics.deliveries),
        attempts: spec(&topics.attempts),
        dead_letters: spec(&topics.dead_letters),
        match_group: topics.match_group.clone(),
    }
}

fn next_steps(args: &DevArgs, ingest: &str) {
    let token_file = args.data.join("admin-token");
    let lines = [
        "Still running; Ctrl-C ends it. What to try next, in another terminal:".to_owned(),
        format!("  mailrail status --token-file {}", token_file.display()),
        format!("  mailrail apply --token-file {} -f examples/first-setup.yaml", token_file.display()),
        format!(
            "  mailrail send --url {ingest} --key KEY --type com.example.hello --source /me --data '{{\"hello\":1}}'"
        ),
        "  (the binary is target/debug/mailrail; the format of the file is in docs/reference/setup-file.md)"
            .to_owned(),
    ];
    say(&lines.join("\n"));
}
