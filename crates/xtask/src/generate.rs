//! `docs/reference`, printed by the binary that it describes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Page under `docs/reference`, and the words after `mailrail docs` that print it.
const PAGES: &[(&str, &str)] = &[
    ("settings.md", "settings"),
    ("setup.schema.json", "setup-schema"),
    ("metrics.md", "metrics"),
    ("problems.md", "problems"),
];

const FOLDER: &str = "docs/reference";

/// Writes every page.
pub(crate) fn write(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root.join(FOLDER))?;
    for (page, topic) in PAGES {
        let path = root.join(FOLDER).join(page);
        std::fs::write(&path, print(root, topic)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A sentence for every page that is not as the code says.
pub(crate) fn differences(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (page, topic) in PAGES {
        let committed = std::fs::read_to_string(root.join(FOLDER).join(page)).unwrap_or_default();
        found.extend(difference(page, &committed, &print(root, topic)?));
    }
    Ok(found)
}

fn difference(page: &str, committed: &str, generated: &str) -> Option<String> {
    if committed == generated {
        return None;
    }
    let same = committed.lines().zip(generated.lines()).take_while(|(a, b)| a == b).count();
    Some(format!("{FOLDER}/{page}:{}: not as the code says: run `make gen` and commit the result", same + 1))
}

/// The binary that MAILRAIL names, or the one that cargo builds.
fn binary() -> Command {
    if let Some(built) = std::env::var_os("MAILRAIL") {
        return Command::new(built);
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", "mailrail", "--"]);
    cargo
}

fn print(root: &Path, topic: &str) -> Result<String> {
    let output = binary()
        .args(["docs", topic])
        .current_dir(root)
        .output()
        .context("cannot run the binary, or cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`mailrail docs {topic}` failed:\n{said}");
    String::from_utf8(output.stdout)
        .with_context(|| format!("`mailrail docs {topic}` printed something else than text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_its_first_line() {
        assert_eq!(difference("a.md", "x\ny\n", "x\ny\n"), None);
        let found = difference("a.md", "x\ny\n", "x\nz\n").expect("differs");
        assert!(found.starts_with("docs/reference/a.md:2: "), "{found}");
        assert!(difference("a.md", "", "x\n").is_some_and(|f| f.starts_with("docs/reference/a.md:1: ")));
        assert!(difference("a.md", "x\n", "x").is_some(), "a missing line end is a difference too");
    }
}
