use clap::Args;

use super::OutputKind;
use crate::exit::EXIT_CODES;

/// Makes of manifests what the controller would make of objects in a cluster, and says what became of each.
///
/// The report goes to stdout. Times, Envoys and other controllers are not known here, so a report says what the objects themselves mean.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RenderArgs {
    /// Files and folders of manifests (.yaml, .yml, .json), or `-` for standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The controller's configuration, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// Who is to get it. Objects for another control plane go to stdout, and the report to stderr
    #[arg(long, value_enum, default_value = "envoy", value_name = "OUTPUT")]
    pub(crate) output: OutputKind,
    /// The Gateway to write for, where there are several
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) gateway: Option<String>,
    /// Writes a configuration for an Envoy without a controller
    #[arg(long, value_name = "FILE")]
    pub(crate) envoy: Option<String>,
    /// Writes a folder that an Envoy takes its configuration from: start it with `bootstrap.yaml`. It sees files change that are moved into place
    #[arg(long, value_name = "FOLDER")]
    pub(crate) xds: Option<String>,
    /// The environment variable of Envoy's process that holds the key (32 bytes in base64)
    #[arg(long, value_name = "NAME", default_value = "LIMPET_KEY")]
    pub(crate) key_env: String,
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 9901)]
    pub(crate) admin_port: u16,
}
