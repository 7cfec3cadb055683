//! How long sessions last (checks 6, 7 and 22).

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Release, refused};
use limpet_e2e::{Visitor, poll};
use serde_json::json;

use super::destinations::{backend, to_backends};
use super::dialect::{Dialect, SessionSpec};
use super::site::{GatewaySite, prefixed, rule};

#[tokio::test]
async fn check_06_a_session_cookies_token_limits_its_lifespan() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-6");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1), (&services[1], 1)])];
        let spec = SessionSpec {
            absolute_timeout: Some("3s"),
            ..SessionSpec::named(&name)
        };
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        site.until_sessions(&path).await?;

        let begun = Instant::now();
        let first = site.get(&path).send().await?;
        let cookie = first.set_cookies().pop().context("no cookie")?;
        for attribute in ["Expires", "Max-Age"] {
            ensure!(cookie.attribute(attribute).is_none(), "{dialect:?}: {cookie:?}");
        }
        let replay = async || site.get(&path).cookie(cookie.pair()).send().await;
        for _ in 0..10 {
            let kept = replay().await?;
            // On a slow machine this says nothing.
            if begun.elapsed() < Duration::from_secs(2) {
                ensure!(kept.backend() == first.backend(), "{dialect:?}: {kept:?}");
                ensure!(kept.set_cookies().is_empty(), "{dialect:?}: {kept:?}");
            }
        }
        let over = async || replay().await.ok()?.set_cookies().pop();
        let new = poll::until("the session to end", over).await?;
        ensure!(
            begun.elapsed() > Duration::from_secs(2),
            "{dialect:?}: {:?}",
            begun.elapsed()
        );
        ensure!(new.value != cookie.value);
        // A connection may reach either Envoy. Several requests reach both.
        let both = async || {
            replay().await.ok()?.set_cookies().pop()?;
            for envoy in &site.envoys {
                let expired = envoy.admin().stats(&format!("{name}.*refused.expired$")).await.ok()?;
                (expired.values().sum::<u64>() > 0).then_some(())?;
            }
            Some(())
        };
        poll::until("both Envoys to refuse it", both).await?;
    }
    Ok(())
}

#[tokio::test]
async fn check_07_a_permanent_cookie_lasts_for_the_absolute_timeout() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-7");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1), (&services[1], 1)])];
        let without = SessionSpec {
            is_permanent: true,
            ..SessionSpec::named(&name)
        };
        let refusal = refused(dialect.apply(site, &name, &services, &rules, &without).await)?;
        let message = refusal.message.to_lowercase();
        ensure!(
            refusal.code == 422 && message.contains("absolutetimeout must be"),
            "{dialect:?}: {refusal}"
        );

        let spec = SessionSpec {
            absolute_timeout: Some("1h"),
            idle_timeout: Some("10s"),
            ..without.clone()
        };
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let first = visitor.get(&path).await?.set_cookies().pop().context("no cookie")?;
        ensure!(first.attribute("Max-Age") == Some("3600"), "{dialect:?}: {first:?}");
        let again = async || visitor.get(&path).await.ok()?.set_cookies().pop();
        let again = poll::until("the token to be issued again", again).await?;
        ensure!(again.attribute("Expires") == first.attribute("Expires"), "{again:?}");
        let left: u32 = again.attribute("Max-Age").context("no Max-Age")?.parse()?;
        ensure!((3500..3600).contains(&left), "{left}");
    }
    Ok(())
}

/// Two clients of sessions with an idle timeout of three seconds.
struct Idling {
    what: String,
    path: String,
    used: Visitor,
    idle: Visitor,
    /// The first client's first token, and its backend.
    first: (String, String),
    token: String,
}

impl Idling {
    async fn begin(site: &GatewaySite, name: &str) -> Result<Self> {
        let path = format!("/{name}");
        let (mut used, mut idle) = (site.visitor(), site.visitor());
        let first = used.get(&path).await?;
        let (token, backend) = (used.cookie(name).context("no cookie")?, first.backend());
        let first = (token.to_owned(), backend.context("no backend")?.to_owned());
        idle.get(&path).await?;
        let token = idle.cookie(name).context("no cookie")?.to_owned();
        Ok(Self {
            what: name.to_owned(),
            path,
            used,
            idle,
            first,
            token,
        })
    }

    async fn is_used(&mut self) -> Result<()> {
        let answer = self.used.get(&self.path).await?;
        let (what, (_, backend)) = (&self.what, &self.first);
        ensure!(
            answer.backend() == Some(backend),
            "{what}: the session ended before its timeout"
        );
        Ok(())
    }

    async fn ends(&mut self) -> Result<()> {
        let Self { what, first, .. } = self;
        ensure!(
            self.used.cookie(what) != Some(&*first.0),
            "{what}: the token was not renewed"
        );
        let answer = self.idle.get(&self.path).await?;
        ensure!(answer.set_cookies().len() == 1, "{what}: {answer:?}");
        ensure!(self.idle.cookie(what) != Some(&*self.token), "{what}: {answer:?}");
        Ok(())
    }
}

/// Where an object has no field for it, an annotation sets the timeout.
#[tokio::test]
async fn check_22_a_session_that_was_idle_for_too_long_is_invalid() -> Result<()> {
    let mut idling = Vec::new();
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-22");
        let services = site.services(&name).await?;
        let rules = [rule(&format!("/{name}"), &[(&services[0], 1), (&services[1], 1)])];
        let spec = SessionSpec {
            idle_timeout: Some("3s"),
            ..SessionSpec::named(&name)
        };
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        idling.push((site, name));
    }
    let (site, name) = (GatewaySite::shared(Release::V1_7_0).await?, "check-22-xbackend");
    let mut backend = backend(name, "v1", &json!({"type": "Cookie", "cookie": {"name": name}}));
    backend["metadata"]["annotations"] = prefixed(&json!({"idle-timeout": "3s"}));
    site.namespace.apply_object(&backend).await?;
    site.route(name, &[to_backends(&format!("/{name}"), &[(name, 1)])])
        .await?;
    idling.push((site, name.to_owned()));

    for (site, name) in &idling {
        site.until_sessions(&format!("/{name}")).await?;
    }
    let mut all = Vec::new();
    for (site, name) in &idling {
        all.push(Idling::begin(site, name).await?);
    }
    // Every 1.7 seconds; the sum is longer than 1.1 times the timeout.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1700)).await;
        for one in &mut all {
            one.is_used().await?;
        }
    }
    for one in &mut all {
        one.ends().await?;
    }
    Ok(())
}
