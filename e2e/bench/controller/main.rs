//! What the controller costs with many objects. Each part and size is measured in its own process, so that its memory
//! can be measured:
//!
//! - `pure`: only the build, of so many rules. `stream`: the xDS server with a client, too. `cluster`: the whole
//!   controller with an API server.
//! - `routes`: what each change costs the whole controller, with so many routes.
//! - `gateways`: so many Gateways with three Envoys each: whom a change wakes, a start of all, statuses.
//! - `peer`: Limpet and Envoy Gateway on the same objects.
//! - `stalls`: the worst latency of an Envoy's traffic while one of so many hosts changes each second.
//! - `envoy`: what so many routes take of an Envoy's memory.

mod catalog;
mod changes;
mod client;
mod cluster;
mod envoy;
mod gateways;
mod objects;
mod peer;
mod pure;
mod report;
mod routes;
mod stalls;
mod stream;
mod subject;

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use objects::GeneratedObjects;

/// Needs an Envoy Gateway.
const PEER: &str = "peer";

/// The parts, and the sizes that each is measured with.
const PARTS: [(&str, &[usize]); 8] = [
    ("pure", &[500, 5_000, 20_000]),
    ("stream", &[500, 5_000, 20_000]),
    ("cluster", &[500, 5_000, 20_000]),
    ("routes", &[500, 2_000, 20_000]),
    ("gateways", &[100]),
    ("stalls", &[5_000]),
    ("envoy", &[500]),
    (PEER, &[2_000]),
];

fn main() -> Result<()> {
    // `cargo bench` adds an argument.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", part, size] => return run(part, size.parse().context("which size?")?),
        [] => {
            for (part, sizes) in PARTS.iter().filter(|(part, _)| *part != PEER) {
                for size in *sizes {
                    measure(part, *size)?;
                }
            }
        }
        [part, sizes @ ..] => {
            let known = PARTS.iter().find(|(known, _)| known == part);
            let (part, usual) = known.with_context(|| format!("expected one of {PARTS:?}, found {part}"))?;
            let sizes = sizes
                .iter()
                .map(|size| size.parse())
                .collect::<Result<Vec<usize>, _>>()?;
            for size in if sizes.is_empty() { usual } else { sizes.as_slice() } {
                measure(part, *size)?;
            }
        }
    }
    Ok(())
}

fn measure(part: &str, size: usize) -> Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .args(["run", part, &size.to_string()])
        .status()?;
    ensure!(status.success(), "{part} {size} failed");
    Ok(())
}

fn run(part: &str, size: usize) -> Result<()> {
    let generated = GeneratedObjects {
        rules: size,
        name: "bench".to_owned(),
        controller_name: limpet_model::CONTROLLER_NAME.to_owned(),
    };
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match part {
        "pure" => pure::run(&generated),
        "stream" => runtime()?.block_on(stream::run(&generated)),
        "cluster" => runtime()?.block_on(cluster::run(size)),
        "routes" => runtime()?.block_on(routes::run(size)),
        "gateways" => runtime()?.block_on(gateways::run(size)),
        PEER => runtime()?.block_on(peer::run(size)),
        "stalls" => runtime()?.block_on(stalls::run(size)),
        "envoy" => runtime()?.block_on(envoy::run(size)),
        other => bail!("there is no part {other}"),
    }
}
