use clap::Args;

use super::OutputKind;
use crate::cluster::gateway_api::GatewayApi;
use crate::exit::EXIT_CODES;

/// Render manifests as the controller would, and report what becomes of each object; needs no cluster
///
/// The report goes to stdout. It says what the objects themselves mean: times, Envoys and other controllers are not
/// known.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RenderArgs {
    /// Files and directories of manifests (.yaml, .yml, .json), or `-` for standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The configuration of the controller, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// What to render for. Objects for another control plane go to stdout, and the report to stderr
    #[arg(long, value_enum, default_value = "envoy", value_name = "OUTPUT")]
    pub(crate) output: OutputKind,
    /// The release of the Gateway API whose definitions the cluster has, from 1.2 to 1.7 [default: any one that accepts
    /// all objects]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) gateway_api: Option<GatewayApi>,
    /// The Gateway to write for [default: the only one]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) gateway: Option<String>,
    /// Write a configuration for an Envoy without a controller
    #[arg(long, value_name = "FILE")]
    pub(crate) envoy: Option<String>,
    /// Write a directory from which an Envoy takes its configuration: start it with `bootstrap.yaml`. Envoy notices a
    /// changed file if it is moved into place
    #[arg(long, value_name = "DIR")]
    pub(crate) xds: Option<String>,
    /// Write the objects of the Envoys that the controller would keep, for `envoy.managed` in its configuration, which
    /// must be there
    #[arg(long, value_name = "FILE")]
    pub(crate) deployments: Option<String>,
    /// The environment variable of Envoy's process that holds the key (32 bytes in base64)
    #[arg(long, value_name = "NAME", default_value = "LIMPET_KEY")]
    pub(crate) key_env: String,
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 9901)]
    pub(crate) admin_port: u16,
}
