//! Which crate may import which: the levels, and what each edge alone may use.
//!
//! The same rules stand in ARCHITECTURE.md, "Code map", with their reasons.

use crate::graph::{Crate, Direct, Graph};

/// Where a crate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No I/O, no clock, no async.
    Pure,
    /// One port each.
    Edge,
    /// A role.
    Role,
    /// The demo: imported by the binary and by tests, imports what a role may.
    Demo,
    /// Wiring.
    Binary,
    /// Used by tests of levels 1 to 3.
    TestKit,
    /// Stands outside: imported by nobody, imports anything.
    Outside,
}

/// Every crate there may be. A new one is added here, and to the code map, by hand.
const PLACES: &[(&str, Place)] = &[
    ("mailrail-types", Place::Pure),
    ("mailrail-filter", Place::Pure),
    ("mailrail-policy", Place::Pure),
    ("mailrail-mailbox", Place::Pure),
    ("mailrail-sign", Place::Pure),
    ("mailrail-surfaces", Place::Pure),
    ("mailrail-wire", Place::Edge),
    ("mailrail-log", Place::Edge),
    ("mailrail-store", Place::Edge),
    ("mailrail-limits", Place::Edge),
    ("mailrail-egress", Place::Edge),
    ("mailrail-serve", Place::Edge),
    ("mailrail-telemetry", Place::Edge),
    ("mailrail-ingest", Place::Role),
    ("mailrail-match", Place::Role),
    ("mailrail-deliver", Place::Role),
    ("mailrail-control", Place::Role),
    ("mailrail-demo", Place::Demo),
    ("mailrail", Place::Binary),
    ("mailrail-testkit", Place::TestKit),
    ("mailrail-sim", Place::Outside),
    ("mailrail-bench", Place::Outside),
    ("mailrail-it", Place::Outside),
    ("xtask", Place::Outside),
];

/// What may not be found anywhere beneath a pure crate.
const IMPURE: &[&str] =
    &["tokio", "async-std", "axum", "hyper", "reqwest", "sqlx", "rusqlite", "rdkafka", "redis", "rand"];

/// One crate alone imports these.
struct Exclusive {
    owner: &'static str,
    may: &'static str,
    packages: &'static [&'static str],
}

const EXCLUSIVE: &[Exclusive] = &[
    Exclusive {
        owner: "mailrail-log",
        may: "import a log client",
        packages: &["rdkafka", "rdkafka-sys", "rusqlite", "libsqlite3-sys"],
    },
    Exclusive {
        owner: "mailrail-store",
        may: "import the SQL client",
        packages: &["sqlx", "sqlx-core", "sqlx-postgres", "sqlx-sqlite", "tokio-postgres"],
    },
    Exclusive {
        owner: "mailrail-limits",
        may: "import redis",
        packages: &["redis", "deadpool-redis", "fred"],
    },
    Exclusive {
        owner: "mailrail-egress",
        may: "open outbound HTTP",
        packages: &["reqwest", "hyper-rustls", "hyper-tls", "ureq", "curl", "isahc"],
    },
    Exclusive {
        owner: "mailrail-wire",
        may: "serialise records",
        packages: &["prost", "prost-build", "prost-types", "protox", "tonic"],
    },
    Exclusive {
        owner: "mailrail-telemetry",
        may: "make and export spans",
        packages: &["opentelemetry", "opentelemetry_sdk", "opentelemetry-otlp", "opentelemetry-http"],
    },
];

/// What tests may use although one crate alone does: they read what goes to programs of others.
const TESTS_MAY: &[&str] = &["prost"];

/// Packages that are client and server in one: a server leaves their `client…` features alone.
const CLIENT_BY_FEATURE: &[&str] = &["hyper", "hyper-util"];

/// Every broken rule, one sentence each.
pub(crate) fn violations(graph: &Graph) -> Vec<String> {
    graph.crates.iter().flat_map(|krate| of_crate(graph, krate)).collect()
}

