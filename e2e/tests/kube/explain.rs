//! `limpet explain` on a cluster, with rights to read only, and tokens of real Envoys.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Release, User};
use limpet_e2e::tools;
use serde_json::{Value, json};

use crate::keyring::{KEYRING, KeyringSite};

/// Longer than the test, so that no session ends by itself.
const MAX_IDLE: &str = "2h";

/// The controller's configuration is in a `ConfigMap`.
struct Explained {
    site: KeyringSite,
    cluster: &'static Cluster,
    user: User,
}

impl Explained {
    async fn start(prefix: &str) -> Result<Self> {
        let site = KeyringSite::start_with(prefix, "1s", MAX_IDLE).await?;
        let namespace = &site.namespace;
        let config = json!({
            "controllerName": namespace.controller_name(),
            "leaderElection": {"namespace": namespace.name()},
            "maxIdle": MAX_IDLE,
            "sessionDefaults": {"cacheControl": "private"},
        });
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "limpet-controller"},
            "data": {"controller.yaml": config.to_string()},
        });
        namespace.apply_object(&map).await?;
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let user = cluster.server().service_account(namespace.name(), "developer").await?;
        Ok(Self { site, cluster, user })
    }

    async fn grant(&self, everywhere: Value, here: Value) -> Result<()> {
        let namespace = &self.site.namespace;
        let name = format!("developer:{}", namespace.name());
        let subjects = json!([{"kind": "ServiceAccount", "name": "developer", "namespace": namespace.name()}]);
        for (kind, name, rules) in [("ClusterRole", name.as_str(), everywhere), ("Role", "developer", here)] {
            let api = "rbac.authorization.k8s.io";
            let version = format!("{api}/v1");
            let role = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "rules": rules});
            namespace.apply_object(&role).await?;
            let binding = json!({
                "apiVersion": version,
                "kind": format!("{kind}Binding"),
                "metadata": {"name": name},
                "roleRef": {"apiGroup": api, "kind": kind, "name": name},
                "subjects": subjects,
            });
            namespace.apply_object(&binding).await?;
        }
        Ok(())
    }

    /// Checks that the output has no key.
    async fn explain(&self, route: &str, arguments: &[&str]) -> Result<(i32, String)> {
        let mut command = Command::new(tools::limpet()?);
        let name = self.site.namespace.name();
        command.args([
            "explain",
            route,
            "-n",
            name,
            "--controller",
            &format!("{name}/limpet-controller"),
        ]);
        command
            .arg("--kubeconfig")
            .arg(self.cluster.server().kubeconfig(&self.user)?);
        command.args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let Output { status, stdout, stderr } = output;
        let said = [stdout, stderr]
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .concat();
        let secret = self.site.namespace.get("v1/Secret", KEYRING).await?;
        let text = secret["data"]["keyring.json"].as_str().context("no keyring")?;
        let document: Value = serde_json::from_slice(&base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            text,
        )?)?;
        for key in document["keys"].as_array().context("no keys")? {
            let key = key["secret"]
                .as_str()
                .or(key["key"].as_str())
                .context("no secret in the key")?;
            ensure!(!said.contains(key), "a key is in the output");
        }
        Ok((status.code().context("killed")?, said))
    }

    fn asked(&self) -> Result<Vec<String>> {
        let requests = self.cluster.server().requests_of(self.user.name())?;
        Ok(requests
            .into_iter()
            .map(|request| format!("{} {}", request.verb, request.uri))
            .collect())
    }
}

fn has(said: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.contains(word), "{word:?} is not in {said}");
    }
    Ok(())
}

/// The rights that the command's page names.
fn reader() -> Value {
    json!([
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": ["list"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
        {
            "apiGroups": ["gateway.networking.k8s.io", "gateway.networking.x-k8s.io", "limpet.dev"],
            "resources": ["*"],
            "verbs": ["list"],
        },
    ])
}

