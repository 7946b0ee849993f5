//! Acceptance X01 in the other direction: published vectors, rotations, and every way in which a proof must fail.

use mailrail_types::Provider;

use super::*;
use crate::sign;

const NOW: Timestamp = Timestamp(1_614_265_330_000);
/// The vector of GitHub's documentation.
const GITHUB_SECRET: &str = "It's a Secret to Everybody";
const GITHUB_BODY: &[u8] = b"Hello, World!";
const GITHUB_SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
/// The vector of the Standard Webhooks Go library.
const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STANDARD_BODY: &[u8] = br#"{"test": 2432232314}"#;
const STANDARD_HEADERS: [(&str, &str); 3] = [
    ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
    ("webhook-timestamp", "1614265330"),
    ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
];

fn check(
    provider: Provider,
    secrets: &[&str],
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<(), InboundError> {
    let secrets: Vec<Secret> = secrets.iter().map(|s| Secret::new((*s).to_owned())).collect();
    let header =
        |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes());
    verify_inbound(provider, &secrets, header, body, NOW)
}

/// Where each provider that signs with hex carries it.
const HEX: [(Provider, &str); 3] = [
    (Provider::GitHub, "x-hub-signature-256"),
    (Provider::Jira, "x-hub-signature"),
    (Provider::Generic, "x-signature-256"),
];

/// X01: GitHub's published vector, and its kin.
#[test]
fn x01_githubs_published_vector_and_its_kin() {
    for (provider, name) in HEX {
        assert_eq!(check(provider, &[GITHUB_SECRET], &[(name, GITHUB_SIGNATURE)], GITHUB_BODY), Ok(()));
        let upper = format!("sha256={}", GITHUB_SIGNATURE[7..].to_ascii_uppercase());
        assert_eq!(check(provider, &[GITHUB_SECRET], &[(name, &upper)], GITHUB_BODY), Ok(()));
    }
    // The published vector for `X-Hub-Signature`, with the same secret.
    let jira = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
    let jira = [("x-hub-signature", jira)];
    assert_eq!(check(Provider::Jira, &[GITHUB_SECRET], &jira, b"Hello World!"), Ok(()));
    let other = [("x-hub-signature", GITHUB_SIGNATURE)];
    let missing = Err(InboundError::Missing("x-hub-signature-256"));
    assert_eq!(check(Provider::GitHub, &[GITHUB_SECRET], &other, GITHUB_BODY), missing);
}

/// X01: what is signed of a third party's webhook is all checked.
#[test]
fn x01_everything_that_is_signed_counts() {
    for (provider, name) in HEX {
        let of =
            |secrets: &[&str], value: &str, body: &[u8]| check(provider, secrets, &[(name, value)], body);
        let mismatch = Err(InboundError::Mismatch(name));
        assert_eq!(of(&[GITHUB_SECRET], GITHUB_SIGNATURE, b"Hello, World! "), mismatch);
        assert_eq!(of(&[GITHUB_SECRET], GITHUB_SIGNATURE, b""), mismatch);
        assert_eq!(of(&["it's a Secret to Everybody"], GITHUB_SIGNATURE, GITHUB_BODY), mismatch);
        let last = GITHUB_SIGNATURE.replace("3e17", "3e18");
        assert_eq!(of(&[GITHUB_SECRET], &last, GITHUB_BODY), mismatch);
        let missing = Err(InboundError::Missing(name));
        assert_eq!(check(provider, &[GITHUB_SECRET], &[], GITHUB_BODY), missing);
        let hex = &GITHUB_SIGNATURE[7..];
        for bad in [
            "",
            "sha256=",
            hex,
            &GITHUB_SIGNATURE[..70],
            &GITHUB_SIGNATURE[..69],
            &format!("{GITHUB_SIGNATURE}00"),
            &format!("sha1={hex}"),
            &format!("SHA256={hex}"),
            &format!(" {GITHUB_SIGNATURE}"),
            &format!("sha256={}", "zz".repeat(32)),
        ] {
            assert_eq!(of(&[GITHUB_SECRET], bad, GITHUB_BODY), missing, "{bad:?}");
        }
    }
}

/// X01: the older of two secrets is good during a rotation.
#[test]
fn x01_a_rotation_overlaps() {
    let good = [("x-hub-signature-256", GITHUB_SIGNATURE)];
    for secrets in [&["new", GITHUB_SECRET][..], &[GITHUB_SECRET, "new"], &["a", "b", GITHUB_SECRET]] {
        assert_eq!(check(Provider::GitHub, secrets, &good, GITHUB_BODY), Ok(()), "{secrets:?}");
    }
    let stranger = check(Provider::GitHub, &["new", "old"], &good, GITHUB_BODY);
    assert_eq!(stranger, Err(InboundError::Mismatch("x-hub-signature-256")));
    for token in ["new", "old"] {
        assert_eq!(check(Provider::GitLab, &["new", "old"], &[("x-gitlab-token", token)], b""), Ok(()));
    }
}

#[test]
fn no_secret_is_no_check_and_an_empty_secret_is_not_no_secret() {
    for provider in Provider::ALL {
        assert_eq!(check(provider, &[], &[], b"anything"), Ok(()), "{provider:?}");
        assert!(check(provider, &[""], &[], b"anything").is_err(), "{provider:?}");
    }
    let empty = Hmac::<Sha256>::new_from_slice(b"").unwrap().finalize().into_bytes();
    let signature = format!("sha256={}", HEXLOWER_PERMISSIVE.encode(&empty));
    for (provider, name) in HEX {
        assert_eq!(check(provider, &[""], &[(name, &signature)], b""), Err(InboundError::Mismatch(name)));
    }
    let token = check(Provider::GitLab, &[""], &[("x-gitlab-token", "")], b"");
    assert_eq!(token, Err(InboundError::Mismatch("x-gitlab-token")));
    let basic = check(Provider::AzureDevOps, &[""], &[("authorization", "Basic Og==")], b"");
    assert_eq!(basic, Err(InboundError::Mismatch("authorization")));
}

