//! The Helm chart: `helm` installs, upgrades, rolls back and removes it.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Client, Node, Release, has_condition, until_led};
use limpet_e2e::{Request, helm, poll, tools};
use limpet_model::envoys_name;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::site::{Site, pods, until_rolled_out};

/// All that the chart makes, but definitions.
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

/// A release in a namespace of its name, which accepts only restricted pods.
struct Installation {
    node: &'static Node,
    name: &'static str,
    client: Client,
    helm: PathBuf,
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
        let helm = tools::helm()?;
        Ok(Self {
            node,
            name,
            client,
            helm,
        })
    }

    fn helm(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.node.server().admin_kubeconfig()?;
        let kubeconfig = kubeconfig.to_str().context("a path")?;
        helm::run_with(
            &self.helm,
            &[arguments, &["--namespace", self.name, "--kubeconfig", kubeconfig]].concat(),
        )
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

    /// Waits until the controller's pods are the latest. Returns their names.
    async fn until_rolled_out(&self) -> Result<BTreeSet<String>> {
        until_rolled_out(&self.client, &self.controller()).await?;
        pods(&self.client, &self.controller()).await
    }

    async fn configuration(&self) -> Result<Value> {
        let map = self.client.get("v1/ConfigMap", &self.controller()).await?;
        let text = map["data"]["controller.yaml"].as_str().context("no configuration")?;
        Ok(serde_saphyr::from_str(text)?)
    }

    /// Waits until the controller says in the class that it serves it.
    async fn until_accepted(&self) -> Result<()> {
        let what = format!("the class {} to be accepted", self.name);
        let mut last = None;
        let accepted = poll::until(&what, async || {
            last = self.client.find("GatewayClass", self.name).await.ok()?;
            has_condition(last.as_ref()?, "Accepted").then_some(())
        });
        accepted.await.with_context(|| format!("{last:?}"))
    }

    /// All that the chart has made, as `Kind/name`.
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
const NODE_PORT: &str = "config.envoy.managed.defaults.service.type=NodePort";

/// Requests of a Gateway of the release. Its only route redirects.
struct Traffic {
    envoys: String,
    ends: watch::Sender<bool>,
    asks: JoinHandle<Result<usize>>,
}

impl Traffic {
    async fn start(release: &Installation) -> Result<Self> {
        let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
        let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"hostname": "elsewhere.example"}});
        let rules = json!([{"filters": [redirect]}]);
        for (kind, name, spec) in [
            (
                "Gateway",
                "web",
                json!({"gatewayClassName": release.name, "listeners": listeners}),
            ),
            (
                "HTTPRoute",
                "away",
                json!({"parentRefs": [{"name": "web"}], "rules": rules}),
            ),
        ] {
            let version = "gateway.networking.k8s.io/v1";
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
            release.client.apply_object(&object).await?;
        }
        let gateway = until_programmed(release).await?;
        let envoys = envoys_name(&ObjectName::new(release.name, "web"));
        let address = gateway["status"]["addresses"][0]["value"].as_str();
        let address = of_node(&release.client, &envoys, address.context("no address")?).await?;
        until_led(address).await?;
        let (ends, ended) = watch::channel(false);
        // Helm takes a thread of its own.
        let asks = tokio::spawn(async move {
            let mut count = 0;
            while !*ended.borrow() {
                let answer = Request::get(address, "/").send().await?;
                ensure!(answer.status == 302, "after {count} requests: {answer:?}");
                count += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(count)
        });
        Ok(Self { envoys, ends, asks })
    }

    /// None has failed. The Gateway goes, and its Envoys with it.
    async fn end(self, release: &Installation) -> Result<()> {
        self.ends.send(true)?;
        let count = self.asks.await??;
        ensure!(count > 100, "{count} requests");
        release.client.delete("Gateway", "web").await?;
        release.client.until_gone("apps/v1/Deployment", &self.envoys).await
    }
}

