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
    assert!(text.starts_with("error[settings_invalid]: "), "{text}");
    assert!(text.contains("MAILRAIL_ENCRYPTION_KEY"), "{text}");
}

/// What a part would refuse later, or would take for something else, is refused before anything is made: by the check and by a role.
#[test]
fn what_the_parts_would_refuse_is_refused_by_the_check_and_by_a_role() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("mailrail.toml");
    let text = "region = \"eu west\"\n[log]\nkind = \"local\"\n[store]\nurl = \"postgres://rail:canary@db:port/rail\"\n\
                [limits]\nredis = [\"redis://:canary@127.0.0.1:port/\"]\n[logs]\nfilter = \"inof\"\n\
                [deliver.retry]\ndelays = [\"1s\", \"0s\"]\n[egress]\nca_file = \"mailrail.toml\"\n";
    std::fs::write(&file, text).expect("written");
    for args in [&["check-config", "mailrail.toml"][..], &["all", "--config", "mailrail.toml"]] {
        let mut command = binary();
        command.args(args).env_clear().current_dir(folder.path());
        command.env("MAILRAIL_ADMIN_TOKEN", "0123456789abcdef0123456789abcdef");
        command.env("MAILRAIL_ENCRYPTION_KEY", "01".repeat(32));
        let output = command.output().expect("mailrail runs");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.starts_with("error[settings_invalid]: "), "{said}");
        for (line, key) in [
            (1, "region"),
            (5, "store.url"),
            (7, "limits.redis"),
            (9, "logs.filter"),
            (11, "deliver.retry.delays"),
            (13, "egress.ca_file"),
        ] {
            assert!(said.contains(&format!("\nmailrail.toml:{line}: {key} ")), "{key} is missing in {said}");
        }
        assert!(!said.contains("canary"), "{said}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1, "nothing was made");
    }
}

/// Properties are librdkafka's: it knows which there are, and what they may be.
#[test]
fn kafka_properties_that_no_client_takes_are_refused_by_the_check() {
    let folder = tempfile::tempdir().expect("folder");
    let check = |kafka: &str| {
        let text = format!(
            "[log]\nkind = \"kafka\"\n[log.kafka]\nbrokers = [\"127.0.0.1:1\"]\n{kafka}\n[store]\nurl = \"sqlite:s.db\"\n"
        );
        std::fs::write(folder.path().join("mailrail.toml"), text).expect("written");
        let mut command = binary();
        command.args(["check-config", "mailrail.toml"]).env_clear().current_dir(folder.path());
        command.env("MAILRAIL_ADMIN_TOKEN", "0123456789abcdef0123456789abcdef");
        command.env("MAILRAIL_ENCRYPTION_KEY", "01".repeat(32));
        let output = command.output().expect("mailrail runs");
        (output.status.code(), stderr(&output))
    };
    assert_eq!(check("").0, Some(0), "{}", check("").1);
    for (kafka, named) in [
        ("[log.kafka.properties]\n\"socket.timout.ms\" = \"canary\"", "socket.timout.ms"),
        ("[log.kafka.properties]\n\"socket.timeout.ms\" = \"canary\"", "socket.timeout.ms"),
        ("[log.kafka.properties]\n\"statistics.interval.ms\" = \"1000\"", "statistics.interval.ms"),
        ("client_id = 'a\"b'", "client_id"),
    ] {
        let (code, said) = check(kafka);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("log.kafka cannot be used") && said.contains(named), "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
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
