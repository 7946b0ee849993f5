//! A broker that can say that there are no brokers, as one does that has just started: a proxy in front of a real one. All brokers that
//! it speaks of are itself, so that it stands for a cluster of one.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, FindCoordinatorResponse, MetadataResponse, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Frames of the tests are smaller.
const FRAME_MAX: usize = 16 * 1024 * 1024;

const HOST: StrBytes = StrBytes::from_static_str("127.0.0.1");

/// Ends the test: nobody waits for the tasks of the proxy, and without their answers the test would only take too long.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Not through the macro, which a test keeps to itself until it ends.
            let _ = std::io::stderr().write_all(b"the proxy panicked; with --nocapture it says why\n");
            std::process::abort();
        }
    }
}

pub(crate) struct Forgetful {
    pub(crate) address: String,
    state: Arc<State>,
}

struct State {
    port: u16,
    broker: String,
    forgets: AtomicBool,
}

/// Requests whose answers are changed, by correlation id: what was asked, and in which version.
type Asked = Arc<Mutex<HashMap<i32, (ApiKey, i16)>>>;

impl Forgetful {
    /// In front of the first of these brokers, which has all partitions.
    pub(crate) async fn before(brokers: &str) -> Self {
        let broker = brokers.split(',').next().expect("a broker").trim();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("address").port();
        let state = Arc::new(State { port, broker: broker.to_owned(), forgets: AtomicBool::new(false) });
        let accepting = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().pass_on(client, AbortOnPanic));
            }
        });
        Self { address: format!("127.0.0.1:{port}"), state }
    }

    /// From now on there are no brokers, for whoever asks.
    pub(crate) fn forget(&self) {
        self.state.forgets.store(true, Ordering::SeqCst);
    }

    /// It knows itself again.
    pub(crate) fn remember(&self) {
        self.state.forgets.store(false, Ordering::SeqCst);
    }
}

impl State {
    async fn pass_on(self: Arc<Self>, client: TcpStream, _guard: AbortOnPanic) {
        if let Ok(broker) = TcpStream::connect(&self.broker).await {
            let (asked, (from_client, to_client)) = (Asked::default(), client.into_split());
            let (from_broker, to_broker) = broker.into_split();
            tokio::select! {
                () = requests(from_client, to_broker, asked.clone()) => {}
                () = self.answers(from_broker, to_client, asked) => {}
            }
        }
    }

    async fn answers(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Asked) {
        while let Some(frame) = frame_of(&mut from).await {
            let correlation = (&frame[..]).get_i32();
            let asked = asked.lock().expect("unpoisoned").remove(&correlation);
            let frame = match asked {
                Some((ApiKey::Metadata, version)) => {
                    changed(frame, ApiKey::Metadata, version, |answer: &mut MetadataResponse| {
                        if self.forgets.load(Ordering::SeqCst) {
                            answer.brokers.clear();
                        }
                        for broker in &mut answer.brokers {
                            broker.host = HOST;
                            broker.port = i32::from(self.port);
                        }
                    })
                }
                Some((key, version)) => {
                    changed(frame, key, version, |answer: &mut FindCoordinatorResponse| {
                        // Newer versions have a list.
                        if answer.coordinators.is_empty() {
                            answer.host = HOST;
                            answer.port = i32::from(self.port);
                        }
                        for found in &mut answer.coordinators {
                            found.host = HOST;
                            found.port = i32::from(self.port);
                        }
                    })
                }
                None => frame,
            };
            if write(&mut to, &frame).await.is_none() {
                return;
            }
        }
    }
}

/// Passes requests on, and notes those whose answers are changed.
async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Asked) {
    while let Some(frame) = frame_of(&mut from).await {
        let mut header = &frame[..];
        let (key, version, correlation) = (header.get_i16(), header.get_i16(), header.get_i32());
        if let Some(key @ (ApiKey::Metadata | ApiKey::FindCoordinator)) =
            ApiKey::iter().find(|it| *it as i16 == key)
        {
            asked.lock().expect("unpoisoned").insert(correlation, (key, version));
        }
        if write(&mut to, &frame).await.is_none() {
            return;
        }
    }
}

/// The frame with another answer in it.
fn changed<A: Decodable + Encodable>(
    frame: Bytes,
    key: ApiKey,
    version: i16,
    change: impl FnOnce(&mut A),
) -> Bytes {
    let (mut rest, mut new) = (frame, BytesMut::new());
    let header = ResponseHeader::decode(&mut rest, key.response_header_version(version)).expect("a header");
    let mut answer = A::decode(&mut rest, version).expect("an answer");
    change(&mut answer);
    header.encode(&mut new, key.response_header_version(version)).expect("a header");
    answer.encode(&mut new, version).expect("an answer");
    new.freeze()
}

async fn frame_of(from: &mut OwnedReadHalf) -> Option<Bytes> {
    let length = usize::try_from(from.read_i32().await.ok()?).ok()?;
    assert!((4..FRAME_MAX).contains(&length), "a frame of {length} bytes");
    let mut frame = vec![0; length];
    from.read_exact(&mut frame).await.ok()?;
    Some(frame.into())
}

async fn write(to: &mut OwnedWriteHalf, frame: &[u8]) -> Option<()> {
    let mut whole = BytesMut::with_capacity(4 + frame.len());
    whole.put_i32(i32::try_from(frame.len()).expect("small"));
    whole.put_slice(frame);
    to.write_all(&whole).await.ok()
}
