//! `make conformance`: runs the Gateway API's conformance suite on a genuine node with Limpet from Helm, and writes its
//! report into design/conformance, after tests of session persistence in the suite's form on a node with a newer
//! release.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Node;
use limpet_e2e::{Build, helm, tools};

/// The `GatewayClass`, named as the Helm release.
const CLASS: &str = "limpet";

/// Without a load balancer, Gateways have cluster addresses. The suite's certificates are in its own namespaces.
const VALUES: &str = "
crds: {install: false}
certificates: {namespaces: ['*']}
authorities: {namespaces: ['*']}
xbackends: {namespaces: ['*']}
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

/// Everything ends with the namespaces of this program.
async fn run() -> Result<()> {
    let (filter, file) = match Build::tested()? {
        Build::Wasm => ("Wasm", "wasm.yaml"),
        Build::Module => ("Module", "module.yaml"),
    };
    // The tests of session persistence are about another release than the suite.
    let (program, directory) = tools::persistence()?;
    let persistence = Tests {
        program,
        definitions: definitions(&directory)?,
        name: "TestSessionPersistence",
        what: "the tests of session persistence (2 minutes)",
        arguments: Vec::new(),
    };
    let report = tools::checkout().join("design/conformance").join(file);
    let mut arguments = vec![
        "-conformance-profiles=GATEWAY-HTTP,GATEWAY-GRPC".to_owned(),
        "-organization=limpet".to_owned(),
        "-project=limpet".to_owned(),
        "-url=https://limpet.dev".to_owned(),
        "-contact=SECURITY.md".to_owned(),
        concat!("-version=", env!("CARGO_PKG_VERSION")).to_owned(),
        format!("-report-output={}", report.display()),
    ];
    arguments.extend(std::env::args().skip(1));
    let suite = Tests {
        program: tools::conformance()?,
        definitions: definitions(&tools::conformance_crds()?)?,
        name: "TestConformance",
        what: "the conformance suite (2 minutes)",
        arguments,
    };
    persistence.run(filter).await?;
    suite.run(filter).await?;
    println!("The report is in {}.", report.display());
    Ok(())
}

/// Tests on their own node.
struct Tests {
    program: PathBuf,
    definitions: Vec<PathBuf>,
    name: &'static str,
    what: &'static str,
    arguments: Vec<String>,
}

impl Tests {
    async fn run(&self, filter: &str) -> Result<()> {
        let node = Node::start().await?;
        node.admin().define_all(&self.definitions).await?;
        // Without BackendLBPolicy, of an older release: the suite wants only its own definitions.
        let envoys = tools::checkout().join("controller/deploy/crds/envoydeployments.yaml");
        node.admin().define_all(&[envoys]).await?;
        install(&node, filter)?;
        println!("Running {}", self.what);
        // It tests the features that the class's status claims.
        let status = Command::new(&self.program)
            .env("KUBECONFIG", node.server().admin_kubeconfig()?)
            .args(["-test.v", "-test.timeout=90m"])
            .arg(format!("-test.run=^{}$", self.name))
            .arg(format!("-gateway-class={CLASS}"))
            .args(&self.arguments)
            .status()?;
        ensure!(status.success(), "{}: {status}", self.name);
        Ok(())
    }
}

fn definitions(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
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