fn of_crate(graph: &Graph, krate: &Crate) -> Vec<String> {
    let Crate { name, manifest, .. } = krate;
    let mut found = Vec::new();
    if !krate.lints {
        found.push(format!("{name} ({manifest}) has lints of its own: write `[lints] workspace = true`"));
    }
    let Some(place) = place(name) else {
        found.push(format!(
            "{name} ({manifest}) has no level: add it to PLACES in crates/xtask/src/arrows.rs and to the code map in \
             ARCHITECTURE.md"
        ));
        return found;
    };
    let mut direct = krate.direct.clone();
    direct.sort();
    direct.dedup();
    for dependency in &direct {
        let rule = broken_level(name, place, dependency)
            .map(str::to_owned)
            .or_else(|| broken_exclusive(name, place, dependency));
        if let Some(rule) = rule {
            let to = &dependency.name;
            found
                .push(format!("{name} depends on {to} ({manifest}): {rule} (ARCHITECTURE.md, \"Code map\")"));
        }
    }
    if place == Place::Pure
        && let Some(chain) = graph.chain(name, IMPURE)
    {
        found.push(format!(
            "{name} reaches {} ({manifest}: {}): level 0 is pure, without I/O, async and randomness (ARCHITECTURE.md, \
             \"Code map\")",
            chain.last().map_or("", String::as_str),
            chain.join(" -> ")
        ));
    }
    found
}

fn place(name: &str) -> Option<Place> {
    PLACES.iter().find(|(known, _)| *known == name).map(|(_, place)| *place)
}

/// The rule about levels that the edge breaks.
fn broken_level(from: &str, at: Place, dependency: &Direct) -> Option<&'static str> {
    let to = dependency.name.as_str();
    let target = place(to)?;
    match (at, target) {
        (Place::Outside, _) | (Place::Edge | Place::Role | Place::Demo | Place::Binary, Place::Pure) => None,
        (_, Place::Outside) => Some("nothing imports a crate that stands outside the levels"),
        (_, Place::Binary) => Some("nothing imports the binary"),
        (Place::Pure, Place::Pure) if from != "mailrail-types" && to == "mailrail-types" => None,
        // A surface names its retry schedule and puts policy's arithmetic to its own classes of answers.
        (Place::Pure, Place::Pure) if from == "mailrail-surfaces" && to == "mailrail-policy" => None,
        (Place::Pure, Place::Pure) => Some("level 0 imports nothing of ours but types"),
        (Place::Pure, _) => Some("level 0 imports nothing from a level above"),
        // Tests of a crate may use what stands in for the world outside.
        (Place::Edge | Place::Role | Place::Binary, Place::TestKit | Place::Demo) if dependency.dev => None,
        (_, Place::TestKit) => Some("only tests import the test kit"),
        (Place::TestKit, Place::Role | Place::Demo) => Some("the test kit imports levels 0 and 1 only"),
        (Place::TestKit | Place::Binary, _) | (Place::Role | Place::Demo, Place::Edge) => None,
        (Place::Edge, Place::Edge) if to == "mailrail-telemetry" => None,
        (Place::Edge, Place::Edge) => Some("edges do not import each other, except telemetry"),
        (Place::Edge, Place::Role | Place::Demo) => Some("level 1 imports nothing from a level above"),
        (Place::Role, Place::Role) => Some("roles never import each other; stages meet only through records"),
        (Place::Role, Place::Demo) => Some("only the binary and tests import the demo"),
        (Place::Demo, Place::Role | Place::Demo) => Some("the demo imports levels 0 and 1 only"),
    }
}

