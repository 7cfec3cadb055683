//! How long sessions last.
//!
//! - 6: Lifetime type Session: `AbsoluteTimeout` "MUST regulate the cookie's lifespan through a different mechanism". There is no Expires and no
//!   Max-Age; a replay after the timeout is sent elsewhere, by whichever proxy.
//! - 7: Permanent: `AbsoluteTimeout` "MUST configure the Expires or Max-Age" and "MUST also be set". A token that is issued again ends when the first
//!   one would have.
//! - 22: `idleTimeout`: idle beyond it a session "becomes invalid".

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Release, refused};
use limpet_e2e::poll;
use serde_json::json;

use super::dialect::{Dialect, Wanted, lb_policy};
use super::stage::{Stage, rule};

#[tokio::test]
async fn check_06_a_session_cookies_lifespan_is_regulated_by_its_token() -> Result<()> {
    for dialect in Dialect::ALL {
        let stage = Stage::shared(dialect.release()).await?;
        let name = dialect.prefix("check-6");
        let path = format!("/{name}");
        let services = stage.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1), (&services[1], 1)])];
        let wanted = Wanted {
            absolute_timeout: Some("3s"),
            ..Wanted::named(&name)
        };
        dialect.apply(stage, &name, &services, &rules, &wanted).await?;
        stage.until_sessions(&path).await?;

        let begun = Instant::now();
        let first = stage.get(&path).send().await?;
        let cookie = first.set_cookies().pop().context("no cookie")?;
        for attribute in ["Expires", "Max-Age"] {
            ensure!(cookie.attribute(attribute).is_none(), "{dialect:?}: {cookie:?}");
        }
        let replay = async || stage.get(&path).cookie(cookie.pair()).send().await;
        for _ in 0..10 {
            let kept = replay().await?;
            // Slow machines are not what is tested.
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
        // Each connection is any Envoy's: in the end both have refused it.
        let both = async || {
            replay().await.ok()?.set_cookies().pop()?;
            for envoy in &stage.envoys {
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
        let stage = Stage::shared(dialect.release()).await?;
        let name = dialect.prefix("check-7");
        let path = format!("/{name}");
        let services = stage.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1), (&services[1], 1)])];
        let without = Wanted {
            is_permanent: true,
            ..Wanted::named(&name)
        };
        let refusal = refused(dialect.apply(stage, &name, &services, &rules, &without).await)?;
        let message = refusal.message.to_lowercase();
        ensure!(
            refusal.code == 422 && message.contains("absolutetimeout must be"),
            "{dialect:?}: {refusal}"
        );

        let wanted = Wanted {
            absolute_timeout: Some("1h"),
            idle_timeout: dialect.has_idle_timeout().then_some("10s"),
            ..without.clone()
        };
        dialect.apply(stage, &name, &services, &rules, &wanted).await?;
        stage.until_sessions(&path).await?;
        let mut visitor = stage.visitor();
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
    let stage = Stage::shared(Release::V1_2_1).await?;
    let services = stage.services("check-22").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy(
        "check-22",
        &services,
        &json!({"sessionName": "idle", "idleTimeout": "3s"}),
    );
    stage.namespace.apply_object(&policy).await?;
    let rules = [rule("/check-22", &[(services[0], 1), (services[1], 1)])];
    stage.route("check-22", &rules).await?;
    stage.until_sessions("/check-22").await?;

    let (mut used, mut idle) = (stage.visitor(), stage.visitor());
    let first = used.get("/check-22").await?;
    idle.get("/check-22").await?;
    let token = idle.cookie("idle").context("no cookie")?.to_owned();
    // Every 1.7 seconds, in all for longer than the timeout.
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(1700)).await;
        let answer = used.get("/check-22").await?;
        assert_eq!(answer.backend(), first.backend(), "below the timeout it survives");
    }
    let kept = used.cookie("idle").context("no cookie")?.to_owned();
    assert_ne!(
        kept,
        first.set_cookies().pop().context("no cookie")?.value,
        "its use is noted"
    );
    // Idle for 3.4 seconds, which is beyond 1.1 times the timeout.
    let answer = idle.get("/check-22").await?;
    assert_eq!(answer.set_cookies().len(), 1, "{answer:?}");
    assert_ne!(idle.cookie("idle"), Some(&*token));
    Ok(())
}
