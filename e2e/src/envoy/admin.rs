//! Envoy's admin interface.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{Request, poll};

/// The wasm filter hands over its counts in this time, without an event.
pub(super) const HANDED_OVER: Duration = Duration::from_millis(400);

/// The admin interface of an Envoy.
#[derive(Debug, Clone, Copy)]
pub struct Admin(SocketAddr);

impl Admin {
    /// The admin interface at this address.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// The admin interface at the address in this file (`--admin-address-path`); `None` before it is written.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(file).ok()?;
        text.trim().parse().ok().map(Self)
    }

    /// Its address.
    #[must_use]
    pub fn address(self) -> SocketAddr {
        self.0
    }

    /// Whether Envoy is ready: its listeners exist and wait for nothing.
    pub async fn ready(self) -> bool {
        let answer = Request::get(self.0, "/ready").send().await;
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// The answer at this path.
    ///
    /// # Errors
    /// If it does not answer with 200.
    pub async fn text(self, path: &str) -> Result<String> {
        let answer = Request::get(self.0, path).send().await?;
        if answer.status != 200 {
            bail!("Envoy's admin interface answers {} for {path}", answer.status);
        }
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// The value of a counter or gauge; 0 if it does not exist yet.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn stat(self, name: &str) -> Result<u64> {
        Ok(self.stats(name).await?.get(name).copied().unwrap_or(0))
    }

    /// The counters and gauges whose names match a regular expression, up to date with all answered requests.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn stats(self, filter: &str) -> Result<BTreeMap<String, u64>> {
        let found = self.read_stats(filter).await?;
        if !found.keys().any(|name| name.starts_with("wasmcustom.limpet.")) {
            return Ok(found);
        }
        tokio::time::sleep(HANDED_OVER).await;
        self.read_stats(filter).await
    }

    async fn read_stats(self, filter: &str) -> Result<BTreeMap<String, u64>> {
        let text = self.text(&format!("/stats?filter={filter}")).await?;
        let stat = |line: &str| {
            let (name, value) = line.rsplit_once(": ")?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter_map(stat).collect())
    }

    /// Waits until a counter or gauge is not 0.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until_some(self, name: &str) -> Result<()> {
        let some = async || self.stat(name).await.ok().filter(|value| *value > 0).map(drop);
        poll::until(&format!("{name} > 0"), some).await
    }

    /// Waits until a counter or gauge has this value.
    ///
    /// # Errors
    /// If it does not after half a minute.
    pub async fn until_stat(self, name: &str, value: u64) -> Result<()> {
        let what = format!("{name} to be {value}");
        poll::until(&what, async || (self.stat(name).await.ok()? == value).then_some(())).await
    }

    /// The addresses of all listeners, by name.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn listeners(self) -> Result<BTreeMap<String, SocketAddr>> {
        let listeners: Value = serde_json::from_str(&self.text("/listeners?format=json").await?)?;
        let mut found = BTreeMap::new();
        for listener in listeners["listener_statuses"]
            .as_array()
            .context("Envoy has no listeners")?
        {
            // Other listeners listen at a path.
            if let Some(socket) = listener["local_address"].get("socket_address") {
                let name = listener["name"].as_str().unwrap_or_default();
                let ip = socket["address"].as_str().unwrap_or_default();
                found.insert(name.to_owned(), format!("{ip}:{}", socket["port_value"]).parse()?);
            }
        }
        Ok(found)
    }
}
