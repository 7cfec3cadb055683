//! Sessions, beyond the Gateway API's fields, at every control plane.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Admin, Answer, Request, poll};
use serde_json::{Value, json};

/// The header that tells tokens.
const TOLD: &str = "x-session";
const NAME: &str = "limpet-session";
/// So many connections reach every worker of an Envoy.
const EVERY_WORKER: usize = 20;

pub(crate) fn by_address() -> Value {
    json!({"session.limpet.dev/source": "{timeout: 1h}"})
}

pub(crate) fn by_query() -> Value {
    json!({
        "session.limpet.dev/idle-timeout": "1h",
        "session.limpet.dev/query": "{name: token}",
        "session.limpet.dev/tell": "{header: {name: x-session}}",
    })
}

/// A cookie and further carriers; the session begins and ends with the application's own.
pub(crate) fn by_login() -> Value {
    json!({
        "session.limpet.dev/idle-timeout": "1h",
        "session.limpet.dev/also": "[{header: {name: x-session}}, {query: {name: s}}]",
        "session.limpet.dev/tell": "{header: {name: x-session}}",
        "session.limpet.dev/begin": "{cookie: SID}",
        "session.limpet.dev/end": "{cookie: SID}",
    })
}

/// An Envoy's address, for the route of `shop.example.com`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front(pub(crate) SocketAddr);

impl Front {
    fn get(self, path: &str) -> Request {
        Request::get(self.0, path).header("host", "shop.example.com")
    }

    /// Waits until new clients get such an answer from every worker.
    async fn until(self, what: &str, request: impl Fn() -> Request, check: impl Fn(&Answer) -> bool) -> Result<()> {
        let mut last = None;
        let found = poll::until(what, async || {
            for _ in 0..EVERY_WORKER {
                last = request().send().await.ok();
                check(last.as_ref()?).then_some(())?;
            }
            Some(())
        })
        .await;
        found.with_context(|| format!("the last answer was {last:?}"))
    }

    fn clients(self) -> impl Iterator<Item = IpAddr> {
        let [one, two] = if self.0.ip().is_loopback() { [127, 0] } else { [10, 66] };
        (1..=16).map(move |host| Ipv4Addr::new(one, two, 255, host).into())
    }

    /// Waits until every worker steers a client by its address.
    pub(crate) async fn until_known(self, admin: Admin) -> Result<()> {
        let steered = async || {
            let stats = admin.stats("limpet.*[.]steered$").await.ok()?;
            Some(stats.values().sum::<u64>())
        };
        let known = async || {
            let before = steered().await?;
            for _ in 0..EVERY_WORKER {
                self.get("/").send().await.ok()?;
            }
            (steered().await? == before + EVERY_WORKER as u64).then_some(())
        };
        poll::until("every worker to know a client", known).await
    }

    /// Clients stay on their pods, and see nothing of a session. Nor do pods.
    pub(crate) async fn pods(self) -> Result<Vec<String>> {
        let mut pods = Vec::new();
        for client in self.clients() {
            let mut of_client = BTreeSet::new();
            for _ in 0..8 {
                let answer = self.get("/").from(client).send().await?;
                ensure!(answer.status == 200 && answer.set_cookies().is_empty(), "{answer:?}");
                ensure!(answer.seen()?.internal_headers().is_empty(), "{answer:?}");
                of_client.extend(answer.backend().map(str::to_owned));
            }
            ensure!(of_client.len() == 1, "{client} has several pods: {of_client:?}");
            pods.extend(of_client);
        }
        let different: BTreeSet<&String> = pods.iter().collect();
        ensure!(different.len() == 2, "all clients have one pod: {pods:?}");
        Ok(pods)
    }

    /// Sessions at these pods, whose tokens travel in the query of URLs.
    pub(crate) async fn sessions_at(self, pods: &[&str]) -> Result<Vec<QuerySession>> {
        let mut sessions = Vec::new();
        for pod in pods {
            let begun = poll::until(&format!("a session at {pod}"), async || {
                let session = self.begin_by_query().await.ok()?;
                (session.pod == *pod).then_some(session)
            })
            .await;
            sessions.push(begun?);
        }
        Ok(sessions)
    }

