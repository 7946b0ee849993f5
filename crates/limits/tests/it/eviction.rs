//! What a real server says of itself when it is full.

use mailrail_limits::{Error, WhenFull, when_full};

use crate::servers::{Cluster, Server};

#[tokio::test]
async fn a_server_that_throws_keys_away_says_so() {
    for (options, expected) in [
        (
            &["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"][..],
            WhenFull::Evicts("allkeys-lru".to_owned()),
        ),
        (&["--maxmemory", "64mb", "--maxmemory-policy", "noeviction"], WhenFull::Refuses),
        // Without a limit it is never full.
        (&["--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"], WhenFull::Refuses),
    ] {
        let Some(server) = Server::start(options) else { return };
        assert_eq!(when_full(&[server.url()]).await, Ok(expected), "{options:?}");
    }
}

#[tokio::test]
async fn one_node_of_a_real_cluster_that_throws_keys_away_is_found() {
    let Some(cluster) = Cluster::start() else { return };
    assert_eq!(when_full(&cluster.urls()).await, Ok(WhenFull::Refuses));
    let last = cluster.nodes.last().expect("nodes");
    for (name, value) in [("maxmemory", "64mb"), ("maxmemory-policy", "volatile-ttl")] {
        assert_eq!(last.cli(&["config", "set", name, value]), "OK");
    }
    assert_eq!(when_full(&cluster.urls()).await, Ok(WhenFull::Evicts("volatile-ttl".to_owned())));
}

#[tokio::test]
async fn a_server_that_does_not_answer_or_refuses_the_question_is_an_error() {
    let nobody = when_full(&["redis://127.0.0.1:1/".to_owned()]).await;
    assert!(matches!(nobody, Err(Error::NotConnected(_))), "{nobody:?}");
    let Some(server) = Server::start(&["--rename-command", "INFO", ""]) else { return };
    let refused = when_full(&[server.url()]).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}
