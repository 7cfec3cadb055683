//! `limpet render --write-xds` writes a folder that an Envoy discovers its configuration from. This needs no cluster,
//! but an Envoy that reads unchanged files.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Proxy;
use limpet_e2e::{Backend, Build, Visitor, poll, tools};
use serde_json::json;

fn site_objects(port: u16, backends: &[Backend]) -> String {
    let slice = |(number, backend): (usize, &Backend)| {
        let address = backend.address();
        format!(
            "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: shop, name: v1-{number}, labels: {{kubernetes.io/service-name: v1}}}}
addressType: IPv4
ports: [{{name: '', port: {}}}]
endpoints: [{{addresses: [{}]}}]
---",
            address.port(),
            address.ip()
        )
    };
    let slices: Vec<String> = backends.iter().enumerate().map(slice).collect();
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: limpet}}
spec: {{controllerName: limpet.dev/controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: {port}, protocol: HTTP}}]}}
---
apiVersion: v1
kind: Service
metadata: {{namespace: shop, name: v1}}
spec: {{ports: [{{port: 80}}]}}
---{}
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: shop, name: shop}}
spec: {{parentRefs: [{{name: web}}], rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]}}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{namespace: shop, name: sticky}}
spec: {{targetRefs: [{{group: '', kind: Service, name: v1}}], sessionPersistence: {{sessionName: sid}}}}
",
        slices.concat()
    )
}

#[tokio::test]
async fn an_envoy_runs_from_a_folder_and_sees_it_change() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let filter = match Build::tested()? {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"file": tools::module()?}}),
    };
    let config = json!({"envoy": {"filter": filter, "listenAddress": "127.0.0.1"}});
    std::fs::write(path("controller.json"), config.to_string())?;
    let backends = [Backend::start("a")?, Backend::start("b")?, Backend::start("c")?];
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let write = |backends: &[Backend]| {
        std::fs::write(path("site.yaml"), site_objects(port, backends))?;
        let (site, config, xds) = (path("site.yaml"), path("controller.json"), path("xds"));
        let arguments = [
            "render",
            "-f",
            &site,
            "--config",
            &config,
            "--write-xds",
            &xds,
            "--admin-port",
            "0",
        ];
        let output = tools::run_limpet(&arguments, &[])?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    };
    write(&backends)?;
    let key = tools::run_limpet(&["keys", "generate"], &[])?;
    let key = String::from_utf8(key.stdout)?;
    let bootstrap = std::fs::read_to_string(path("xds/bootstrap.yaml"))?;
    let mut envoy = Proxy::start(&bootstrap, &[("LIMPET_KEY", key.trim())]).await?;
    envoy.until_ready().await?;
    let mut visitor = Visitor::of(envoy.listener(&format!("http-{port}")).await?);
    let first = visitor.get("/").await?.backend().context("no backend")?.to_owned();
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some(first.as_str()));
    }
    assert_eq!(visitor.cookie_names(), ["sid"]);

    // The session's backend is removed: the session moves.
    let rest: Vec<Backend> = backends.into_iter().filter(|backend| backend.name() != first).collect();
    write(&rest)?;
    let moved = async || {
        let backend = visitor.get("/").await.ok()?.backend()?.to_owned();
        (backend != first).then_some(backend)
    };
    let second = poll::until("another backend", moved).await?;
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some(second.as_str()));
    }
    Ok(())
}
