use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::OutputKind;
use crate::cli::KEYS_FILE;
use crate::exit::EXIT_CODES;
use crate::time_format;
use limpet_api::{Kind, ObjectName};
use limpet_core::time::Timestamp;

/// Say which sessions the rules of a route have and why, and whether a token would be honoured
///
/// For each rule: who decides on its sessions, and why others do not; the cookie or header with all attributes; what
/// each field came from; the scope, and the destinations with the hashes that tokens name them by. Everything is read
/// with the rights of the kubeconfig, and nothing is written. The keyring is read only to judge a token.
#[derive(Debug, Args)]
#[command(after_help = format!("{KEYS_FILE}\n\n{EXIT_CODES}"))]
pub(crate) struct ExplainArgs {
    /// The route, like httproute/shop, grpcroute/shop or ingressroute/shop
    #[arg(value_name = "KIND/NAME")]
    pub(crate) route: RouteArgument,
    /// The namespace of the route [default: that of the kubeconfig; with --file, `default`]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// One rule alone: its name, its place like `spec.rules[0]`, or its scope [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// A token to judge: a value, `name=value`, a line of a header, or a URL
    #[arg(long, group = "judged")]
    pub(crate) token: Option<String>,
    /// A line `Cookie: ...` or `Set-Cookie: ...` whose tokens to judge, the value of a `Cookie`, or a row of curl's
    /// cookie jar
    #[arg(long, value_name = "LINE", group = "judged")]
    pub(crate) cookie: Option<String>,
    /// A URL to get once: judge the tokens that the answer gives
    #[arg(long, value_name = "URL", group = "judged")]
    pub(crate) curl: Option<String>,
    /// A header of that request, like `Host: shop.example`; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "curl")]
    pub(crate) headers: Vec<String>,
    /// Take any certificate of that server
    #[arg(long, requires = "curl")]
    pub(crate) insecure: bool,
    /// A file of keys, to judge tokens by [default: the keyring of the cluster's controller]
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<String>,
    /// Judge as of this time: RFC 3339 or Unix seconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = time_format::parse)]
    pub(crate) now: Option<Timestamp>,
    /// Files and directories of manifests (.yaml, .yml, .json), or `-` for standard input, in place of a cluster
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// The configuration of the controller, in YAML or JSON [default: the ConfigMap of --controller; with --file, its
    /// defaults]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The controller in the cluster: the ConfigMap with its configuration, in the namespace of its own objects
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "limpet-system/limpet-controller",
        value_parser = object
    )]
    pub(crate) controller: ObjectName,
    /// What the controller writes for
    #[arg(long, value_enum, default_value = "envoy", value_name = "OUTPUT")]
    pub(crate) output: OutputKind,
    /// The kubeconfig file of the cluster
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

fn object(text: &str) -> Result<ObjectName, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectName::new(namespace, name))
        }
        _ => Err("expected namespace/name"),
    }
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
