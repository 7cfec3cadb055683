//! The demo's backends and Envoy, at the ports of `envoy-configs/cookie.yaml` if free.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Backend, Build, Config, Envoy, Visitor, tools};

fn config_of(build: Build) -> &'static str {
    match build {
        Build::Wasm => "cookie.yaml",
        Build::Module => "module.yaml",
    }
}

const WEB: u16 = 10000;
const ADMIN: u16 = 9901;
const BACKENDS: [(&str, u16); 3] = [("a", 8081), ("b", 8082), ("c", 8083)];

pub(crate) struct Setup {
    pub(crate) backends: [Backend; 3],
    pub(crate) envoy: Envoy,
    pub(crate) config: String,
    key: String,
}

impl Setup {
    pub(crate) async fn start() -> Result<Self> {
        println!("Three backends, and a stock Envoy in front of them:");
        let start = |(name, port)| Backend::start_at(name, local(free(port)));
        let [a, b, c] = BACKENDS;
        let backends = [start(a)?, start(b)?, start(c)?];
        let key = limpet(&["keys", "generate"], &[])?.trim().to_owned();
        let file = config_of(Build::tested()?);
        let config = Config::load(file)?
            .backends(&backends)
            .env("LIMPET_KEY", &key)
            .port(free(WEB))
            .admin_port(free(ADMIN));
        let envoy = Envoy::start(config).await?;
        for backend in &backends {
            println!("  backend {} at {}", backend.name(), backend.address());
        }
        let config = format!("envoy-configs/{file}");
        println!("  Envoy     at {}, with {config}", envoy.address());
        println!("  Envoy's environment has a new key from `limpet keys generate`");
        Ok(Self {
            backends,
            envoy,
            config,
            key,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.envoy.address())
    }

    pub(crate) fn visitor(&self) -> Visitor {
        Visitor::new(&self.envoy)
    }

    pub(crate) fn backend_of(&mut self, answer: &Answer) -> Result<&mut Backend> {
        let backend = self
            .backends
            .iter_mut()
            .find(|backend| answer.backend() == Some(backend.name()));
        backend.context("no backend answered")
    }

    pub(crate) fn restart_backends(&mut self) -> Result<()> {
        self.backends
            .iter_mut()
            .filter(|backend| !backend.is_running())
            .try_for_each(Backend::restart)
    }

    pub(crate) fn inspect(&self, token: &str, with_key: bool) -> Result<String> {
        let mut arguments = vec!["token", "inspect", token];
        if with_key {
            arguments.extend(["--config", &self.config]);
        }
        limpet(&arguments, &[("LIMPET_KEY", &self.key)])
    }
}

/// The port, or 0 (any free port) if it is taken.
fn free(port: u16) -> u16 {
    if TcpListener::bind(local(port)).is_ok() {
        return port;
    }
    println!("  port {port} is taken by another program; using a free one");
    0
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn limpet(arguments: &[&str], env: &[(&str, &str)]) -> Result<String> {
    let Output { status, stdout, stderr } = tools::run_limpet(arguments, env)?;
    // 1: without the key, no token is verified.
    ensure!(
        matches!(status.code(), Some(0 | 1)),
        "limpet {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&stderr)
    );
    Ok(String::from_utf8(stdout)?)
}