    /// Begins a session whose token only the header tells, and keeps it by the query.
    async fn begin_by_query(self) -> Result<QuerySession> {
        let answer = self.get("/").send().await?;
        ensure!(answer.set_cookies().is_empty(), "{answer:?}");
        let session = QuerySession {
            front: self,
            token: told(&answer).context("no token")?.to_owned(),
            pod: answer.backend().context("no backend")?.to_owned(),
        };
        session.holds().await?;
        Ok(session)
    }

    /// Waits until responses tell tokens, and checks that a forged one is refused.
    pub(crate) async fn until_told(self) -> Result<()> {
        self.until("tokens to be told", || self.get("/"), |answer| told(answer).is_some())
            .await?;
        let token = self.begin_by_query().await?.token;
        let (head, tail) = token.split_at(token.len() - 2);
        let forged = format!("{head}{}", if tail == "AA" { "BA" } else { "AA" });
        let answer = self.get(&format!("/?{NAME}={forged}")).send().await?;
        ensure!(told(&answer).is_some(), "a forged token was honoured");
        ensure!(answer.seen()?.query.is_none(), "a forged token reaches the pod");
        Ok(())
    }

    /// A session begins and ends with the application's cookie, and its token counts in every carrier.
    pub(crate) async fn check_login(self) -> Result<()> {
        let setting = |cookie: &str| self.get("/").answered_with("set-cookie", cookie);
        let begins = |answer: &Answer| answer.set_cookie(NAME).is_some() && told(answer).is_some();
        self.until("sessions to begin", || setting("SID=1"), begins).await?;
        for _ in 0..EVERY_WORKER {
            let answer = setting("other=1").send().await?;
            ensure!(answer.set_cookies().len() == 1 && told(&answer).is_none(), "{answer:?}");
        }
        let first = setting("SID=1").send().await?;
        let token = told(&first).context("no token")?;
        let pair = first.set_cookie(NAME).context("no cookie")?.pair();
        ensure!(pair == format!("{NAME}={token}"), "{pair} and {token}");
        for _ in 0..6 {
            for request in [
                self.get("/?a=1").cookie(&pair),
                self.get("/?a=1").header(TOLD, token),
                self.get(&format!("/?s={token}&a=1")),
            ] {
                let answer = request.send().await?;
                ensure!(answer.backend() == first.backend(), "{answer:?}");
                ensure!(answer.set_cookies().is_empty() && told(&answer).is_none(), "{answer:?}");
                let seen = answer.seen()?;
                ensure!(seen.query.as_deref() == Some("a=1"), "{seen:?}");
                ensure!(!seen.headers.iter().any(|(_, value)| value.contains(token)), "{seen:?}");
            }
        }
        let logout = setting("SID=; Max-Age=0").cookie(&pair).send().await?;
        let deleted = logout.set_cookie(NAME).context("the session's cookie stays")?;
        ensure!(deleted.attribute("Max-Age") == Some("0"), "{deleted:?}");
        Ok(())
    }
}

/// A session whose token travels in the query of URLs.
#[derive(Debug)]
pub(crate) struct QuerySession {
    front: Front,
    token: String,
    pod: String,
}

impl QuerySession {
    /// Ten requests reach the session's pod, which sees the URL without the token.
    pub(crate) async fn holds(&self) -> Result<()> {
        for _ in 0..10 {
            let path = format!("/a/b?x=%20&{NAME}={}&y", self.token);
            let answer = self.front.get(&path).send().await?;
            ensure!(answer.backend() == Some(&*self.pod), "{self:?}: {answer:?}");
            ensure!(answer.set_cookies().is_empty() && told(&answer).is_none(), "{answer:?}");
            let seen = answer.seen()?;
            ensure!(
                (&*seen.path, seen.query.as_deref()) == ("/a/b", Some("x=%20&y")),
                "{seen:?}"
            );
            let leaked = seen.headers.iter().any(|(_, value)| value.contains(&self.token));
            ensure!(!leaked && seen.internal_headers().is_empty(), "{seen:?}");
        }
        Ok(())
    }
}

fn told(answer: &Answer) -> Option<&str> {
    answer.header(TOLD)
}
