//! An upgrade of the Gateway API from release 1.6.1 to 1.7.0, which takes fields from session policies.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Request, poll, tools};
use serde_json::{Value, json};

use crate::site::site_objects;

const WEB: &[(&str, &str)] = &[("app", "web")];
const POLICY: &str = "XBackendTrafficPolicy";

struct Site<'a> {
    cluster: &'a Cluster,
    namespace: Namespace,
    controller: Controller,
    _envoy: Proxy,
    _pods: Vec<Pod>,
}

impl<'a> Site<'a> {
    async fn start(cluster: &'a Cluster, prefix: &str) -> Result<Self> {
        let namespace = cluster.namespace(prefix).await?;
        namespace.gateway_class().await?;
        namespace.service("web", WEB).await?;
        let mut pods = Vec::new();
        for name in ["a", "b", "c"] {
            pods.push(namespace.pod(name, WEB).await?);
        }
        namespace.apply(&site_objects(&namespace)).await?;
        namespace.apply_object(&policy("web", "session")).await?;
        let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
        let mut envoy = controller.envoy("web", "one").await?;
        envoy.until_ready().await?;
        Ok(Self {
            cluster,
            namespace,
            controller,
            _envoy: envoy,
            _pods: pods,
        })
    }

    /// Waits until the API server drops what release 1.7 does not have.
    async fn until_upgraded(&self) -> Result<()> {
        let pruned = |object: &Value| {
            let persistence = &object["spec"]["sessionPersistence"];
            persistence["sessionName"].is_null() && persistence["cookieConfig"].is_null()
        };
        let policy = self.namespace.until("the fields to go", POLICY, "web", pruned).await;
        policy.map(drop)
    }

    fn migrate(&self, arguments: &[&str]) -> Result<(i32, String)> {
        migrate(self.cluster, &[&["-n", self.namespace.name()], arguments].concat())
    }

    async fn sessions(&self) -> Result<Vec<(String, String)>> {
        let address = self.controller.address(8080);
        let mut sessions = Vec::new();
        poll::until("sessions", async || {
            let answer = Request::get(address, "/").send().await.ok()?;
            let cookie = answer.set_cookies().pop().filter(|cookie| cookie.name == "session")?;
            cookie.attribute("Max-Age")?;
            sessions.push((cookie.pair(), answer.backend()?.to_owned()));
            (sessions.len() == 12).then_some(())
        })
        .await?;
        Ok(sessions)
    }

    /// Checks for some time that no session has moved and new ones are as before.
    async fn sessions_go_on(&self, sessions: &[(String, String)]) -> Result<()> {
        let address = self.controller.address(8080);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            for (cookie, backend) in sessions {
                let answer = Request::get(address, "/").cookie(cookie).send().await?;
                ensure!(
                    answer.backend() == Some(backend) && answer.set_cookies().is_empty(),
                    "moved from {backend} to {:?}, with {:?}",
                    answer.backend(),
                    answer.set_cookies()
                );
            }
        }
        let cookie = Request::get(address, "/")
            .send()
            .await?
            .set_cookies()
            .pop()
            .context("no cookie")?;
        ensure!(
            cookie.name == "session" && cookie.attribute("Max-Age").is_some(),
            "{cookie:?}"
        );
        Ok(())
    }

    /// Waits until the policy's status is current and has these words.
    async fn until_said(&self, name: &str, words: &str) -> Result<Value> {
        let said = |object: &Value| {
            let conditions = object["status"]["ancestors"][0]["conditions"].as_array();
            conditions.into_iter().flatten().any(|condition| {
                condition["observedGeneration"] == object["metadata"]["generation"]
                    && condition["message"]
                        .as_str()
                        .is_some_and(|message| message.contains(words))
            })
        };
        self.namespace
            .until(&format!("the words {words:?}"), POLICY, name, said)
            .await
    }
}

fn policy(service: &str, session: &str) -> Value {
    json!({
        "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
        "kind": POLICY,
        "metadata": {"name": service},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": service}],
            "sessionPersistence": {
                "sessionName": session,
                "type": "Cookie",
                "absoluteTimeout": "1h",
                "cookieConfig": {"lifetimeType": "Permanent"},
            },
        },
    })
}

fn migrate(cluster: &Cluster, arguments: &[&str]) -> Result<(i32, String)> {
    let mut command = Command::new(tools::limpet()?);
    command.args(["migrate", "policies", "--kubeconfig"]);
    command.arg(cluster.server().admin_kubeconfig()?).args(arguments);
    let Output { status, stdout, stderr } = command.output()?;
    let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok((status.code().context("killed")?, said.concat()))
}

/// One upgrade of a cluster of its own, for sites with policies migrated before it or not.
#[tokio::test]
async fn an_upgrade_ends_no_session_of_migrated_policies_and_says_what_it_takes_from_others() -> Result<()> {
    let cluster = Cluster::start(&Release::V1_6_1.definitions()?).await?;
    let migrated = Site::start(&cluster, "migrated").await?;
    let sessions = migrated.sessions().await?;
    migrated_before(&migrated, &sessions).await?;
    let mut other = Site::start(&cluster, "not-migrated").await?;
    let others = other.sessions().await?;
    not_migrated_before(&mut other).await?;

    cluster.define_all(&Release::V1_7_0.definitions()?).await?;
    for site in [&migrated, &other] {
        site.until_upgraded().await?;
    }
    migrated_after(&migrated, &sessions).await?;
    not_migrated_after(&mut other, &others).await
}

