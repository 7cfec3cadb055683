//! What the controller costs with many rules: only the build, the xDS server with a client, and the whole controller
//! with an API server.
//!
//! Each part and size is measured in its own process, so that its memory can be measured.

mod changes;
mod client;
mod cluster;
mod objects;
mod pure;
mod report;
mod stream;

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use objects::GeneratedObjects;

const SIZES: [usize; 3] = [500, 5_000, 20_000];

fn main() -> Result<()> {
    // `cargo bench` adds an argument.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            for part in ["pure", "stream", "cluster"] {
                for rules in SIZES {
                    measure(part, rules)?;
                }
            }
            Ok(())
        }
        [part, rules] => run(part, rules.parse().context("how many rules?")?),
        _ => bail!("expected nothing, or a part (pure, stream, cluster) and the number of rules"),
    }
}

fn measure(part: &str, rules: usize) -> Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .args([part, &rules.to_string()])
        .status()?;
    ensure!(status.success(), "{part} with {rules} rules failed");
    Ok(())
}

fn run(part: &str, rules: usize) -> Result<()> {
    let generated = GeneratedObjects {
        rules,
        name: "bench".to_owned(),
        controller_name: limpet_model::CONTROLLER_NAME.to_owned(),
    };
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match part {
        "pure" => pure::run(&generated),
        "stream" => runtime()?.block_on(stream::run(&generated)),
        "cluster" => runtime()?.block_on(cluster::run(rules)),
        other => bail!("expected pure, stream or cluster, found {other}"),
    }
}
