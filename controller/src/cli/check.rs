use clap::Args;

/// Check configurations of the filter, and of Envoy with the filter inside
///
/// A file is a configuration of the filter, or one of Envoy: a bootstrap, listeners, routes, a discovered
/// configuration, or an object of Istio or Envoy Gateway. In Envoy's configuration, the command also checks the chain
/// around the filter, the sessions of routes, and whether their clusters hold sessions. Give files that belong together
/// in one call. Files that an Envoy watches are read as well.
///
/// Every finding has its place, the path of the field, and the expected value. Errors come first, then warnings and
/// notes; the last lines are the verdicts, one for each file.
///
/// With --minimal, notes name the parts of the chain that nothing needs in this configuration. Delete all of them or
/// some, in the order of the notes. It saves little, so keep the chain if routes or policies may change.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
  limpet check --env envoy-configs/cookie.yaml envoy-configs/two-policies.yaml
  limpet check --envoy-version 1.38 envoy.yaml
  limpet check -o json - < envoy.yaml")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct CheckArgs {
    /// The files to check, in YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Require the environment variables of keys to be set here; by default, a note names an unset one
    #[arg(long)]
    pub(crate) env: bool,
    /// The version of Envoy that gets the configuration, for example 1.38 [default: unknown, and what depends on it is
    /// not checked]
    #[arg(long, value_name = "VERSION", value_parser = envoy_version)]
    pub(crate) envoy_version: Option<EnvoyVersion>,
    /// Name the parts of the chain around the wasm filter that a configuration does not need, in notes
    #[arg(long)]
    pub(crate) minimal: bool,
    /// Treat warnings as errors
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// Print errors and warnings only; nothing if there are none
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Major and minor version.
pub(crate) type EnvoyVersion = (u32, u32);

/// Reads `1.38`, `1.38.3`, or `v1.38.3` as Envoy's releases are called.
fn envoy_version(text: &str) -> Result<EnvoyVersion, &'static str> {
    let mut numbers = text
        .trim_start_matches('v')
        .split('.')
        .map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if numbers.all(|patch| patch.is_some()) => Ok((major, minor)),
        _ => Err("expected a version as 1.38 or 1.38.3"),
    }
}
