//! Markdown: links that lead somewhere, and the walk through the code that names files which exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::File;

/// The page that walks through the code.
const WALK: &str = "docs/life-of-an-event.md";
/// Its section from a record of the deliveries topic to the request.
const PATH_HEADING: &str = "## From record to POST";
/// Most files on that path: as many as a person can hold in mind.
const PATH_FILES_MAX: usize = 9;

/// Links to files or headings that do not exist.
pub(super) fn broken_links(root: &Path, file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (line, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let folder = Path::new(&file.path).parent().unwrap_or_else(|| Path::new(""));
        let full = if path.is_empty() { root.join(&file.path) } else { root.join(folder).join(path) };
        if !full.exists() {
            found.push(format!("{}:{line}: link to {target}: there is no such file", file.path));
        } else if !heading.is_empty() && !headings(&full).contains(heading) {
            found.push(format!("{}:{line}: link to {target}: there is no such heading", file.path));
        }
    }
    found
}

/// Links outside code, each with its line.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            found.push((number, rest[..end].split_whitespace().next().unwrap_or("")));
            rest = &rest[end..];
        }
    }
    found
}

/// Lines outside fenced code, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// Names that headings of a page have in links.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    prose(&text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| slug(line.trim_start_matches('#').trim()))
        .collect()
}

fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// What is wrong with the walk.
pub(super) fn walk(root: &Path, files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == WALK) else {
        return vec![format!("{WALK} is missing: it walks a reader from an event to its delivery")];
    };
    let mut found = Vec::new();
    let mut on_path = BTreeSet::new();
    let mut inside = false;
    for (number, line) in prose(&page.text) {
        if line.starts_with("## ") {
            inside = line == PATH_HEADING;
        }
        for name in
            line.split('`').skip(1).step_by(2).filter(|code| code.contains('/') && code.ends_with(".rs"))
        {
            if !root.join(name).is_file() {
                found.push(format!("{WALK}:{number}: names {name}: there is no such file"));
            }
            if inside {
                on_path.insert(name);
            }
        }
    }
    let count = on_path.len();
    if count == 0 {
        found.push(format!("{WALK}: no files under \"{PATH_HEADING}\": name each file of the path there"));
    } else if count > PATH_FILES_MAX {
        found.push(format!(
            "{WALK}: {count} files under \"{PATH_HEADING}\": shorten the path to {PATH_FILES_MAX}"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(root.path().join("docs")).expect("made");
        std::fs::create_dir_all(root.path().join("crates/a")).expect("made");
        std::fs::write(root.path().join("README.md"), "# Top\n\n## Try it: now!\n").expect("written");
        for n in 0..10 {
            std::fs::write(root.path().join(format!("crates/a/f{n}.rs")), "").expect("written");
        }
        root
    }

    fn page(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn links_are_followed_to_file_and_heading() {
        let root = repository();
        let text = "[a](../README.md) [b](../README.md#try-it-now) [c](https://x.y/z) [d](#here)\n# Here\n```\n[e](none)\n```\n\
                    [f](gone.md) [g](../README.md#gone)\n";
        std::fs::write(root.path().join("docs/p.md"), text).expect("written");
        let found = broken_links(root.path(), &page("docs/p.md", text));
        assert_eq!(
            found,
            [
                "docs/p.md:6: link to gone.md: there is no such file",
                "docs/p.md:6: link to ../README.md#gone: there is no such heading",
            ]
        );
    }

    #[test]
    fn the_walk_names_files_that_exist_and_few_of_them() {
        let root = repository();
        let list = |n: usize| (0..n).map(|i| format!("1. `crates/a/f{i}.rs`\n")).collect::<String>();
        let walked = |text: String| walk(root.path(), &[page(WALK, &text)]);
        assert_eq!(walked(format!("{PATH_HEADING}\n{}## Then\n`crates/a/f9.rs`\n", list(9))), [""; 0]);
        assert!(walked(format!("{PATH_HEADING}\n{}", list(10)))[0].contains("10 files"));
        assert!(
            walked(format!("{PATH_HEADING}\n`crates/a/gone.rs`\n"))[0].contains("names crates/a/gone.rs")
        );
        assert!(walked(format!("## Other\n{}", list(3)))[0].contains("no files under"));
        assert!(walk(root.path(), &[])[0].contains("is missing"));
    }
}
