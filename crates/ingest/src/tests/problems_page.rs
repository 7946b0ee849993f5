//! `docs/problems.md` has every code that a door answers, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Problem;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first columns of the tables beneath headings that begin with `heading`.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let sections = page.split("\n## ").filter(|section| section.starts_with(heading));
    let lines = sections.flat_map(str::lines).filter(|line| line.starts_with("| `"));
    lines.filter_map(|line| line.split('`').nth(1)).map(str::to_owned).collect()
}

/// Texts in quotes that have the form of a code.
fn codes(source: &str) -> BTreeSet<String> {
    let form = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    source
        .lines()
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .filter(form)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_page_has_every_code_of_the_front_door() {
    let page = read("docs/problems.md");
    let listed = rows(&page, "Front door");
    let known: BTreeSet<String> = Problem::ALL.iter().map(|problem| problem.code().to_owned()).collect();
    assert_eq!(listed, known, "docs/problems.md, left, and the code");
    for problem in Problem::ALL {
        let begins = format!("| `{}` | {} | ", problem.code(), problem.status());
        assert!(page.contains(&begins), "docs/problems.md has no '{begins}'");
    }
}

/// Control does not give out its codes as a list, and a role does not import another: so they are found in the text.
#[test]
fn the_page_has_every_code_of_control() {
    let page = read("docs/problems.md");
    let members = ["type", "title", "status", "code", "detail", "field", "problems", "class"];
    let mut requests = codes(&read("crates/control/src/problem.rs"));
    members.iter().for_each(|member| {
        requests.remove(*member);
    });
    assert_eq!(rows(&page, "Control: requests"), requests, "docs/problems.md, left, and the code");

    let constants = read("crates/control/src/setup_file/problem.rs");
    let constants: Vec<&str> = constants.lines().filter(|line| line.contains(": &str = ")).collect();
    let urls = read("crates/egress/src/destination.rs");
    let urls: Vec<&str> =
        urls.lines().filter(|line| line.contains("UrlError::") && line.contains("=> \"")).collect();
    let filters = read("crates/filter/src/error.rs");
    let (_, filters) = filters.split_once("CODES: ").expect("a list of codes");
    let (filters, _) = filters.split_once("];").expect("its end");
    let mut values = codes(&constants.join("\n"));
    assert!(values.len() > 20, "{values:?}");
    values.extend(codes(&urls.join("\n")));
    values.extend(codes(filters));
    assert_eq!(rows(&page, "Control: values"), values, "docs/problems.md, left, and the code");
}
