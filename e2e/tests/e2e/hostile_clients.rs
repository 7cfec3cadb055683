//! Ten thousand forged tokens in cookies, headers and queries. The filter accepts none, and counts each under its
//! reason.

pub(crate) mod forger;

use std::collections::{BTreeMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use limpet_core::outcome::RequestOutcome;
use limpet_e2e::{Backend, Build, Config, Connection, Envoy, Site};
use serde_json::json;

use forger::{FENCED, Forger, Forgery, SESSIONS, Session, TELL};

/// 13 kinds and 3 carriers give a few more than 10,000.
const OF_A_KIND: usize = 260;

pub(crate) fn config(fenced_before: u64) -> Result<Config> {
    let routes = SESSIONS.map(|Session { policy, .. }| {
        json!({
            "name": policy,
            "match": {"path": format!("/{policy}")},
            "route": {"cluster": "backends"},
            "metadata": {"filter_metadata": {"limpet": {"session": format!("{policy}/{policy}")}}},
        })
    });
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {
            "web": {"cookie": {"name": "limpet-session"}, "idleTimeout": "10m", "absoluteTimeout": "1h"},
            "api": {"header": {"name": "x-session"}, "idleTimeout": "10m", "absoluteTimeout": "1h"},
            "url": {
                "query": {"name": "s"},
                "tell": {"header": {"name": TELL}},
                "idleTimeout": "10m",
                "absoluteTimeout": "1h",
            },
        },
        "fences": [{"address": FENCED, "notBefore": fenced_before}],
    });
    Ok(Config::load("cookie.yaml")?.routes(json!(routes)).filter(&filter))
}

async fn send_all(envoy: &Envoy, session: Session, tokens: &[Vec<u8>]) -> Result<()> {
    let mut connection = Connection::open(envoy.address(), false).await?;
    for token in tokens {
        let answer = connection.send(session.bring(token, envoy)).await?;
        let shown = String::from_utf8_lossy(token);
        ensure!(
            answer.status == 200 && answer.backend().is_some(),
            "{shown}: {answer:?}"
        );
        let begun = session.token(&answer);
        ensure!(begun.is_some(), "{shown}: no new session begins: {answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn ten_thousand_tokens_are_refused_and_counted() -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let site = Site::start(config(now.as_secs())?).await?;
    let mut different = HashSet::new();
    let mut expected = BTreeMap::new();
    for session in SESSIONS {
        let mut forger = Forger::new(session, site.backends[0].address(), now)?;
        // The forger can make good tokens, with the key, in the right place and in time.
        let good = forger.honest();
        let answer = session.bring(good.as_bytes(), &site.envoy).send().await?;
        assert_eq!(answer.backend(), Some("a"));

        let mut tokens = Vec::new();
        let mut count = |what: &str, by: u64| {
            *expected.entry(format!("{}.{what}", session.policy)).or_insert(0) += by;
        };
        count("steered", 1);
        for (kind, number) in Forgery::ALL
            .iter()
            .flat_map(|kind| (0..OF_A_KIND).map(move |number| (*kind, number)))
        {
            let (token, refusal) = forger.forge(kind, number)?;
            count(RequestOutcome::Refused(refusal).as_str(), 1);
            count("issued", 1);
            tokens.push(token);
        }
        different.extend(tokens.iter().cloned());
        let parts: Vec<_> = tokens.chunks(tokens.len().div_ceil(4)).collect();
        let [a, b, c, d] = parts[..] else {
            bail!("expected four parts")
        };
        let send = |part| send_all(&site.envoy, session, part);
        tokio::try_join!(send(a), send(b), send(c), send(d))?;
    }
    assert!(different.len() >= 10_000, "only {} different tokens", different.len());

    let prefix = Build::tested()?.counter("");
    let mut counted = site.envoy.stats(&prefix).await?;
    let of_keys = format!("{prefix}keys.");
    counted.retain(|name, count| *count > 0 && !name.starts_with(&of_keys));
    let expected = expected
        .into_iter()
        .map(|(name, count)| (format!("{prefix}{name}"), count));
    assert_eq!(counted, expected.collect());
    Ok(())
}

/// With the key, a token can name any address.
#[tokio::test]
async fn an_address_outside_the_cluster_is_not_reached() -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let site = Site::start(config(now.as_secs())?).await?;
    let elsewhere = Backend::start("elsewhere")?;
    for session in SESSIONS {
        let token = Forger::new(session, elsewhere.address(), now)?.honest();
        for _ in 0..5 {
            let answer = session.bring(token.as_bytes(), &site.envoy).send().await?;
            let reached = site
                .backends
                .iter()
                .any(|backend| answer.backend() == Some(backend.name()));
            ensure!(answer.status == 200 && reached, "{answer:?}");
        }
        assert_eq!(site.envoy.metric(&format!("{}.reissued", session.policy)).await?, 5);
    }
    assert_eq!(elsewhere.requests(), 0);
    Ok(())
}
