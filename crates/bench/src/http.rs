//! A client for measuring: HTTP/1.1 as far as our servers answer it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest answer that is read. Answers of the door are short; pages of metrics are the long ones.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest wait for one answer. Longer than the door waits for the log, so that its own answer says what is wrong.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// How much of an unexpected answer an error shows.
const SHOWN_BYTES: usize = 400;

/// One keep-alive connection: HTTP/1.1 as far as our servers answer it, with as little work as can be.
pub(crate) struct Connection {
    stream: TcpStream,
    arrived: Vec<u8>,
}

/// A complete answer.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Answer<'_> {
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(SHOWN_BYTES)]).into_owned()
    }
}

/// Gets one page on a connection of its own.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut connection = Connection::open(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
    let answer = connection.ask(request.as_bytes()).await?;
    Ok((answer.status, String::from_utf8_lossy(answer.body).into_owned()))
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, arrived: Vec::with_capacity(4096) })
    }

    /// One request and its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
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