async fn migrated_before(site: &Site<'_>, sessions: &[(String, String)]) -> Result<()> {
    let (code, said) = migrate(site.cluster, &["-A"])?;
    ensure!(
        code == 1 && said.contains("session.limpet.dev/session-name: session"),
        "{code}: {said}"
    );
    let policy = site.namespace.get(POLICY, "web").await?;
    ensure!(policy["metadata"]["annotations"].is_null(), "it is a dry run: {policy}");
    let (code, said) = site.migrate(&["--write"])?;
    ensure!(
        code == 0 && said.contains("web: written: the name session and the lifetime Permanent"),
        "{said}"
    );
    let (code, said) = migrate(site.cluster, &["-A", "-o", "json"])?;
    let report: Value = serde_json::from_str(&said)?;
    ensure!(code == 0 && report["policies"][0]["state"] == "ready", "{said}");
    site.sessions_go_on(sessions).await
}

async fn migrated_after(site: &Site<'_>, sessions: &[(String, String)]) -> Result<()> {
    site.sessions_go_on(sessions).await?;
    let (code, said) = site.migrate(&["--write"])?;
    ensure!(
        code == 0 && said.contains("goes to the fields of release 1.7"),
        "{said}"
    );
    let is_plain = |object: &Value| {
        let condition = &object["status"]["ancestors"][0]["conditions"][0];
        let message = condition["message"].as_str().unwrap_or_default();
        let plain = "The policy is accepted; release 1.7 of the Gateway API deprecates";
        condition["observedGeneration"] == object["metadata"]["generation"] && message.starts_with(plain)
    };
    let policy = site.namespace.until("its status", POLICY, "web", is_plain).await?;
    let persistence = &policy["spec"]["sessionPersistence"];
    assert_eq!(persistence["cookie"]["name"], "session");
    assert_eq!(persistence["cookie"]["lifetimeType"], "Permanent");
    assert_eq!(persistence["absoluteTimeout"], "1h");
    let kept = json!({"session.limpet.dev/split": "keep"});
    ensure!(policy["metadata"]["annotations"] == kept, "{policy}");
    site.sessions_go_on(sessions).await?;
    let (code, said) = site.migrate(&[])?;
    ensure!(
        code == 0 && said.contains("web: ready: it has the fields of release 1.7"),
        "{said}"
    );
    Ok(())
}

/// Afterwards, its controller does not run.
async fn not_migrated_before(site: &mut Site<'_>) -> Result<()> {
    let remembered = async || {
        let map = site
            .namespace
            .get("v1/ConfigMap", "limpet-controller-memory")
            .await
            .ok()?;
        let mut texts = map["data"].as_object()?.values().filter_map(Value::as_str);
        texts
            .any(|text| text.contains(r#""sessionName":"session""#))
            .then_some(())
    };
    poll::until("the session's name to be remembered", remembered).await?;

    // A policy written without a running controller is unknown to it.
    site.controller.kill();
    site.namespace.service("other", WEB).await?;
    site.namespace.apply_object(&policy("other", "unseen")).await.map(drop)
}

async fn not_migrated_after(site: &mut Site<'_>, sessions: &[(String, String)]) -> Result<()> {
    let backends = |name: &str| json!([{"name": name, "port": 80}]);
    let rules = json!([
        {"backendRefs": backends("web")},
        {"matches": [{"path": {"value": "/other"}}], "backendRefs": backends("other")},
    ]);
    site.namespace
        .merge("HTTPRoute", "web", &json!({"spec": {"rules": rules}}))
        .await?;
    site.controller.launch()?;
    site.controller.until_ready().await?;
    let words = "is left out: sessionName session, cookieConfig.lifetimeType Permanent; the sessions go on";
    let policy = site.until_said("web", words).await?;
    assert_eq!(policy["status"]["ancestors"][0]["conditions"][0]["status"], "True");
    site.sessions_go_on(sessions).await?;
    let words = "sessionName and cookieConfig.lifetimeType cannot be known, so new sessions have begun: run";
    site.until_said("other", words).await?;

    // Of all namespaces.
    let (code, said) = migrate(site.cluster, &["-A", "--write"])?;
    ensure!(
        code == 1 && said.contains("other: unknown: the API server leaves out what it had"),
        "{code}: {said}"
    );
    // Written again with what the status says.
    let again = json!({
        "metadata": {"annotations": {"session.limpet.dev/split": "keep"}},
        "spec": {"sessionPersistence": {
            "type": "Cookie",
            "cookie": {"name": "session", "lifetimeType": "Permanent"},
        }},
    });
    site.namespace.merge(POLICY, "web", &again).await?;
    site.until_said("web", "The policy is accepted").await?;
    site.sessions_go_on(sessions).await
}

#[tokio::test]
async fn migrate_says_which_api_server_has_no_policies() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_6_1).await?;
    let (code, said) = migrate(cluster, &["-n", "kube-public"])?;
    ensure!(
        code == 0 && said.starts_with("the API server at https://") && said.contains("has no XBackendTrafficPolicy"),
        "{code}: {said}"
    );
    Ok(())
}
