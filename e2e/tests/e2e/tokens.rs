//! Envoy honours tokens of the `limpet` command, and the command reads Envoy's. Issued tokens can have any age, so
//! these tests do not wait.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Config, Site, TEST_KEY, tools};
use serde_json::json;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// A token of `cookie.yaml` for the site's first backend. The session began, and was last seen, these seconds from now.
fn issue(site: &Site, began: i64, last_seen: i64) -> Result<String> {
    issue_for(&site.backends[0].address().to_string(), began, last_seen)
}

fn issue_for(host: &str, began: i64, last_seen: i64) -> Result<String> {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let (began, last_seen) = (now + began, now + last_seen);
    let arguments = format!(
        "token issue --config envoy-configs/cookie.yaml --cluster backends --host {host} --issued-at {began} \
        --last-seen {last_seen}"
    );
    limpet(&arguments.split(' ').collect::<Vec<_>>())
}

fn limpet(arguments: &[&str]) -> Result<String> {
    let output = tools::run_limpet(arguments, &[("LIMPET_KEY", TEST_KEY)])?;
    ensure!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

async fn send(site: &Site, token: &str) -> Result<Answer> {
    site.envoy
        .get("/")
        .cookie(format!("limpet-session={token}"))
        .send()
        .await
}

#[tokio::test]
async fn envoy_honours_a_token_that_the_command_issued() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let token = issue(&site, 0, 0)?;
    for _ in 0..6 {
        let answer = send(&site, &token).await?;
        assert_eq!(answer.backend(), Some("a"));
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn the_command_opens_a_token_that_envoy_issued() -> Result<()> {
    let mut site = Site::start(Config::load("cookie.yaml")?).await?;
    let mut visitor = site.visitor();
    let answer = visitor.get("/").await?;
    let token = visitor.cookie("limpet-session").context("no cookie")?;
    let opened = limpet(&["token", "inspect", token, "--config", "envoy-configs/cookie.yaml"])?;
    let address = site.backend_of(&answer)?.address().to_string();
    assert!(opened.contains(&address), "{opened}");
    let unopened = limpet(&["token", "inspect", token])?;
    assert!(!unopened.contains(&address), "{unopened}");
    Ok(())
}

#[tokio::test]
async fn a_token_from_the_future_is_refused() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    assert!(
        send(&site, &issue(&site, HOUR, HOUR)?)
            .await?
            .set_cookie("limpet-session")
            .is_some()
    );
    assert_eq!(site.envoy.metric("web.refused.from_the_future").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_token_of_an_envoy_with_a_fast_clock_is_honoured() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    send(&site, &issue(&site, 30, 30)?).await?;
    assert_eq!(site.envoy.metric("web.steered").await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_unused_session_without_timeouts_lives_for_a_week() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let answer = send(&site, &issue(&site, -30 * DAY, -6 * DAY)?).await?;
    assert_eq!(answer.backend(), Some("a"));
    assert!(
        answer.set_cookie("limpet-session").is_some(),
        "the token was not renewed"
    );
    Ok(())
}

#[tokio::test]
async fn an_unused_session_without_timeouts_ends_after_a_week() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    send(&site, &issue(&site, -30 * DAY, -8 * DAY)?).await?;
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 1);
    Ok(())
}

/// A session that is idle for less than the timeout always survives. One that is idle for more than 1.1 times the
/// timeout never does.
#[tokio::test]
async fn the_idle_timeout_is_exact_to_a_tenth() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "idleTimeout": "10h"})).await?;
    let survives = send(&site, &issue(&site, -DAY, -10 * HOUR + 60)?).await?;
    assert_eq!(survives.backend(), Some("a"));
    assert_eq!(site.envoy.metric("web.steered").await?, 1);
    send(&site, &issue(&site, -DAY, -11 * HOUR - 60)?).await?;
    assert_eq!(site.envoy.metric("web.refused.idle").await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_absolute_timeout_is_exact() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}, "absoluteTimeout": "10h"})).await?;
    send(&site, &issue(&site, -10 * HOUR + 60, 0)?).await?;
    assert_eq!(site.envoy.metric("web.steered").await?, 1);
    send(&site, &issue(&site, -10 * HOUR - 1, 0)?).await?;
    assert_eq!(site.envoy.metric("web.refused.expired").await?, 1);
    Ok(())
}

/// A browser keeps the cookie of a former path, domain or partition beside the new one.
#[tokio::test]
async fn an_old_token_of_a_pod_that_is_gone_hid_the_new_one() -> Result<()> {
    let site = Site::start(Config::load("cookie.yaml")?).await?;
    let (old, new) = (issue_for("127.0.0.1:1", -DAY, -10)?, issue(&site, -HOUR, -60)?);
    for [first, second] in [[&old, &new], [&new, &old]] {
        for _ in 0..3 {
            let cookies = format!("limpet-session={first}; a=1; limpet-session={second}");
            let answer = site.envoy.get("/").cookie(cookies).send().await?;
            assert_eq!(answer.backend(), Some("a"));
            assert!(answer.set_cookies().is_empty(), "the session moved");
            assert_eq!(answer.seen()?.cookies().as_deref(), Some("a=1"));
        }
    }
    assert_eq!(site.envoy.metric("web.steered").await?, 6);
    Ok(())
}

#[tokio::test]
async fn an_old_cookie_hid_the_new_token_of_a_url() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session"}, "also": [{"query": {"name": "s"}}]});
    let site = Site::with_policy(&policy).await?;
    let old = issue_for(&site.backends[1].address().to_string(), -DAY, -10)?;
    let new = issue(&site, -HOUR, -60)?;
    let request = site.envoy.get(&format!("/?s={new}"));
    let answer = request.cookie(format!("limpet-session={old}")).send().await?;
    assert_eq!(answer.backend(), Some("a"));
    // The next request has the cookie alone.
    let cookie = answer
        .set_cookie("limpet-session")
        .context("the cookie stayed the old one")?;
    assert_eq!(send(&site, &cookie.value).await?.backend(), Some("a"));
    let back = site.envoy.get(&format!("/?s={old}"));
    let answer = back.cookie(format!("limpet-session={new}")).send().await?;
    assert_eq!((answer.backend(), answer.set_cookies().len()), (Some("a"), 0));
    Ok(())
}
