//! Parts of keys in Envoy's memory (which includes a wasm VM's), searched as in a core dump. Texts in base64 are not
//! searched: a process's environment does not change.

#[path = "../../../filter/core/tests/memory/search.rs"]
#[allow(clippy::expect_used, reason = "a failed test")]
#[expect(dead_code, reason = "some of it is for the filter's own memory only")]
mod search;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_core::keyring::wrapped::wrap;
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Secret};
use limpet_e2e::{Config, Site, poll};
use search::{Needles, key};
use serde_json::{Value, json};

const LABELS: [&str; 4] = [
    "limpet token v1 mac",
    "limpet token v1 encipher",
    "limpet keyring v1 mac",
    "limpet keyring v1 encipher",
];

fn needles(numbers: &[u8]) -> Needles {
    let mut needles = Needles::default();
    for number in numbers {
        needles.key(&format!("key {number}"), &key(*number), &LABELS);
    }
    needles
}

/// What stays of a key in use.
fn states(number: u8) -> Needles {
    let mut needles = Needles::default();
    needles.states(&format!("key {number}"), &key(number), &LABELS);
    needles
}

/// The keyring has the key with this number, wrapped under key 101.
fn filter(number: u8) -> Result<Value> {
    let entry = KeyEntry {
        id: KeyId(number),
        state: KeyState::Signing,
        secret: Some(Secret::new(key(number))),
    };
    Ok(json!({
        "wrappedKeys": {
            "text": wrap(&[entry], KeyId(1), &Secret::new(key(101)))?,
            "keyEncryptionKeys": [{"id": 1, "env": "LIMPET_KEK"}],
        },
        "policies": {"web": {"cookie": {"name": "limpet-session"}}},
        "default": {"policy": "web", "scope": "default"},
    }))
}

#[tokio::test]
async fn no_key_is_left_in_envoys_memory() -> Result<()> {
    let config = Config::load("ecds.yaml")?.filter_environment(&["LIMPET_KEK"]);
    let config = config.env("LIMPET_KEK", &BASE64_STANDARD.encode(key(101)));
    let mut site = Site::start(config.filter(&filter(43)?)).await?;
    let needles = needles(&[43, 71, 101]);
    let mut visitor = site.visitor();
    for number in [43, 71] {
        site.envoy
            .until_every_worker(&format!("uses key {number}"), |answer| {
                let token = answer
                    .set_cookie("limpet-session")
                    .and_then(|cookie| base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(cookie.value).ok());
                token.is_some_and(|token| token.get(1) == Some(&number))
            })
            .await?;
        for _ in 0..10 {
            visitor.get("/").await?;
        }
        let found = needles.search(site.envoy.pid()).context("Envoy's memory")?;
        assert!(found.is_empty(), "with key {number}: {found:#?}");
        let in_use = states(number).search(site.envoy.pid())?;
        assert!(
            !in_use.is_empty(),
            "with key {number}: the filter's memory was not searched"
        );
        if number == 43 {
            site.envoy.update(|config| match filter(71) {
                Ok(next) => config.filter(&next),
                Err(_) => config,
            })?;
        }
    }
    // Later requests overwrite a worker's stack.
    let former = states(43);
    let mut left = None;
    let gone = poll::until("nothing is left of key 43", async || {
        // At once, to take ways through Envoy whose stacks differ in depth.
        let visits = (0..20).map(async |_| {
            let mut visitor = site.visitor();
            visitor.get("/").await?;
            visitor.get("/").await
        });
        futures_util::future::try_join_all(visits).await.ok()?;
        left = former.search(site.envoy.pid()).ok();
        left.as_ref()?.is_empty().then_some(())
    })
    .await;
    gone.with_context(|| format!("left: {left:#?}"))
}
