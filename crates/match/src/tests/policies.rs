//! What comes beside a filter's verdict: what its producer says, and what becomes of an event without one.

use super::*;

/// A08: a filter that does not compile gets nothing and is counted; its neighbour is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn a08_one_bad_filter_never_affects_another() {
    let rig = Rig::start().await;
    rig.apply(&[("bad", "push", Some(r#"{"ref":[{"no-such-operator":1}]}"#)), ("good", "push", None)]).await;
    rig.append(mailrail_wire::encode_event(&event("1", "push", "{}"))).await;
    rig.run_until(1).await;
    assert_eq!(rig.recipients().await, ["good"]);
    assert_eq!(rig.metrics.matching.filter_errors.get(), 1);
}

/// A08: what becomes of an event on which a filter gives no verdict is the subscription's to say; each way has its count.
#[tokio::test(flavor = "multi_thread")]
async fn a08_the_subscription_says_what_becomes_of_an_event_without_a_verdict() {
    let mut rig = Rig::start().await;
    // Takes more steps on a long array than a filter may.
    let (slow, broken) = (r#"{"a":[{"none-of":["x"]}]}"#, r#"{"a":[{"no-such-operator":1}]}"#);
    for policy in FilterErrorPolicy::ALL {
        rig.policies.extend([(policy.name(), policy), (slow_name(policy), policy)]);
    }
    let names = FilterErrorPolicy::ALL.map(|policy| [(policy.name(), broken), (slow_name(policy), slow)]);
    let subscriptions: Vec<_> =
        names.as_flattened().iter().map(|(name, text)| (*name, "push", Some(*text))).collect();
    rig.apply(&subscriptions).await;
    let body = format!(r#"{{"a":[{}0]}}"#, "1,".repeat(100_000));
    let long = Event { body: body.into(), ..event("1", "push", "") };
    rig.append(mailrail_wire::encode_event(&long)).await;
    rig.append(mailrail_wire::encode_event(&event("2", "star", "{}"))).await;
    rig.run_until(2).await;
    let delivered = ["deliver", "deliver-and-count", "slow-deliver", "slow-deliver-and-count"];
    assert_eq!(rig.recipients().await, delivered);
    let metrics = &rig.metrics.matching;
    assert_eq!(metrics.filter_errors.get(), 4, "those that want it counted");
    for policy in FilterErrorPolicy::ALL {
        let labels = mailrail_telemetry::ReasonLabels { reason: policy.name() };
        assert_eq!(metrics.filter_failures.get_or_create(&labels).get(), 2, "{policy:?}");
    }
}

/// A17: what the producer says comes first, whatever filter, error policy or a subscription without filter wants.
#[tokio::test(flavor = "multi_thread")]
async fn a17_a_sensitive_event_goes_to_no_app_without_the_permission() {
    let mut rig = Rig::start().await;
    rig.policies.insert("broken", FilterErrorPolicy::DeliverAndCount);
    let subscriptions = [
        ("all", "push", None),
        ("matches", "push", Some(r#"{"x":[1]}"#)),
        ("rejects", "push", Some(r#"{"x":[2]}"#)),
        ("broken", "push", Some(r#"{"x":[{"no-such-operator":1}]}"#)),
    ];
    rig.apply(&subscriptions).await;
    let mut sensitive = event("1", "push", r#"{"x":1}"#);
    let value = AttributeValue::String("payroll".to_owned());
    sensitive.attributes.extensions = vec![Attribute { name: PERMISSION_ATTRIBUTE.to_owned(), value }];
    rig.append(mailrail_wire::encode_event(&sensitive)).await;
    rig.run_until(1).await;
    assert!(rig.recipients().await.is_empty());
    let metrics = &rig.metrics.matching;
    assert_eq!(
        (metrics.denied_by_producer.get(), metrics.unmatched.get(), metrics.filter_errors.get()),
        (3, 1, 0)
    );
    // The app gets the permission, and the next event goes where the filters say.
    rig.permissions = ["payroll".to_owned()].into();
    rig.apply(&subscriptions).await;
    rig.append(mailrail_wire::encode_event(&Event {
        id: EventId::derive(&sensitive.tenant, "/s", "2"),
        ..sensitive
    }))
    .await;
    rig.run_until(2).await;
    assert_eq!(rig.recipients().await, ["all", "broken", "matches"]);
    assert_eq!(rig.metrics.matching.denied_by_producer.get(), 3);
}

const fn slow_name(policy: FilterErrorPolicy) -> &'static str {
    match policy {
        FilterErrorPolicy::Drop => "slow-drop",
        FilterErrorPolicy::Deliver => "slow-deliver",
        FilterErrorPolicy::DeliverAndCount => "slow-deliver-and-count",
        _ => "slow-drop-and-count",
    }
}
