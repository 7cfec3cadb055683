use anyhow::{Context, Result};
use limpet_e2e::{Carrier, Config, Site};
use serde_json::json;

use super::{TELL, told};

fn config() -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.policy(&json!({
        "cookie": {"name": "limpet-session"},
        "also": [{"header": {"name": TELL}}, {"query": {"name": "s"}}],
        "tell": {"header": {"name": TELL}},
    })))
}

#[tokio::test]
async fn a_client_without_cookies_sends_what_it_was_told() -> Result<()> {
    let mut site = Site::start(config()?).await?;
    let first = site.envoy.get("/").send().await?;
    let token = told(&first).context("no token")?.to_owned();
    assert_eq!(Carrier::Cookie.token(&first).as_deref(), Some(token.as_str()));
    assert_eq!(first.header("cache-control"), Some("private"));
    for http2 in [false, true] {
        for _ in 0..6 {
            let request = site.envoy.get("/").header(TELL, &token);
            let answer = if http2 { request.http2() } else { request }.send().await?;
            assert_eq!(answer.backend(), first.backend());
            assert_eq!(
                (told(&answer), answer.set_cookies().len()),
                (None, 0),
                "a token was issued again"
            );
            assert!(answer.seen()?.all(TELL).is_empty());
        }
    }
    site.stop_backend_of(&first).await?;
    let moved = site.envoy.get("/").header(TELL, &token).send().await?;
    let token = told(&moved).context("no token for the new backend")?;
    let answer = site.envoy.get("/").header(TELL, token).send().await?;
    assert_eq!(answer.backend(), moved.backend());
    Ok(())
}

#[tokio::test]
async fn the_configuration_to_copy_takes_all_three_carriers() -> Result<()> {
    let site = Site::start(Config::load("several-carriers.yaml")?).await?;
    let first = site.envoy.get("/").send().await?;
    let token = first.header("x-session").context("no token")?;
    for request in [
        site.envoy.get("/").cookie(format!("limpet-session={token}")),
        site.envoy.get("/").header("x-session", token),
        site.envoy.get(&format!("/?session={token}")),
    ] {
        let answer = request.send().await?;
        assert_eq!(answer.backend(), first.backend());
        let seen = answer.seen()?;
        assert_eq!(
            (seen.query.as_deref(), seen.cookies(), seen.all("x-session").len()),
            (None, None, 0)
        );
    }
    assert!(!site.envoy.stdout()?.contains(token));
    Ok(())
}
