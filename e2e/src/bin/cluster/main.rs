//! `make cluster`: starts a Kubernetes cluster of one node, whose pods run, and keeps it until Ctrl-C or SIGTERM.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Node, Release};

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

/// Everything ends with the namespaces that this runs in, by whatever ends it.
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

fn print_commands_to_try(node: &Node) -> Result<()> {
    let kubeconfig = node.server().admin_kubeconfig()?;
    let namespaces = std::env::var("LIMPET_NAMESPACES").context("LIMPET_NAMESPACES is not set")?;
    println!(
        "
It has the definitions of the Gateway API {}. In another terminal, as root:

    alias k='nsenter {namespaces} kubectl --kubeconfig {}'
    k get pods -A
    k apply -k controller/deploy && k apply -k controller/deploy/envoy
    k -n limpet-system get pods -w

Its images, and no others: limpet:0.1.0 and envoyproxy/envoy:distroless-v1.40.0 of the manifests, with what this
checkout built and the Envoy of the tests, and limpet.dev/e2e/backend:1, a backend at port 8000 that wants POD_NAME.
Ctrl-C takes all of it away, and so does SIGTERM to make.",
        Release::V1_7_0.tag(),
        kubeconfig.display()
    );
    Ok(())
}
