use std::net::IpAddr;

use clap::{Args, Subcommand, ValueEnum};

use super::ClusterArgs;
use limpet_api::ObjectName;
use limpet_model::{ADMIN_PORT, READY_PORT};

/// Watch the Gateway API objects and session policies of a Kubernetes cluster, and configure its Envoys
///
/// With --check, the command reads the configuration, tries the addresses to listen on, and ends. An address that is in
/// use is no error then, because the controller may be running.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
  limpet controller --config controller.yaml
  limpet controller --config controller.yaml --check
  limpet controller --config controller.yaml --target istio"
)]
pub(crate) struct ControllerArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ControllerCommand>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

// How it runs. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration of the controller, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// What the controller configures
    #[arg(long, value_enum, default_value = "envoy")]
    pub(crate) target: TargetKind,
    /// Validate the configuration, try the addresses, and end; needs no cluster. Nothing is printed without errors
    #[arg(long, requires = "config")]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// The format of the log on stderr. The environment variable `RUST_LOG` has its level, by default `info`
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// Envoys of Limpet's GatewayClass, over xDS
    #[default]
    Envoy,
    /// Objects for Istio
    Istio,
    /// Objects for Envoy Gateway
    EnvoyGateway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For programs: one object per line
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerCommand {
    Bootstrap(BootstrapArgs),
}

/// Print or write the bootstrap configuration of a Gateway's Envoy (`envoy -c FILE`)
///
/// The Envoy gets everything else from the controller. With --write, the configuration goes to `DIR/envoy.yaml`, and
/// Envoy must find the directory under the same path: with mutual TLS it also has the files by which Envoy reloads
/// certificates and keys that change.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet controller bootstrap --gateway default/web --xds limpet-controller.limpet-system:18000
  limpet controller bootstrap --gateway default/web --xds controller.example:18000 --node-id web-0 --write /etc/envoy")]
pub(crate) struct BootstrapArgs {
    /// The Gateway, which becomes the node's `cluster`
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object_name)]
    pub(crate) gateway: ObjectName,
    /// The address of the controller's xDS server
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub(crate) xds: (String, u16),
    /// The name of this Envoy, unique among the Envoys of the Gateway [default: the value of `envoy --service-node`]
    #[arg(long, value_name = "ID")]
    pub(crate) node_id: Option<String>,
    /// The port of Envoy's admin interface, on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = ADMIN_PORT)]
    pub(crate) admin_port: u16,
    /// The port where Envoy answers `GET /ready`: 200 once it has its configuration, or 503 once it drains
    #[arg(long, value_name = "PORT", default_value_t = READY_PORT)]
    pub(crate) ready_port: u16,
    /// The port where Envoy answers `GET /stats/prometheus`, with 2 answers at the same time. It needs an --admin-port
    /// other than 0 [default: none]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) metrics_port: Option<u16>,
    /// The address of both these ports. For pods with only IPv6, `::`, which also takes IPv4
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) ready_address: IpAddr,
    /// The MiB that Envoy's heap may have: three quarters of its memory. At 90 % Envoy frees memory, at 95 % it answers
    /// 503, at 98 % it accepts no connections
    #[arg(long, value_name = "MIB", default_value_t = 768, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_heap: u32,
    /// The number of clients' connections at the same time; Envoy closes further ones
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,
    /// For mutual TLS: the CA of the controller's certificate, as a file of Envoy's
    #[arg(long, value_name = "FILE", requires_all = ["certificate", "key"])]
    pub(crate) ca: Option<String>,
    /// For mutual TLS: Envoy's certificate, as a file of Envoy's
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub(crate) certificate: Option<String>,
    /// For mutual TLS: the private key of the certificate, as a file of Envoy's
    #[arg(long, value_name = "FILE", requires_all = ["ca", "certificate"])]
    pub(crate) key: Option<String>,
    /// The name that the controller's certificate must have [default: the host of --xds]
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub(crate) server_name: Option<String>,
    /// Write the configuration to envoy.yaml in this directory instead of printing it
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Option<String>,
}

pub(super) fn object_name(text: &str) -> Result<ObjectName, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err("expected a namespace and a name, like web/shop"),
    }
}

/// An IPv6 address must be in brackets.
fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    let expected = "expected a host and a port, like limpet-controller.limpet-system:18000";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(bare) => bare,
        None if host.is_empty() || host.contains(':') => return Err(expected),
        None => host,
    };
    Ok((host.to_owned(), port.parse().map_err(|_| expected)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let read = |text| host_and_port(text).ok().map(|(host, port)| format!("{host} {port}"));
        assert_eq!(read("controller:18000").as_deref(), Some("controller 18000"));
        assert_eq!(read("[fd00::1]:1").as_deref(), Some("fd00::1 1"));
        for wrong in ["controller", ":1", "fd00::1:1", "controller:", "controller:70000"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
