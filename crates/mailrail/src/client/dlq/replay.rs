//! `mailrail dlq replay` and `watch`: ordered, and followed to the end.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use mailrail_control::{ReplayRequest, ReplayStatus};
use tokio_util::sync::CancellationToken;

use super::source::{Source, refused};
use super::{ReplayArgs, print, table};
use crate::client::Output;
use crate::say::say;
use crate::shutdown;

/// Between two looks at a replay.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Looks in a row that may fail before the watching ends; the replay goes on.
const LOOKS_FAILED_MAX: u32 = 20;

/// Orders a replay and follows it.
pub(super) async fn run(source: &Source, args: &ReplayArgs, output: Output) -> Result<()> {
    let request = ReplayRequest {
        filter: args.filter.parts()?,
        all: args.all,
        again: args.again,
        rate: Some(args.rate.0),
    };
    if let Source::Topic(topic) = source
        && let Some(first) = topic.letters.unfinished().await.map_err(refused)?
    {
        say(&format!("{} of {} is not over: it goes on first", first.id, first.by));
    }
    let ordered = source.order(&request).await?;
    if args.detach {
        return print(output, &ordered, |it| table::replays(std::slice::from_ref(it)));
    }
    if matches!(source, Source::Api(_)) {
        say(&format!("{} is carried on by the control API, also when this command ends", ordered.id));
    }
    follow(source, &ordered.id, output).await
}

/// Follows a replay to its end.
pub(super) async fn watch(source: &Source, replay: &str, output: Output) -> Result<()> {
    source.replay(replay).await?;
    follow(source, replay, output).await
}

async fn follow(source: &Source, replay: &str, output: Output) -> Result<()> {
    let ended = match source {
        Source::Api(_) => wait(source, replay).await?,
        Source::Topic(topic) => {
            let stop = CancellationToken::new();
            shutdown::on_signal(stop.clone())?;
            let carried_on = tokio::spawn({
                let (letters, stop) = (topic.letters.clone(), stop.clone());
                async move { letters.run(stop).await }
            });
            let ended = tokio::select! {
                ended = wait(source, replay) => Some(ended?),
                () = stop.cancelled() => None,
            };
            stop.cancel();
            carried_on.await.context("the replay")?;
            match ended {
                Some(ended) => ended,
                None => source.replay(replay).await?,
            }
        }
    };
    print(output, &ended, table::replay)?;
    if !ended.is_over()
        && let Source::Topic(topic) = source
        && topic.letters.is_carried_on_elsewhere(replay).await.map_err(refused)?
    {
        bail!(
            "{replay} is not over; another process carries it on, and `mailrail dlq watch {replay}` follows it"
        );
    }
    if !ended.is_over() {
        bail!("{replay} was stopped before its end; whoever replays next carries it on");
    }
    if ended.cancelled_by.is_some() {
        bail!("{replay} was cancelled before its end");
    }
    if let Some(letters) = table::not_put_back(&ended) {
        bail!("{replay} is over, but letters were not put back: {letters}");
    }
    Ok(())
}

/// Looks until it is over, and shows how far it is.
async fn wait(source: &Source, replay: &str) -> Result<ReplayStatus> {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} looked at, {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let mut failed = 0;
    loop {
        match source.replay(replay).await {
            Ok(status) => {
                failed = 0;
                bar.set_length(status.looked_all);
                bar.set_position(status.looked);
                bar.set_message(format!("{}: {} put back", status.state, status.redriven));
                if status.is_over() {
                    bar.finish_and_clear();
                    return Ok(status);
                }
            }
            Err(error) if failed >= LOOKS_FAILED_MAX => {
                bar.abandon();
                return Err(error
                    .context(format!("{replay} is not watched any more; it is in `mailrail dlq replays`")));
            }
            Err(_) => failed += 1,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
