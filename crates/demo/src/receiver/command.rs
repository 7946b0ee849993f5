//! The receiver as a process of its own: for tests that kill the others.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Behaviour, Receiver, ReceiverEndpoint, ReceiverSettings, json_order, line};
use crate::Error;
use crate::print::print_line;

/// Arguments of `mailrail receiver`.
#[derive(Clone)]
pub struct ReceiverArgs {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Endpoints, each `NAME=SECRET[:BEHAVIOUR]`.
    pub endpoints: Vec<ReceiverEndpoint>,
    /// File that gets every receipt as a line of JSON.
    pub journal: Option<PathBuf>,
    /// Whether to print a line for every receipt.
    pub print: bool,
}

/// The first line that [`run`] prints, up to the address: `receiver listens on http://127.0.0.1:PORT`.
pub const LISTENS_ON: &str = "receiver listens on ";

impl FromStr for ReceiverEndpoint {
    type Err = Error;

    /// Reads `NAME=SECRET[:BEHAVIOUR]`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let shown = || text.split('=').next().unwrap_or_default().to_owned();
        let (name, rest) = text
            .split_once('=')
            .ok_or_else(|| Error::Endpoint { name: shown(), problem: "is not NAME=SECRET[:BEHAVIOUR]" })?;
        let (secret, behaviour) = match rest.split_once(':') {
            Some((secret, script)) => (secret, script.parse()?),
            None => (rest, Behaviour::default()),
        };
        Ok(Self { name: name.to_owned(), secret: secret.to_owned(), behaviour })
    }
}

/// Runs a receiver until `stop`. Bodies with the JSON fields `key` and `seq` are checked for order per `key`;
/// `GET /report` answers the counts, `PUT /behaviour/NAME` changes a script.
///
/// # Errors
/// As [`Receiver::start`], and [`Error::Listen`] when the address cannot be taken.
pub async fn run(args: ReceiverArgs, stop: CancellationToken) -> Result<(), Error> {
    let listener = TcpListener::bind(args.listen).await.map_err(Error::Listen)?;
    let mut settings = ReceiverSettings::new(args.endpoints);
    settings.order_of = Some(json_order("key", "seq"));
    settings.journal = args.journal;
    if args.print {
        settings.on_receipt = Some(std::sync::Arc::new(|receipt| print_line(&line(receipt))));
    }
    let receiver = Receiver::start(listener, settings)?;
    print_line(&format!("{LISTENS_ON}http://{}", receiver.addr()));
    stop.cancelled().await;
    receiver.stop().await;
    Ok(())
}