async fn until_programmed(release: &Installation) -> Result<Value> {
    let is_programmed = |gateway: &Value| has_condition(gateway, "Programmed");
    release
        .client
        .until("acknowledgements", "Gateway", "web", is_programmed)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_changed_and_taken_back_and_removed() -> Result<()> {
    changed_and_taken_back_and_removed(Installation::prepare("limpet-a").await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_3_changes_and_takes_back_and_removes_it_too() -> Result<()> {
    let mut release = Installation::prepare("limpet-h").await?;
    release.helm = tools::helm3()?;
    let version = release.helm(&["version", "--short"])?;
    ensure!(version.starts_with("v3."), "{version}");
    changed_and_taken_back_and_removed(release).await
}

async fn changed_and_taken_back_and_removed(release: Installation) -> Result<()> {
    const DEFINITION: &str = "backendlbpolicies.gateway.networking.k8s.io";
    let kept = format!("{}-keyring", release.name);
    let values = format!("{VALUES},{NODE_PORT}");
    release.deploy("install", &values)?;
    let first = release.until_rolled_out().await?;
    release.until_accepted().await?;
    ensure!(release.objects().await?.len() > 9, "{:?}", release.objects().await?);
    let before = release.configuration().await?;
    // The controller names what it keeps after the release.
    let keyring = release.uid("v1/Secret", &kept).await?;

    release.deploy("upgrade", &format!("{values},config.sessionDefaults.sameSite=Lax"))?;
    let second = release.until_rolled_out().await?;
    ensure!(
        second.is_disjoint(&first),
        "{first:?} read no other configuration: {second:?}"
    );
    ensure!(release.configuration().await?["sessionDefaults"]["sameSite"] == "Lax");
    // Nothing has changed, so nothing is replaced.
    release.deploy("upgrade", &format!("{values},config.sessionDefaults.sameSite=Lax"))?;
    ensure!(release.until_rolled_out().await? == second, "replaced without a reason");

    release.helm(&["rollback", release.name, "1"])?;
    let third = release.until_rolled_out().await?;
    ensure!(
        third.is_disjoint(&second),
        "{second:?} read no other configuration: {third:?}"
    );
    ensure!(release.configuration().await? == before);

    let definition = release.uid("CustomResourceDefinition", DEFINITION).await?;
    // The GatewayClass goes with the release, while the controller still publishes.
    let traffic = Traffic::start(&release).await?;
    let envoys = release.uid("apps/v1/Deployment", &traffic.envoys).await?;
    release.helm(&["uninstall", release.name, "--wait"])?;
    ensure!(release.objects().await?.is_empty(), "{:?}", release.objects().await?);
    // The role goes before the leader has ended, which so cannot release its Lease.
    let lease = "coordination.k8s.io/v1/Lease";
    release.client.until_gone(lease, &release.controller()).await?;
    // Sessions' keys and users' objects stay.
    ensure!(release.uid("v1/Secret", &kept).await? == keyring);
    ensure!(release.uid("CustomResourceDefinition", DEFINITION).await? == definition);

    release.deploy("install", &values)?;
    release.until_rolled_out().await?;
    release.until_accepted().await?;
    ensure!(release.uid("v1/Secret", &kept).await? == keyring);
    until_programmed(&release).await?;
    ensure!(release.uid("apps/v1/Deployment", &traffic.envoys).await? == envoys);
    traffic.end(&release).await?;
    release.helm(&["uninstall", release.name, "--wait"]).map(drop)
}

#[tokio::test]
async fn releases_serve_their_classes_side_by_side() -> Result<()> {
    // An installation without Helm is there, too.
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

    define_all(&release.client, &tools::cert_manager_crds()?).await?;
    release.deploy("install", VALUES)?;
    let certificate = release.client.get("Certificate", "limpet-c-xds-server").await?;
    assert_eq!(certificate["spec"]["dnsNames"][1], "limpet-c-controller.limpet-c");
    // In place of cert-manager, which does not run here.
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

/// The kinds of a folder's files.
async fn define_all(client: &Client, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        let yaml = fs::read_to_string(&file)?;
        let defined = client.define(&yaml).await;
        defined.with_context(|| format!("{}", file.display()))?;
    }
    Ok(())
}

/// The ports of an address that take connections.
fn open_ports(address: IpAddr) -> BTreeSet<u16> {
    let takes = |port: &u16| {
        let address = SocketAddr::new(address, *port);
        TcpStream::connect_timeout(&address, Duration::from_millis(500)).is_ok()
    };
    (1..=u16::MAX).filter(takes).collect()
}

/// The number of the pod's port of this name.
fn port_of(pod: &Value, name: &Value) -> Result<u16> {
    let mut ports = pod["spec"]["containers"][0]["ports"].as_array().into_iter().flatten();
    let port = ports.find(|port| port["name"] == *name);
    let number = port.and_then(|port| port["containerPort"].as_u64());
    Ok(number.with_context(|| format!("no port {name}"))?.try_into()?)
}

/// This node's network plugin enforces no policy. The chart's must permit exactly the ports that listen.
#[tokio::test]
async fn policy_and_monitors_name_the_ports_that_listen() -> Result<()> {
    let release = Installation::prepare("limpet-n").await?;
    define_all(&release.client, &tools::prometheus_crds()?).await?;
    let values = "networkPolicy.enabled=true,podMonitor.enabled=true,serviceMonitor.enabled=true";
    release.deploy("install", &format!("{VALUES},{values}"))?;
    let pods = release.until_rolled_out().await?;
    let pod = release.client.get("v1/Pod", pods.first().context("no pod")?).await?;
    let address: IpAddr = pod["status"]["podIP"].as_str().context("no address")?.parse()?;

    let kind = "networking.k8s.io/v1/NetworkPolicy";
    let policy = release.client.get(kind, &release.controller()).await?;
    let selected = policy["spec"]["podSelector"]["matchLabels"]
        .as_object()
        .context("no labels")?;
    for (name, value) in selected {
        ensure!(
            pod["metadata"]["labels"][name] == *value,
            "{name} does not select {pod:#}"
        );
    }
    let rules = policy["spec"]["ingress"].as_array().context("no rules")?;
    let named = rules
        .iter()
        .flat_map(|rule| rule["ports"].as_array().into_iter().flatten());
    let permitted: BTreeSet<u16> = named.map(|port| port_of(&pod, &port["port"])).collect::<Result<_>>()?;
    let open = tokio::task::spawn_blocking(move || open_ports(address)).await?;
    ensure!(open == permitted, "{open:?} are open, the policy permits {permitted:?}");

    let monitors = [("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")];
    for (kind, endpoints) in monitors {
        let monitor = release.client.get(kind, &release.controller()).await?;
        let endpoint = &monitor["spec"][endpoints][0];
        let port = port_of(&pod, &endpoint["port"])?;
        let path = endpoint["path"].as_str().context("no path")?;
        let answer = Request::get(SocketAddr::new(address, port), path).send().await?;
        ensure!(
            answer.status == 200 && String::from_utf8_lossy(&answer.body).contains("limpet_"),
            "{kind}: {answer:?}"
        );
        let selected = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .context("no labels")?;
        // A ServiceMonitor selects Services, and a PodMonitor pods.
        let service = release.client.get("v1/Service", &release.controller()).await?;
        let labels = if kind == "PodMonitor" { &pod } else { &service };
        for (name, value) in selected {
            ensure!(
                labels["metadata"]["labels"][name] == *value,
                "{kind} does not select it"
            );
        }
    }
    release.helm(&["uninstall", release.name, "--wait"]).map(drop)
}

#[tokio::test]
async fn releases_for_other_control_planes_start() -> Result<()> {
    for (name, values) in [
        (
            "limpet-i",
            "target=istio,config.istio.url=oci://registry.example.com/limpet:1",
        ),
        ("limpet-g", "target=envoy-gateway"),
    ] {
        let release = Installation::prepare(name).await?;
        release.deploy("install", values)?;
        let pods = release.until_rolled_out().await.context(values)?;
        // The leader has all of its rights at once.
        let pod = pods.first().context("no pod")?;
        let pod = release.client.get("v1/Pod", pod).await?;
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        ensure!(*restarts == 0, "{values}: {restarts} restarts");
        let keyring = format!("{name}-keyring");
        let client = &release.client;
        client
            .until("the keyring", "v1/Secret", &keyring, |_| true)
            .await
            .context(values)?;
        release.helm(&["uninstall", release.name, "--wait"])?;
        ensure!(release.objects().await?.is_empty(), "{:?}", release.objects().await?);
    }
    Ok(())
}

/// All other tests have the other value of `envoy.managed.namespace`.
#[tokio::test]
async fn envoys_run_in_the_namespace_of_their_gateway() -> Result<()> {
    let release = Installation::prepare("limpet-e").await?;
    let shop = release.node.admin().in_namespace("shop-e");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop-e"}});
    shop.apply_object(&namespace).await?;
    let values = "config.envoy.managed.namespace=Gateway,envoys.namespaces={shop-e},\
                  config.envoy.managed.defaults.service.type=NodePort";
    release.deploy("install", &format!("{VALUES},{values}"))?;
    release.until_rolled_out().await?;
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "web"},
        "spec": {"gatewayClassName": release.name, "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    });
    shop.apply_object(&gateway).await?;
    let is_programmed = |gateway: &Value| has_condition(gateway, "Programmed");
    let gateway = shop.until("acknowledgements", "Gateway", "web", is_programmed).await?;
    let name = envoys_name(&ObjectName::new("shop-e", "web"));
    ensure!(!pods(&shop, &name).await?.is_empty());
    let address = gateway["status"]["addresses"][0]["value"]
        .as_str()
        .context("no address")?;
    let address = of_node(&shop, &name, address).await?;
    until_led(address).await?;
    let answer = Request::get(address, "/").send().await?;
    ensure!(answer.status == 404, "there is no route: {answer:?}");
    shop.delete("Gateway", "web").await?;
    shop.until_gone("apps/v1/Deployment", &name).await?;
    release.helm(&["uninstall", release.name, "--wait"]).map(drop)
}

/// The address of Envoys whose Service has a port of the node.
async fn of_node(client: &Client, service: &str, address: &str) -> Result<SocketAddr> {
    let service = client.get("v1/Service", service).await?;
    let port = service["spec"]["ports"][0]["nodePort"].as_u64().context("no port")?;
    Ok(SocketAddr::new(address.parse()?, port.try_into()?))
}
