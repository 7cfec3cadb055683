use clap::Args;

use crate::exit::EXIT_CODES;

/// Check configurations of the filter, and of Envoy with the filter inside
///
/// A file is a configuration of the filter (JSON or YAML), or one of Envoy: a bootstrap, listeners, routes, or the
/// file from which Envoy discovers the filter's configuration. The command reports every problem with its place in the
/// file and the path of the field. In Envoy's configuration it also checks the chain around the filter and the sessions
/// of the routes.
///
/// It prints errors first, then warnings, what was not checked, and one verdict for each file.
///
/// Give files that belong together (routes, a discovered configuration) to one command.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct CheckArgs {
    /// The files to check; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Require the environment variables of keys to be set here; by default, an unset one is only noted
    #[arg(long)]
    pub(crate) env: bool,
    /// The version of Envoy that gets the configuration, for example 1.38 [default: unknown, and what depends on it is
    /// not checked]
    #[arg(long, value_name = "VERSION", value_parser = envoy_version)]
    pub(crate) envoy: Option<EnvoyVersion>,
    /// Name the parts of the chain around the wasm filter that a configuration does not need, in notes
    #[arg(long)]
    pub(crate) minimal: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// Print errors and warnings only; nothing if all is well
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Major and minor version.
pub(crate) type EnvoyVersion = (u32, u32);

/// Reads `1.38`, or `1.38.3`.
fn envoy_version(text: &str) -> Result<EnvoyVersion, &'static str> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if numbers.all(|patch| patch.is_some()) => Ok((major, minor)),
        _ => Err("expected a version as 1.38 or 1.38.3"),
    }
}
