//! The Helm chart: what `helm` installs, changes, takes back and removes.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::kube::{Client, Node, Release};
use limpet_e2e::{helm, tools};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::{Site, pods, until_rolled_out};

/// The kinds of everything that the chart makes, but for definitions.
const KINDS: [&str; 11] = [
    "GatewayClass",
    "rbac.authorization.k8s.io/v1/ClusterRole",
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "v1/ServiceAccount",
    "v1/ConfigMap",
    "v1/Service",
    "apps/v1/Deployment",
    "policy/v1/PodDisruptionBudget",
    "networking.k8s.io/v1/NetworkPolicy",
];

/// A release in a namespace of its own, which accepts only restricted pods. Its name is that of the namespace.
struct Installation {
    node: &'static Node,
    name: &'static str,
    client: Client,
}

impl Installation {
    async fn prepare(name: &'static str) -> Result<Self> {
        let node = Node::shared().await?;
        node.define(Release::V1_7_0).await?;
        let client = node.admin().in_namespace(name);
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        });
        client.apply_object(&namespace).await?;
        Ok(Self { node, name, client })
    }

    /// Runs Helm in the namespace.
    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.node.server().admin_kubeconfig()?;
        let kubeconfig = kubeconfig.to_str().context("a path")?;
        helm::run(&[arguments, &["--namespace", self.name, "--kubeconfig", kubeconfig]].concat())
    }

    /// `helm install` or `helm upgrade` with these values.
    fn deploy(&self, how: &str, values: &str) -> Result<String> {
        let chart = helm::chart();
        let chart = chart.to_str().context("a path")?;
        self.helm(&[how, self.name, chart, "--set", values])
    }

    fn controller(&self) -> String {
        format!("{}-controller", self.name)
    }

    /// Waits until the controller's pods have what was installed last. Returns their names.
    async fn until_rolled_out(&self) -> Result<BTreeSet<String>> {
        until_rolled_out(&self.client, &self.controller()).await?;
        pods(&self.client, &self.controller()).await
    }

    /// The controller's configuration.
    async fn configuration(&self) -> Result<Value> {
        let map = self.client.get("v1/ConfigMap", &self.controller()).await?;
        let text = map["data"]["controller.yaml"].as_str().context("no configuration")?;
        Ok(serde_saphyr::from_str(text)?)
    }

    /// The controller has told the class that it serves it.
    async fn until_accepted(&self) -> Result<()> {
        let accepted = |class: &Value| {
            let mut conditions = class["status"]["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Accepted" && condition["status"] == "True")
        };
        self.client
            .until("the class", "GatewayClass", self.name, accepted)
            .await
            .map(drop)
    }

    /// Everything that the chart has made, as `Kind/name`.
    async fn objects(&self) -> Result<Vec<String>> {
        let label = format!("app.kubernetes.io/instance={}", self.name);
        let mut found = Vec::new();
        for kind in KINDS {
            for object in self.client.list(kind, &label).await? {
                found.push(format!("{kind}/{}", object["metadata"]["name"]));
            }
        }
        Ok(found)
    }

    async fn uid(&self, kind: &str, name: &str) -> Result<Value> {
        let mut object = self.client.get(kind, name).await?;
        Ok(object["metadata"]["uid"].take())
    }
}

const VALUES: &str = "xds.certificates=Controller";

#[tokio::test]
async fn a_release_is_changed_and_taken_back_and_removed() -> Result<()> {
    const DEFINITION: &str = "backendlbpolicies.gateway.networking.k8s.io";
    let release = Installation::prepare("limpet-a").await?;
    release.deploy("install", VALUES)?;
    let first = release.until_rolled_out().await?;
    release.until_accepted().await?;
    ensure!(release.objects().await?.len() > 9, "{:?}", release.objects().await?);
    let before = release.configuration().await?;
    // The controller names what it keeps after the release.
    let keyring = release.uid("v1/Secret", "limpet-a-keyring").await?;

    release.deploy("upgrade", &format!("{VALUES},config.sessionDefaults.sameSite=Lax"))?;
    let second = release.until_rolled_out().await?;
    ensure!(
        second.is_disjoint(&first),
        "{first:?} read no other configuration: {second:?}"
    );
    ensure!(release.configuration().await?["sessionDefaults"]["sameSite"] == "Lax");
    // Nothing has changed, so nothing is replaced.
    release.deploy("upgrade", &format!("{VALUES},config.sessionDefaults.sameSite=Lax"))?;
    ensure!(release.until_rolled_out().await? == second, "replaced without a reason");

    release.helm(&["rollback", release.name, "1"])?;
    let third = release.until_rolled_out().await?;
    ensure!(
        third.is_disjoint(&second),
        "{second:?} read no other configuration: {third:?}"
    );
    ensure!(release.configuration().await? == before);

    let definition = release.uid("CustomResourceDefinition", DEFINITION).await?;
    release.helm(&["uninstall", release.name, "--wait"])?;
    ensure!(release.objects().await?.is_empty(), "{:?}", release.objects().await?);
    // What holds sessions, and objects of users, stays.
    ensure!(release.uid("v1/Secret", "limpet-a-keyring").await? == keyring);
    ensure!(release.uid("CustomResourceDefinition", DEFINITION).await? == definition);

    release.deploy("install", VALUES)?;
    release.until_rolled_out().await?;
    release.until_accepted().await?;
    ensure!(release.uid("v1/Secret", "limpet-a-keyring").await? == keyring);
    release.helm(&["uninstall", release.name, "--wait"]).map(drop)
}

