//! The controller's own authority in a Secret, its certificates for Gateways in others, and the Gateway that an Envoy
//! gets by its certificate.

mod broken;
mod contour;
mod permission;
mod rotation;

use std::fs;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::tools;
use limpet_model::envoys_certificate;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::failures::objects;
use crate::mounted::Mounted;

const AUTHORITY: &str = "limpet-xds-authority";

struct AuthoritySite {
    namespace: Namespace,
    controller: Controller,
    _pods: [Pod; 2],
}

impl AuthoritySite {
    /// `authority` is a section of the controller's configuration.
    async fn start(prefix: &str, authority: Value) -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_2_1).await?;
        let namespace = cluster.namespace(prefix).await?;
        let pods = objects(&namespace).await?;
        let controller = replica(cluster, &namespace, authority).await?;
        Ok(Self {
            namespace,
            controller,
            _pods: pods,
        })
    }

    fn secret(&self, gateway: &str) -> String {
        envoys_certificate(&ObjectName::new(self.namespace.name(), gateway))
    }

    /// An Envoy of `gateway` with the certificate for the Envoys of `of`.
    async fn envoy(&self, gateway: &str, of: &str) -> Result<TlsEnvoy> {
        TlsEnvoy::start(self, gateway, of, self.controller.xds(), "DELTA_GRPC").await
    }
}

async fn replica(cluster: &Cluster, namespace: &Namespace, authority: Value) -> Result<Controller> {
    Controller::start(cluster.server(), namespace, |config| {
        config["xds"] = json!({"address": config["xds"]["address"], "tls": {"authority": authority}});
    })
    .await
}

struct TlsEnvoy {
    proxy: Proxy,
    _mounted: Mounted,
    _folder: TempDir,
}

impl TlsEnvoy {
    async fn start(site: &AuthoritySite, gateway: &str, of: &str, xds: SocketAddr, protocol: &str) -> Result<Self> {
        let (namespace, controller) = (&site.namespace, &site.controller);
        let folder = TempDir::with_prefix("limpet-e2e-")?;
        let mounted = Mounted::new(namespace, &site.secret(of), &folder.path().join("xds")).await?;
        let etc = folder.path().join("etc").display().to_string();
        let [ca, certificate, key] = ["ca.crt", "tls.crt", "tls.key"].map(|name| mounted.file(name));
        let (gateway, xds) = (format!("{}/{gateway}", namespace.name()), xds.to_string());
        let host = format!("limpet-controller.{}.svc", namespace.name());
        let mut arguments = vec!["controller", "bootstrap", "--gateway", &gateway, "--xds", &xds];
        arguments.extend(["--node-id", of, "--admin-port", "0", "--server-name", &host]);
        arguments.extend(["--ca", &ca, "--certificate", &certificate, "--key", &key]);
        arguments.extend(["--write", &etc]);
        let output = tools::run_limpet(&arguments, &[])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bootstrap = fs::read_to_string(folder.path().join("etc/envoy.yaml"))?;
        ensure!(bootstrap.contains("DELTA_GRPC"), "{bootstrap}");
        let kek = controller.key_encryption_key();
        let proxy = Proxy::start(&bootstrap.replace("DELTA_GRPC", protocol), &[(&kek.variable, &kek.key)]).await?;
        Ok(Self {
            proxy,
            _mounted: mounted,
            _folder: folder,
        })
    }
}
