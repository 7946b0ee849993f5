//! Records: round trips, bytes of earlier versions, fields of later ones.

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use mailrail_types::*;
use mailrail_wire as wire;
use proptest::prelude::*;
use support::fixture;

fn event() -> Event {
    let tenant = TenantId::new("acme").expect("valid");
    Event {
        id: EventId::derive(&tenant, "/repo", "1"),
        tenant,
        attributes: Attributes {
            id: "1".into(),
            source: "/repo".into(),
            event_type: "com.github.push".into(),
            subject: Some("refs/heads/main".into()),
            time: Some("2026-11-30T09:00:00Z".into()),
            content_type: Some("application/json; charset=utf-8".into()),
            data_schema: None,
            extensions: vec![
                Attribute { name: "partitionkey".into(), value: AttributeValue::String("42".into()) },
                Attribute { name: "sampled".into(), value: AttributeValue::Boolean(true) },
                Attribute { name: "level".into(), value: AttributeValue::Integer(-7) },
            ],
        },
        ordering_key: Some("42".into()),
        body: Bytes::from_static(b"{ \"a\" : 123456789012345678901234567890, \"a\":\xff }"),
        trace: Some(TraceContext {
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            tracestate: "k=v".into(),
        }),
        accepted_at: Timestamp(1_796_029_200_123),
        setup_seq: 8,
        forwarded: None,
        unknown: Bytes::new(),
    }
}

fn forwarded() -> Event {
    Event {
        forwarded: Some(Box::new(Forwarded {
            provider: Provider::GitHub,
            integration: IntegrationId::new("gh").expect("valid"),
            method: "POST".into(),
            path: "/extra?x=1".into(),
            headers: vec![("x-github-event".into(), Bytes::from_static(b"push\xff"))],
        })),
        ..event()
    }
}

fn delivery() -> Delivery {
    let event = event();
    let subscription = SubscriptionId::new("pushes").expect("valid");
    Delivery {
        id: DeliveryId::derive(&event.id, &event.tenant, &subscription),
        app: AppId::new("shop").expect("valid"),
        subscription,
        endpoint: EndpointId::new("main").expect("valid"),
        mailbox: Mailbox {
            pipeline: "default".into(),
            tenant: event.tenant.clone(),
            endpoint: EndpointId::new("main").expect("valid"),
            bucket: 3,
            region: "eu".into(),
            event_type: Some("com.github.push".into()),
        },
        setup_seq: 9,
        matched_at: Timestamp(1_796_029_200_200),
        deadline: Timestamp(1_796_374_800_123),
        history: History {
            attempts: 2,
            first_attempt_at: Some(Timestamp(1_796_029_201_000)),
            last_attempt_at: Some(Timestamp(1_796_029_206_000)),
            last_status: Some(503),
            redrives: 1,
        },
        event,
        unknown: Bytes::new(),
    }
}

fn attempt(outcome: Outcome) -> Attempt {
    let delivery = delivery();
    Attempt {
        delivery: delivery.id,
        event: delivery.event.id,
        tenant: delivery.event.tenant,
        endpoint: delivery.endpoint,
        subscription: delivery.subscription,
        number: 2,
        started_at: Timestamp(1_796_029_206_000),
        duration_ms: 31,
        result: AttemptResult {
            status: Some(503),
            error: Some(ErrorCode::ConnectionReset),
            excerpt: Bytes::from_static(b"busy\x00\xfe"),
        },
        outcome,
        unknown: Bytes::new(),
    }
}

fn dead_letter() -> DeadLetter {
    DeadLetter {
        delivery: delivery(),
        reason: DeadReason::Exhausted,
        died_at: Timestamp(1_796_029_300_000),
        attempts: vec![attempt(Outcome::Dead(DeadReason::Exhausted))],
        unknown: Bytes::new(),
    }
}

fn retry() -> Outcome {
    Outcome::Retry { due: Timestamp(1_796_029_211_000), reason: RetryReason::ServerError }
}

/// An event that has nothing that it can be without, and one that has everything, of another tenant.
fn least_and_most() -> [Event; 2] {
    let least = Event {
        attributes: Attributes {
            id: "1".to_owned(),
            source: "/least".to_owned(),
            event_type: "t".to_owned(),
            ..Attributes::default()
        },
        tenant: TenantId::new("other").expect("valid"),
        ordering_key: None,
        body: Bytes::new(),
        trace: None,
        forwarded: None,
        accepted_at: Timestamp(0),
        setup_seq: 0,
        ..event()
    };
    let most = Event {
        attributes: Attributes {
            subject: Some(String::new()),
            time: Some("2026-12-01T00:00:00Z".to_owned()),
            content_type: Some("application/json".to_owned()),
            data_schema: Some("https://example.com/schema".to_owned()),
            ..event().attributes
        },
        ordering_key: Some("k".to_owned()),
        trace: Some(TraceContext {
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned(),
            tracestate: "a=b".to_owned(),
        }),
        forwarded: forwarded().forwarded,
        unknown: Bytes::from_static(&[0xa2, 0x06, 1, b'x']),
        ..event()
    };
    [least, most]
}

