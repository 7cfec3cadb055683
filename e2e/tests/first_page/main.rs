//! The commands of the first page of docs for Kubernetes, in order, and their output, on a genuine node. It has a node
//! to itself, because it installs the controller under the page's names.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};
use limpet_e2e::kube::{Node, Release};
use limpet_e2e::{first_page, tools};
use limpet_repo_tests::{Step, fits};
use tempfile::TempDir;

/// Without the network: the release's definitions are at hand, and the image is on the node.
const KUBECTL: &str = r#"#!/bin/bash
arguments=()
for argument; do
  case $argument in
    https://*/v1.7.0/experimental-install.yaml) argument=$DEFINITIONS ;;
    https://*) echo "no such address in this test: $argument" >&2; exit 1 ;;
  esac
  arguments+=("$argument")
done
exec "$KUBECTL" "${arguments[@]}"
"#;

/// The image exists already.
const MAKE: &str = "#!/bin/sh\n[ \"$*\" = images ]\n";

#[tokio::test]
async fn the_first_page_prints_what_it_says() -> Result<()> {
    let node = Node::start().await?;
    let folder = stage()?;
    let mut installed = None;
    for step in first_page::steps()? {
        let started = Instant::now();
        run(&node, folder.path(), &step)?;
        println!("{:4.1} s: {}", started.elapsed().as_secs_f32(), step.command);
        if step.command.starts_with("helm install") {
            installed = Some(started);
        }
        if let Some(installed) = installed.filter(|_| step.command.starts_with("curl -si")) {
            println!(
                "{:.1} s from `helm install` to the first answer",
                installed.elapsed().as_secs_f32()
            );
        }
    }
    ensure!(installed.is_some(), "nothing was installed");
    Ok(())
}

/// The commands' files, and stand-ins for programs that would need the network.
fn stage() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let programs = folder.path().join("programs");
    fs::create_dir(&programs)?;
    symlink(tools::checkout().join("controller"), folder.path().join("controller"))?;
    symlink(tools::helm()?, programs.join("helm"))?;
    for (name, script) in [("kubectl", KUBECTL), ("make", MAKE)] {
        let file = programs.join(name);
        fs::write(&file, script)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    }
    let definitions = Release::V1_7_0.definitions()?.into_iter().map(fs::read_to_string);
    let definitions = definitions.collect::<Result<Vec<_>, _>>()?.join("\n---\n");
    fs::write(folder.path().join("definitions.yaml"), definitions)?;
    Ok(folder)
}

fn run(node: &Node, folder: &Path, step: &Step) -> Result<()> {
    let path = std::env::var("PATH")?;
    let kubectl = tools::helm()?.with_file_name("kubectl");
    // Variables stay from one command to the next.
    let script = format!(
        "touch variables; . ./variables\n{}\ncode=$?\ndeclare -p address >variables 2>/dev/null\nexit $code",
        step.command
    );
    let output = Command::new("timeout")
        .args(["400", "bash", "-c", &script])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", folder.join("programs").display()))
        .env("HOME", folder)
        .env("KUBECTL", kubectl)
        .env("KUBECONFIG", node.server().admin_kubeconfig()?)
        .env("DEFINITIONS", folder.join("definitions.yaml"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    ensure!(
        output.status.code() == Some(step.code) && fits(&step.output, &lines),
        "{}:{}: {}\nprints, with {}:\n{said}{}",
        first_page::PAGE,
        step.line,
        step.command,
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
