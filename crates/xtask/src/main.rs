//! Checks and generators of the repository: `cargo xtask arrows | tidy | gen [--check]`.
//!
//! **Always holds**: a check reads and never writes; each finding is one sentence that says what to change.

mod arrows;
mod generate;
mod graph;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <arrows | tidy | gen [--check]>
  arrows       check which crate imports which (ARCHITECTURE.md, \"Code map\")
  tidy         check files, names, links and docs
  gen          write docs/reference from the code
  gen --check  say whether docs/reference is as the code says";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let found = match words[..] {
        ["arrows"] => graph::read(&root()).map(|graph| arrows::violations(&graph)),
        ["tidy"] => tidy::findings(&root()),
        ["gen"] => generate::write(&root()).map(|()| Vec::new()),
        ["gen", "--check"] => generate::differences(&root()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match found {
        Ok(findings) if findings.is_empty() => {
            println!("{}: ok", words.join(" "));
            ExitCode::SUCCESS
        }
        Ok(findings) => {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            eprintln!("{}: {} to change", words.join(" "), findings.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace. Cargo names the crate's when it runs us, which holds for a moved checkout too.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors().nth(2).unwrap_or(&here).to_owned()
}
