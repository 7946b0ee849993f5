//! The load: connections that each send the next request when the one before is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use indicatif::ProgressBar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::BAR_STEP;
use super::events::Requests;

/// Longest answer that is read. Answers of the door are short; pages of metrics are the long ones.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest wait for one answer. Longer than the door waits for the log, so that its own answer says what is wrong.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// How much of an unexpected answer an error shows.
const SHOWN_BYTES: usize = 400;

/// Who is sent to, and as whom.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) token: Arc<str>,
}

/// What a turn took.
pub(super) struct Taken {
    pub(super) accepted: u64,
    pub(super) elapsed: Duration,
    /// Of every request, from before it was written until its answer was complete; in microseconds.
    pub(super) latencies: Vec<u32>,
}

/// Sends all requests. Anything but 202 is an error.
pub(super) async fn run(
    target: &Target,
    connections: u32,
    requests: Requests,
    bar: &ProgressBar,
) -> Result<Taken> {
    let next = Arc::new(AtomicU32::new(0));
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(target.address).await?);
    }
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in open {
        let sender = Sender {
            connection,
            token: Arc::clone(&target.token),
            requests: requests.clone(),
            next: Arc::clone(&next),
            bar: bar.clone(),
        };
        tasks.spawn(sender.run());
    }
    let mut latencies = Vec::with_capacity(requests.count as usize);
    while let Some(ended) = tasks.join_next().await {
        latencies.extend(ended.context("a connection's task")??);
    }
    Ok(Taken { accepted: latencies.len() as u64, elapsed: began.elapsed(), latencies })
}

/// One connection and its share of the requests: whoever is free takes the next.
struct Sender {
    connection: Connection,
    token: Arc<str>,
    requests: Requests,
    next: Arc<AtomicU32>,
    bar: ProgressBar,
}

impl Sender {
    async fn run(mut self) -> Result<Vec<u32>> {
        let (mut latencies, mut request) = (Vec::new(), Vec::new());
        let mut undrawn = 0;
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.requests.count {
                self.bar.inc(u64::from(undrawn));
                return Ok(latencies);
            }
            self.requests.write(index, &mut request, &self.token);
            let began = Instant::now();
            let answer = self.connection.ask(&request).await?;
            latencies.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
            ensure!(answer.status == 202, "an event was answered {}: {}", answer.status, answer.shown());
            undrawn += 1;
            if undrawn == BAR_STEP {
                self.bar.inc(u64::from(undrawn));
                undrawn = 0;
            }
        }
    }
}

/// One keep-alive connection: HTTP/1.1 as far as our servers answer it, with as little work as can be.
pub(super) struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

/// A complete answer.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) body: &'a [u8],
}

impl Answer<'_> {
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN_BYTES)]).into_owned()
    }
}

/// Gets one page on a connection of its own.
pub(super) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut connection = Connection::open(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
    let answer = connection.ask(request.as_bytes()).await?;
    Ok((answer.status, String::from_utf8_lossy(answer.body).into_owned()))
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, arrived: Vec::with_capacity(4096) })
    }

    /// One request and its answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.arrived.clear();
        let answered = tokio::time::timeout(ANSWER_WAIT, self.read()).await;
        let head = answered.map_err(|_| anyhow::anyhow!("no answer within {ANSWER_WAIT:?}"))??;
        Ok(Answer { status: head.status, body: &self.arrived[head.body_at..] })
    }

    async fn read(&mut self) -> Result<Head> {
        loop {
            let read = self.stream.read_buf(&mut self.arrived).await?;
            ensure!(read > 0, "the connection was closed before the answer");
            ensure!(self.arrived.len() <= ANSWER_BYTES_MAX, "an answer has over {ANSWER_BYTES_MAX} bytes");
            if let Some(head) = Head::parse(&self.arrived)?
                && self.arrived.len() >= head.body_at + head.body_bytes
            {
                return Ok(head);
            }
        }
    }
}

/// What is read of a head.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_at: usize,
    body_bytes: usize,
}

impl Head {
    /// `None`: not all of it is there.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).context("the head of an answer is not text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|it| it.parse().ok());
        let status = status.context("an answer without a status")?;
        let length = lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse().ok());
        let Some(body_bytes) = length else { bail!("an answer without a length: {text}") };
        Ok(Some(Self { status, body_at: end + 4, body_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_all_of_it_is_there() {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nx: y\r\n\r\nok";
        for cut in 0..answer.len() - 2 {
            assert_eq!(Head::parse(&answer[..cut]).expect("no error"), None, "{cut}");
        }
        let head = Head { status: 202, body_at: answer.len() - 2, body_bytes: 2 };
        assert_eq!(Head::parse(answer).expect("no error"), Some(head));
        Head::parse(b"HTTP/1.1 202 Accepted\r\n\r\n").expect_err("no length");
    }
}