/// Whatever is read into the memory of whatever, given back or not, and after a record that is none: nothing is left of it.
#[test]
fn nothing_of_an_event_is_left_in_the_next_one() {
    let [least, most] = least_and_most();
    let events = [least, most, event(), forwarded()];
    let mut broken = wire::encode_event(&events[1]).to_vec();
    broken.extend_from_slice(&[0x12, 2, b'!', b'!']);
    for first in &events {
        for second in &events {
            for (give_back, then_broken) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut reader = wire::EventReader::default();
                let read = reader.read(&wire::encode_event(first)).expect("an event");
                assert_eq!(&*read, first);
                if give_back {
                    reader.give_back(read);
                }
                if then_broken {
                    assert!(reader.read(&broken.clone().into()).is_err(), "a tenant that is none");
                    assert!(reader.read(&Bytes::from_static(&[0xff])).is_err(), "no protobuf");
                }
                assert_eq!(&*reader.read(&wire::encode_event(second)).expect("an event"), second);
            }
        }
    }
}

#[test]
fn bytes_of_version_0_1_0_are_read() {
    assert_eq!(wire::decode_event(&fixture("event")).expect("event"), event());
    assert_eq!(wire::decode_event(&fixture("forwarded")).expect("event"), forwarded());
    assert_eq!(wire::decode_delivery(&fixture("delivery")).expect("delivery"), delivery());
    assert_eq!(wire::decode_attempt(&fixture("attempt")).expect("attempt"), attempt(retry()));
    assert_eq!(wire::decode_dead_letter(&fixture("dead-letter")).expect("dead letter"), dead_letter());
}

/// What a newer version adds: a varint, a length-delimited and a fixed64 field with numbers nobody uses yet.
fn newer_fields() -> Vec<u8> {
    let mut out = BytesMut::new();
    prost::encoding::uint64::encode(1000, &77, &mut out);
    prost::encoding::string::encode(1001, &"from tomorrow".to_owned(), &mut out);
    prost::encoding::fixed64::encode(1002, &5, &mut out);
    out.to_vec()
}

fn with_newer(record: &Bytes) -> Bytes {
    let mut out = BytesMut::from(&newer_fields()[..]);
    out.put_slice(record);
    out.freeze()
}

#[test]
fn fields_of_a_newer_version_survive_at_every_depth() {
    let newer_event = wire::decode_event(&with_newer(&wire::encode_event(&event()))).expect("event");
    assert_eq!(newer_event.unknown, newer_fields());
    let again = wire::decode_event(&wire::encode_event(&newer_event)).expect("event");
    assert_eq!(again, newer_event);

    // Event inside delivery inside dead letter: each level keeps its own.
    let inner = Delivery { event: newer_event, ..delivery() };
    let newer_delivery =
        wire::decode_delivery(&with_newer(&wire::encode_delivery(&inner))).expect("delivery");
    let letter = DeadLetter { delivery: newer_delivery, ..dead_letter() };
    let letter =
        wire::decode_dead_letter(&with_newer(&wire::encode_dead_letter(&letter))).expect("dead letter");
    let letter = wire::decode_dead_letter(&wire::encode_dead_letter(&letter)).expect("dead letter");
    assert_eq!(letter.unknown, newer_fields());
    assert_eq!(letter.delivery.unknown, newer_fields());
    assert_eq!(letter.delivery.event.unknown, newer_fields());

    let tried = wire::decode_attempt(&with_newer(&wire::encode_attempt(&attempt(retry())))).expect("attempt");
    assert_eq!(wire::decode_attempt(&wire::encode_attempt(&tried)).expect("attempt").unknown, newer_fields());
}

#[test]
fn every_outcome_survives() {
    let mut outcomes = vec![Outcome::Delivered];
    outcomes.extend(RetryReason::ALL.iter().map(|&reason| Outcome::Retry { due: Timestamp(5), reason }));
    outcomes.extend(DeadReason::ALL.iter().map(|&r| Outcome::Dead(r)));
    outcomes.extend(CancelReason::ALL.iter().map(|&r| Outcome::Cancelled(r)));
    for outcome in outcomes {
        let record = wire::encode_attempt(&attempt(outcome));
        assert_eq!(wire::decode_attempt(&record).expect("decodes").outcome, outcome);
    }
}

#[test]
fn a_dead_letter_keeps_the_last_sixteen_attempts() {
    let attempts = (1..=20).map(|number| Attempt { number, ..attempt(retry()) }).collect();
    let record = wire::encode_dead_letter(&DeadLetter { attempts, ..dead_letter() });
    let kept = wire::decode_dead_letter(&record).expect("decodes").attempts;
    assert_eq!(kept.iter().map(|a| a.number).collect::<Vec<_>>(), (5..=20).collect::<Vec<_>>());
}

#[test]
fn records_that_cannot_be_understood_are_errors() {
    assert!(wire::decode_event(&Bytes::new()).is_err(), "an event without an id");
    assert!(wire::decode_delivery(&Bytes::from_static(b"\xff\xff\xff")).is_err());
    let mut bad = wire::encode_attempt(&attempt(Outcome::Delivered)).to_vec();
    prost::encoding::string::encode(12, &"exploded".to_owned(), &mut bad);
    assert!(wire::decode_attempt(&bad.into()).is_err(), "an unknown outcome is never guessed");
}

proptest! {
    #[test]
    fn n05_any_body_survives(body in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let given = Event { body: body.into(), ..event() };
        prop_assert_eq!(wire::decode_event(&wire::encode_event(&given)).expect("decodes"), given);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let bytes = Bytes::from(bytes);
        let _ = wire::decode_event(&bytes);
        let _ = wire::decode_delivery(&bytes);
        let _ = wire::decode_attempt(&bytes);
        let _ = wire::decode_dead_letter(&bytes);
    }
}