fn config_maps() -> Value {
    json!({
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["limpet-controller", "limpet-controller-memory", "limpet-fences"],
        "verbs": ["get"],
    })
}

fn keyring() -> Value {
    json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": [KEYRING], "verbs": ["get"]})
}

/// The token is honoured, and the right to get the pod is not needed.
async fn tells_of_a_pod_that_drains(explained: &Explained, token: &str, backend: &str) -> Result<()> {
    let namespace = &explained.site.namespace;
    let pod = format!("pod {backend} (draining: it keeps its sessions and gets no new ones)");
    let unknown = format!(
        "not known: whether pod {}/{backend} drains by its annotation is not known: ",
        namespace.name()
    );
    let drain = |time: Value| json!({"metadata": {"annotations": {"session.limpet.dev/drain": time}}});
    namespace
        .merge("v1/Pod", backend, &drain(json!("2026-11-23T06:00:00Z")))
        .await?;
    let (code, said) = explained.explain("httproute/web", &["--token", token]).await?;
    ensure!(code == 0, "{said}");
    has(
        &said,
        &[
            &unknown,
            "cannot get resource \"pods\"",
            &format!("pod {backend} (ready)"),
        ],
    )?;
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    explained
        .grant(reader(), json!([config_maps(), keyring(), pods]))
        .await?;
    let (code, said) = explained.explain("httproute/web", &["--token", token]).await?;
    ensure!(code == 0 && !said.contains("not known"), "{said}");
    has(&said, &["token: honoured", &pod])?;
    namespace.merge("v1/Pod", backend, &drain(Value::Null)).await?;
    let (code, said) = explained.explain("httproute/web", &["--token", token]).await?;
    ensure!(code == 0, "{said}");
    has(&said, &[&format!("pod {backend} (ready)")])?;
    Ok(())
}

