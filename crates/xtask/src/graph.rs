//! The dependency graph, as far as the rules need it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

/// A crate of the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crate {
    /// Package name.
    pub(crate) name: String,
    /// Its manifest, relative to the root.
    pub(crate) manifest: String,
    /// What it depends on, by whatever kind.
    pub(crate) direct: Vec<Direct>,
    /// Whether its manifest says `[lints] workspace = true`.
    pub(crate) lints: bool,
}

/// A dependency as a manifest declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Direct {
    /// Package name.
    pub(crate) name: String,
    /// Features that are asked for, inherited ones included.
    pub(crate) features: Vec<String>,
    /// Whether only tests use it.
    pub(crate) dev: bool,
}

/// The crates of the workspace and everything beneath them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    /// Ours, by name.
    pub(crate) crates: Vec<Crate>,
    /// Normal and build dependencies of every package, ours and others. Versions of one name are one node.
    pub(crate) tree: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The shortest chain from `from` to a package whose name is in `targets`, both ends included.
    pub(crate) fn chain(&self, from: &str, targets: &[&str]) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([vec![from]]);
        while let Some(path) = queue.pop_front() {
            let at = path.last().copied().unwrap_or(from);
            for next in self.tree.get(at).into_iter().flatten() {
                let longer = || path.iter().copied().chain([next.as_str()]);
                if targets.contains(&next.as_str()) {
                    return Some(longer().map(str::to_owned).collect());
                }
                if seen.insert(next) {
                    queue.push_back(longer().collect());
                }
            }
        }
        None
    }
}

/// Reads the graph of the workspace at `root` from Cargo.
pub(crate) fn read(root: &Path) -> Result<Graph> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .exec()
        .context("cargo metadata failed")?;
    let mut graph = Graph::default();
    for package in metadata.workspace_packages() {
        let path = package.manifest_path.as_std_path();
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        graph.crates.push(Crate {
            name: package.name.to_string(),
            manifest: path.strip_prefix(root).unwrap_or(path).display().to_string(),
            direct: package
                .dependencies
                .iter()
                .map(|d| Direct {
                    name: d.name.clone(),
                    features: d.features.clone(),
                    dev: d.kind == DependencyKind::Development,
                })
                .collect(),
            lints: inherits_lints(&text).with_context(|| format!("cannot parse {}", path.display()))?,
        });
    }
    graph.crates.sort_by(|a, b| a.name.cmp(&b.name));
    let names: BTreeMap<_, _> = metadata.packages.iter().map(|p| (&p.id, p.name.to_string())).collect();
    let resolve = metadata.resolve.as_ref().context("cargo metadata gave no dependency graph")?;
    for node in &resolve.nodes {
        let Some(name) = names.get(&node.id) else { continue };
        let shipped = node.deps.iter().filter(|dep| {
            dep.dep_kinds.iter().any(|k| matches!(k.kind, DependencyKind::Normal | DependencyKind::Build))
        });
        let below = shipped.filter_map(|dep| names.get(&dep.pkg).cloned());
        graph.tree.entry(name.clone()).or_default().extend(below);
    }
    Ok(graph)
}

fn inherits_lints(manifest: &str) -> Result<bool> {
    let table: toml::Table = manifest.parse()?;
    let value = table.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool);
    Ok(value == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_chain_is_found_and_a_circle_ends() {
        let mut graph = Graph::default();
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("c", "tokio"), ("a", "d"), ("d", "tokio")] {
            graph.tree.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        let chain = graph.chain("a", &["tokio"]).expect("reachable");
        assert_eq!(chain, ["a", "d", "tokio"]);
        assert_eq!(graph.chain("a", &["axum"]), None);
    }

    #[test]
    fn lints_must_be_inherited() {
        assert!(inherits_lints("[lints]\nworkspace = true\n").expect("TOML"));
        assert!(!inherits_lints("[lints.rust]\nunsafe_code = \"forbid\"\n").expect("TOML"));
        assert!(!inherits_lints("[package]\nname = \"a\"\n").expect("TOML"));
    }
}
