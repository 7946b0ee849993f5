//! Compiles the records without a system protoc, and lists the field numbers that this version knows.

use std::fmt::Write as _;
use std::path::PathBuf;

const FILES: [&str; 6] = [
    "mailrail/event/v1/event.proto",
    "mailrail/delivery/v1/delivery.proto",
    "mailrail/attempt/v1/attempt.proto",
    "mailrail/deadletter/v1/dead_letter.proto",
    "mailrail/journal/v1/journal.proto",
    "mailrail/redrive/v1/redrive.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files = protox::compile(FILES.map(|f| root.join(f)), [&root])?;

    let mut known = String::new();
    for file in &files.file {
        for message in &file.message_type {
            let mut tags: Vec<_> = message.field.iter().filter_map(|f| f.number).collect();
            tags.sort_unstable();
            let package = file.package().replace('.', "_").to_uppercase();
            let name = message.name().to_uppercase();
            writeln!(known, "#[allow(dead_code)]\npub(crate) const {package}_{name}: &[u32] = &{tags:?};")?;
        }
    }
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("known_tags.rs"), known)?;

    prost_build::Config::new()
        .bytes([
            ".mailrail.event.v1.Event.body",
            ".mailrail.event.v1.Header.value",
            ".mailrail.delivery.v1.Delivery.event",
            ".mailrail.attempt.v1.Attempt.excerpt",
            ".mailrail.deadletter.v1.DeadLetter.delivery",
            ".mailrail.journal.v1.Park.delivery",
            ".mailrail.journal.v1.Aside.delivery",
        ])
        .compile_fds(files)?;
    Ok(())
}
