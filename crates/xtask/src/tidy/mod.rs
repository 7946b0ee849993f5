//! What the compiler does not check: headers, sizes, names, foreign paths, links, the walk through the code.

mod docs;
mod source;

use std::path::Path;

use anyhow::{Context, Result};

/// Folders that are not ours to check.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "mailrail-data", "__pycache__"];

/// Texts that no committed file may hold, and why. Written in two parts so that this file does not hold them.
const FOREIGN: &[(&str, &str, &str)] = &[
    ("/wo", "rk/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("/ho", "me/", "a path of one machine"),
    ("/Us", "ers/", "a path of one machine"),
    ("/tm", "p/", "a path of one machine: make a temporary folder"),
    ("registry.np", "mjs.org", "the host of a registry: leave it to the client's settings"),
    ("index.crat", "es.io", "the host of a registry: leave it to the client's settings"),
    ("pypi.o", "rg/simple", "the host of a registry: leave it to the client's settings"),
    ("repo1.mav", "en.org", "the host of a registry: leave it to the client's settings"),
    ("proxy.gol", "ang.org", "the host of a registry: leave it to the client's settings"),
];

/// A text file of the repository.
struct File {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

/// Every finding in the repository at `root`, one sentence each.
pub(crate) fn findings(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut found: Vec<String> = files.iter().flat_map(foreign).collect();
    for file in &files {
        match file.path.rsplit('.').next() {
            Some("rs") => found.extend(source::findings(file)),
            Some("md") => found.extend(docs::broken_links(root, file)),
            _ => {}
        }
    }
    found.extend(docs::walk(root, &files));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
            collect(root, &path, files)?;
        }
        // What is not UTF-8 is a fixture.
        if kind.is_file()
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push(File { path, text });
        }
    }
    Ok(())
}

fn foreign(file: &File) -> Vec<String> {
    // The lock file names its registry by an address of its own, and the licence is not ours to change.
    if matches!(file.path.as_str(), "Cargo.lock" | "LICENSE") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        for (start, end, why) in FOREIGN {
            if line.contains(&format!("{start}{end}")) {
                found.push(format!("{}:{}: holds {start}{end}: {why}", file.path, number + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_paths_are_found_with_their_line() {
        let text = format!("fine\nsee {}{}x and ${{TMPDIR:-/tmp}}\n", "/ro", "ot/");
        let found = foreign(&File { path: "a.md".to_owned(), text });
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.md:2: holds "), "{found:?}");
    }

    /// X07: what decides about windows, backoff and turns has time as an argument: no pure crate reads a clock, and in the roles and
    /// the limits the wall clock is the argument of their services but for the places listed here. So tests give them a time of
    /// their own, and stop the runtime's for what waits.
    #[test]
    fn x07_clocks_are_read_where_time_enters() {
        // How old a mailbox is, for people; and a number that no other claim has.
        const WALL_CLOCK: [&str; 2] = ["crates/control/src/mailboxes.rs", "crates/deliver/src/takeover.rs"];
        const PURE: [&str; 6] = ["types", "filter", "policy", "mailbox", "sign", "surfaces"];
        const RAIL: [&str; 5] = ["limits", "ingest", "match", "deliver", "control"];
        let mut files = Vec::new();
        collect(&crate::root(), &crate::root().join("crates"), &mut files).expect("can be read");
        let of = |file: &File, crates: &[&str]| {
            crates.iter().any(|it| file.path.starts_with(&format!("crates/{it}/src/")))
        };
        let (mut looked, mut found) = (0, Vec::new());
        let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
        for file in files.iter().filter(|file| file.path.ends_with(".rs") && !is_test(&file.path)) {
            let code = file.text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
            let reads = |clock: &str| code.contains(&format!("{clock}::now()"));
            let pure = of(file, &PURE);
            looked += usize::from(pure || of(file, &RAIL));
            let wall = reads("SystemTime") || code.contains("UNIX_EPOCH.elapsed()");
            if wall && (pure || of(file, &RAIL)) || reads("Instant") && pure {
                found.push(file.path.as_str());
            }
        }
        found.sort_unstable();
        assert!(looked > 200, "{looked} files");
        assert_eq!(found, WALL_CLOCK);
    }

    /// What `make tidy` runs.
    #[test]
    fn the_repository_is_tidy() {
        assert_eq!(findings(&crate::root()).expect("can be read"), [""; 0]);
    }
}
