//! The command needs only a kernel.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use goblin::elf::Elf;
use limpet_e2e::{poll, tools};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::dns;

const NAMES: Ipv4Addr = Ipv4Addr::new(10, 66, 53, 53);
const API_SERVER: Ipv4Addr = Ipv4Addr::new(10, 66, 64, 43);

/// A directory with only the command.
fn empty_root() -> Result<TempDir> {
    let root = TempDir::new()?;
    fs::copy(tools::limpet()?, root.path().join("limpet"))?;
    Ok(root)
}

fn within(root: &Path) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root).arg("/limpet");
    command
}

#[test]
fn the_command_is_a_static_program() -> Result<()> {
    let file = fs::read(tools::limpet()?)?;
    let elf = Elf::parse(&file)?;
    ensure!(elf.interpreter.is_none(), "it is started by {:?}", elf.interpreter);
    ensure!(elf.libraries.is_empty(), "it needs {:?}", elf.libraries);
    ensure!(elf.dynamic.is_none(), "it is linked when it starts");
    Ok(())
}

#[test]
fn the_command_runs_where_there_are_no_files() -> Result<()> {
    let root = empty_root()?;
    let output = within(root.path()).arg("--version").output()?;
    ensure!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout)?;
    ensure!(said.starts_with("limpet "), "{said}");
    Ok(())
}

#[tokio::test]
async fn the_command_finds_a_server_by_its_name() -> Result<()> {
    const NAME: &str = "api.limpet.example";
    let root = empty_root()?;
    fs::create_dir(root.path().join("etc"))?;
    fs::write(root.path().join("etc/resolv.conf"), format!("nameserver {NAMES}\n"))?;
    // As for a service account. Without it, the system's authorities, which are missing, would be read.
    let authority = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    fs::write(root.path().join("ca.crt"), authority.cert.pem())?;
    let kubeconfig = format!(
        "clusters: [{{name: a, cluster: {{server: 'https://{NAME}:6443', certificate-authority: /ca.crt}}}}]\n\
        contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
        users: [{{name: a, user: {{}}}}]\n\
        current-context: a\n"
    );
    fs::write(root.path().join("kubeconfig"), kubeconfig)?;
    dns::serve(NAMES, NAME, API_SERVER).await?;
    let server = TcpListener::bind((API_SERVER, 6443)).await?;

    let mut asking = within(root.path())
        .args(["migrate", "policies", "--kubeconfig", "/kubeconfig"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let connected = poll::patiently("a connection", async { Ok(server.accept().await?) }).await;
    asking.kill()?;
    let said = asking.wait_with_output()?.stderr;
    connected.with_context(|| String::from_utf8_lossy(&said).into_owned())?;
    Ok(())
}
