//! The command line as a person meets it.

use std::process::Output;

use crate::process::binary;

fn run(args: &[&str]) -> Output {
    binary().args(args).env_clear().output().expect("mailrail runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn check_config_refuses_an_unknown_key_with_its_line() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("mailrail.toml");
    std::fs::write(&file, "[ingest]\nlisten = \"127.0.0.1:1\"\nbody_limit_byte = 5\n").expect("written");
    let output = run(&["check-config", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("mailrail.toml:3"), "{text}");
    assert!(text.contains("body_limit_byte") && text.contains("body_limit_bytes"), "{text}");
}

#[test]
fn a_role_refuses_to_start_without_an_encryption_key() {
    let output = run(&["ingest"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("MAILRAIL_ENCRYPTION_KEY"), "{text}");
}

#[test]
fn apply_says_when_there_is_no_token() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("setup.yaml");
    std::fs::write(&file, "version: 1\ntenants: []\n").expect("written");
    let output = binary()
        .args(["apply", "-f", &file.display().to_string()])
        .env_clear()
        .current_dir(folder.path())
        .output()
        .expect("mailrail runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("MAILRAIL_ADMIN_TOKEN"));
}
