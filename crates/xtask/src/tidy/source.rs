//! Rust files: header, length, names, the form of error texts.

use super::File;

/// Longest file without its tests, in lines.
const LINES_MAX: usize = 500;

/// Words that say nothing about what a type or file is for.
const EMPTY_WORDS: &[&str] =
    &["Manager", "Processor", "Handler", "Worker", "Helper", "Helpers", "Util", "Utils", "Common", "Misc"];

/// HTTP clients inside packages that servers use too.
const CLIENTS: &[&str] = &["hyper::client", "hyper_util::client"];

/// What may stand before the name of a type or function.
const DECLARING: &[&str] = &["struct", "enum", "trait", "type", "union", "mod"];

pub(super) fn findings(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let path = &file.path;
    if !file.text.starts_with("//! ") {
        found.push(format!("{path}:1: no header: start the file with `//!` and its one idea"));
    }
    let lines = lines_without_tests(file);
    if lines > LINES_MAX {
        found.push(format!("{path}: {lines} lines without tests: split it, {LINES_MAX} are allowed"));
    }
    for word in path.split(['/', '.']).flat_map(|part| part.split('_')) {
        if EMPTY_WORDS.iter().any(|empty| empty.eq_ignore_ascii_case(word)) {
            found.push(format!("{path}: '{word}' says nothing: name the file after what it is about"));
        }
    }
    for (number, line) in file.text.lines().enumerate() {
        let at = number + 1;
        if let Some(name) = declared(line).filter(|name| EMPTY_WORDS.iter().any(|word| has_word(name, word)))
        {
            found.push(format!("{path}:{at}: '{name}' says nothing: name it after what it does"));
        }
        // Features of a dependency are those that any crate of the build asked for: the manifest alone does not tell.
        // The bench's floor of deliver is a bare client: that is what it is beside.
        if !["crates/egress/", "crates/xtask/", "crates/bench/"].iter().any(|free| path.starts_with(free))
            && CLIENTS.iter().any(|client| line.contains(client))
        {
            found.push(format!("{path}:{at}: uses an HTTP client: only crates/egress opens outbound HTTP"));
        }
        if let Some(problem) = error_text(line).and_then(bad_form) {
            found.push(format!("{path}:{at}: error text {problem}"));
        }
    }
    found
}

/// Lines above the tests module, or none for a file of tests.
fn lines_without_tests(file: &File) -> usize {
    let path = &file.path;
    let is_test = |part: &str| {
        part == "tests" || part == "tests.rs" || part.ends_with("_test.rs") || part.ends_with("_tests.rs")
    };
    if path.split('/').any(is_test) {
        return 0;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|two| two[0] == "#[cfg(test)]" && two[1].starts_with("mod ") && two[1].ends_with('{'));
    tests.unwrap_or(lines.len())
}

/// The name of the type or module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let name = words.next().filter(|word| DECLARING.contains(word)).and_then(|_| words.next())?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

/// Whether a camel-case or snake-case name has the word as one of its words.
fn has_word(name: &str, word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    if name.split('_').any(|part| part == lower) {
        return true;
    }
    name.match_indices(word).any(|(at, _)| {
        let next = name[at + word.len()..].chars().next();
        next.is_none_or(|c| !c.is_lowercase())
    })
}

/// The text of an `#[error("…")]` attribute that stands on one line.
fn error_text(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#[error(\"").and_then(|rest| rest.rfind('"').map(|end| &rest[..end]))
}

/// Error texts are joined to others: lower case, no full stop. A name in capitals may start one.
fn bad_form(text: &str) -> Option<&'static str> {
    let mut first = text.chars();
    let (a, b) = (first.next()?, first.next());
    if a.is_uppercase() && b.is_some_and(char::is_lowercase) {
        return Some("starts with a capital: write it lower-case");
    }
    text.ends_with('.').then_some("ends with a full stop: leave it out")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        findings(&File { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_tidy_file_has_no_findings() {
        let text = "//! One idea.\n\npub struct Mailbox;\nstruct Utility;\nfn handler() {}\n#[error(\"HTTP is off\")]\n";
        assert_eq!(of("crates/a/src/mailbox.rs", text), [""; 0]);
    }

    #[test]
    fn each_untidiness_is_found() {
        for (path, text, part) in [
            ("a/src/b.rs", "use x;\n", "b.rs:1: no header"),
            ("a/src/b.rs", "//!\n", "b.rs:1: no header"),
            ("a/src/utils.rs", "//! A.\n", "'utils' says nothing"),
            ("a/src/row_helper.rs", "//! A.\n", "'helper' says nothing"),
            (
                "a/src/b.rs",
                "//! A.\npub(crate) struct RetryManager {\n",
                "b.rs:2: 'RetryManager' says nothing",
            ),
            ("a/src/b.rs", "//! A.\nenum WorkerState<T> {\n", "'WorkerState' says nothing"),
            ("a/src/b.rs", "//! A.\nuse hyper::client::conn;\n", "b.rs:2: uses an HTTP client"),
            ("a/src/b.rs", "//! A.\nmod common;\n", "'common' says nothing"),
            (
                "a/src/b.rs",
                "//! A.\n    #[error(\"Not found\")]\n",
                "b.rs:2: error text starts with a capital",
            ),
            ("a/src/b.rs", "//! A.\n    #[error(\"not found.\")]\n", "ends with a full stop"),
        ] {
            let found = of(path, text);
            assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
        }
    }

    #[test]
    fn length_is_counted_without_tests() {
        let long = "//! A.\n".to_owned() + &"//\n".repeat(500);
        assert_eq!(of("a/src/b.rs", &long).len(), 1);
        assert_eq!(of("a/src/b/tests.rs", &long).len(), 0);
        assert_eq!(of("a/tests/b.rs", &long).len(), 0);
        let tested = format!("//! A.\n#[cfg(test)]\nmod checks {{\n{}", "//\n".repeat(500));
        assert_eq!(of("a/src/b.rs", &tested).len(), 0);
    }
}
