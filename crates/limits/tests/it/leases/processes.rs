//! Real processes against one endpoint, over a real Redis.
//!
//! The endpoint is a socket of the test: a request is open from connect until the endpoint closes it. The processes are this
//! test binary again, told by the environment to run [`a_process`].

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mailrail_limits::Terms;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{Client, Open, patient, quick, recipient, until};
use crate::servers::Server;

const ENDPOINT: &str = "MAILRAIL_TEST_LEASES_ENDPOINT";
const ARGUMENTS: &str = "MAILRAIL_TEST_LEASES_ARGUMENTS";

/// Counts requests; each takes as long as it is told.
struct Endpoint {
    address: SocketAddr,
    open: Arc<Open>,
    received: Vec<Arc<AtomicU64>>,
}

impl Endpoint {
    async fn start(processes: usize, takes: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let (address, open) = (listener.local_addr().expect("address"), Arc::new(Open::default()));
        let received: Vec<Arc<AtomicU64>> = (0..processes).map(|_| Arc::default()).collect();
        let (opened, counts) = (open.clone(), received.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (open, counts) = (opened.clone(), counts.clone());
                tokio::spawn(async move {
                    open.enter();
                    if let Ok(process) = stream.read_u8().await {
                        counts[usize::from(process)].fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::time::sleep(takes).await;
                    open.leave();
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { address, open, received }
    }

    fn received(&self) -> Vec<u64> {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Waits until so many came in.
    async fn reached(&self, count: u64) {
        until("so many requests", || self.received().iter().sum::<u64>() >= count).await;
    }
}

/// Killed at the end, as kill -9 does.
struct Process(Child);

impl Process {
    /// `terms`: `patient` or `quick`.
    fn start(
        number: usize,
        endpoint: &Endpoint,
        server: &Server,
        limit: u32,
        workers: u32,
        terms: &str,
    ) -> Self {
        let arguments = format!("{number} {limit} {workers} {terms} {}", server.url());
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["leases::processes::a_process", "--exact", "--nocapture"])
            .env(ENDPOINT, endpoint.address.to_string())
            .env(ARGUMENTS, arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a process"))
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a process does, until it is killed. No test when it is not told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process() {
    let (Ok(endpoint), Ok(arguments)) = (std::env::var(ENDPOINT), std::env::var(ARGUMENTS)) else { return };
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let number = |at: usize| arguments[at].parse::<u32>().expect("a number");
    let terms: Terms = if arguments[3] == "quick" { quick() } else { patient() };
    let client = Client::start(&[arguments[4].to_owned()], "processes:", terms);
    let me = u8::try_from(number(0)).expect("small");
    let (limit, workers) = (number(1), number(2));
    let workers = (0..workers).map(|_| {
        let (leases, free, endpoint) = (client.leases.clone(), client.free.clone(), endpoint.clone());
        tokio::spawn(async move {
            loop {
                let Ok(lease) = leases.take(&recipient("endpoint"), limit).await else {
                    let _ = tokio::time::timeout(Duration::from_millis(200), free.notified()).await;
                    continue;
                };
                let Ok(mut stream) = TcpStream::connect(&endpoint).await else { return };
                let _ = stream.write_u8(me).await;
                let _ = stream.read_u8().await;
                drop(lease);
            }
        })
    });
    futures::future::join_all(workers.collect::<Vec<_>>()).await;
}

/// A39, A24: four processes that want more than there is: all of the limit is used, none above it, and each has its part.
#[tokio::test(flavor = "multi_thread")]
async fn a24_the_limit_is_exact_over_four_processes() {
    let Some(server) = Server::start(&[]) else { return };
    let endpoint = Endpoint::start(4, Duration::from_millis(5)).await;
    let _processes: Vec<Process> =
        (0..4).map(|number| Process::start(number, &endpoint, &server, 6, 12, "patient")).collect();
    until("all of the limit is used", || endpoint.open.most() >= 6).await;
    let after_start: Vec<u64> = endpoint.received();
    endpoint.reached(after_start.iter().sum::<u64>() + 4_000).await;
    assert_eq!(endpoint.open.take_most(), 6);
    let each: Vec<u64> = endpoint.received().iter().zip(after_start).map(|(now, then)| now - then).collect();
    assert!(each.iter().all(|count| *count >= 100), "each has its part: {each:?}");
}

/// A40, A24: requests that last longer than a lease: it is renewed as long as they do.
#[tokio::test(flavor = "multi_thread")]
async fn a24_requests_longer_than_a_lease_never_exceed_the_limit() {
    let Some(server) = Server::start(&[]) else { return };
    // A lease is 3 s, a request three of them.
    let endpoint = Endpoint::start(3, Duration::from_secs(9)).await;
    let _processes: Vec<Process> =
        (0..3).map(|number| Process::start(number, &endpoint, &server, 3, 4, "quick")).collect();
    endpoint.reached(9).await;
    assert_eq!(endpoint.open.take_most(), 3);
}

/// A40: a process with 50 leases is killed: they are free when they have expired, and until then nobody has them.
#[tokio::test(flavor = "multi_thread")]
async fn a24_kill_9_of_a_holder_of_50_leases_frees_them_within_the_lease() {
    let Some(server) = Server::start(&[]) else { return };
    let endpoint = Endpoint::start(1, Duration::from_secs(600)).await;
    let mut process = Process::start(0, &endpoint, &server, 50, 60, "quick");
    endpoint.reached(50).await;
    process.kill();
    let key = "test:processes:lease:{endpoint:acme:endpoint}";
    let time: Vec<i64> = server.cli(&["time"]).lines().map(|it| it.parse().expect("a time")).collect();
    let listed = server.cli(&["zrange", key, "0", "-1", "withscores"]);
    let listed: Vec<&str> = listed.lines().collect();
    let leases = listed.chunks(2).filter(|pair| pair[0] != "known");
    let expiries: Vec<i64> = leases.map(|pair| pair[1].parse().expect("a time")).collect();
    assert_eq!(expiries.len(), 50, "{listed:?}");
    let term = i64::try_from(quick().term.as_millis()).expect("fits");
    assert!(expiries.iter().all(|at| *at <= time[0] * 1_000 + time[1] / 1_000 + term), "within the lease");
    let client = Client::start(&[server.url()], "processes:", quick());
    assert!(client.leases.take(&recipient("endpoint"), 50).await.is_err(), "they are the dead process' yet");
    let mut leases = Vec::new();
    while leases.len() < 50 {
        if let Ok(lease) = client.leases.take(&recipient("endpoint"), 50).await {
            leases.push(lease);
        } else {
            let _ = tokio::time::timeout(Duration::from_millis(200), client.free.notified()).await;
        }
    }
    assert!(client.leases.take(&recipient("endpoint"), 50).await.is_err());
}
