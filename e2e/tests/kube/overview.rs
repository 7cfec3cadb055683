//! `limpet analyze`, `status`, `version` and `keys` on a cluster, with the rights of a user.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Release};
use limpet_e2e::{poll, tools};
use serde_json::{Value, json};

use crate::keyring::{KEYRING, KeyringSite};

/// Longer than the test, so that no session ends by itself.
const MAX_IDLE: &str = "2h";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A route to a Service that does not exist.
const BROKEN: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken}
spec:
  parentRefs: [{name: web}]
  hostnames: [broken.example]
  rules: [{backendRefs: [{name: missing, port: 80}]}]
";

/// What ran: its exit code, stdout and stderr together.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    said: String,
}

impl Ran {
    fn has(&self, code: i32, words: &[&str]) -> Result<()> {
        ensure!(self.code == Some(code), "{self:?}");
        for word in words {
            ensure!(self.said.contains(word), "{word:?} is not in {self:?}");
        }
        Ok(())
    }
}

/// A site whose controller can be asked, and keeps its configuration in a `ConfigMap`.
struct Asked {
    site: KeyringSite,
    kubeconfig: String,
}

impl Asked {
    async fn start(prefix: &str) -> Result<Self> {
        let site = KeyringSite::start_with(prefix, "1s", MAX_IDLE).await?;
        let namespace = &site.namespace;
        let config = json!({
            "controllerName": namespace.controller_name(),
            "leaderElection": {"namespace": namespace.name()},
            "maxIdle": MAX_IDLE,
        });
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "limpet-controller"},
            "data": {"controller.yaml": config.to_string()},
        });
        namespace.apply_object(&map).await?;
        namespace.controller_pod("controller-0", site.controller.http()).await?;
        let server = Cluster::shared(Release::V1_2_1).await?.server();
        let user = server.service_account(namespace.name(), "operator").await?;
        let kubeconfig = server.kubeconfig(&user)?.display().to_string();
        Ok(Self { site, kubeconfig })
    }

    /// Gives the user these rights: in all namespaces, and in its own.
    async fn grant(&self, everywhere: Value, here: Value) -> Result<()> {
        let namespace = &self.site.namespace;
        let name = format!("operator:{}", namespace.name());
        let subjects = json!([{"kind": "ServiceAccount", "name": "operator", "namespace": namespace.name()}]);
        for (kind, name, rules) in [("ClusterRole", name.as_str(), everywhere), ("Role", "operator", here)] {
            let version = format!("{RBAC}/v1");
            let role = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "rules": rules});
            namespace.apply_object(&role).await?;
            let binding = json!({
                "apiVersion": version,
                "kind": format!("{kind}Binding"),
                "metadata": {"name": name},
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": subjects,
            });
            namespace.apply_object(&binding).await?;
        }
        Ok(())
    }

    async fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let place = [
            "--kubeconfig",
            &self.kubeconfig,
            "--controller",
            self.site.namespace.name(),
        ];
        let arguments: Vec<String> = arguments.iter().chain(&place).map(|word| (*word).to_owned()).collect();
        let run = move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            tools::run_limpet(&arguments, &[])
        };
        let output = tokio::task::spawn_blocking(run).await??;
        let said = [output.stdout, output.stderr].concat();
        Ok(Ran {
            code: output.status.code(),
            said: String::from_utf8_lossy(&said).into_owned(),
        })
    }

    /// Runs it until it says this: roles and statuses take effect after a moment.
    async fn until(&self, arguments: &[&str], code: i32, words: &[&str]) -> Result<Ran> {
        let mut last = None;
        let ran = poll::until(&format!("{words:?}"), async || {
            let ran = self.run(arguments).await.ok()?;
            let is_it = ran.has(code, words).is_ok();
            if !is_it {
                last = Some(ran);
                return None;
            }
            Some(ran)
        })
        .await;
        ran.with_context(|| format!("{arguments:?}: {last:?}"))
    }

    async fn annotations(&self) -> Result<Value> {
        let secret = self.site.namespace.get("v1/Secret", KEYRING).await?;
        Ok(secret["metadata"]["annotations"].clone())
    }
}

/// The rights of `limpet analyze`, without Services.
fn lists() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]},
        {
            "apiGroups": ["gateway.networking.k8s.io", "gateway.networking.x-k8s.io", "limpet.dev"],
            "resources": ["*"],
            "verbs": ["list"],
        },
    ])
}

/// The rights of `limpet status` in the namespace of the controller.
fn asks() -> Vec<Value> {
    vec![
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}),
        json!({"apiGroups": [""], "resources": ["pods/proxy", "configmaps"], "verbs": ["get"]}),
    ]
}

fn secrets(verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [KEYRING], "verbs": verbs})
}

fn services() -> Value {
    json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list"]})
}

fn with(mut rules: Value, more: Value) -> Value {
    if let Value::Array(rules) = &mut rules {
        rules.push(more);
    }
    rules
}

