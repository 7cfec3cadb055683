//! The demo's cluster, two Services with two pods each, the controller and an Envoy.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{Visitor, poll, tools};
use serde_json::{Value, json};

use crate::keys;
use crate::objects::{self, PORT, condition};

pub(crate) const SERVICES: [&str; 2] = ["v1", "v2"];

/// Fields are dropped in this order: the cluster last.
pub(crate) struct Setup {
    pub(crate) envoy: Proxy,
    pub(crate) controller: Controller,
    pub(crate) pods: Vec<Pod>,
    pub(crate) namespace: Namespace,
    pub(crate) cluster: Cluster,
}

impl Setup {
    pub(crate) async fn start() -> Result<Self> {
        println!(
            "A Kubernetes API server with the Gateway API, Kubernetes' own endpointslice controller, and Limpet's \
            controller:"
        );
        let cluster = Cluster::start(&Release::V1_7_0.definitions()?).await?;
        let shipped = "controller/deploy/crds/backendlbpolicies.yaml";
        let definition = tools::checkout().join(shipped);
        let definition = std::fs::read_to_string(&definition).with_context(|| format!("cannot read {shipped}"))?;
        cluster.define(&definition).await?;
        println!("  API server at https://{}", cluster.server().address());
        println!("  definition of BackendLBPolicy from {shipped}, roles from controller/deploy/rbac.yaml");
        let namespace = cluster.namespace("demo").await?;
        let controller = Controller::start(cluster.server(), &namespace, |config| {
            // By default a phase takes a minute.
            config["keyring"] = json!({"phaseTime": "1s"});
        })
        .await?;
        println!(
            "  limpet controller, xDS at {}; it has made a keyring: {}",
            controller.xds(),
            keys::states(&namespace).await?
        );

        println!("\nTwo Services with two pods each, a GatewayClass, a Gateway, an HTTPRoute and a BackendLBPolicy:");
        let mut pods = Vec::new();
        for service in SERVICES {
            namespace.service(service, &[("app", service)]).await?;
            for name in ["a", "b"] {
                let pod = namespace.pod(&format!("{service}-{name}"), &[("app", service)]).await?;
                println!("  pod {} at {}", pod.name(), pod.address());
                pods.push(pod);
            }
        }
        for manifest in [objects::gateway(&namespace), objects::route(50, 50), objects::policy()] {
            println!(
                "  $ kubectl apply -f - <<.\n{}\n    .",
                crate::steps::indented(&manifest)
            );
            namespace.apply(&manifest).await?;
        }
        for service in SERVICES {
            namespace
                .endpoints(service, |endpoints| {
                    endpoints.iter().filter(|endpoint| endpoint.ready).count() == 2
                })
                .await?;
        }

        println!(
            "\nA stock Envoy, with the bootstrap that `limpet controller bootstrap` prints. It gets everything else \
            from the controller:"
        );
        let (variable, key) = keys::environment(&namespace).await?;
        let mut envoy = controller.envoy_with("web", "demo", &[(variable, &key)]).await?;
        envoy.until_ready().await?;
        let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True";
        namespace
            .until("the Gateway to be programmed", "Gateway", "web", programmed)
            .await?;
        let setup = Self {
            envoy,
            controller,
            pods,
            namespace,
            cluster,
        };
        println!("  Envoy     at {}, key-encryption key in {variable}", setup.address());
        println!(
            "  $ kubectl get gateway web\n    NAME   CLASS    PROGRAMMED\n    web    {}   True",
            setup.namespace.name()
        );
        setup.until_served().await?;
        Ok(setup)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.controller.address(PORT)
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.address())
    }

    pub(crate) fn pod(&self, name: &str) -> Result<&Pod> {
        let pod = self.pods.iter().find(|pod| pod.name() == name);
        pod.with_context(|| format!("there is no pod {name}"))
    }

    pub(crate) fn take_pod(&mut self, name: &str) -> Result<Pod> {
        let at = self.pods.iter().position(|pod| pod.name() == name);
        Ok(self.pods.remove(at.with_context(|| format!("there is no pod {name}"))?))
    }

    pub(crate) async fn counter(&self, name: &str) -> Result<u64> {
        Ok(self
            .envoy
            .admin()
            .stats(&format!("limpet.*{name}$"))
            .await?
            .values()
            .sum())
    }

    /// Waits until `expected` holds for the pods that answer twenty new clients in a row, so that every worker has a
    /// change.
    pub(crate) async fn until_new_clients(&self, what: &str, expected: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        poll::until(what, async || {
            let mut names = Vec::new();
            for _ in 0..20 {
                let answer = self.visitor().get("/").await.ok()?;
                names.push(answer.backend().filter(|name| expected(name))?.to_owned());
            }
            Some(names)
        })
        .await
    }

    pub(crate) fn kubeconfig(&self) -> Result<PathBuf> {
        self.cluster.server().admin_kubeconfig()
    }

    async fn until_served(&self) -> Result<()> {
        self.until_new_clients("the pods to answer", |_| true).await.map(drop)
    }
}
