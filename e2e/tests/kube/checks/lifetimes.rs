//! How long sessions last.
//!
//! - 6: Lifetime type Session: `AbsoluteTimeout` "MUST regulate the cookie's lifespan through a different mechanism".
//!   There is no Expires and no Max-Age. A cookie that is sent after the timeout is refused by every proxy.
//! - 7: Permanent: `AbsoluteTimeout` "MUST configure the Expires or Max-Age" and "MUST also be set". A token that is
//!   issued again ends when the first one would have ended.
//! - 22: `idleTimeout`: a session that is idle for longer "becomes invalid".

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Release, refused};
use limpet_e2e::poll;
use serde_json::json;

use super::dialect::{Dialect, SessionSpec, lb_policy};
use super::site::{GatewaySite, rule};

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
        // A connection may reach either Envoy. After several requests both have refused the token.
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
            idle_timeout: dialect.has_idle_timeout().then_some("10s"),
            ..without.clone()
        };
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let first = visitor.get(&path).await?.set_cookies().pop().context("no cookie")?;
        ensure!(first.attribute("Max-Age") == Some("3600"), "{dialect:?}: {first:?}");
        if dialect.has_idle_timeout() {
            let again = async || visitor.get(&path).await.ok()?.set_cookies().pop();
            let again = poll::until("the token to be issued again", again).await?;
            ensure!(again.attribute("Expires") == first.attribute("Expires"), "{again:?}");
            let left: u32 = again.attribute("Max-Age").context("no Max-Age")?.parse()?;
            ensure!((3500..3600).contains(&left), "{left}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn check_22_a_session_that_was_idle_for_too_long_is_invalid() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-22").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy(
        "check-22",
        &services,
        &json!({"sessionName": "idle", "idleTimeout": "3s"}),
    );
    site.namespace.apply_object(&policy).await?;
    let rules = [rule("/check-22", &[(services[0], 1), (services[1], 1)])];
    site.route("check-22", &rules).await?;
    site.until_sessions("/check-22").await?;

    let (mut used, mut idle) = (site.visitor(), site.visitor());
    let first = used.get("/check-22").await?;
    idle.get("/check-22").await?;
    let token = idle.cookie("idle").context("no cookie")?.to_owned();
    // Every 1.7 seconds; the sum is longer than the timeout.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1700)).await;
        let answer = used.get("/check-22").await?;
        assert_eq!(
            answer.backend(),
            first.backend(),
            "the session ended before its timeout"
        );
    }
    let kept = used.cookie("idle").context("no cookie")?.to_owned();
    assert_ne!(
        kept,
        first.set_cookies().pop().context("no cookie")?.value,
        "the token was not renewed"
    );
    // Idle for 3.4 seconds, which is more than 1.1 times the timeout.
    let answer = idle.get("/check-22").await?;
    assert_eq!(answer.set_cookies().len(), 1, "{answer:?}");
    assert_ne!(idle.cookie("idle"), Some(&*token));
    Ok(())
}
