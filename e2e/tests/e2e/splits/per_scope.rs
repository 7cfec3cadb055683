//! Several rules whose session has the same name and path: `cookie.perScope`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Config, Envoy, Request, Site, Visitor};
use serde_json::{Value, json};
use tokio::task::JoinSet;

fn filter(per_scope: bool) -> Value {
    let policy = json!({"cookie": {"name": "limpet-session", "perScope": per_scope}});
    json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {"web": policy}})
}

pub(crate) fn two_rules(per_scope: bool) -> Result<Config> {
    let rule = |name: &str| {
        json!({
            "name": name,
            "match": {"prefix": format!("/{name}")},
            "metadata": {"filter_metadata": {"limpet": {"session": format!("web/{name}")}}},
            "route": {"cluster": "backends"},
        })
    };
    Ok(Config::load("cookie.yaml")?
        .filter(&filter(per_scope))
        .routes(json!([rule("a"), rule("b")])))
}

/// Requests /a and /b at the same time, many times. Returns how often one of the two then reached another backend, or
/// got a new token.
async fn walk(mut visitor: Visitor, envoy: std::net::SocketAddr) -> Result<usize> {
    let mut first: Option<[Answer; 2]> = None;
    let mut lost = 0;
    for _ in 0..5 {
        let ask = |path| visitor.bring(Request::get(envoy, path)).send();
        let (a, b) = tokio::join!(ask("/a"), ask("/b"));
        let answers = [a?, b?];
        for (i, answer) in answers.iter().enumerate() {
            ensure!(answer.status == 200, "{answer:?}");
            visitor.take(answer);
            if let Some(first) = &first {
                let moved = answer.backend() != first[i].backend();
                lost += usize::from(moved || !answer.set_cookies().is_empty());
            }
        }
        first.get_or_insert(answers);
    }
    Ok(lost)
}

/// Lets fifty clients [`walk`] at the same time. Returns how often each one's sessions broke.
async fn fifty_clients(per_scope: bool) -> Result<Vec<usize>> {
    let site = Site::start(two_rules(per_scope)?).await?;
    let mut clients = JoinSet::new();
    for _ in 0..50 {
        clients.spawn(walk(site.visitor(), site.envoy.address()));
    }
    clients.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn sessions_of_two_rules_can_begin_at_the_same_time() -> Result<()> {
    assert_eq!(fifty_clients(true).await?, [0; 50]);
    Ok(())
}

/// A client keeps one cookie for a name and path, so one rule always gets the other's.
#[tokio::test]
async fn without_the_flag_two_rules_end_each_others_sessions() -> Result<()> {
    let lost = fifty_clients(false).await?;
    assert!(lost.iter().all(|lost| *lost >= 4), "{lost:?}");
    Ok(())
}

#[tokio::test]
async fn no_cookie_of_another_rule_reaches_a_backend() -> Result<()> {
    let site = Site::start(two_rules(true)?).await?;
    let mut visitor = site.visitor();
    for path in ["/a", "/b"] {
        visitor.get(path).await?;
    }
    let mut names = visitor.cookie_names();
    names.sort_unstable();
    // printf a | sha256sum | xxd -r -p | head -c 5 | base32 | tr A-Z a-z
    assert_eq!(names, ["limpet-session~hyr6qfqa", "limpet-session~zklycewk"]);
    let others = [
        "application=1",
        "limpet-session~short=2",
        "limpet-session~UPPERCAS=3",
        "limpet-sessions=4",
    ];
    for other in others {
        let (name, value) = other.split_once('=').context("no cookie")?;
        visitor.keep(name, value);
    }
    let token = visitor
        .cookie("limpet-session~hyr6qfqa")
        .context("no token")?
        .to_owned();
    // As of a rule without the flag.
    visitor.keep("limpet-session", &token);
    for path in ["/a", "/b"] {
        let answer = visitor.get(path).await?;
        assert!(answer.set_cookies().is_empty());
        let cookies = answer.seen()?.cookies().context("no cookies")?;
        let mut seen: Vec<_> = cookies.split("; ").collect();
        seen.sort_unstable();
        let mut expected = others;
        expected.sort_unstable();
        assert_eq!(seen, expected, "{path}");
    }
    Ok(())
}

/// Starts visitors of / that request until `leaving`. Each must stay on its backend. Returns their cookies.
fn keep_coming(envoy: &Envoy, leaving: &Arc<AtomicBool>) -> JoinSet<Result<Visitor>> {
    let mut visitors = JoinSet::new();
    for _ in 0..12 {
        let (mut visitor, leaving) = (Visitor::new(envoy), Arc::clone(leaving));
        visitors.spawn(async move {
            let first = visitor.get("/").await?;
            while !leaving.load(Ordering::Relaxed) {
                let answer = visitor.get("/").await?;
                ensure!(
                    answer.status == 200 && answer.backend() == first.backend(),
                    "{answer:?} after {first:?}"
                );
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Ok(visitor)
        });
    }
    visitors
}

/// Workers apply the change one after the other, so clients see both configurations for a while.
#[tokio::test]
async fn a_change_of_the_flag_moves_no_live_session() -> Result<()> {
    let metadata = json!({"metadata": {"filter_metadata": {"limpet": {"session": "web/shop"}}}});
    let config = Config::load("ecds.yaml")?.route(&metadata).filter(&filter(false));
    let mut site = Site::start(config).await?;
    let leaving = Arc::new(AtomicBool::new(false));
    let visitors = keep_coming(&site.envoy, &leaving);
    // printf shop | sha256sum | xxd -r -p | head -c 5 | base32 | tr A-Z a-z
    for (per_scope, name) in [
        (true, "limpet-session~rwiaduzm"),
        (false, "limpet-session"),
        (true, "limpet-session~rwiaduzm"),
    ] {
        site.envoy.update(|config| config.filter(&filter(per_scope)))?;
        let what = format!("cookies are called {name}");
        site.envoy
            .until_every_worker(&what, |answer| answer.set_cookie(name).is_some())
            .await?;
    }
    let refused = site.envoy.stats("limpet.web.refused").await?;
    assert!(refused.values().all(|count| *count == 0), "{refused:?}");
    leaving.store(true, Ordering::Relaxed);
    for visitor in visitors.join_all().await {
        let mut visitor = visitor?;
        visitor.get("/").await?;
        assert_eq!(visitor.cookie_names(), ["limpet-session~rwiaduzm"]);
    }
    Ok(())
}
