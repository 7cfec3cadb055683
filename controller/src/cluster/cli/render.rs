use clap::Args;

use super::TargetKind;
use crate::cluster::gateway_api::GatewayApi;

/// Render manifests as the controller would, and report what becomes of each object; needs no cluster
///
/// The report goes to stdout, in YAML by default; with another --target, its objects do, and the report goes to stderr.
/// It covers these objects only: times, Envoys and other controllers are not known. With the ConfigMap
/// `limpet-controller-memory` among the files, sessions are those that the controller remembers.
///
/// `withoutStatus` names an object whose status has no place for a problem, such as a route without its Gateway.
/// `notServed` names objects of another control plane, with the --target for it. `notKnown` has kinds and versions that
/// do not exist, such as `HTTPRuote`; `notRead` counts other kinds. `refusedByGatewayAPI` names fields of sessions that
/// the definitions of a release refuse.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet render -f controller/deploy/envoy/gateway.yaml
  limpet render -f manifests --write-envoy envoy.yaml
  limpet render -f manifests --target istio | kubectl apply -f -")]
pub(crate) struct RenderArgs {
    /// Files and directories of manifests (.yaml, .yml, .json), or `-` for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The configuration of the controller, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// What the controller configures
    #[arg(long, value_enum, default_value = "envoy")]
    pub(crate) target: TargetKind,
    /// The release of the Gateway API whose definitions the cluster has, from 1.2 to 1.7 [default: any one that accepts
    /// all objects]
    #[arg(long, value_name = "RELEASE")]
    pub(crate) gateway_api: Option<GatewayApi>,
    /// The Gateway to write for [default: the only one]
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) gateway: Option<String>,
    /// Write a configuration for an Envoy without a controller
    #[arg(long, value_name = "FILE")]
    pub(crate) write_envoy: Option<String>,
    /// Write a directory that an Envoy watches: `envoy -c DIR/bootstrap.yaml`. Envoy notices a changed file if it is
    /// moved into place
    #[arg(long, value_name = "DIR")]
    pub(crate) write_xds: Option<String>,
    /// Write the objects of the Envoys that the controller would keep, for `envoy.managed` in its configuration, which
    /// must be there, empty or not
    #[arg(long, value_name = "FILE")]
    pub(crate) write_deployments: Option<String>,
    /// The environment variable of Envoy's process that holds the key (32 bytes in base64)
    #[arg(long, value_name = "NAME", default_value = "LIMPET_KEY")]
    pub(crate) key_env: String,
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 9901)]
    pub(crate) admin_port: u16,
}
