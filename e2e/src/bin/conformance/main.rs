//! `make conformance`: runs the Gateway API's own conformance suite on a genuine node, in which Helm has installed
//! Limpet, and writes the suite's report into docs/conformance.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Node;
use limpet_e2e::{Build, helm, tools};

/// The `GatewayClass`: a release's is called as the release.
const CLASS: &str = "limpet";

/// There is no load balancer here, so Gateways are reached at the addresses of their Services in the cluster. The
/// suite's certificates are in namespaces of its own.
const VALUES: &str = "
crds: {install: false}
certificates: {namespaces: ['*']}
authorities: {namespaces: ['*']}
config: {envoy: {managed: {defaults: {replicas: 1, filter: FILTER, service: {type: ClusterIP}}}}}
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe conformance suite failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything ends with the namespaces that this runs in, by whatever ends it.
async fn run() -> Result<()> {
    let (filter, file) = match Build::tested()? {
        Build::Wasm => ("Wasm", "wasm.yaml"),
        Build::Module => ("Module", "module.yaml"),
    };
    let node = Node::start().await?;
    node.admin().define_all(&definitions()?).await?;
    // Without BackendLBPolicy, which is of an older release: the suite wants all definitions to be of its own.
    let envoys = tools::checkout().join("controller/deploy/crds/envoydeployments.yaml");
    node.admin().define_all(&[envoys]).await?;
    install(&node, filter)?;
    let report = tools::checkout().join("docs/conformance").join(file);
    println!("Running the conformance suite (2 minutes)");
    // What the status of the class claims is what is tested.
    let status = Command::new(tools::conformance()?)
        .env("KUBECONFIG", node.server().admin_kubeconfig()?)
        .args(["-test.v", "-test.timeout=90m", "-test.run=^TestConformance$"])
        .arg(format!("-gateway-class={CLASS}"))
        .arg("-conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC")
        .args(["-organization=limpet", "-project=limpet", "-url=https://limpet.dev"])
        .args(["-contact=SECURITY.md", concat!("-version=", env!("CARGO_PKG_VERSION"))])
        .arg(format!("-report-output={}", report.display()))
        .args(std::env::args_os().skip(1))
        .status()?;
    ensure!(status.success(), "{status}");
    println!("The report is in {}.", report.display());
    Ok(())
}

/// The definitions of the suite's release, experimental channel.
fn definitions() -> Result<Vec<PathBuf>> {
    let directory = tools::conformance_crds()?;
    let entries = std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|file| !file.ends_with("kustomization.yaml"));
    files.sort();
    Ok(files)
}

fn install(node: &Node, filter: &str) -> Result<()> {
    let values = tempfile::NamedTempFile::new()?;
    std::fs::write(values.path(), VALUES.replace("FILTER", filter))?;
    let kubeconfig = node.server().admin_kubeconfig()?;
    let said = helm::run(&[
        "install",
        CLASS,
        text(&helm::chart())?,
        "--namespace=limpet-system",
        "--create-namespace",
        "--wait",
        "--values",
        text(values.path())?,
        "--kubeconfig",
        text(&kubeconfig)?,
    ])?;
    println!("{said}");
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}
