//! Several carriers for one session, and tokens in the query.

mod also;
mod hostile;
mod logs;
mod own_query;
mod streams;
mod tell;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Carrier, Config, Site};
use serde_json::{Value, json};

const TELL: &str = "x-tell";

fn policy(also: &Value) -> Value {
    json!({"cookie": {"name": "limpet-session"}, "also": also})
}

async fn site(also: &Value) -> Result<Site> {
    Site::with_policy(&policy(also)).await
}

async fn begun(site: &Site) -> Result<(String, Answer)> {
    let first = site.envoy.get("/").send().await?;
    let token = Carrier::Cookie.token(&first).context("no token")?;
    Ok((token, first))
}

fn told(answer: &Answer) -> Option<&str> {
    answer.header(TELL)
}

fn routed(policy: &Value, routes: Value) -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.routes(routes).policy(policy))
}
