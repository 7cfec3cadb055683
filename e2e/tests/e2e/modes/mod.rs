//! Sessions that the application sets (see docs/background/modes.md), in a real Envoy.

mod answers;
mod applications;
mod backends_that_go;
mod cookie_prefix;
mod cookie_rewrite;
mod ends;
mod header_prefix;
mod hostile_upstreams;
mod jsessionid;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Config, Envoy, Request, Site};
use serde_json::{Value, json};

const COOKIE: &str = "JSESSIONID";
const HEADER: &str = "x-session";

/// Has a token's form, but no key made it.
pub(crate) const FORGED: &str = "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// How the token joins the application's cookie or header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    CookiePrefix,
    CookieRewrite,
    HeaderPrefix,
}

impl Mode {
    const ALL: [Self; 3] = [Self::CookiePrefix, Self::CookieRewrite, Self::HeaderPrefix];

    fn name(self) -> &'static str {
        match self {
            Self::CookiePrefix => "cookie-prefix",
            Self::CookieRewrite => "cookie-rewrite",
            Self::HeaderPrefix => "header-prefix",
        }
    }

    fn path(self) -> String {
        format!("/{}", self.name())
    }

    fn policy(self, more: &Value) -> Value {
        let mut policy = match self {
            Self::CookiePrefix => json!({"cookie": {"name": COOKIE, "mode": "prefix"}}),
            Self::CookieRewrite => json!({"cookie": {"name": COOKIE, "mode": "rewrite"}}),
            Self::HeaderPrefix => json!({"header": {"name": HEADER, "mode": "prefix"}}),
        };
        for (name, value) in more.as_object().into_iter().flatten() {
            policy[name] = value.clone();
        }
        policy
    }

    fn setting(self, value: &str) -> (&'static str, String) {
        match self {
            Self::CookiePrefix | Self::CookieRewrite => ("set-cookie", format!("{COOKIE}={value}; Path=/")),
            Self::HeaderPrefix => (HEADER, value.to_owned()),
        }
    }

    fn set_by(self, answer: &Answer) -> Option<String> {
        match self {
            Self::CookiePrefix | Self::CookieRewrite => answer.set_cookie(COOKIE).map(|cookie| cookie.value),
            Self::HeaderPrefix => answer.header(HEADER).map(str::to_owned),
        }
    }

    fn bringing(self, value: &str) -> (&'static str, String) {
        match self {
            Self::CookiePrefix | Self::CookieRewrite => ("cookie", format!("{COOKIE}={value}")),
            Self::HeaderPrefix => (HEADER, value.to_owned()),
        }
    }

    /// The field that the application must see if it set `own` and the client keeps `kept`.
    fn seen(self, kept: &str, own: &str) -> (&'static str, String) {
        match self {
            Self::CookieRewrite => self.bringing(kept),
            Self::CookiePrefix | Self::HeaderPrefix => self.bringing(own),
        }
    }

    /// The token in `kept`, if the application set `own`.
    fn token<'k>(self, kept: &'k str, own: &str) -> Result<&'k str> {
        let token = match self {
            Self::CookieRewrite => Some(kept),
            Self::CookiePrefix | Self::HeaderPrefix => kept.strip_suffix(own).and_then(|rest| rest.strip_suffix('~')),
        };
        let token = token.filter(|token| token.len() == 60);
        token.with_context(|| format!("{self:?}: {kept} is not {own} with a token"))
    }
}

/// A path for each mode, with these further fields of policies.
fn every_mode(more: &Value) -> Result<Config> {
    let route = |mode: Mode| {
        json!({
            "name": mode.name(),
            "match": {"prefix": mode.path()},
            "route": {
                "cluster": "backends",
                "retry_policy": {
                    "retry_on": "connect-failure,refused-stream,reset-before-request",
                    "num_retries": 2,
                    "retry_host_predicate": [{
                        "name": "envoy.retry_host_predicates.previous_hosts",
                        "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.\
                                PreviousHostsPredicate",
                        },
                    }],
                    "host_selection_retry_max_attempts": 32,
                },
            },
        })
    };
    let config = Config::load("cookie.yaml")?.routes(Mode::ALL.map(route).to_vec().into());
    Ok(config.filter(&filter_of_every_mode(more)))
}

fn filter_of_every_mode(more: &Value) -> Value {
    let mut filter = json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {}});
    for mode in Mode::ALL {
        filter["policies"][mode.name()] = mode.policy(more);
    }
    filter["routes"] = Mode::ALL
        .map(|mode| json!({"route": mode.name(), "policy": mode.name()}))
        .to_vec()
        .into();
    filter
}

/// Until a token made again differs: the wasm filter's time moves by a tenth of a second.
async fn until_another_time() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

async fn site_with(mode: Mode) -> Result<Site> {
    Site::with_policy(&mode.policy(&json!({}))).await
}

#[derive(Debug, Clone)]
struct Client {
    at: SocketAddr,
    mode: Mode,
    path: String,
    kept: Option<String>,
}

impl Client {
    fn new(envoy: &Envoy, mode: Mode) -> Self {
        Self {
            at: envoy.address(),
            mode,
            path: mode.path(),
            kept: None,
        }
    }

    async fn get(&mut self) -> Result<Answer> {
        self.send(Request::get(self.at, &self.path)).await
    }

    async fn begin(&mut self, own: &str) -> Result<Answer> {
        let (name, value) = self.mode.setting(own);
        self.send(Request::get(self.at, &self.path).answered_with(name, value))
            .await
    }

    async fn send(&mut self, mut request: Request) -> Result<Answer> {
        if let Some(kept) = &self.kept {
            let (name, value) = self.mode.bringing(kept);
            request = request.header(name, value);
        }
        let answer = request.send().await?;
        if let Some(set) = self.mode.set_by(&answer) {
            self.kept = Some(set);
        }
        Ok(answer)
    }

    fn kept(&self) -> Result<&str> {
        self.kept.as_deref().context("the client keeps nothing")
    }

    /// The token in the kept value, if the application set `own`.
    fn token(&self, own: &str) -> Result<&str> {
        self.mode.token(self.kept()?, own)
    }

    /// Checks that the session stays at this backend, that the application sees `own`, and that no answer sets
    /// anything.
    async fn assert_holds(&mut self, backend: Option<&str>, own: &str) -> Result<()> {
        let (name, value) = self.mode.seen(self.kept()?, own);
        for _ in 0..6 {
            let answer = self.get().await?;
            assert_eq!((answer.status, answer.backend()), (200, backend), "{:?}", self.mode);
            assert_eq!(answer.seen()?.all(name), [&*value], "{:?}", self.mode);
            assert_eq!(
                self.mode.set_by(&answer),
                None,
                "{:?}: a token that the application did not ask for",
                self.mode
            );
        }
        Ok(())
    }
}

async fn reached(at: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Result<BTreeSet<String>> {
    let mut backends = BTreeSet::new();
    for _ in 0..6 {
        let request = Request::get(at, path);
        let request = fields
            .iter()
            .fold(request, |request, (name, value)| request.header(name, value));
        backends.insert(request.send().await?.backend().context("no backend")?.to_owned());
    }
    Ok(backends)
}

/// This field's values, with `TOKEN` for this token.
fn fields_without(answer: &Answer, name: &str, token: &str) -> Vec<String> {
    let fields = answer.headers.get_all(name).into_iter();
    let text = fields.map(|field| field.as_bytes().iter().copied().map(char::from).collect::<String>());
    text.map(|field| field.replace(token, "TOKEN")).collect()
}
