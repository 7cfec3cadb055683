//! `limpet render`: what it writes is what Envoy takes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Backend, Build, Config, Envoy, Visitor, poll, tools};
use serde_json::{Value, json};

/// The controller's golden cases.
fn cases() -> Result<Vec<PathBuf>> {
    let folder = tools::checkout().join("controller/tests/golden/cases");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        cases.push(entry?.path());
    }
    cases.sort();
    Ok(cases)
}

/// The controller's configuration, with the build under test.
fn configuration(folder: &Path, defaults: Option<&Value>) -> Result<PathBuf> {
    let filter = match Build::tested()? {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"name": "limpet"}}),
    };
    let mut config = json!({"envoy": {"filter": filter, "listenAddress": "127.0.0.1"}});
    if let Some(defaults) = defaults {
        config["sessionDefaults"] = defaults.clone();
    }
    let file = folder.join("controller.json");
    std::fs::write(&file, config.to_string())?;
    Ok(file)
}

/// Runs `limpet render` with these arguments: its exit code, and the report.
fn render(arguments: &[&str]) -> Result<(Option<i32>, Value)> {
    let arguments: Vec<&str> = ["render", "--format", "json"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    let output = tools::run_limpet(&arguments, &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).with_context(|| format!("{arguments:?}: {said}"))?;
    Ok((output.status.code(), report))
}

#[test]
fn envoy_accepts_every_golden_case() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for case in cases()? {
        let defaults: Option<Value> = match std::fs::read_to_string(case.join("config.yaml")) {
            Ok(text) => Some(serde_saphyr::from_str(&text)?),
            Err(_) => None,
        };
        let config = configuration(folder.path(), defaults.as_ref())?;
        let envoy = folder.path().join("envoy.json");
        let (input, config, file) = (
            case.join("in.yaml"),
            config.to_string_lossy().into_owned(),
            envoy.to_string_lossy(),
        );
        let (code, report) = render(&["-f", &input.to_string_lossy(), "--config", &config, "--envoy", &file])?;
        ensure!(
            code == Some(0) || code == Some(1),
            "{}: {code:?} {report}",
            case.display()
        );
        let made: Value = serde_json::from_slice(&std::fs::read(&envoy)?)?;
        let (accepted, said) = Envoy::validate(&Config::made(made).build(Build::tested()?))?;
        ensure!(accepted, "{}: {said}", case.display());
    }
    Ok(())
}

#[test]
fn the_exit_code_tells_whether_all_was_accepted() -> Result<()> {
    let input = |case: &str| format!("controller/tests/golden/cases/{case}/in.yaml");
    assert_eq!(render(&["-f", &input("policy-cookie")])?.0, Some(0));
    for case in ["bad-objects", "policies-in-conflict", "split-with-invalid-backend"] {
        assert_eq!(render(&["-f", &input(case)])?.0, Some(1), "{case}");
    }
    let missing = tools::run_limpet(&["render", "-f", "no-such-file.yaml"], &[])?;
    assert_eq!(missing.status.code(), Some(2));
    Ok(())
}

/// A Gateway, a route and a policy, and a Service with these backends.
fn site(port: u16, backends: &[Backend]) -> String {
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

/// An Envoy takes everything from the folder, and sees it change.
#[tokio::test]
async fn an_envoy_runs_from_a_folder_and_sees_it_change() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let config = configuration(folder.path(), None)?.to_string_lossy().into_owned();
    let backends = [Backend::start("a")?, Backend::start("b")?, Backend::start("c")?];
    let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let write = |backends: &[Backend]| {
        std::fs::write(folder.path().join("site.yaml"), site(port, backends))?;
        let (code, report) = render(&["-f", &path("site.yaml"), "--config", &config, "--xds", &path("xds")])?;
        ensure!(code == Some(0), "{report}");
        Ok(())
    };
    write(&backends)?;
    let bootstrap: Value = serde_saphyr::from_str(&std::fs::read_to_string(folder.path().join("xds/bootstrap.yaml"))?)?;
    let envoy = Envoy::start(Config::made(bootstrap)).await?;
    let mut visitor = Visitor::of(envoy.listener(&format!("http-{port}"))?);
    let first = visitor.get("/").await?.backend().context("no backend")?.to_owned();
    for _ in 0..10 {
        assert_eq!(visitor.get("/").await?.backend(), Some(first.as_str()));
    }
    assert_eq!(visitor.cookie_names(), ["sid"]);

    // The session's backend leaves: the session goes on elsewhere.
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
