//! N05: the bytes in the log are the bytes that came, whatever they are.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailrail_types::EventId;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

/// Bodies through the log. The row of the acceptance list asks for this many.
const BODIES: usize = 10_000;
/// Requests at once: enough for the log to write them in groups.
const AT_ONCE: usize = 64;

/// JSON as no serialiser would write it: odd spaces, long numbers, equal keys, needless escapes.
fn json_text() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec!["", " ", "\t", "\r\n", "  \n "]);
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?[1-9][0-9]{29}",
        "-?[0-9]\\.[0-9]{0,20}0",
        "[1-9][eE][+-]?[0-9]{1,4}",
        "\"([ -!#-\\[\\]-~é€😀]|\\\\[\"\\\\/bfnrt]|\\\\u[0-9a-fA-F]{4}){0,12}\"",
    ];
    scalar.prop_recursive(4, 24, 4, move |inner| {
        let item = (space.clone(), inner, space.clone()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
        let key = prop::sample::select(vec!["a", "id", "\\u0061", "data", ""]);
        let member = (key, item.clone()).prop_map(|(key, value)| format!("\"{key}\":{value}"));
        prop_oneof![
            prop::collection::vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 2..7).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

/// A body, and the request that carries it.
#[derive(Debug, Clone)]
enum Carried {
    Binary(Vec<u8>),
    Json(String),
    Base64(Vec<u8>),
}

fn carried() -> impl Strategy<Value = Carried> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        bytes().prop_map(Carried::Binary),
        json_text().prop_map(|text| Carried::Binary(text.into_bytes())),
        json_text().prop_map(Carried::Json),
        bytes().prop_map(Carried::Base64),
    ]
}

impl Carried {
    fn bytes(&self) -> &[u8] {
        match self {
            Carried::Binary(bytes) | Carried::Base64(bytes) => bytes,
            Carried::Json(text) => text.as_bytes(),
        }
    }

    fn request(&self, id: usize) -> Request {
        let required = format!(r#""specversion":"1.0","id":"{id}","source":"/s","type":"pushed""#);
        match self {
            Carried::Binary(bytes) => post(
                &[
                    ("ce-id", &id.to_string()),
                    ("ce-source", "/s"),
                    ("ce-type", "pushed"),
                    ("ce-specversion", "1.0"),
                ],
                bytes.clone(),
            ),
            Carried::Json(text) => structured(format!("{{\"data\": {text} ,{required}}}")),
            Carried::Base64(bytes) => {
                structured(format!("{{{required},\"data_base64\":\"{}\"}}", STANDARD.encode(bytes)))
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n05_ten_thousand_bodies_are_untouched_in_the_log() {
    let house = house().await;
    let mut runner = TestRunner::deterministic();
    let strategy = carried();
    let bodies: Vec<Carried> =
        (0..BODIES).map(|_| strategy.new_tree(&mut runner).expect("a body").current()).collect();
    let count = |is: fn(&Carried) -> bool| bodies.iter().filter(|b| is(b)).count();
    let not_utf8 = count(|b| std::str::from_utf8(b.bytes()).is_err());
    let equal_keys = count(|b| matches!(b, Carried::Json(text) if text.matches("\"a\":").count() > 1));
    assert!(
        not_utf8 > 1_000 && equal_keys > 200,
        "{not_utf8} bodies are not UTF-8, {equal_keys} have equal keys"
    );

    let mut requests = tokio::task::JoinSet::new();
    for (id, body) in bodies.iter().enumerate() {
        if requests.len() == AT_ONCE {
            requests.join_next().await.expect("running").expect("no panic");
        }
        let (router, request, shown) = (house.router.clone(), body.request(id), body.clone());
        requests.spawn(async move {
            let answer = send(&router, request).await;
            assert_eq!(answer.status, 202, "{answer:?} for {shown:?}");
        });
    }
    while let Some(done) = requests.join_next().await {
        done.expect("no panic");
    }

    let acme = TenantId::new("acme").expect("an id");
    let stored: HashMap<EventId, Event> =
        events(house.log.as_ref(), "acme").await.into_iter().map(|event| (event.id, event)).collect();
    assert_eq!(stored.len(), BODIES);
    for (id, body) in bodies.iter().enumerate() {
        let event = &stored[&EventId::derive(&acme, "/s", &id.to_string())];
        assert_eq!(event.body, body.bytes(), "body {id}: {body:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The same without a log in between, so that a failure shrinks to a small body.
    #[test]
    fn n05_parsing_cuts_out_exactly_the_body(body in carried()) {
        let (head, content) = body.request(1).into_parts();
        let content = futures::executor::block_on(content.collect()).expect("ready").to_bytes();
        let parsed = crate::parse::parse(&head.headers, &content, 1);
        let Ok(crate::parse::Parsed::Single(event)) = parsed else { panic!("{parsed:?}") };
        prop_assert_eq!(&event.body[..], body.bytes());
    }
}
