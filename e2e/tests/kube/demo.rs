//! `make demo-kube`. Each run starts its own cluster: the demo has to start and end one, also when a later step fails.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

fn demo(mode: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo-kube"));
    command.env("DEMO", mode);
    command
}

fn address_in(said: &str, beginning: &str) -> Result<SocketAddr> {
    let mut lines = said.lines().filter(|line| line.trim_start().starts_with(beginning));
    let line = lines.next().with_context(|| format!("no line {beginning}: {said}"))?;
    let mut words = line.split([' ', ',', '/']).filter_map(|word| word.parse().ok());
    words.next().with_context(|| format!("no address in: {line}"))
}

#[test]
fn demo_once_runs_all_steps_and_ends() -> Result<()> {
    let output = demo("once").output()?;
    let said = String::from_utf8(output.stdout)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");
    assert!(said.contains("Every step did what it says."), "{said}");
    assert!(said.contains("type: Programmed"), "{said}");
    for server in ["API server", "Envoy", "pod v2-b"] {
        let address = address_in(&said, server)?;
        assert!(TcpStream::connect(address).is_err(), "{server} still runs: {said}");
    }
    Ok(())
}

#[test]
fn the_demo_serves_until_ctrl_c_and_leaves_nothing_behind() -> Result<()> {
    let mut demo = demo("").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut said = String::new();
    let mut lines = BufReader::new(demo.stdout.take().context("no output")?);
    while !said.contains("Ctrl-C ends the demo.") {
        if lines.read_line(&mut said)? == 0 {
            let mut complaint = String::new();
            demo.stderr
                .take()
                .context("no errors")?
                .read_to_string(&mut complaint)?;
            bail!("the demo ended early: {said}\n{complaint}");
        }
    }
    let (envoy, server) = (address_in(&said, "Envoy")?, address_in(&said, "API server")?);
    for address in [envoy, server] {
        assert!(TcpStream::connect(address).is_ok(), "{address} does not serve");
    }
    let kubeconfig = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("export KUBECONFIG="));
    let kubeconfig = Path::new(kubeconfig.context("no KUBECONFIG")?);
    assert!(std::fs::read_to_string(kubeconfig)?.contains(&server.to_string()));

    let interrupted = Instant::now();
    let interrupt = Command::new("kill").args(["-INT", &demo.id().to_string()]).status()?;
    assert!(interrupt.success());
    assert!(demo.wait()?.success());
    assert!(interrupted.elapsed().as_secs() < 5, "Ctrl-C takes too long");
    for address in [envoy, server] {
        assert!(TcpStream::connect(address).is_err(), "{address} still serves");
    }
    assert!(!kubeconfig.exists(), "{} was not removed", kubeconfig.display());
    Ok(())
}

#[test]
fn the_demo_ends_with_an_error_if_a_step_fails() -> Result<()> {
    // This file is not an Envoy.
    let output = demo("once").env("ENVOY_BIN", "Cargo.toml").output()?;
    assert!(!output.status.success());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("The demo failed: cannot start envoy"), "{complaint}");
    Ok(())
}