#[tokio::test]
async fn an_installation_is_shown_and_analyzed() -> Result<()> {
    let asked = Asked::start("overview").await?;
    let namespace = &asked.site.namespace;
    let name = namespace.name();
    let (analyze, status) = (["analyze", "-n", name], ["status", "-n", name]);

    // Without any right, each kind is named once, and what a person may not see is not known.
    let ran = asked.run(&analyze).await?;
    ran.has(
        1,
        &[
            "warning [LIMPET0104] HTTPRoute: ",
            "cannot list resource \"httproutes\"",
        ],
    )?;
    ensure!(ran.said.matches("[LIMPET0104] Gateway:").count() == 1, "{ran:?}");
    let version = asked.run(&["version"]).await?;
    version.has(
        0,
        &[
            "client       limpet ",
            "controllers  not known: ",
            "cannot list resource \"pods\"",
        ],
    )?;

    let here = json!([asks(), vec![secrets(&["get"])]].concat());
    asked.grant(with(lists(), services()), here.clone()).await?;
    let ran = asked.until(&status, 0, &["Findings: no problem found"]).await?;
    for words in [
        "  POD           READY  VERSION  LEADS  ENVOYS\n  controller-0  yes    ",
        "    yes    1\n",
        &format!("  {name}  web   yes         1\n"),
        "no rotation is under way, key 1 signs, newest key made ",
    ] {
        ensure!(ran.said.contains(words), "{words:?} is not in {}", ran.said);
    }
    let ran = asked.run(&["status", "-n", name, "-o", "json"]).await?;
    let shown: Value = serde_json::from_str(&ran.said)?;
    ensure!(
        shown["gateways"][0]["programmed"] == true && shown["keys"]["signing"] == 1,
        "{shown}"
    );
    asked.run(&analyze).await?.has(0, &["no problem found\n"])?;

    let version = asked.run(&["version", "-o", "json"]).await?;
    let versions: Value = serde_json::from_str(&version.said)?;
    ensure!(
        versions["controllers"][0]["version"] == versions["client"]["version"],
        "{versions}"
    );
    ensure!(versions["envoys"][0]["connected"] == 1, "{versions}");
    asked.run(&["version", "--client"]).await?.has(0, &["limpet "])?;

    namespace.apply(BROKEN).await?;
    let expected =
        format!("error [LIMPET0506] HTTPRoute {name}/broken, Gateway web: spec.rules[0].backendRefs[0].name");
    let found = asked.until(&analyze, 2, &[&expected, "1 error\n"]).await?;
    ensure!(found.said.contains("see docs/reference/status.md#status"), "{found:?}");
    let ran = asked
        .until(&status, 2, &["Findings: 1 error\n  error [LIMPET0506] "])
        .await?;
    ensure!(ran.said.contains("PROGRAMMED"), "{ran:?}");

    // The controller has written it, so a person without the right to list Services learns it all the same, and
    // nothing of Services that only this person cannot see.
    let written = |route: &Value| route["status"]["parents"][0]["conditions"][1]["reason"] == "BackendNotFound";
    namespace
        .until(
            "the status",
            "gateway.networking.k8s.io/v1/HTTPRoute",
            "broken",
            written,
        )
        .await?;
    asked.grant(lists(), here).await?;
    let ran = asked.until(&analyze, 2, &["warning [LIMPET0104] Service: "]).await?;
    ensure!(
        ran.said.contains(&expected) && ran.said.contains("1 error, 1 warning\n"),
        "{ran:?}"
    );
    let ran = asked.run(&["analyze", "-n", name, "-o", "yaml"]).await?;
    ensure!(ran.said.contains("code: LIMPET0506"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn the_keyring_of_a_cluster_is_listed_and_changed() -> Result<()> {
    let asked = Asked::start("overview-keys").await?;
    let name = asked.site.namespace.name();
    let secret = format!("{name}/{KEYRING}");
    let list = ["keys", "list", "--secret", &secret];
    let refused = asked.run(&list).await?;
    refused.has(3, &["cannot read the Secret ", "cannot get resource \"secrets\""])?;

    asked
        .grant(json!([]), json!([asks(), vec![secrets(&["get"])]].concat()))
        .await?;
    let listed = asked
        .until(
            &list,
            0,
            &["phase    none: key 1 signs", "next     the controller makes a new key"],
        )
        .await?;
    let document = asked.site.namespace.get("v1/Secret", KEYRING).await?;
    let text = document["data"]["keyring.json"].as_str().context("no keyring")?;
    ensure!(!listed.said.contains(text), "the keyring is in the output");
    let refused = asked.run(&["keys", "rotate", "--secret", &secret]).await?;
    refused.has(3, &["cannot annotate the Secret ", "cannot patch resource \"secrets\""])?;

    let changes = json!([asks(), vec![secrets(&["get", "patch"])]].concat());
    asked.grant(json!([]), changes).await?;
    let dry = ["keys", "rotate", "--dry-run"];
    asked
        .until(&dry, 0, &["dry run: the API server would take limpet.dev/rotate="])
        .await?;
    ensure!(
        asked.annotations().await?["limpet.dev/rotate"].is_null(),
        "a dry run wrote it"
    );
    asked.site.until_keys(&[(1, "signing")]).await?;

    // Neither the name of the Secret nor a file is given: it is the controller's.
    asked
        .run(&["keys", "rotate"])
        .await?
        .has(0, &["asked for a rotation: limpet.dev/rotate="])?;
    asked.site.until_keys(&[(1, "retiring"), (2, "signing")]).await?;
    asked
        .run(&["keys", "list"])
        .await?
        .has(0, &["phase    3 of 3: key 2 signs", "the controller: retiring keys go"])?;

    let revoked = asked.run(&["keys", "revoke", "--key", "2", "-o", "json"]).await?;
    let told: Value = serde_json::from_str(&revoked.said)?;
    ensure!(
        told["annotation"] == "limpet.dev/revoke" && told["written"] == true,
        "{told}"
    );
    asked
        .site
        .until_keys(&[(1, "retiring"), (2, "revoked"), (3, "signing")])
        .await?;
    let missing = asked
        .run(&["keys", "rotate", "--secret", &format!("{name}/other")])
        .await?;
    ensure!(missing.code == Some(3), "{missing:?}");
    Ok(())
}
