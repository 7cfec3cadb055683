//! Three services of two backends each, behind an Envoy.

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Backend, Carrier, Config, Envoy, Request, Visit};
use serde_json::{Value, json};

use super::rule::{Rule, routes};

pub(crate) const SERVICES: [&str; 3] = ["shop-v1", "shop-v2", "shop-v3"];

#[derive(Debug)]
pub(crate) struct SplitSite {
    pub(crate) envoy: Envoy,
    /// In the order of the services.
    backends: [[Backend; 2]; 3],
}

impl SplitSite {
    /// The configuration is based on `split.yaml`.
    pub(crate) async fn start(config: Config) -> Result<Self> {
        Self::with_services(config.another_cluster(SERVICES[2], []), SERVICES).await
    }

    pub(crate) async fn with_services(mut config: Config, services: [&str; 3]) -> Result<Self> {
        let pair = |service: &str| {
            anyhow::Ok([
                Backend::start(&format!("{service}/a"))?,
                Backend::start(&format!("{service}/b"))?,
            ])
        };
        let backends = [pair(services[0])?, pair(services[1])?, pair(services[2])?];
        for (service, backends) in services.iter().zip(&backends) {
            config = config.backends_of(service, backends);
        }
        let envoy = Envoy::serve(config).await?;
        Ok(Self { envoy, backends })
    }

    pub(crate) fn backend(&mut self, name: &str) -> Result<&mut Backend> {
        let mut backends = self.backends.iter_mut().flatten();
        let found = backends.find(|backend| backend.name() == name);
        found.with_context(|| format!("no backend {name}"))
    }

    /// Replaces Envoy's rules, and waits until every worker has applied them.
    pub(crate) async fn change(&mut self, rules: &[Rule], what: &str, check: impl Fn(&Answer) -> bool) -> Result<()> {
        self.envoy.update(|config| config.routes(routes(rules)))?;
        self.envoy.until_every_worker(what, check).await
    }
}

pub(crate) fn split(rules: &[Rule], policies: &Value) -> Result<Config> {
    let filter = json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": policies});
    let config = Config::load("split.yaml")?.strict_filter().filter(&filter);
    Ok(config.routes(routes(rules)).discover_routes())
}

/// One for each carrier, with its name.
pub(crate) fn policies(strict: bool) -> Value {
    Carrier::ALL
        .map(|carrier| {
            let mut policy = carrier.policy();
            policy["strict"] = strict.into();
            (carrier.name().to_owned(), policy)
        })
        .into_iter()
        .collect()
}

/// A rule for each carrier's path; the one for cookies is also for all other paths.
pub(crate) fn rules(strict: bool, weights: &[(&str, u32)]) -> [Rule; 2] {
    [(Carrier::Header, "/header"), (Carrier::Cookie, "/")].map(|(carrier, prefix)| {
        let rule = Rule::new(prefix, &format!("{}/shop", carrier.name())).strict(strict);
        weights
            .iter()
            .fold(rule, |rule, (cluster, weight)| rule.to(cluster, *weight))
    })
}

pub(crate) fn service(answer: &Answer) -> Option<&str> {
    service_of(answer.backend()?)
}

pub(crate) fn visited(visit: &Visit) -> Option<&str> {
    service_of(visit.backend()?)
}

fn service_of(backend: &str) -> Option<&str> {
    Some(backend.split_once('/')?.0)
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) carrier: Carrier,
    pub(crate) token: String,
    pub(crate) backend: String,
}

impl Session {
    pub(crate) async fn begin(envoy: &Envoy, carrier: Carrier) -> Result<Self> {
        let answer = envoy.get(&carrier.path()).send().await?;
        Ok(Self {
            carrier,
            token: carrier.token(&answer).context("no session began")?,
            backend: answer.backend().context("Envoy answered without a backend")?.to_owned(),
        })
    }

    /// Sends the next request, and keeps a new token.
    pub(crate) async fn go_on(&mut self, envoy: &Envoy) -> Result<Answer> {
        self.send(envoy.get(&self.carrier.path())).await
    }

    pub(crate) async fn send(&mut self, request: Request) -> Result<Answer> {
        let answer = self.carrier.bring(&self.token, request).send().await?;
        if let Some(token) = self.carrier.token(&answer) {
            self.token = token;
        }
        Ok(answer)
    }

    /// The session's backend must answer all requests, without a token.
    pub(crate) async fn stays(&mut self, envoy: &Envoy, requests: usize) -> Result<()> {
        for _ in 0..requests {
            let answer = self.go_on(envoy).await?;
            assert_eq!(answer.backend(), Some(self.backend.as_str()), "{self:?}");
            assert_eq!(self.carrier.token(&answer), None, "{self:?}");
        }
        Ok(())
    }
}
