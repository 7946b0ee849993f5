//! Integrations: their secrets are given and never made, stay when they are left out, and open only where they belong.

use mailrail_store::{Directory, Error, Store};
use mailrail_types::{IntegrationId, Provider};

use crate::base::{Base, app, empty, endpoint, integration, tenant};

crate::on_both!(
    secrets_are_kept_and_never_made,
    the_overlap_of_a_rotation_ends,
    n16_an_inbound_secret_opens_only_in_its_place,
    every_provider_comes_back,
);

async fn secrets_of(store: &Store, id: &'static str) -> String {
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    let secrets = &view.integrations[&IntegrationId::of(id)].secrets;
    secrets.iter().map(|secret| secret.expose()).collect::<Vec<_>>().join(" ")
}

async fn secrets_are_kept_and_never_made(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.integrations = vec![integration("with", &[], &["new", "old"]), integration("without", &[], &[])];
    let applied = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!(applied.secrets, []);
    assert_eq!(
        (secrets_of(&store, "with").await.as_str(), secrets_of(&store, "without").await.as_str()),
        ("new old", "")
    );

    setup.integrations = vec![integration("with", &[], &[]), integration("without", &[], &[])];
    let again = store.apply(&[setup.clone()], true).await.expect("applies");
    assert_eq!((again.seq, again.counts.integrations.unchanged), (applied.seq, 2));
    setup.integrations[0].provider = Provider::GitLab;
    let changed = store.apply(&[setup], true).await.expect("applies");
    assert_eq!(changed.counts.integrations.updated, 1);
    assert_eq!(secrets_of(&store, "with").await, "new old");
}

async fn the_overlap_of_a_rotation_ends(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.integrations = vec![integration("with", &[], &["new", "old"]), integration("without", &[], &[])];
    store.apply(&[setup], true).await.expect("applies");
    for _ in 0..2 {
        for id in ["with", "without"] {
            store.revoke_previous_inbound(&tenant("acme"), &IntegrationId::of(id)).await.expect("revokes");
        }
        assert_eq!(secrets_of(&store, "with").await, "new");
        assert_eq!(secrets_of(&store, "without").await, "");
    }
}

/// Also not as the signing secret of an endpoint of the same name: whoever reads that would learn the third party's.
async fn n16_an_inbound_secret_opens_only_in_its_place(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.apps = vec![app("shop")];
    setup.endpoints = vec![endpoint("same", "shop", &["whsec_a"])];
    setup.integrations = vec![integration("same", &[], &["inbound"]), integration("other", &[], &["other"])];
    store.apply(&[setup], true).await.expect("applies");
    let blob = "(SELECT sealed FROM integration_secrets WHERE integration = 'same')";
    base.raw(&format!("UPDATE integration_secrets SET sealed = {blob} WHERE integration = 'other'")).await;
    assert_damaged(&store, "a secret of integration 'other' of tenant 'acme'").await;
    store
        .delete_integration(&tenant("acme"), &IntegrationId::of("other"))
        .await
        .expect_err("it cannot be read");
    base.raw("DELETE FROM integration_secrets WHERE integration = 'other'").await;
    base.raw(&format!("UPDATE endpoint_secrets SET sealed = {blob} WHERE endpoint = 'same'")).await;
    assert_damaged(&store, "a secret of endpoint 'same' of tenant 'acme'").await;
    let refused = Directory::load(store).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
}

async fn assert_damaged(store: &Store, says: &str) {
    let refused = store.tenant_view(&tenant("acme")).await.expect_err("a copied blob");
    assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains(says), "{refused}");
}

async fn every_provider_comes_back(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    for provider in Provider::ALL {
        let mut one = integration(provider.name(), &[], &[]);
        one.provider = provider;
        setup.integrations.push(one);
    }
    store.apply(&[setup], true).await.expect("applies");
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    for provider in Provider::ALL {
        assert_eq!(view.integrations[&IntegrationId::of(provider.name())].provider, provider);
    }
    base.raw("UPDATE integrations SET provider = 'bitbucket' WHERE id = 'jira'").await;
    let refused = store.tenant_view(&tenant("acme")).await.expect_err("an unknown provider");
    assert!(
        refused.to_string().contains("integration 'jira'") && refused.to_string().contains("'bitbucket'"),
        "{refused}"
    );
}
