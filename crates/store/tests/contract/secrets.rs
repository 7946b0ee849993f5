//! N16: secrets and tokens are not readable in the database, secrets open only where they belong, and rotate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mailrail_store::{Directory, Error, Store};
use mailrail_types::Secret;
use sqlx::{AssertSqlSafe, Row};

use crate::base::{Base, app, empty, endpoint, endpoint_id, full, integration, key, tenant};

crate::on_both!(
    n16_no_secret_or_token_is_in_the_database,
    n16_a_blob_of_another_endpoint_or_tenant_is_refused,
    n16_a_generated_secret_is_shown_once,
    x01_rotation_overlaps,
);

const SECRET: &str = "whsec_Q0FOQVJZc2VjcmV0Q0FOQVJZ";
const ROTATED: &str = "whsec_Um90YXRlZENBTkFSWXNlY3JldA";
const INBOUND: &str = "third-party-CANARY-secret";
const TOKEN: &str = "canary-token-canary-token-canary-token";

async fn n16_no_secret_or_token_is_in_the_database(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.apps = vec![app("shop")];
    setup.endpoints = vec![endpoint("hook", "shop", &[SECRET])];
    setup.integrations = vec![integration("github", &["hook"], &[INBOUND])];
    setup.keys = vec![key("main", TOKEN)];
    store.apply(&[setup], false).await.expect("applies");
    let new = Secret::new(ROTATED.to_owned());
    store.rotate_secret(&tenant("acme"), &endpoint_id("hook"), new, true).await.expect("rotates");
    let bytes = everything_stored(base).await;
    let has = |text: &str| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let within = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        within(text.as_bytes()) || within(hex.as_bytes())
    };
    // What is not secret is found: the search works.
    assert!(has("https://example.com/hook"));
    for secret in [SECRET, ROTATED, TOKEN, INBOUND] {
        assert!(!has(secret), "{secret} is readable");
        assert!(!has(&secret[6..]), "{secret} is readable without its prefix");
    }
    let raw = STANDARD.decode(&SECRET[6..]).expect("base64");
    assert!(!bytes.windows(raw.len()).any(|window| window == raw));
}

/// Every byte of the files of SQLite, every column of every row of Postgres (where bytes show as hex).
async fn everything_stored(base: &Base) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(dir) = &base.dir {
        for file in std::fs::read_dir(dir.path()).expect("the folder") {
            bytes.extend(std::fs::read(file.expect("a file").path()).expect("its bytes"));
        }
        return bytes;
    }
    let pool = base.pool().await;
    let tables = "SELECT table_name::text AS name FROM information_schema.tables WHERE table_schema = current_schema()";
    let tables = sqlx::query(tables).fetch_all(&pool).await.expect("tables");
    assert_eq!(tables.len(), 14);
    for table in tables {
        let name: &str = table.get("name");
        let rows = sqlx::query(AssertSqlSafe(format!("SELECT t::text AS row FROM {name} t")));
        for row in rows.fetch_all(&pool).await.expect("rows") {
            bytes.extend_from_slice(row.get::<&str, _>("row").as_bytes());
        }
    }
    pool.close().await;
    bytes
}

async fn n16_a_blob_of_another_endpoint_or_tenant_is_refused(base: &Base) {
    let store = base.open().await;
    let setup = |id: &str| {
        let mut setup = empty(id);
        setup.apps = vec![app("shop")];
        setup.endpoints = vec![endpoint("a", "shop", &["whsec_a"]), endpoint("b", "shop", &["whsec_b"])];
        setup
    };
    store.apply(&[setup("acme"), setup("globex")], false).await.expect("applies");
    copy_blob(base, ("acme", "a"), ("acme", "b")).await;
    assert_damaged(&store, "acme", "endpoint 'b' of tenant 'acme'").await;
    copy_blob(base, ("acme", "a"), ("globex", "a")).await;
    assert_damaged(&store, "globex", "endpoint 'a' of tenant 'globex'").await;
    let refused = Directory::load(store).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
}

async fn copy_blob(base: &Base, from: (&str, &str), to: (&str, &str)) {
    let place = |(tenant, endpoint)| format!("tenant = '{tenant}' AND endpoint = '{endpoint}'");
    base.raw(&format!(
        "UPDATE endpoint_secrets SET sealed = (SELECT sealed FROM endpoint_secrets WHERE {}) WHERE {}",
        place(from),
        place(to)
    ))
    .await;
}

async fn assert_damaged(store: &Store, id: &str, says: &str) {
    let refused = store.tenant_view(&tenant(id)).await.expect_err("a copied blob");
    assert!(matches!(refused, Error::Damaged { .. }), "{refused:?}");
    assert!(refused.to_string().contains(says), "{refused}");
}

async fn n16_a_generated_secret_is_shown_once(base: &Base) {
    let store = base.open().await;
    let mut setup = empty("acme");
    setup.apps = vec![app("shop")];
    setup.endpoints = vec![endpoint("a", "shop", &[]), endpoint("b", "shop", &[])];
    let applied = store.apply(&[setup.clone()], false).await.expect("applies");
    let [a, b] = &applied.secrets[..] else { panic!("two secrets, not {}", applied.secrets.len()) };
    assert!(a.secret != b.secret);
    for generated in [a, b] {
        let key = generated.secret.expose().strip_prefix("whsec_").expect("the prefix");
        assert_eq!(STANDARD.decode(key).expect("base64").len(), 32);
        assert!(!format!("{applied:?}").contains(key));
        let view = store.tenant_view(&generated.tenant).await.expect("reads").expect("exists");
        assert!(view.endpoints[&generated.endpoint].secrets == [generated.secret.clone()]);
    }
    // A change of something else keeps it.
    setup.endpoints[0].endpoint.timeout = None;
    let again = store.apply(&[setup], false).await.expect("applies");
    assert_eq!((again.secrets.len(), again.counts.endpoints.updated), (0, 1));
    let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
    assert!(view.endpoints[&endpoint_id("a")].secrets == [a.secret.clone()]);
}

async fn x01_rotation_overlaps(base: &Base) {
    let store = base.open().await;
    let token = crate::base::token(1);
    store.apply(&[full("acme", &token)], false).await.expect("applies");
    base.raw("UPDATE endpoint_secrets SET created_at = 7").await;
    let rotate = async |new: &str, keep| {
        let (before, new) =
            (store.changes_after(0, 100).await.expect("reads").len(), Secret::new(new.to_owned()));
        let seq =
            store.rotate_secret(&tenant("acme"), &endpoint_id("hook"), new, keep).await.expect("rotates");
        let changes = store.changes_after(0, 100).await.expect("reads");
        assert_eq!((changes.len(), changes.last().map(|c| c.seq)), (before + 1, Some(seq)));
        let view = store.tenant_view(&tenant("acme")).await.expect("reads").expect("exists");
        let secrets = view.endpoints[&endpoint_id("hook")].secrets.clone();
        secrets.iter().map(|secret| secret.expose().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rotate("a", true).await, "a whsec_new whsec_old");
    let kept = "SELECT COUNT(*) FROM endpoint_secrets WHERE endpoint = 'hook' AND created_at = 7";
    assert_eq!(base.number(kept).await, 2);
    assert_eq!(rotate("b", true).await, "b a whsec_new whsec_old");
    assert_eq!(rotate("c", true).await, "c b a whsec_new");
    assert_eq!(rotate("a", true).await, "a c b whsec_new");
    assert_eq!(rotate("d", false).await, "d");
    let missing =
        store.rotate_secret(&tenant("acme"), &endpoint_id("x"), Secret::new("e".into()), true).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}
