//! One Redis server or a cluster: how to connect, and how to ask several things at once.

use std::time::Duration;

use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::cluster_async::ClusterConnection;
use deadpool_redis::redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, Value,
};
use deadpool_redis::{PoolConfig, PoolError, Runtime, Timeouts, cluster};
use futures::future::join_all;

use crate::Error;

/// Reads and writes have one connection each; two more may be under way while broken ones are let go.
const CONNECTIONS_MAX: usize = 4;

/// Scheme that marks the one URL of a cluster's entry point, with and without TLS, and the scheme that it stands for.
const CLUSTER_SCHEMES: [(&str, &str); 2] =
    [("redis-cluster://", "redis://"), ("rediss-cluster://", "rediss://")];

/// Where connections come from. A cheap clone.
#[derive(Clone)]
pub(crate) enum Server {
    One(deadpool_redis::Pool),
    Cluster(cluster::Pool),
}

/// A connection with its place in the pool.
pub(super) enum Connection {
    One(deadpool_redis::Connection),
    Cluster(cluster::Connection),
}

/// The multiplexed inside of a connection, which any number of callers may use at a time.
pub(super) enum Client {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Server {
    pub(super) fn new(urls: &[String], connect_within: Duration) -> Result<Self, Error> {
        let mut cluster = urls.len() > 1;
        let mut infos = Vec::with_capacity(urls.len());
        for (at, url) in urls.iter().enumerate() {
            let unusable = |error: &RedisError| {
                // Not its text, which may quote the URL and so the password.
                Error::Settings(format!(
                    "redis url {} cannot be used ({}): write redis://HOST:PORT/, rediss:// for TLS, or \
                     redis-cluster:// for a cluster",
                    at + 1,
                    error.category()
                ))
            };
            let marked =
                CLUSTER_SCHEMES.iter().find_map(|(mark, scheme)| Some((url.strip_prefix(mark)?, scheme)));
            cluster |= marked.is_some();
            let url = marked.map_or_else(|| url.clone(), |(rest, scheme)| format!("{scheme}{rest}"));
            infos.push(url.into_connection_info().map_err(|it| unusable(&it))?);
        }
        let unusable = |what: &str| Error::Settings(format!("these redis urls cannot be used: {what}"));
        let settings = PoolConfig {
            max_size: CONNECTIONS_MAX,
            timeouts: Timeouts {
                wait: Some(connect_within),
                create: Some(connect_within),
                recycle: Some(connect_within),
            },
            ..PoolConfig::default()
        };
        if cluster {
            let manager = cluster::Manager::new(infos, false).map_err(|it| unusable(it.category()))?;
            let pool = cluster::Pool::builder(manager).config(settings).runtime(Runtime::Tokio1).build();
            return pool.map(Self::Cluster).map_err(|_| unusable("no pool"));
        }
        let Some(info) = infos.pop() else { return Err(unusable("there is none")) };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connect_within))
            .set_response_timeout(Some(connect_within));
        let manager =
            deadpool_redis::Manager::new_with_config(info, config).map_err(|it| unusable(it.category()))?;
        let pool = deadpool_redis::Pool::builder(manager).config(settings).runtime(Runtime::Tokio1).build();
        pool.map(Self::One).map_err(|_| unusable("no pool"))
    }

    pub(super) async fn connect(&self) -> Result<Connection, Error> {
        let refused = |error: PoolError| match error {
            PoolError::Backend(error) => Error::NotConnected(describe(&error)),
            other => Error::NotConnected(other.to_string()),
        };
        match self {
            Self::One(pool) => pool.get().await.map(Connection::One).map_err(refused),
            Self::Cluster(pool) => pool.get().await.map(Connection::Cluster).map_err(refused),
        }
    }
}

impl Connection {
    pub(super) fn client(&self) -> Client {
        match self {
            Self::One(connection) => Client::One((**connection).clone()),
            Self::Cluster(connection) => Client::Cluster((**connection).clone()),
        }
    }

    /// Lets it go for good, and makes room for another.
    pub(super) fn abandon(self) {
        match self {
            Self::One(connection) => drop(deadpool_redis::Connection::take(connection)),
            Self::Cluster(connection) => drop(cluster::Connection::take(connection)),
        }
    }
}

impl Client {
    /// One answer for each command, in order.
    pub(super) async fn ask(self, commands: Vec<Cmd>) -> Result<Vec<Result<Value, Error>>, Error> {
        match self {
            Self::One(connection) => pipelined(connection, commands).await,
            Self::Cluster(connection) => Ok(side_by_side(&connection, &commands).await),
        }
    }
}

async fn pipelined(
    mut connection: MultiplexedConnection,
    commands: Vec<Cmd>,
) -> Result<Vec<Result<Value, Error>>, Error> {
    let count = commands.len();
    let mut pipeline = Pipeline::with_capacity(count);
    for command in commands {
        pipeline.add_command(command);
    }
    let values = connection.req_packed_commands(&pipeline, 0, count).await.map_err(|it| error(&it))?;
    if values.len() != count {
        return Err(Error::Shape(format!("{} answers to {count} commands", values.len())));
    }
    Ok(values.into_iter().map(answer).collect())
}

/// Each command finds its own node and follows its own redirects; they share connections, so that it is one round trip
/// for each node. A pipeline would be redirected as a whole, which fails for a slot that is half moved.
async fn side_by_side(connection: &ClusterConnection, commands: &[Cmd]) -> Vec<Result<Value, Error>> {
    let ask = |command| {
        let mut connection = connection.clone();
        async move { connection.req_packed_command(command).await.map_err(|it| error(&it)).and_then(answer) }
    };
    join_all(commands.iter().map(ask)).await
}

fn answer(value: Value) -> Result<Value, Error> {
    value.extract_error().map_err(|it| error(&it))
}

fn error(error: &RedisError) -> Error {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Error::Refused(describe(error)),
        _ if error.is_timeout() => Error::Timeout,
        _ => Error::NoAnswer(describe(error)),
    }
}

/// The code of a server error or the kind of another one; the text may quote keys.
fn describe(error: &RedisError) -> String {
    error.code().unwrap_or_else(|| error.category()).to_owned()
}
