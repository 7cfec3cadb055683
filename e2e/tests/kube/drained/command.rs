//! `limpet drain POD`, by a user with the rights that its page names.

use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Namespace, Release};
use limpet_e2e::{poll, tools};
use serde_json::{Value, json};

use super::{DRAIN, until_chosen};
use crate::keyring::KeyringSite;

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) complaints: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            complaints: text(&output.stderr),
        }
    }
}

pub(super) struct Operator {
    kubeconfig: String,
    namespace: String,
}

impl Operator {
    /// `rules` are verbs by resource of the core group, and of `EndpointSlice`s.
    pub(super) async fn with(namespace: &Namespace, name: &str, rules: &[(&str, &[&str])]) -> Result<Self> {
        let server = Cluster::shared(Release::V1_2_1).await?.server();
        let user = server.service_account(namespace.name(), name).await?;
        let rules = rules.iter().map(|(resource, verbs)| {
            let group = if *resource == "endpointslices" {
                "discovery.k8s.io"
            } else {
                ""
            };
            json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
        });
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": rules.collect::<Vec<_>>(),
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        });
        namespace.apply_object(&role).await?;
        namespace.apply_object(&binding).await?;
        Ok(Self {
            kubeconfig: path(&server.kubeconfig(&user)?)?,
            namespace: namespace.name().to_owned(),
        })
    }

    pub(super) fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let place = ["--kubeconfig", &self.kubeconfig, "--namespace", &self.namespace];
        [arguments, &place].concat()
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Ran> {
        let arguments: Vec<String> = self.arguments(arguments).into_iter().map(str::to_owned).collect();
        let run = move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            tools::run_limpet(&arguments, &[])
        };
        tokio::task::spawn_blocking(run).await?.map(Ran::from)
    }

    /// A new role takes effect after a moment.
    pub(super) async fn run_when_permitted(&self, arguments: &[&str]) -> Result<Ran> {
        let ran = async || self.run(arguments).await.ok().filter(|ran| !is_forbidden(ran));
        poll::until("the role to take effect", ran).await
    }
}

fn path(file: &Path) -> Result<String> {
    file.to_str().map(str::to_owned).context("a path that is not UTF-8")
}

fn is_forbidden(ran: &Ran) -> bool {
    ran.code == Some(3) && ran.complaints.contains("forbidden")
}

async fn annotation(namespace: &Namespace, pod: &str) -> Result<Value> {
    let mut pod = namespace.get("v1/Pod", pod).await?;
    Ok(pod["metadata"]["annotations"][DRAIN].take())
}

#[tokio::test]
async fn a_user_drains_a_pod_and_takes_it_back() -> Result<()> {
    let site = KeyringSite::start_with("drains", "1h", "1h").await?;
    let namespace = &site.namespace;
    let rights: &[(&str, &[&str])] = &[("pods", &["get", "patch"]), ("endpointslices", &["list"])];
    let operator = Operator::with(namespace, "operator", rights).await?;

    // It has not looked for a controller.
    let note = "it gets no new sessions once a controller has read it, and `limpet sessions` shows the state draining \
                then";
    let ran = operator.run_when_permitted(&["drain", "a"]).await?;
    let said = format!("pod/a has the annotation to drain (Services: web): {note}\n");
    assert_eq!((ran.code, &ran.out), (Some(0), &said), "{ran:?}");
    let since = annotation(namespace, "a").await?;
    let text = since.as_str().context("no annotation")?;
    ensure!(text.len() == 20 && text.ends_with('Z'), "{text}");
    until_chosen(&site, "/", &["b"]).await?;

    // Again, it stays as it is.
    let ran = operator.run(&["drain", "pod/a", "-o", "json"]).await?;
    let told: Value = serde_json::from_str(&ran.out)?;
    let expected = json!({
        "namespace": namespace.name(), "pod": "a", "services": ["web"], "drains": true, "since": since,
    });
    assert_eq!((ran.code, told), (Some(0), expected), "{ran:?}");
    let ran = operator.run(&["drain", "a"]).await?;
    let said = format!("pod/a has the annotation to drain since {text} (Services: web): {note}\n");
    assert_eq!(ran.out, said);
    assert_eq!(annotation(namespace, "a").await?, since);

    let again = "has no annotation to drain any more: it takes new sessions again once a controller has read that";
    for said in [again, "has no annotation to drain"] {
        let ran = operator.run(&["drain", "a", "--undo"]).await?;
        assert_eq!((ran.code, ran.out), (Some(0), format!("pod/a {said}\n")));
    }
    assert_eq!(annotation(namespace, "a").await?, Value::Null);
    until_chosen(&site, "/", &["a", "b"]).await
}

#[tokio::test]
async fn what_cannot_drain_says_why() -> Result<()> {
    let namespace = Cluster::shared(Release::V1_2_1).await?.namespace("drains-not").await?;
    let _alone = namespace.pod("alone", &[("app", "alone")]).await?;
    namespace.service("web", &[("app", "web")]).await?;
    let _web = namespace.pod("web", &[("app", "web")]).await?;
    namespace.endpoints("web", |endpoints| endpoints.len() == 1).await?;
    let refuses = async |operator: &Operator, arguments: &[&str], words: &str| {
        let ran = async || {
            operator
                .run(arguments)
                .await
                .ok()
                .filter(|ran| ran.complaints.contains(words))
        };
        let ran = poll::until(&format!("{words:?}"), ran).await?;
        ensure!(ran.code == Some(3) && ran.out.is_empty(), "{ran:?}");
        anyhow::Ok(())
    };
    let all: &[(&str, &[&str])] = &[("pods", &["get", "patch"]), ("endpointslices", &["list"])];
    let operator = Operator::with(&namespace, "operator", all).await?;
    let none = format!("no pod gone in the namespace {}", namespace.name());
    refuses(&operator, &["drain", "gone"], &none).await?;
    refuses(&operator, &["drain", "gone", "--undo"], &none).await?;
    refuses(&operator, &["drain", "alone"], "the pod alone is behind no Service").await?;
    refuses(&operator, &["drain", "service/web"], "service/…: expected a pod").await?;

    for (name, rights, words) in [
        ("nobody", &[][..], "cannot get resource \"pods\""),
        (
            "reader",
            &[("pods", &["get"][..])][..],
            "cannot list resource \"endpointslices\"",
        ),
        (
            "onlooker",
            &[("pods", &["get"][..]), ("endpointslices", &["list"])][..],
            "cannot patch resource \"pods\"",
        ),
    ] {
        let user = Operator::with(&namespace, name, rights).await?;
        refuses(&user, &["drain", "web"], words).await?;
    }
    assert_eq!(annotation(&namespace, "web").await?, Value::Null);
    assert_eq!(annotation(&namespace, "alone").await?, Value::Null);
    Ok(())
}
