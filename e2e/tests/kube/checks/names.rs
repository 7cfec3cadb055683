use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::poll;
use serde_json::Value;

use super::dialect::{Dialect, SessionSpec};
use super::site::{GatewaySite, rule};

/// Sessions continue: a token's name and scope do not depend on the order of rules.
#[tokio::test]
async fn check_09_generated_names_differ_by_rule_and_are_stable() -> Result<()> {
    let with_one_release = [
        &[Dialect::BackendLbPolicy][..],
        &[Dialect::TrafficPolicy, Dialect::Inline],
        &[Dialect::UnionTrafficPolicy, Dialect::UnionInline],
    ];
    for dialects in with_one_release {
        let mut site = GatewaySite::start(dialects[0].release(), "names", |_| ()).await?;
        let mut known = Vec::new();
        for dialect in dialects {
            let name = dialect.prefix("names");
            let services = site.services(&name).await?;
            let paths = ["a", "b", "c"].map(|rule| format!("/{name}-{rule}"));
            let backends = [(services[0].as_str(), 1), (services[1].as_str(), 1)];
            let [a, b, c] = paths.each_ref().map(|path| rule(path, &backends));
            let apply = async |site: &GatewaySite, rules: &[Value]| {
                dialect
                    .apply(site, &name, &services, rules, &SessionSpec::default())
                    .await
            };
            apply(&site, &[a.clone(), b.clone()]).await?;
            for path in &paths[..2] {
                site.until_sessions(path).await?;
                let first = site.get(path).send().await?;
                let cookie = first.set_cookies().pop().context("no cookie")?;
                let backend = first.backend().context("no backend")?.to_owned();
                known.push((path.clone(), cookie, backend));
            }
            // Envoys serve without the controller.
            site.controller.kill();
            apply(&site, &[c, b, a]).await?;
            site.controller.launch()?;
            site.controller.until_ready().await?;
            site.until_sessions(&paths[2]).await?;
        }
        let names: BTreeSet<&str> = known.iter().map(|(_, cookie, _)| cookie.name.as_str()).collect();
        ensure!(names.len() == known.len(), "{names:?}");
        for (path, cookie, backend) in &known {
            let first = site.get(path).send().await?;
            let anew = first.set_cookies().pop().context("no cookie")?;
            ensure!(anew.name == cookie.name, "{path}: {} after {}", anew.name, cookie.name);
            let kept = async || {
                let answer = site.get(path).cookie(cookie.pair()).send().await.ok()?;
                (answer.backend() == Some(backend) && answer.set_cookies().is_empty()).then_some(())
            };
            poll::until("the session to continue", kept).await?;
            for _ in 0..8 {
                ensure!(kept().await.is_some(), "{path}: the session has moved");
            }
        }
    }
    Ok(())
}
