//! The demo from its receiver to its statement, for a pipeline that somebody else runs.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use mailrail_log::Log;
use tokio::net::TcpListener;

use crate::Error;
use crate::books::{Books, Claims, Pipeline, Statement, settle};
use crate::forward::{Forward, WAVE_EVERY};
use crate::payloads::{Origin, Payloads};
use crate::play::{Play, Played};
use crate::print::print_line;
use crate::receiver::{Receipt, Receiver, ReceiverHandle, ReceiverReport, ReceiverSettings, line};
use crate::setup::{self, Setup};

/// Faults that a summary spells out; the rest is counted.
const FAULTS_SHOWN_MAX: usize = 20;

/// How the demo's bars look.
const BAR: &str = "{prefix:<10} [{bar:40}] {pos}/{len} {elapsed}";

/// A demo that is set up: the receiver runs, payloads are there.
pub struct Demo {
    receiver: ReceiverHandle,
    setup: Setup,
    payloads: Payloads,
    bars: MultiProgress,
    run: String,
}

impl Demo {
    /// Starts the receiver on `listener` and gets payloads, which may take a minute when the network is slow. With
    /// `print`, every arrival is a line on stdout.
    ///
    /// # Errors
    /// [`Error::Listen`] when the listener has no address.
    pub async fn prepare(listener: TcpListener, print: bool) -> Result<Self, Error> {
        let bars = MultiProgress::new();
        let setup = Setup::new(&mut rand::rng());
        let mut settings = ReceiverSettings::new(setup.receiver_endpoints());
        if print {
            let bars = bars.clone();
            settings.on_receipt = Some(Arc::new(move |receipt| bars.suspend(|| print_line(&line(receipt)))));
        }
        let receiver = Receiver::start(listener, settings)?;
        let spinner = bars.add(ProgressBar::new_spinner().with_message("getting payloads"));
        spinner.enable_steady_tick(Duration::from_millis(100));
        let payloads = Payloads::load().await;
        spinner.finish_and_clear();
        Ok(Self { receiver, setup, payloads, bars, run: format!("run-{:08x}", rand::random::<u32>()) })
    }

    /// The set-up file to apply. Holds secrets.
    #[must_use]
    pub fn setup_text(&self) -> String {
        self.setup.text(&format!("http://{}", self.receiver.addr()))
    }

    /// The set-up.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The receiver.
    #[must_use]
    pub fn receiver(&self) -> &ReceiverHandle {
        &self.receiver
    }

    /// Where the payloads came from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.payloads.origin
    }

    /// Opens the books. Must be before anything is played: what is in the log by then is somebody else's.
    ///
    /// # Errors
    /// As [`Books::from_now`].
    pub async fn open_books(&self, log: Arc<dyn Log>, pipeline: Pipeline) -> Result<Books, Error> {
        Books::from_now(log, pipeline).await
    }

    /// Plays the payloads into ingest, which must know the set-up by then: as events of producers, and at the same time
    /// as webhooks of GitHub.
    ///
    /// # Errors
    /// As [`Play::run`] and [`Forward::run`].
    pub async fn play(
        &self,
        ingest: &str,
        events: Option<usize>,
        patience: Duration,
    ) -> Result<Played, Error> {
        let (ingest, run) = (ingest.to_owned(), self.run.clone());
        let forward = Forward { ingest: ingest.clone(), run: run.clone(), patience, wave_every: WAVE_EVERY };
        let play = Play { ingest, run, events, patience };
        let (accesses, hook) = (self.setup.accesses()?, self.setup.hook()?);
        let (events, webhooks) = (self.bar("events"), self.bar("webhooks"));
        let (mut played, forwarded) = tokio::try_join!(
            play.run(&self.payloads, &accesses, &events),
            forward.run(&self.payloads, &hook, &webhooks)
        )?;
        events.finish();
        webhooks.finish();
        played.add(forwarded);
        Ok(played)
    }

    /// Waits until everything played has come to its end, at most `wait`, and closes the books.
    ///
    /// # Errors
    /// As [`Books::catch_up`].
    pub async fn settle(
        &self,
        mut books: Books,
        played: &Played,
        wait: Duration,
    ) -> Result<Statement, Error> {
        let bar = self.bar("settled");
        settle(&mut books, Some(&played.expected), wait, &bar).await?;
        bar.finish();
        let receipts = self.receiver.receipts();
        Ok(books.reconcile(&Claims {
            accepted: Some(&played.accepted),
            expected: Some(&played.expected),
            strict: Some(&self.setup.strict()?),
            bodies: Some(&played.bodies),
            receipts: Some(&receipts),
            receipts_truncated: self.receiver.snapshot().truncated,
        }))
    }

    /// What happened, for people.
    #[must_use]
    pub fn summary(&self, played: &Played, statement: &Statement) -> String {
        let mut text = summary(&self.payloads.origin, played, statement, &self.receiver.snapshot());
        let [prompt, slow] = setup::cells();
        if let Some((done, to_come)) = when_done(&self.receiver.receipts(), &prompt, &slow) {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "When {prompt} had all of its {done} webhooks, {to_come} of {slow}, which is slow, were still to come: \
                 neither waits for the other."
            );
        }
        text
    }

    /// Ends the receiver.
    pub async fn stop(self) {
        self.receiver.stop().await;
    }

    fn bar(&self, prefix: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bars.add(ProgressBar::no_length().with_style(style).with_prefix(prefix))
    }
}

