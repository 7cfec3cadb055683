//! `make cluster`: keeps a Kubernetes cluster of one node, whose pods run, until Ctrl-C or SIGTERM.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Node, Release};
use limpet_e2e::{first_page, tools};
use limpet_repo_tests::Step;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nThe cluster failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything ends with the namespaces of this program.
async fn run() -> Result<()> {
    let started = Instant::now();
    let node = Node::start().await?;
    node.define(Release::V1_7_0).await?;
    println!(
        "A Kubernetes cluster of one node, ready after {:.1} s.",
        started.elapsed().as_secs_f32()
    );
    print_commands_to_try(&node)?;
    std::future::pending().await
}

fn stage() -> Result<PathBuf> {
    // A folder of e2e/tools/in-node.sh, which goes with the cluster.
    let folder = std::env::temp_dir().join("walk");
    fs::create_dir(&folder)?;
    symlink(tools::checkout().join("controller"), folder.join("controller"))?;
    Ok(folder)
}

fn print_commands_to_try(node: &Node) -> Result<()> {
    let folder = stage()?;
    let namespaces = std::env::var("LIMPET_NAMESPACES").context("LIMPET_NAMESPACES is not set")?;
    let (helm, limpet) = (tools::helm()?, tools::limpet()?);
    let programs = [helm.parent(), limpet.parent()].map(|folder| folder.unwrap_or(Path::new("")).display());
    let [helm, limpet] = programs;
    println!(
        "
In another terminal, as root, first a shell in its network, with kubectl, helm and limpet:

    nsenter {namespaces} bash
    export KUBECONFIG={}
    export PATH={helm}:{limpet}:$PATH
    cd {}

Then the commands of {}. The definitions of the Gateway API {}, the
images and shop.yaml are there already, and controller/deploy/chart is the chart of this checkout:
",
        node.server().admin_kubeconfig()?.display(),
        folder.display(),
        first_page::PAGE,
        Release::V1_7_0.tag(),
    );
    for Step { command, .. } in first_page::steps()? {
        // Downloads and builds are here already.
        if command.contains("https://") || command.starts_with("make ") {
            continue;
        }
        if command.starts_with("cat >") {
            let saved = Command::new("sh")
                .args(["-c", &command])
                .current_dir(&folder)
                .status()?;
            ensure!(saved.success(), "cannot save a file of the page: {saved}");
            continue;
        }
        println!("    {}", command.replace('\n', "\n    "));
    }
    println!(
        "
A load balancer gives each Service of the type LoadBalancer an address of 10.66.250.0/24, which that shell reaches.
There is no registry: pods can have these images, of this checkout's Limpet, the stock Envoy of the tests, the page's
application, and what the node needs. limpet.dev/e2e/backend:1 is a backend at port 8000 that wants POD_NAME.
"
    );
    for image in node.images()? {
        println!("    {image}");
    }
    println!("\nCtrl-C takes all of it away, and so does SIGTERM to make.");
    Ok(())
}
