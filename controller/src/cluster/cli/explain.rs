use std::str::FromStr;

use clap::Args;

use super::OutputKind;
use crate::exit::EXIT_CODES;
use limpet_api::Kind;

/// Say which sessions the rules of a route have and why, and whether a token would be honoured
///
/// For each rule: who decides on its sessions, and why others do not; the cookie or header with all attributes; what
/// each field came from; the scope, and the destinations with the hashes that tokens name them by.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ExplainArgs {
    /// The route, like httproute/shop
    #[arg(value_name = "KIND/NAME")]
    pub(crate) route: RouteArgument,
    /// The namespace of the route [default: `default`]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// One rule alone: its name, its place like `spec.rules[0]`, or its scope [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// Files and directories of manifests (.yaml, .yml, .json), or `-` for standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// The configuration of the controller, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// What the controller writes for
    #[arg(long, value_enum, default_value = "envoy", value_name = "OUTPUT")]
    pub(crate) output: OutputKind,
}

/// A route on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteArgument {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl FromStr for RouteArgument {
    type Err = String;

    /// As kubectl takes them: in any case, in singular or plural, and with the group behind the kind.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected httproute/NAME, grpcroute/NAME or ingressroute/NAME, found {text:?}");
        let (kind, name) = text.split_once('/').ok_or_else(wrong)?;
        let kind = kind.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let kind = match kind.strip_suffix('s').unwrap_or(&kind) {
            "httproute" => Kind::HttpRoute,
            "grpcroute" => Kind::GrpcRoute,
            "ingressroute" => Kind::IngressRoute,
            _ => return Err(wrong()),
        };
        if name.is_empty() || name.contains('/') {
            return Err(wrong());
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_read_as_kubectl_reads_it() {
        for text in [
            "httproute/shop",
            "HTTPRoute/shop",
            "httproutes/shop",
            "httproutes.gateway.networking.k8s.io/shop",
        ] {
            let RouteArgument { kind, name } = text.parse().unwrap();
            assert_eq!((kind, name.as_str()), (Kind::HttpRoute, "shop"), "{text}");
        }
        for text in ["shop", "service/shop", "httproute/", "httproute/a/b", ""] {
            assert!(text.parse::<RouteArgument>().is_err(), "{text}");
        }
    }
}
