//! Redis servers of a test: the shared one, and its own, which it may stop, wipe and stall.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Generous: a machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn is_required() -> bool {
    std::env::var("MAILRAIL_TEST_REQUIRE").as_deref() == Ok("1")
}

/// The shared server, or `None` when the test is to be skipped.
pub(crate) fn shared() -> Option<String> {
    let url = std::env::var("MAILRAIL_TEST_REDIS").ok().filter(|it| !it.is_empty());
    assert!(url.is_some() || !is_required(), "MAILRAIL_TEST_REDIS is not set; run with tests/services/with");
    if url.is_none() {
        eprintln!("skipped: MAILRAIL_TEST_REDIS is not set; run with tests/services/with");
    }
    url
}

/// Whether this machine can run servers of a test's own.
fn can_start() -> bool {
    let found = |program: &str| {
        Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    let can = found("redis-server") && found("redis-cli");
    assert!(
        can || !is_required(),
        "redis-server and redis-cli are needed: install redis-server and redis-tools"
    );
    if !can {
        eprintln!("skipped: no redis-server or no redis-cli");
    }
    can
}

/// A server of a test's own, on 127.0.0.1.
pub(crate) struct Server {
    dir: TempDir,
    pub(crate) port: u16,
    options: Vec<String>,
    process: Option<Child>,
}

impl Server {
    /// `None` when this machine cannot run one and the test may be skipped.
    pub(crate) fn start(options: &[&str]) -> Option<Server> {
        if !can_start() {
            return None;
        }
        for _ in 0..5 {
            let mut server = Server {
                dir: TempDir::new().expect("dir"),
                port: free_port(),
                options: options.iter().map(ToString::to_string).collect(),
                process: None,
            };
            if server.run(&[]) {
                return Some(server);
            }
        }
        panic!("redis-server did not start");
    }

    /// Starts it (again) on its port, over its files; false if the process ended at once.
    pub(crate) fn run(&mut self, options: &[&str]) -> bool {
        let process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.options)
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect("redis-server"));
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let answer = self.cli(&["ping"]);
            if answer.starts_with("PONG") || answer.contains("LOADING") {
                return true;
            }
            if self.process.as_mut().is_some_and(|it| it.try_wait().is_ok_and(|it| it.is_some())) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("kill");
            process.wait().expect("wait");
        }
    }

    /// Ends it and starts it again over so much that it loads for long, answering in between, until [`Server::load_fast`].
    pub(crate) fn restart_loading(&mut self) {
        let fill = "for i=1,20000 do redis.call('SET','fill:'..i,string.rep('x',200)) end return 'OK'";
        assert_eq!(self.cli(&["eval", fill, "0"]), "OK");
        assert_eq!(self.cli(&["save"]), "OK");
        self.kill();
        assert!(self.run(&["--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"]));
        assert!(self.is_loading(), "it should still be loading");
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.cli(&["get", "fill:1"]).contains("LOADING")
    }

    /// Lets it load the rest at once.
    pub(crate) fn load_fast(&self) {
        assert_eq!(self.cli(&["config", "set", "key-load-delay", "0"]), "OK");
    }

    /// `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.as_ref().expect("running").id();
        let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
        assert!(status.is_ok_and(|it| it.success()), "kill -{name}");
    }

    /// What `redis-cli` prints, trimmed.
    pub(crate) fn cli(&self, command: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &port])
            .args(command)
            .output()
            .expect("redis-cli");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now and so is the one 10,000 above, which a cluster node uses for its bus.
fn free_port() -> u16 {
    for _ in 0..1_000 {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { continue };
        let port = listener.local_addr().expect("address").port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

/// Three masters.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start() -> Option<Cluster> {
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let nodes = (0..3).map(|_| Server::start(&options)).collect::<Option<Vec<_>>>()?;
        let mut create = vec!["--cluster".to_owned(), "create".to_owned()];
        create.extend(nodes.iter().map(|it| format!("127.0.0.1:{}", it.port)));
        create.extend(["--cluster-replicas".to_owned(), "0".to_owned(), "--cluster-yes".to_owned()]);
        let output = Command::new("redis-cli").args(&create).output().expect("redis-cli");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let cluster = Cluster { nodes };
        cluster.await_ok();
        Some(cluster)
    }

    /// Until every node sees the whole cluster.
    pub(crate) fn await_ok(&self) {
        let is_ok = |node: &Server| node.cli(&["cluster", "info"]).contains("cluster_state:ok");
        let began = Instant::now();
        while !self.nodes.iter().all(is_ok) {
            assert!(began.elapsed() < PATIENCE, "the cluster is not whole");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// The node that has the slot of a key, and another one.
    pub(crate) fn owner_and_other(&self, slot: u16) -> (usize, usize) {
        let owns = |node: &Server| {
            let nodes = node.cli(&["cluster", "nodes"]);
            let myself = nodes.lines().find(|it| it.contains("myself")).expect("myself");
            myself.split(' ').skip(8).filter(|it| !it.starts_with('[')).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |it: &str| it.parse::<u16>().expect("slot");
                (number(first)..=number(last)).contains(&slot)
            })
        };
        let owner = self.nodes.iter().position(owns).expect("some node has the slot");
        (owner, (owner + 1) % self.nodes.len())
    }

    pub(crate) fn id(&self, node: usize) -> String {
        self.nodes[node].cli(&["cluster", "myid"])
    }
}
