//! A stock Envoy that this process's xDS server configures, and requests through it.

mod control_plane;
mod extension_config;
mod order;
mod preflight;
mod refusals;
mod resources;
mod restart;
mod rotation;
mod silent;
mod updates;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;
use limpet_e2e::kube::Proxy;
use limpet_e2e::{Answer, Backend, Connection, Request, Tls, poll};
use limpet_resources::Resources;

use self::control_plane::{BOTH, ControlPlane, GROUP, bootstrap};
use crate::certificates::Authority;

const CONNECT_TIMEOUT: u8 = 1;

struct XdsSite {
    backends: [Backend; 3],
    resources: Resources,
    tls: Tls,
}

impl XdsSite {
    /// A listener `web` whose routes lead to cluster `a`, which is backend a. The filter adds `one`.
    fn new() -> Result<Self> {
        let backends = Backend::three()?;
        let authority = Authority::new("authority")?;
        let certificate = authority.sign("web.example")?;
        let resources = [
            resources::cluster("a", CONNECT_TIMEOUT),
            resources::endpoints("a", &[backends[0].address()]),
            resources::secret("certificate", &certificate),
            resources::filter("greeting", "one"),
            resources::listener("web", "routes", "certificate", "greeting"),
            resources::routes("routes", "a", false),
        ];
        Ok(Self {
            backends,
            resources: resources.into_iter().collect(),
            tls: Tls::new(&authority.certificate, "web.example")?,
        })
    }

    async fn get(&self, envoy: SocketAddr) -> Result<Answer> {
        let mut connection = Connection::open_tls(envoy, &self.tls, false).await?;
        connection.send(Request::get(envoy, "/")).await
    }

    async fn until_from(&self, envoy: SocketAddr, backend: &str) -> Result<()> {
        poll::until(&format!("an answer from backend {backend}"), async || {
            let answer = self.get(envoy).await.ok()?;
            (answer.backend() == Some(backend)).then_some(())
        })
        .await
    }
}

async fn updates(envoy: &Proxy) -> Result<BTreeMap<String, u64>> {
    envoy.admin().stats("update_(success|rejected)$").await
}