#[test]
fn gitlabs_token_is_the_whole_secret() {
    let of = |value: &str| check(Provider::GitLab, &["s3cret"], &[("x-gitlab-token", value)], b"x");
    assert_eq!(of("s3cret"), Ok(()));
    for bad in ["", "s3cre", "s3cret ", "S3cret", "s3crets", "x"] {
        assert_eq!(of(bad), Err(InboundError::Mismatch("x-gitlab-token")), "{bad:?}");
    }
    assert_eq!(check(Provider::GitLab, &["s3cret"], &[], b"x"), Err(InboundError::Missing("x-gitlab-token")));
}

#[test]
fn azure_devops_password_is_the_secret_whoever_the_user_is() {
    let of = |value: &str| check(Provider::AzureDevOps, &["pass:word"], &[("authorization", value)], b"x");
    let encoded = |text: &str| STANDARD.encode(text);
    for good in ["anyone:pass:word", ":pass:word"] {
        assert_eq!(of(&format!("Basic {}", encoded(good))), Ok(()), "{good}");
    }
    assert_eq!(of(&format!("bASIC  {} ", encoded("u:pass:word"))), Ok(()));
    let mismatch = Err(InboundError::Mismatch("authorization"));
    for wrong in ["u:", "u:pass", "u:pass:word ", "pass:word:", "u:word"] {
        assert_eq!(of(&format!("Basic {}", encoded(wrong))), mismatch, "{wrong}");
    }
    let missing = Err(InboundError::Missing("authorization"));
    for bad in
        ["", "Basic", "Basic ", "Basic !!", &encoded("u:pass:word"), &format!("Basic {}", encoded("u"))]
    {
        assert_eq!(of(bad), missing, "{bad:?}");
    }
    assert_eq!(of(&format!("Bearer {}", encoded("u:pass:word"))), missing);
}

/// X01: the published vector of Standard Webhooks.
#[test]
fn x01_standard_webhooks_with_its_published_vector() {
    for provider in [Provider::Generic, Provider::GitLab] {
        let of =
            |secrets: &[&str], headers: &[(&str, &str)], body: &[u8]| check(provider, secrets, headers, body);
        assert_eq!(of(&[STANDARD_SECRET], &STANDARD_HEADERS, STANDARD_BODY), Ok(()));
        assert_eq!(of(&["plain", STANDARD_SECRET], &STANDARD_HEADERS, STANDARD_BODY), Ok(()));
        let mismatch = Err(InboundError::Mismatch("webhook-signature"));
        assert_eq!(of(&[STANDARD_SECRET], &STANDARD_HEADERS, b"{}"), mismatch);
        assert_eq!(of(&["plain"], &STANDARD_HEADERS, STANDARD_BODY), mismatch, "no key, no match");
        for (at, name) in [(0, "webhook-id"), (1, "webhook-timestamp")] {
            let mut headers = STANDARD_HEADERS.to_vec();
            headers.remove(at);
            assert_eq!(of(&[STANDARD_SECRET], &headers, STANDARD_BODY), Err(InboundError::Missing(name)));
        }
    }
}

#[test]
fn an_old_webhook_and_a_moved_boundary_are_refused() {
    let mut headers = STANDARD_HEADERS;
    headers[1].1 = "1614265000";
    let late = check(Provider::Generic, &[STANDARD_SECRET], &headers, STANDARD_BODY);
    assert!(matches!(late, Err(InboundError::Timestamp(VerifyError::Timestamp { .. }))), "{late:?}");
    headers[1].1 = "soon";
    let text = check(Provider::Generic, &[STANDARD_SECRET], &headers, STANDARD_BODY);
    assert_eq!(text, Err(InboundError::Missing("webhook-timestamp")));
    // The same bytes are signed when the id takes the time and the time a number that the body begins with.
    let key = SigningKey::parse(&Secret::new(STANDARD_SECRET.to_owned())).unwrap();
    let signature = sign(&[key], "msg", 1, b"1614265330.{}");
    let moved =
        [("webhook-id", "msg.1"), ("webhook-timestamp", "1614265330"), ("webhook-signature", &signature)];
    let moved = check(Provider::Generic, &[STANDARD_SECRET], &moved, b"{}");
    assert_eq!(moved, Err(InboundError::Missing("webhook-id")));
}

#[test]
fn a_webhook_signature_decides_where_it_is() {
    let mut headers = STANDARD_HEADERS.to_vec();
    headers[2].1 = "v1,AAAA";
    headers.extend([("x-gitlab-token", STANDARD_SECRET)]);
    let both = check(Provider::GitLab, &[STANDARD_SECRET], &headers, STANDARD_BODY);
    assert_eq!(both, Err(InboundError::Mismatch("webhook-signature")));
}

#[test]
fn n16_errors_hold_nothing_of_what_was_sent() {
    for provider in Provider::ALL {
        let headers = [
            ("x-hub-signature-256", "canary"),
            ("x-hub-signature", "sha256=canary"),
            ("x-gitlab-token", "canary"),
            ("authorization", "Basic Y2FuYXJ5OmNhbmFyeQ=="),
            ("x-signature-256", "canary"),
        ];
        let error = check(provider, &["canary-secret"], &headers, b"canary").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}
