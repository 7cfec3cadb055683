//! How many instructions the filter's work takes: operations of the core, and whole requests of the dynamic module,
//! whose hooks a small host (`host.c`) calls as Envoy does. The same code has the same figures on a busy machine.
//!
//! - `limpet-bench-instructions HOST LIBRARY` counts everything and compares it with `figures.json`.
//! - `limpet-bench-instructions run NAME COUNT` does one operation of the core that many times, which is what is
//!   counted.

mod count;
mod exchange;
mod figures;
mod operations;

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The names of the module's requests, in figures and for the host.
const REQUESTS: [(&str, &str); 3] = [
    ("module: request in the steady state", "steady"),
    ("module: first request", "first"),
    ("module: request with a refused token", "refused"),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [host, library] => measure(host, library),
        ["run", name, count] => {
            let known = operations::ALL.iter().find(|(known, _)| known == name);
            let (_, operation) = known.with_context(|| format!("there is no operation {name}"))?;
            operation(count.parse()?)
        }
        _ => bail!("expected HOST LIBRARY, or run NAME COUNT"),
    }
}

fn measure(host: &str, library: &str) -> Result<()> {
    let program = std::env::current_exe()?;
    let program = program.to_str().context("a path in UTF-8")?;
    let mut figures = figures::Figures::new();
    for (name, _) in operations::ALL {
        figures.insert(name.to_owned(), count::count(&[program, "run", name])?);
    }
    for (name, kind) in REQUESTS {
        figures.insert(name.to_owned(), count::count(&[host, library, kind])?);
    }
    let tools = [
        version("rustc")?,
        version("valgrind")?,
        std::env::consts::ARCH.to_owned(),
    ]
    .join(", ");
    if std::env::var_os("UPDATE_INSTRUCTIONS").is_some() {
        figures::write(&figures, &tools)?;
    }
    figures::compare(&figures, &tools)
}

fn version(program: &str) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| program.to_owned())?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
