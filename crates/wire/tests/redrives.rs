//! The ledger of redrives: every entry is read back, and what is not understood is an error.

use bytes::Bytes;
use mailrail_types::*;
use mailrail_wire as wire;
use proptest::prelude::*;

fn order() -> ReplayOrder {
    let ids = [DeliveryId::from_bytes([3; 16]), DeliveryId::from_bytes([4; 16])];
    ReplayOrder {
        replay: ReplayId::from_bytes([1; 16]),
        by: "alice".into(),
        at: Timestamp(1_796_029_200_123),
        filter: LetterFilter {
            tenant: Some(TenantId::of("acme")),
            endpoint: Some(EndpointId::of("main")),
            event_type: Some("com.github.push".into()),
            reasons: DeadReason::ALL.to_vec(),
            since: Some(Timestamp(0)),
            until: Some(Timestamp(9)),
            ids: ids.to_vec(),
        },
        again: true,
        rate: 50,
        ranges: vec![
            LetterRange { partition: 0, from: 0, to: 7 },
            LetterRange { partition: 5, from: 2, to: 2 },
        ],
    }
}

fn step() -> ReplayStep {
    ReplayStep { partition: 5, next: 17, skipped: 1, unreadable: 2 }
}

fn entries() -> Vec<RedriveEntry> {
    let (replay, runner, at) = (ReplayId::from_bytes([1; 16]), "host/7".to_owned(), Timestamp(5));
    let letters = (0..3u8)
        .map(|n| Redriven { delivery: DeliveryId::from_bytes([n; 16]), redrives: 1, offset: n.into() })
        .collect();
    vec![
        RedriveEntry::Ordered(order()),
        RedriveEntry::Ordered(ReplayOrder { filter: LetterFilter::default(), ..order() }),
        RedriveEntry::Claimed { replay, runner: runner.clone(), after: "host/6".to_owned() },
        RedriveEntry::Claimed { replay, runner: String::new(), after: runner.clone() },
        RedriveEntry::Sending {
            replay,
            runner: runner.clone(),
            step: step(),
            batch: RedriveBatch { partition: 5, deliveries_from: 1 << 40, letters },
        },
        RedriveEntry::Settled { replay, runner: runner.clone(), unsent: Vec::new() },
        RedriveEntry::Settled {
            replay,
            runner: runner.clone(),
            unsent: UnsentReason::ALL
                .map(|reason| Unsent { delivery: DeliveryId::from_bytes([9; 16]), reason })
                .to_vec(),
        },
        RedriveEntry::Passed { replay, runner: runner.clone(), step: step() },
        RedriveEntry::Cancelled { replay, by: "bob".into(), at },
        RedriveEntry::Ended { replay, runner, at },
    ]
}

#[test]
fn every_entry_is_read_back() {
    for entry in entries() {
        assert_eq!(wire::decode_redrive(&wire::encode_redrive(&entry)).expect("an entry"), entry);
    }
}

#[test]
fn what_is_not_understood_is_an_error() {
    assert!(wire::decode_redrive(&Bytes::new()).is_err(), "no replay");
    let mut newer = Vec::new();
    prost::encoding::bytes::encode(1, &vec![1u8; 16], &mut newer);
    let error = wire::decode_redrive(&newer.clone().into()).expect_err("no kind");
    assert!(error.to_string().contains("kind"), "{error}");
    prost::encoding::string::encode(99, &"from tomorrow".to_owned(), &mut newer);
    assert!(wire::decode_redrive(&newer.into()).is_err(), "a kind of a newer version");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = wire::decode_redrive(&bytes.into());
    }
}