#[tokio::test]
async fn a_token_of_a_real_envoy_is_explained() -> Result<()> {
    let explained = Explained::start("explain").await?;
    explained.grant(reader(), json!([config_maps(), keyring()])).await?;
    let namespace = &explained.site.namespace;
    let own = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "other"},
        "spec": {
            "parentRefs": [{"name": "web"}],
            "hostnames": ["other.example"],
            "rules": [{
                "name": "own",
                "sessionPersistence": {"sessionName": "own", "absoluteTimeout": "1h"},
                "backendRefs": [{"name": "web", "port": 80}],
            }],
        },
    });
    namespace.apply_object(&own).await?;
    let (visitor, backend) = explained.site.session().await?;
    let token = visitor.cookie("limpet-session").context("no cookie")?.to_owned();

    // Without a token, no Secret is read. Nothing is written.
    let (code, said) = explained.explain("httproute/web", &[]).await?;
    ensure!(code == 0, "{said}");
    let policy = format!("BackendLBPolicy {}/web", namespace.name());
    has(
        &said,
        &[
            &format!("counts    {policy}: "),
            "Set-Cookie: limpet-session=<token>; HttpOnly; SameSite=Strict; Path=/  (over HTTP)",
            &format!("{policy}: spec.sessionPersistence.sessionName"),
            "configuration of the controller: sessionDefaults.cacheControl",
            &format!("Service {}/web:80", namespace.name()),
        ],
    )?;
    ensure!(!said.contains("not known"), "{said}");
    let asked = explained.asked()?;
    ensure!(
        !asked.is_empty() && asked.iter().all(|request| !request.contains("secrets")),
        "{asked:?}"
    );

    let (code, said) = explained.explain("httproute/web", &["--token", &token]).await?;
    ensure!(code == 0, "{said}");
    has(&said, &["token: honoured", &format!("pod {backend} (ready)")])?;

    tells_of_a_pod_that_drains(&explained, &token, &backend).await?;
    let line = format!("Cookie: lang=en; limpet-session={token}");
    let (code, said) = explained.explain("httproute/web", &["--cookie", &line]).await?;
    ensure!(code == 0, "{said}");
    has(&said, &["cookie limpet-session: honoured"])?;

    let url = format!("http://{}/", explained.site.controller.address(8080));
    let (code, said) = explained.explain("httproute/web", &["--curl", &url]).await?;
    ensure!(code == 0, "{said}");
    has(&said, &["cookie limpet-session: honoured"])?;
    let arguments = ["--curl", &url, "--header", "Host: other.example"];
    let (code, said) = explained.explain("httproute/web", &arguments).await?;
    ensure!(code == 2, "{said}");
    let other = format!("HTTPRoute {}/other, spec.rules[0] (own)", namespace.name());
    has(
        &said,
        &[
            "cookie own: not honoured (bad_signature)",
            &format!("accepted by  {other}"),
        ],
    )?;
    let arguments = ["-o", "json", "--rule", "own", "--token", &token];
    let (code, said) = explained.explain("httproute/other", &arguments).await?;
    let json: Value = serde_json::from_str(&said)?;
    ensure!(code == 2 && json["tokens"][0]["reason"] == "bad_signature", "{said}");

    // The pod goes, and its session with it.
    namespace.delete_now("v1/Pod", &backend).await?;
    namespace
        .endpoints("web", |all| all.iter().all(|endpoint| endpoint.pod != backend))
        .await?;
    let (code, said) = explained.explain("httproute/web", &["--token", &token]).await?;
    ensure!(code == 1, "{said}");
    has(&said, &["token: not honoured", "the token is good, but no endpoint"])?;

    let asked = explained.asked()?;
    let reads = asked
        .iter()
        .filter(|request| request.starts_with("get ") || request.starts_with("list "));
    ensure!(reads.count() == asked.len(), "it does more than read: {asked:?}");
    Ok(())
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() -> Result<()> {
    let explained = Explained::start("explain-rights").await?;
    let (code, said) = explained.explain("httproute/web", &[]).await?;
    ensure!(code == 3, "{said}");
    has(
        &said,
        &["cannot list HTTPRoute: ", "cannot list resource \"httproutes\""],
    )?;

    // In the own namespace only, without the controller's objects.
    let classes =
        json!([{"apiGroups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses"], "verbs": ["list"]}]);
    explained.grant(classes, reader()).await?;
    let (visitor, _) = explained.site.session().await?;
    let token = visitor.cookie("limpet-session").context("no cookie")?.to_owned();
    let name = explained.site.namespace.name();
    let class = format!("controllerName: {}\n", explained.site.namespace.controller_name());
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("controller.yaml");
    std::fs::write(&config, class)?;
    let config = config.to_str().context("not UTF-8")?;
    let arguments = ["--config", config, "--token", &token];
    let (code, said) = explained.explain("httproute/web", &arguments).await?;
    ensure!(code == 1, "{said}");
    has(
        &said,
        &[
            &format!("not known: Service: only the objects of {name} are known: "),
            "cannot list resource \"services\"",
            "cannot get resource \"configmaps\"",
            "token: not verified",
            "cannot get resource \"secrets\"",
            "--keys takes a keyring file",
            &format!("counts    BackendLBPolicy {name}/web: "),
        ],
    )?;

    // With the keyring in a file, the Secret is not needed.
    let secret = explained.site.namespace.get("v1/Secret", KEYRING).await?;
    let text = secret["data"]["keyring.json"].as_str().context("no keyring")?;
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text)?;
    let keys = folder.path().join("keyring.json");
    std::fs::write(&keys, bytes)?;
    let keys = keys.to_str().context("not UTF-8")?;
    let arguments = ["--config", config, "--token", &token, "--keys", keys];
    let (code, said) = explained.explain("httproute/web", &arguments).await?;
    ensure!(code == 0, "{said}");
    has(&said, &["token: honoured"])?;
    Ok(())
}