#[tokio::test]
async fn releases_serve_their_classes_side_by_side() -> Result<()> {
    // What is installed without Helm is there, too.
    Site::shared().await?;
    let release = Installation::prepare("limpet-b").await?;
    release.deploy("install", VALUES)?;
    release.until_rolled_out().await?;
    release.until_accepted().await?;

    // Another one in the same namespace.
    let chart = helm::chart();
    let chart = chart.to_str().context("a path")?;
    release.helm(&["install", "other", chart, "--set", VALUES])?;
    until_rolled_out(&release.client, "other-limpet-controller").await?;
    let class = release.client.get("GatewayClass", "other-limpet").await?;
    assert_eq!(class["spec"]["controllerName"], "limpet.dev/other-limpet");
    let leases = release.client.list("coordination.k8s.io/v1/Lease", "").await?;
    let leases: BTreeSet<_> = leases
        .iter()
        .filter_map(|lease| lease["metadata"]["name"].as_str())
        .collect();
    for lease in ["limpet-b-controller", "other-limpet-controller"] {
        ensure!(leases.contains(lease), "{leases:?}");
    }

    // A class belongs to one release.
    let refused = release.helm(&["install", "third", chart, "--set", "gatewayClass.name=limpet-b"]);
    let Err(refused) = refused else {
        bail!("two releases have one class");
    };
    let message = format!("{refused:#}");
    ensure!(message.contains("GatewayClass \"limpet-b\""), "{message}");
    release.until_accepted().await?;
    for name in ["limpet-b", "other"] {
        release.helm(&["uninstall", name, "--wait"])?;
    }
    Ok(())
}

#[tokio::test]
async fn cert_manager_may_make_the_certificates() -> Result<()> {
    const VALUES: &str = "xds.certificates=CertManager,xds.gateways={shop/web}";
    let release = Installation::prepare("limpet-c").await?;
    let Err(refused) = release.deploy("install", VALUES) else {
        bail!("installed without cert-manager's definitions");
    };
    let message = format!("{refused:#}");
    ensure!(message.contains("no matches for kind \"Certificate\""), "{message}");
    ensure!(release.objects().await?.is_empty(), "{:?}", release.objects().await?);

    for entry in fs::read_dir(tools::cert_manager_crds()?)? {
        let file = entry?.path();
        let yaml = fs::read_to_string(&file)?;
        release
            .client
            .define(&yaml)
            .await
            .with_context(|| format!("{}", file.display()))?;
    }
    release.deploy("install", VALUES)?;
    let certificate = release.client.get("Certificate", "limpet-c-xds-server").await?;
    assert_eq!(certificate["spec"]["dnsNames"][1], "limpet-c-controller.limpet-c");
    // cert-manager itself does not run here: the test makes the Secret that it would make.
    let name = certificate["spec"]["secretName"].as_str().context("no Secret")?;
    let authority = TempDir::new()?;
    let made = Command::new(tools::checkout().join("controller/deploy/certificates.sh"))
        .args([authority.path().as_os_str(), "shop/web".as_ref()])
        .env("NAMESPACE", release.name)
        .output()?;
    let secrets: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(made.stdout)?)?;
    let mut secret = secrets.into_iter().next().context("no Secret is printed")?;
    secret["metadata"] = json!({"name": name});
    release.client.apply_object(&secret).await?;
    release.until_rolled_out().await?;
    release.until_accepted().await?;
    release.helm(&["uninstall", release.name, "--wait"]).map(drop)
}
