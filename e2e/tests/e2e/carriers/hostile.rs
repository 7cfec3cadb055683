//! Queries that no browser makes. Each test reads them as a policy's own carrier and as a further one.

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Config, Site, raw_get};
use serde_json::{Value, json};

use super::{TELL, told};
use crate::modes::FORGED;

const MANY: usize = 10_000;

/// Policies that read tokens from the parameter `s`, and tell them.
fn policies() -> [Value; 2] {
    let tell = json!({"header": {"name": TELL}});
    [
        json!({"query": {"name": "s"}, "tell": tell}),
        json!({"cookie": {"name": "limpet-session"}, "also": [{"query": {"name": "s"}}], "tell": tell}),
    ]
}

async fn begun(site: &Site) -> Result<(String, Answer)> {
    let first = site.envoy.get("/").send().await?;
    Ok((told(&first).context("no token")?.to_owned(), first))
}

async fn assert_kept(site: &Site, first: &Answer, queries: &[(String, Option<String>)]) -> Result<()> {
    for (query, rest) in queries {
        let answer = site.envoy.get(&format!("/?{query}")).send().await?;
        let shown = query.get(..200).unwrap_or(query);
        assert_eq!(
            (answer.status, answer.backend(), told(&answer)),
            (200, first.backend(), None),
            "{shown}"
        );
        assert_eq!(&answer.seen()?.query, rest, "{shown}");
    }
    Ok(())
}

fn many_others() -> String {
    let all: Vec<_> = (0..MANY).map(|number| format!("p{number}")).collect();
    all.join("&")
}

#[tokio::test]
async fn hostile_queries_change_nothing_but_their_tokens() -> Result<()> {
    for policy in policies() {
        let site = Site::with_policy(&policy).await?;
        let (token, first) = begun(&site).await?;
        let encoded: Vec<_> = token.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let encoded = encoded.concat();
        let long = "x".repeat(58 << 10);
        let empty = "&".repeat(MANY);
        let many = many_others();
        let kept = [
            (format!("s={token}&s={token}"), None),
            (format!("s=x&s=&s&s=y&s={token}"), None),
            (format!("{}s={token}&a", "s=x&".repeat(MANY)), Some("a".to_owned())),
            (format!("%73={encoded}&a=%73"), Some("a=%73".to_owned())),
            (format!("&&s={token}&&=&%&%%73=1"), Some("&&&=&%&%%73=1".to_owned())),
            (
                format!("{many}&s={token}&{}", &many[..999]),
                Some(format!("{many}&{}", &many[..999])),
            ),
            (format!("{long}&s={token}"), Some(long.clone())),
            (format!("s={token}&{empty}"), Some(empty.clone())),
        ];
        assert_kept(&site, &first, &kept).await?;
        for (refused, rest) in [("s=%&a", Some("a")), ("s=%41%4", None)] {
            let answer = site.envoy.get(&format!("/?{refused}{token}")).send().await?;
            assert!(told(&answer).is_some(), "{refused}");
            let kept = rest.map(|rest| format!("{rest}{token}"));
            assert_eq!(answer.seen()?.query, kept, "{refused}");
        }
        // No more are verified.
        let last = format!("/?{}s={token}&a", format!("s={FORGED}&").repeat(50));
        let last = site.envoy.get(&last).send().await?;
        assert_eq!((last.status, last.seen()?.query.as_deref()), (200, Some("a")));
        assert!(told(&last).is_some(), "a token behind 50 others counts");
        // Beyond Envoy's limit for headers, the filter does not see it.
        let beyond = format!("/?s={token}&{}", "x".repeat(61 << 10));
        assert_eq!(site.envoy.get(&beyond).send().await?.status, 431);
        assert_eq!(site.envoy.metric("web.steered").await?, kept.len() as u64);
        assert_eq!(site.envoy.metric("host_errors").await?, 0);
    }
    Ok(())
}

/// An operator may raise Envoy's limit of 60 KiB.
#[tokio::test]
async fn a_query_beyond_60_kib_keeps_its_session() -> Result<()> {
    for policy in policies() {
        let config = Config::load("cookie.yaml")?.policy(&policy);
        let site = Site::start(config.connection_manager(&json!({"max_request_headers_kb": 1024}))).await?;
        let (token, first) = begun(&site).await?;
        let (long, many) = ("x".repeat(60 << 10), many_others());
        let kept = [
            (format!("{long}&s={token}"), Some(long.clone())),
            (
                format!("s={token}&{many}&{}", &many[..3999]),
                Some(format!("{many}&{}", &many[..3999])),
            ),
        ];
        assert_kept(&site, &first, &kept).await?;
        // More than the tests' client would send.
        let tokens = format!("/?{}", format!("s={token}&").repeat(MANY));
        let answer = raw_get(site.envoy.address(), &tokens, &[]).await?;
        let expected = first.backend().map(str::as_bytes);
        assert_eq!(
            (answer.status, answer.all("x-backend").first().copied()),
            (200, expected)
        );
        assert!(answer.all(TELL).is_empty(), "a token was issued");
        assert_eq!(site.envoy.metric("web.steered").await?, kept.len() as u64 + 1);
        assert_eq!(site.envoy.metric("host_errors").await?, 0);
    }
    Ok(())
}
