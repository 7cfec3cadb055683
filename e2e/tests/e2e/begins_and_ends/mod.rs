//! Sessions that begin and end when the application says so.

mod addresses;
mod begins;
mod ends;

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Config, Site, Visitor};
use serde_json::json;

const SESSION: &str = "limpet-session";
const LOGIN: &str = "login=abc; Path=/";
const LOGOUT: &str = "login=; Path=/; Max-Age=0";

/// One worker balances load in turn.
fn config() -> Result<Config> {
    Ok(Config::load("login.yaml")?.workers(1))
}

async fn setting(visitor: &mut Visitor, site: &Site, cookie: &str) -> Result<Answer> {
    visitor
        .send(site.envoy.get("/").answered_with("set-cookie", cookie))
        .await
}

async fn assert_balanced(visitor: &mut Visitor) -> Result<()> {
    let mut reached = BTreeSet::new();
    for _ in 0..12 {
        let answer = visitor.get("/").await?;
        assert!(answer.set_cookies().is_empty(), "{answer:?}");
        assert_eq!(answer.header("cache-control"), None, "{answer:?}");
        reached.insert(answer.backend().context("no backend answered")?.to_owned());
    }
    assert_eq!(reached.len(), 3, "{reached:?}");
    Ok(())
}

async fn assert_kept(visitor: &mut Visitor, backend: Option<&str>) -> Result<()> {
    for _ in 0..12 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), backend);
        assert!(answer.set_cookies().is_empty(), "{answer:?}");
    }
    Ok(())
}
