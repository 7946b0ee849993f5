//! Published vectors, an independent implementation, and every way in which a signature must fail.

use std::time::Duration;

use mailrail_types::Secret;
use proptest::prelude::*;

use crate::*;

const RUST_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const GO_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

fn key(text: &str) -> SigningKey {
    SigningKey::parse(&Secret::new(text.to_owned())).unwrap()
}

fn check(keys: &[SigningKey], at: i64, body: &[u8], signatures: &str, now: i64) -> Result<(), VerifyError> {
    verify(keys, ID, at, body, signatures, now, TOLERANCE_DEFAULT)
}

/// X01: HMAC-SHA256 over id, timestamp and body gives the published signatures.
#[test]
fn published_vectors_give_their_signatures() {
    let rust = sign(
        &[key(RUST_SECRET)],
        "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
        1_649_367_553,
        br#"{"email":"test@example.com","username":"test_user"}"#,
    );
    assert_eq!(rust, "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=");
    let go = sign(&[key(GO_SECRET)], ID, 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(go, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/// X01: with two secrets each delivery is signed with both, and each verifies alone.
#[test]
fn a_rotation_signs_with_both_and_each_verifies_alone() {
    let (old, new) = (key(RUST_SECRET), key(GO_SECRET));
    let header = sign(&[new.clone(), old.clone()], ID, 100, b"x");
    assert_eq!(header.split(' ').count(), 2);
    assert_eq!(
        header,
        format!(
            "{} {}",
            sign(std::slice::from_ref(&new), ID, 100, b"x"),
            sign(std::slice::from_ref(&old), ID, 100, b"x")
        )
    );
    assert_eq!(check(&[old], 100, b"x", &header, 100), Ok(()));
    assert_eq!(check(std::slice::from_ref(&new), 100, b"x", &header, 100), Ok(()));
    let stranger = SigningKey::parse(&secret_from_bytes(&[7; 32])).unwrap();
    assert_eq!(check(std::slice::from_ref(&stranger), 100, b"x", &header, 100), Err(VerifyError::Signature));
    assert_eq!(check(&[stranger, new], 100, b"x", &header, 100), Ok(()));
    assert_eq!(sign(&[], ID, 100, b"x"), "");
}

/// X01: id, timestamp and body are all signed.
#[test]
fn everything_that_is_signed_counts() {
    let keys = [key(GO_SECRET)];
    let good = sign(&keys, ID, 100, b"body");
    assert_eq!(check(&keys, 100, b"body", &good, 100), Ok(()));
    assert_eq!(check(&keys, 101, b"body", &good, 100), Err(VerifyError::Signature));
    assert_eq!(check(&keys, 100, b"body ", &good, 100), Err(VerifyError::Signature));
    assert_eq!(
        verify(&keys, "msg_other", 100, b"body", &good, 100, TOLERANCE_DEFAULT),
        Err(VerifyError::Signature)
    );
    assert_eq!(check(&[], 100, b"body", &good, 100), Err(VerifyError::Signature));
}

#[test]
fn partial_and_foreign_signatures_never_match() {
    let keys = [key(GO_SECRET)];
    let good = sign(&keys, ID, 100, b"body");
    let mac = good.strip_prefix("v1,").unwrap();
    let cut = &good[..good.len() - 1];
    let long = format!("{good}=");
    let tight = format!("{good},{good}");
    let late = format!("{}{good}", "v1,AAAA ".repeat(16));
    for bad in ["", "v1", "v1,", "v1, ", " ", mac, cut, &long, &tight, &late, &good.to_lowercase()] {
        assert_eq!(check(&keys, 100, b"body", bad, 100), Err(VerifyError::Signature), "{bad:?}");
    }
    for bad in [format!("v1a,{mac}"), format!("v2,{mac}"), format!("V1,{mac}"), format!("\t{good}")] {
        assert_eq!(check(&keys, 100, b"body", &bad, 100), Err(VerifyError::Signature), "{bad:?}");
    }
    assert_eq!(check(&keys, 100, b"body", &format!("v1a,xyz  {good} v1,"), 100), Ok(()));
}

#[test]
fn tolerance_bounds_both_directions() {
    let keys = [key(GO_SECRET)];
    let header = sign(&keys, ID, 1000, b"");
    for now in [700, 1000, 1300] {
        assert_eq!(check(&keys, 1000, b"", &header, now), Ok(()), "{now}");
    }
    for now in [i64::MIN, 0, 699, 1301, i64::MAX] {
        assert_eq!(
            check(&keys, 1000, b"", &header, now),
            Err(VerifyError::Timestamp { tolerance_secs: 300 }),
            "{now}"
        );
    }
    let exact = verify(&keys, ID, 1000, b"", &header, 1001, Duration::ZERO);
    assert_eq!(exact, Err(VerifyError::Timestamp { tolerance_secs: 0 }));
}

#[test]
fn secrets_are_checked_and_the_error_says_what_to_change() {
    let base64 = |bytes: usize| {
        use base64::Engine as _;
        format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(vec![0xa5; bytes]))
    };
    let parse = |text: &str| SigningKey::parse(&Secret::new(text.to_owned())).map(|_| ());
    for bytes in [24, 25, 32, 63, 64] {
        assert_eq!(parse(&base64(bytes)), Ok(()), "{bytes}");
    }
    for bytes in [0, 1, 23, 65, 512] {
        assert_eq!(parse(&base64(bytes)), Err(SignError::Length { bytes }), "{bytes}");
    }
    for text in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsk_MfKQ", "WHSEC_MfKQ", " whsec_MfKQ"] {
        assert_eq!(parse(text), Err(SignError::Prefix), "{text:?}");
    }
    let unpadded = base64(32).trim_end_matches('=').to_owned();
    let spaced = format!("{GO_SECRET}\n");
    for text in [&unpadded, &spaced, "whsec_!!!!", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_"] {
        assert_eq!(parse(text), Err(SignError::Encoding), "{text:?}");
    }
}

#[test]
fn n16_keys_and_errors_print_nothing_of_the_secret() {
    let shown = format!("{:?}", key(GO_SECRET));
    assert_eq!(shown, "SigningKey(…)");
    for text in ["whsec_canary!canary", "canary", "whsec_Y2FuYXJ5"] {
        let error = SigningKey::parse(&Secret::new(text.to_owned())).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        assert!(!format!("{error} {error:?}").contains("Y2Fu"), "{error}");
    }
}

#[test]
fn a_new_secret_is_a_good_one() {
    let random: [u8; 32] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let secret = secret_from_bytes(&random);
    assert_eq!(secret.expose(), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    assert!(SigningKey::parse(&secret).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Torture row T43: any text and any key length, verified by the reference library, which takes text only.
    #[test]
    fn the_reference_library_verifies_any_text(
        body in ".{0,512}",
        secret in proptest::collection::vec(any::<u8>(), 24..=64),
        ours_first in any::<bool>(),
    ) {
        use base64::Engine as _;
        let text = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(&secret));
        let mut keys = vec![key(&text), key(GO_SECRET)];
        if !ours_first {
            keys.reverse();
        }
        // The reference library reads the clock itself; the sender's time has to be near it.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let now = i64::try_from(now).unwrap();
        let mut headers = http::HeaderMap::new();
        headers.insert(ID_HEADER, ID.parse().unwrap());
        headers.insert(TIMESTAMP_HEADER, now.to_string().parse().unwrap());
        headers.insert(SIGNATURE_HEADER, sign(&keys, ID, now, body.as_bytes()).parse().unwrap());
        let reference = standardwebhooks::Webhook::new(&text).unwrap();
        prop_assert!(reference.verify(body.as_bytes(), &headers).is_ok());
        let other = format!("{body} ");
        prop_assert!(reference.verify(other.as_bytes(), &headers).is_err());
        let theirs = reference.sign(ID, now, body.as_bytes()).unwrap();
        prop_assert_eq!(check(&[key(&text)], now, body.as_bytes(), &theirs, now), Ok(()));
    }

    /// Torture row T43: bytes that are no text, against another implementation of HMAC.
    #[test]
    fn any_bytes_are_signed_as_they_are(
        body in proptest::collection::vec(any::<u8>(), 0..4096),
        secret in proptest::collection::vec(any::<u8>(), 24..=64),
        at in any::<i64>(),
    ) {
        use base64::Engine as _;
        let base64 = base64::engine::general_purpose::STANDARD;
        let mut content = format!("{ID}.{at}.").into_bytes();
        content.extend_from_slice(&body);
        let expected = format!("v1,{}", base64.encode(hmac_sha256::HMAC::mac(&content, &secret)));
        let ours = key(&format!("whsec_{}", base64.encode(&secret)));
        prop_assert_eq!(sign(std::slice::from_ref(&ours), ID, at, &body), expected.as_str());
        prop_assert_eq!(check(&[ours], at, &body, &expected, at), Ok(()));
    }
}