/// The rule about outside packages that the edge breaks.
fn broken_exclusive(from: &str, at: Place, to: &Direct) -> Option<String> {
    if matches!(at, Place::Outside | Place::TestKit) {
        return None;
    }
    let name = to.name.as_str();
    if CLIENT_BY_FEATURE.contains(&name) && from != "mailrail-egress" {
        let feature = to.features.iter().find(|f| f.starts_with("client") || *f == "full")?;
        return Some(format!("only mailrail-egress may open outbound HTTP: leave out its feature {feature}"));
    }
    if to.dev && TESTS_MAY.contains(&name) {
        return None;
    }
    let rule = EXCLUSIVE.iter().find(|rule| rule.packages.contains(&name))?;
    (rule.owner != from).then(|| format!("only {} may {}", rule.owner, rule.may))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(name: &str, direct: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            manifest: format!("crates/{}/Cargo.toml", name.trim_start_matches("mailrail-")),
            direct: direct.iter().map(|d| Direct { name: (*d).to_owned(), ..Direct::default() }).collect(),
            lints: true,
        }
    }

    fn graph(crates: &[Crate]) -> Graph {
        let mut graph = Graph { crates: crates.to_vec(), ..Graph::default() };
        for krate in crates {
            graph.tree.insert(krate.name.clone(), krate.direct.iter().map(|d| d.name.clone()).collect());
        }
        graph
    }

    /// The violations of one crate with these dependencies.
    fn found(name: &str, direct: &[&str]) -> Vec<String> {
        violations(&graph(&[krate(name, direct)]))
    }

    #[test]
    fn a_role_that_imports_a_role_is_refused_by_name_and_rule() {
        assert_eq!(
            found("mailrail-ingest", &["mailrail-types", "mailrail-match", "axum"]),
            [
                "mailrail-ingest depends on mailrail-match (crates/ingest/Cargo.toml): roles never import each other; \
              stages meet only through records (ARCHITECTURE.md, \"Code map\")"
            ]
        );
    }

    #[test]
    fn the_design_is_allowed() {
        for (name, direct) in [
            ("mailrail-types", &["bytes", "proptest"][..]),
            ("mailrail-filter", &["mailrail-types", "serde_json"]),
            ("mailrail-surfaces", &["mailrail-types", "mailrail-policy", "serde_json"]),
            ("mailrail-log", &["mailrail-types", "rdkafka", "rusqlite", "tokio"]),
            ("mailrail-store", &["mailrail-types", "mailrail-telemetry", "sqlx"]),
            ("mailrail-egress", &["mailrail-types", "hyper", "hyper-util", "reqwest"]),
            ("mailrail-wire", &["mailrail-types", "prost", "prost-build", "protox"]),
            ("mailrail-deliver", &["mailrail-mailbox", "mailrail-log", "mailrail-egress"]),
            ("mailrail-demo", &["mailrail-wire", "mailrail-log", "axum"]),
            ("mailrail", &["mailrail-ingest", "mailrail-match", "mailrail-demo", "mailrail-egress"]),
            ("mailrail-it", &["mailrail-ingest", "mailrail", "rdkafka", "reqwest"]),
            // The floor of the bench is a producer without any code of ours.
            ("mailrail-bench", &["mailrail-log", "mailrail-wire", "rdkafka"]),
            ("mailrail-testkit", &["mailrail-log", "reqwest"]),
        ] {
            assert_eq!(found(name, direct), [""; 0], "{name}");
        }
    }

    #[test]
    fn each_forbidden_edge_is_refused() {
        for (from, to, rule) in [
            ("mailrail-types", "mailrail-types", "level 0 imports nothing of ours but types"),
            ("mailrail-filter", "mailrail-policy", "level 0 imports nothing of ours but types"),
            ("mailrail-surfaces", "mailrail-sign", "level 0 imports nothing of ours but types"),
            ("mailrail-policy", "mailrail-log", "level 0 imports nothing from a level above"),
            ("mailrail-sign", "mailrail-testkit", "level 0 imports nothing from a level above"),
            ("mailrail-log", "mailrail-store", "edges do not import each other"),
            ("mailrail-wire", "mailrail-deliver", "level 1 imports nothing from a level above"),
            ("mailrail-match", "mailrail-deliver", "roles never import each other"),
            ("mailrail-control", "mailrail-demo", "only the binary and tests import the demo"),
            ("mailrail-match", "mailrail-testkit", "only tests import the test kit"),
            ("mailrail-demo", "mailrail-ingest", "the demo imports levels 0 and 1 only"),
            ("mailrail-testkit", "mailrail-match", "the test kit imports levels 0 and 1 only"),
            ("mailrail-ingest", "mailrail", "nothing imports the binary"),
            ("mailrail", "xtask", "nothing imports a crate that stands outside"),
            ("mailrail-store", "rusqlite", "only mailrail-log may import a log client"),
            ("mailrail-control", "sqlx", "only mailrail-store may import the SQL client"),
            ("mailrail-ingest", "redis", "only mailrail-limits may import redis"),
            ("mailrail-demo", "hyper-rustls", "only mailrail-egress may open outbound HTTP"),
            ("mailrail", "reqwest", "only mailrail-egress may open outbound HTTP"),
            ("mailrail-log", "prost", "only mailrail-wire may serialise records"),
            ("mailrail-match", "opentelemetry_sdk", "only mailrail-telemetry may make and export spans"),
        ] {
            let all = found(from, &[to]);
            assert_eq!(all.len(), 1, "{from} -> {to}: {all:?}");
            assert!(
                all[0].starts_with(&format!("{from} depends on {to} (")) && all[0].contains(rule),
                "{}",
                all[0]
            );
        }
    }

    #[test]
    fn tests_may_import_the_receiver_and_the_test_kit() {
        let with = |name: &str, dependency: &str| {
            let mut tested = krate(name, &[dependency]);
            tested.direct[0].dev = true;
            violations(&graph(&[tested]))
        };
        assert_eq!(with("mailrail-deliver", "mailrail-demo"), [""; 0]);
        assert_eq!(with("mailrail-log", "mailrail-testkit"), [""; 0]);
        assert_eq!(with("mailrail-policy", "mailrail-testkit").len(), 1);
        assert_eq!(with("mailrail-deliver", "mailrail-match").len(), 1);
        assert_eq!(with("mailrail-deliver", "reqwest").len(), 1);
        assert_eq!(with("mailrail", "mailrail-testkit"), [""; 0]);
        assert_eq!(with("mailrail", "prost"), [""; 0]);
    }

    /// A server may be built on hyper; a client may not.
    #[test]
    fn hyper_is_refused_with_its_client() {
        let with = |features: &[&str]| {
            let mut ingest = krate("mailrail-ingest", &["hyper"]);
            ingest.direct[0].features = features.iter().map(|f| (*f).to_owned()).collect();
            violations(&graph(&[ingest]))
        };
        assert_eq!(with(&["server", "http1"]), [""; 0]);
        for feature in ["client", "client-legacy", "full"] {
            let all = with(&["server", feature]);
            assert!(
                all.len() == 1 && all[0].contains("only mailrail-egress may open outbound HTTP"),
                "{all:?}"
            );
        }
    }

    #[test]
    fn a_pure_crate_may_not_reach_io_through_others() {
        let mut graph = graph(&[krate("mailrail-policy", &["backoff"])]);
        graph.tree.insert("backoff".to_owned(), ["tokio".to_owned()].into());
        let all = violations(&graph);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("mailrail-policy -> backoff -> tokio"), "{}", all[0]);
    }

    #[test]
    fn a_crate_without_level_or_lints_is_refused() {
        let mut extra = krate("mailrail-extra", &[]);
        extra.lints = false;
        let all = violations(&graph(&[extra]));
        assert!(
            all.len() == 2 && all[0].contains("[lints] workspace = true") && all[1].contains("PLACES"),
            "{all:?}"
        );
    }

    /// What `make arrows` runs, on the workspace as it is.
    #[test]
    fn the_workspace_keeps_its_arrows() {
        let graph = crate::graph::read(&crate::root()).expect("cargo metadata");
        assert!(graph.crates.len() > 10 && graph.tree.len() > graph.crates.len(), "the graph was not read");
        assert_eq!(violations(&graph), [""; 0]);
    }
}
