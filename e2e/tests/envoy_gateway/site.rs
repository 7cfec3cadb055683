//! The objects of `envoy-configs/envoy-gateway`, in a test's own namespace, and an Envoy for them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::kube::{EnvoyGateway, Namespace, Pod, Proxy};
use limpet_e2e::{Answer, Build, Request, TEST_KEY, Visitor, poll, tools};
use serde_json::{Value, json};

use crate::files::Files;

pub(crate) const SHOP: &[(&str, &str)] = &[("app", "shop")];

pub(crate) const MODULE: &str = "/etc/limpet/liblimpet.so";

/// A Service with two pods, and what an Envoy Gateway in front needs.
pub(crate) struct EnvoyGatewaySite {
    pub(crate) gateway: &'static EnvoyGateway,
    pub(crate) namespace: Namespace,
    pub(crate) pods: Vec<Pod>,
    pub(crate) files: Files,
    build: Build,
    port: u16,
}

impl EnvoyGatewaySite {
    /// Creates the Service and the pods, without Envoy Gateway's objects.
    pub(crate) async fn prepare(prefix: &str, build: Build) -> Result<Self> {
        let gateway = EnvoyGateway::shared().await?;
        let namespace = gateway.cluster().namespace(prefix).await?;
        namespace.service("shop", SHOP).await?;
        let pods = vec![namespace.pod("a", SHOP).await?, namespace.pod("b", SHOP).await?];
        let ip = namespace.next_address()?;
        let IpAddr::V4(address) = ip else {
            anyhow::bail!("no IPv4 address")
        };
        let site = Self {
            gateway,
            files: Files::serve(&tools::wasm()?, SocketAddr::new(ip, 80)).await?,
            build,
            // Envoys listen at all addresses, so each site needs another port.
            port: 20_000 + u16::from(address.octets()[2]),
            namespace,
            pods,
        };
        site.secret("limpet", "LIMPET_KEY", TEST_KEY).await?;
        Ok(site)
    }

    /// With the objects of module.yaml or wasm.yaml.
    pub(crate) async fn start(prefix: &str, build: Build) -> Result<(Self, Proxy)> {
        let site = Self::prepare(prefix, build).await?;
        site.namespace.apply(&site.manifest(site.example())?).await?;
        let envoy = site.envoy().await?;
        site.until_sessions().await?;
        Ok((site, envoy))
    }

    pub(crate) fn example(&self) -> &'static str {
        match self.build {
            Build::Wasm => "wasm.yaml",
            Build::Module => "module.yaml",
        }
    }

    /// A file of `envoy-configs/envoy-gateway`, with the namespace, the port and the addresses of this site.
    pub(crate) fn manifest(&self, file: &str) -> Result<String> {
        let path = tools::checkout().join("envoy-configs/envoy-gateway").join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = self.namespace.name();
        Ok(text
            .replace("namespace: default", &format!("namespace: {name}"))
            .replace("/default/", &format!("/{name}/"))
            .replace("name: limpet, key: ", &format!("name: {name}-limpet, key: "))
            .replace("port: 80, protocol", &format!("port: {}, protocol", self.port))
            .replace(
                "http://limpet-files.default.svc.cluster.local/limpet.wasm",
                &self.files.url(),
            ))
    }

    /// Creates a Secret named after the test, because all tests' Envoys share a namespace.
    pub(crate) async fn secret(&self, name: &str, key: &str, value: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": format!("{}-{name}", self.namespace.name())},
            "data": {key: BASE64_STANDARD.encode(value)},
        });
        self.gateway.system().apply_object(&secret).await.map(drop)
    }

    /// Starts the Envoy of the Gateway's present Deployment, which may not have its configuration yet.
    pub(crate) async fn envoy(&self) -> Result<Proxy> {
        let files: [(&str, PathBuf); 1] = [(MODULE, tools::module()?)];
        let files = match self.build {
            Build::Wasm => &[][..],
            Build::Module => &files[..],
        };
        self.gateway.envoy(&self.namespace, "web", files).await
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        Request::get(self.address(), path)
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::of(self.address())
    }

    pub(crate) async fn until_sessions(&self) -> Result<()> {
        self.until("a session", |answer| {
            answer.backend().is_some() && answer.set_cookie("limpet-session").is_some()
        })
        .await
    }

    /// Waits until `check` holds for many new visitors, and so for all of Envoy's workers.
    pub(crate) async fn until(&self, what: &str, check: impl Fn(&Answer) -> bool) -> Result<()> {
        let mut last = None;
        let found = poll::until(what, async || {
            for _ in 0..20 {
                last = self.get("/").send().await.ok();
                if !check(last.as_ref()?) {
                    return None;
                }
            }
            Some(())
        })
        .await;
        found.with_context(|| format!("the last answer was {last:?}"))
    }

    pub(crate) async fn session_on(&self, backend: &str) -> Result<Visitor> {
        poll::until(&format!("a session at {backend}"), async || {
            let mut visitor = self.visitor();
            let answer = visitor.get("/").await.ok()?;
            (answer.backend() == Some(backend) && visitor.cookie("limpet-session").is_some()).then_some(visitor)
        })
        .await
    }

    /// Waits for this condition, which Envoy Gateway sets.
    pub(crate) async fn until_policy(&self, kind: &str, name: &str, condition: &str, expected: &str) -> Result<Value> {
        let is_so = |object: &Value| {
            let ancestors = object["status"]["ancestors"].as_array();
            let conditions = ancestors
                .into_iter()
                .flatten()
                .filter_map(|ancestor| ancestor["conditions"].as_array());
            conditions.flatten().any(|found| {
                found["type"] == condition
                    && format!("{}/{}", found["status"], found["reason"]).replace('"', "") == expected
            })
        };
        self.namespace.until(expected, kind, name, is_so).await
    }
}