/// How many deliveries `first` took, and how many of `second` came after the last of them. `None` when there were none.
fn when_done(receipts: &[Receipt], first: &str, second: &str) -> Option<(usize, usize)> {
    let of = |endpoint| receipts.iter().filter(move |r: &&Receipt| r.endpoint == endpoint && r.is_accepted());
    let end = of(first).map(|r| r.position).max()?;
    Some((of(first).count(), of(second).filter(|r| r.position > end).count()))
}

fn summary(origin: &Origin, played: &Played, statement: &Statement, report: &ReceiverReport) -> String {
    let mut text = format!("played {origin}\n\n");
    let mut row = |name: &str, count: u64, note: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<17} {count:>7}  {note}");
    };
    row("accepted", statement.accepted, "events and webhooks, each in the log before its 202");
    row("posted again", played.retries, "with the same id, because ingest was busy");
    row("matched", statement.matched, "deliveries: one event for one subscription, one webhook for one cell");
    row("delivered", statement.delivered, "answered 2xx");
    row("forwarded", statement.forwarded, "of them webhooks to cells, byte for byte");
    row("verified", statement.verified, "of them with a signature that the receiver checked");
    row(
        "dead-lettered",
        statement.dead_lettered,
        "refused for good by their endpoint, kept with the payload",
    );
    row("expired", statement.expired, "");
    row("cancelled", statement.cancelled, "");
    row("in progress", statement.in_progress, "");
    row("duplicates", statement.duplicates, "requests that the receiver had taken before");
    row(
        "order violations",
        statement.order_violations,
        "deliveries after a later one of their key, where order is kept",
    );
    row("sequence gaps", statement.sequence_gaps, "numbers that a receiver misses in mailrail-sequence");
    row("mailboxes", statement.mailboxes, "that deliveries were queued in");
    row("widest", u64::from(statement.widest), "mailboxes of one recipient and event type");

    text.push_str("\n  endpoint           requests  delivered  refused\n");
    for (name, counts) in &report.endpoints {
        let refused = counts.received - counts.accepted;
        let _ = writeln!(text, "  {name:<17} {:>9} {:>10} {refused:>8}", counts.received, counts.delivered);
    }
    text.push('\n');
    if statement.balanced {
        text.push_str("The books balance: every accepted event came to every end it was owed.\n");
    } else {
        let _ = writeln!(text, "The books do NOT balance, {} faults:", statement.faults.len());
        for fault in statement.faults.iter().take(FAULTS_SHOWN_MAX) {
            let _ = writeln!(text, "  {fault}");
        }
        if statement.faults.len() > FAULTS_SHOWN_MAX {
            let _ = writeln!(text, "  and {} more", statement.faults.len() - FAULTS_SHOWN_MAX);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::Fault;

    fn statement(faults: Vec<Fault>) -> Statement {
        Statement {
            accepted: 4,
            matched: 3,
            delivered: 2,
            verified: 2,
            dead_lettered: 1,
            expired: 0,
            forwarded: 0,
            mailboxes: 1,
            widest: 1,
            cancelled: 0,
            in_progress: 0,
            unmatched: 0,
            duplicates: 0,
            order_violations: 0,
            sequence_gaps: 0,
            balanced: faults.is_empty(),
            faults,
        }
    }

    #[test]
    fn what_was_still_to_come_is_told_by_the_order_of_arrival() {
        let receipt = |position, endpoint: &str, status| Receipt {
            position,
            ..Receipt::bare(endpoint, "", Some(status))
        };
        let receipts = [
            receipt(1, "slow", 200),
            receipt(2, "prompt", 200),
            receipt(3, "prompt", 200),
            receipt(4, "slow", 503),
            receipt(5, "slow", 200),
            receipt(6, "other", 200),
            receipt(7, "slow", 200),
        ];
        assert_eq!(when_done(&receipts, "prompt", "slow"), Some((2, 2)));
        assert_eq!(when_done(&receipts, "slow", "prompt"), Some((3, 0)));
        assert_eq!(when_done(&receipts, "nobody", "slow"), None);
    }

    #[test]
    fn a_summary_says_whether_the_books_balance_and_why_not() {
        let origin = Origin::Own { because: "npm is not installed".into() };
        let of =
            |faults| summary(&origin, &Played::default(), &statement(faults), &ReceiverReport::default());
        let good = of(Vec::new());
        assert!(good.contains("written for the demo, because npm is not installed"));
        assert!(good.contains("The books balance"));
        let bad = of((0..25).map(Fault::Unmatched).collect());
        assert!(bad.contains("NOT balance, 25 faults"));
        assert!(bad.contains("7 events of the log are not matched yet") && bad.contains("and 5 more"));
    }
}
