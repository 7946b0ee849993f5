//! A proxy before Redis that holds every answer back once it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Pieces of answers held back for one connection. A client that asks more gets its answers later still.
const HELD_MAX: usize = 1024;
/// Bytes of a piece.
const PIECE_BYTES: usize = 16 * 1024;

/// The switch of a running proxy.
#[derive(Clone)]
pub(super) struct SlowRedis {
    pub(super) address: SocketAddr,
    slow: Arc<AtomicBool>,
}

impl SlowRedis {
    /// Starts a proxy to `redis` (`host:port`); answers pass at once until [`SlowRedis::slow_down`].
    pub(super) async fn start(redis: String, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = Self { address: listener.local_addr()?, slow: Arc::default() };
        let slow = Arc::clone(&proxy.slow);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A Redis that refuses looks to the client like one that hangs up.
                let Ok(server) = TcpStream::connect(&redis).await else { continue };
                pass(client, server, delay, Arc::clone(&slow));
            }
        });
        Ok(proxy)
    }

    /// Answers that arrive from now on are late.
    pub(super) fn slow_down(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }
}

/// The URL with another address in it.
pub(super) fn redirect(url: &str, to: SocketAddr) -> Result<String> {
    let (mut parsed, _) = parse(url)?;
    let moved = parsed.set_ip_host(to.ip()).and_then(|()| parsed.set_port(Some(to.port())));
    moved.ok().context("the address of Redis cannot be changed")?;
    Ok(parsed.into())
}

/// The URL, and its `host:port`.
pub(super) fn parse(url: &str) -> Result<(url::Url, String)> {
    let parsed = url::Url::parse(url).context("the URL of Redis cannot be read")?;
    let host = parsed.host_str().context("the URL of Redis has no host")?;
    let authority = format!("{host}:{}", parsed.port().unwrap_or(6379));
    Ok((parsed, authority))
}

fn pass(client: TcpStream, server: TcpStream, delay: Duration, slow: Arc<AtomicBool>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((mut questions, to_client), (answers, mut to_server)) = (client.into_split(), server.into_split());
    tokio::spawn(async move {
        let _ = tokio::io::copy(&mut questions, &mut to_server).await;
        let _ = to_server.shutdown().await;
    });
    let (hold, held) = mpsc::channel(HELD_MAX);
    tokio::spawn(receive(answers, delay, slow, hold));
    tokio::spawn(release(held, to_client));
}

/// Notes for each piece of an answer when it may go on.
async fn receive(
    mut answers: OwnedReadHalf,
    delay: Duration,
    slow: Arc<AtomicBool>,
    hold: mpsc::Sender<(Instant, Vec<u8>)>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(read @ 1..) = answers.read(&mut piece).await {
        let wait = if slow.load(Ordering::Relaxed) { delay } else { Duration::ZERO };
        if hold.send((Instant::now() + wait, piece[..read].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn release(mut held: mpsc::Receiver<(Instant, Vec<u8>)>, mut to_client: OwnedWriteHalf) {
    while let Some((due, piece)) = held.recv().await {
        tokio::time::sleep_until(due).await;
        if to_client.write_all(&piece).await.is_err() {
            return;
        }
    }
    let _ = to_client.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_replaced_and_the_rest_stays() {
        let to = SocketAddr::from(([127, 0, 0, 1], 7));
        assert_eq!(parse("redis://user:word@redis.example:1234/2").expect("a URL").1, "redis.example:1234");
        assert_eq!(
            redirect("redis://user:word@redis.example:1234/2", to).expect("a URL"),
            "redis://user:word@127.0.0.1:7/2"
        );
    }

    /// Late, complete and in order; the clock is the test's.
    #[tokio::test(start_paused = true)]
    async fn answers_are_late_once_the_switch_is_on() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = server.local_addr().expect("address").to_string();
        let proxy = SlowRedis::start(address, Duration::from_secs(5)).await.expect("proxy");
        let mut client = TcpStream::connect(proxy.address).await.expect("connected");
        let (mut behind, _) = server.accept().await.expect("accepted");
        let mut answer = [0; 2];

        behind.write_all(b"a1").await.expect("written");
        client.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"a1");

        proxy.slow_down();
        let began = Instant::now();
        behind.write_all(b"b2").await.expect("written");
        client.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"b2");
        assert!(began.elapsed() >= Duration::from_secs(5));
    }
}
