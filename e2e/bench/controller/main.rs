//! What the controller costs with many rules: the build alone, the xDS server with a client, and all of it with an API server.
//!
//! Each part and size is measured in a process of its own, so that its memory is its own.

mod changes;
mod client;
mod cluster;
mod objects;
mod pure;
mod report;
mod stream;

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use objects::Site;

const SIZES: [usize; 3] = [500, 5_000, 20_000];

fn main() -> Result<()> {
    // `cargo bench` adds a word of its own.
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
    let site = Site {
        rules,
        name: "bench".to_owned(),
        controller_name: limpet_model::CONTROLLER_NAME.to_owned(),
    };
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match part {
        "pure" => pure::run(&site),
        "stream" => runtime()?.block_on(stream::run(&site)),
        "cluster" => runtime()?.block_on(cluster::run(rules)),
        other => bail!("expected pure, stream or cluster, found {other}"),
    }
}
