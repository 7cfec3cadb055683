//! `make demo`.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};

/// The demo uses fixed ports if they are free, so only one can run at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn demo(mode: &str) -> Result<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.env("DEMO", mode).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("cannot start the demo")
}

fn envoy_in(said: &str) -> Result<SocketAddr> {
    let line = said
        .lines()
        .find(|line| line.trim_start().starts_with("Envoy "))
        .context("no line begins with Envoy")?;
    let address = line.split([' ', ',']).find_map(|word| word.parse().ok());
    address.with_context(|| format!("no address in: {line}"))
}

#[track_caller]
fn assert_nothing_is_left(said: &str, address: SocketAddr) {
    assert!(TcpStream::connect(address).is_err(), "Envoy still runs: {said}");
    for line in said.lines().filter(|line| line.trim_start().starts_with("backend ")) {
        let address = line.split(' ').find_map(|word| word.parse::<SocketAddr>().ok());
        assert!(
            address.is_none_or(|address| TcpStream::connect(address).is_err()),
            "still running: {line}"
        );
    }
}

#[test]
fn demo_once_runs_all_steps_and_ends() -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock();
    let output = demo("once")?.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("Every step did what it says."), "{said}");
    assert_nothing_is_left(&said, envoy_in(&said)?);
    Ok(())
}

#[test]
fn the_demo_serves_until_ctrl_c_and_leaves_nothing_behind() -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock();
    let mut demo = demo("")?;
    let mut said = String::new();
    let mut lines = BufReader::new(demo.stdout.take().context("no output")?);
    while !said.contains("Ctrl-C ends the demo.") {
        assert!(lines.read_line(&mut said)? > 0, "the demo ended early: {said}");
    }
    let envoy = envoy_in(&said)?;
    assert!(TcpStream::connect(envoy).is_ok(), "it does not serve");

    let interrupted = Instant::now();
    assert!(
        Command::new("kill")
            .args(["-INT", &demo.id().to_string()])
            .status()?
            .success()
    );
    assert!(demo.wait()?.success());
    assert!(interrupted.elapsed().as_secs() < 5, "Ctrl-C takes too long");
    lines.read_to_string(&mut said)?;
    assert_nothing_is_left(&said, envoy);
    Ok(())
}

#[test]
fn the_demo_uses_free_ports_if_its_own_are_taken() -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock();
    // If this fails, another program has the port.
    let _taken = [10000, 9901, 8082].map(|port| std::net::TcpListener::bind(("127.0.0.1", port)));
    let output = demo("once")?.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for port in [10000, 9901, 8082] {
        assert!(said.contains(&format!("port {port} is taken")), "{said}");
    }
    assert_ne!(envoy_in(&said)?.port(), 10000);
    Ok(())
}

#[test]
fn the_demo_ends_with_an_error_if_a_step_fails() -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock();
    // This file is no filter, so Envoy does not start.
    let demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .env("DEMO", "once")
        .env("LIMPET_WASM", "Cargo.toml")
        .env("LIMPET_MODULE", "Cargo.toml")
        .output()?;
    assert!(!demo.status.success());
    assert!(String::from_utf8_lossy(&demo.stderr).contains("The demo failed"));
    Ok(())
}
