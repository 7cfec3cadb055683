use clap::Args;

use super::{ClusterArgs, TargetKind};
use crate::time_format;
use limpet_api::{Kind, ObjectName};
use limpet_core::time::Timestamp;

/// Explain which sessions the rules of a route have and why, and whether a token would be honoured
///
/// For each rule: the objects that ask for sessions, in the order of precedence, and the one that counts; the cookie or
/// header; the origin of each field; the scope; and the destinations, with the hashes that tokens name them by. A rule
/// without sessions names policies beside its Services whose targets do not exist. `-o wide` adds the endpoints of each
/// destination.
///
/// With --token, --cookie or --curl, it also says of each token whether it would be honoured here, or why not, and what
/// would accept it. The verdict is the filter's, with the words of the access log.
///
/// The command only reads, with the rights of the kubeconfig, and the keyring only to judge a token. `not known` names
/// unreadable objects, with the missing right. With --filename, an object that is in no file does not exist.
/// Certificates count as valid.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet explain httproute shop -n shop
  limpet explain httproute/shop --cookie \"Cookie: limpet-session=EQAAAAAA\"
  limpet explain shop -f manifests --config controller.yaml")]
pub(crate) struct ExplainArgs {
    /// The route, as kubectl takes it: `httproute shop`, `grpcroutes/shop`, or `shop` if only one kind of route has the
    /// name. Kinds: httproute, grpcroute, ingressroute
    #[arg(value_name = "[KIND] NAME", num_args = 1..=2, required = true)]
    pub(crate) route: Vec<String>,
    /// The namespace of the route [default: the kubeconfig's; with --filename, `default`]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Only one rule: its name, its place like `spec.rules[0]`, or its scope [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// A token to judge: a value, `name=value`, a line of a header, or a URL
    #[arg(long, group = "judged")]
    pub(crate) token: Option<String>,
    /// Tokens to judge: a line `Cookie: ...` or `Set-Cookie: ...`, a value of `Cookie`, or a row of curl's cookie jar
    #[arg(long, value_name = "LINE", group = "judged")]
    pub(crate) cookie: Option<String>,
    /// A URL to get once: judge the tokens in the answer's cookies, headers and redirect, which is not followed
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
    pub(crate) time: Option<Timestamp>,
    /// Files and directories of manifests (.yaml, .yml, .json), or `-` for standard input, in place of a cluster
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) files: Vec<String>,
    /// The configuration of the controller, in YAML or JSON [default: the ConfigMap of --controller; with --filename,
    /// its defaults]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The namespace of the controller; behind a slash, the ConfigMap with its configuration, by default
    /// `limpet-controller`
    #[arg(long, value_name = "NAMESPACE[/NAME]", default_value = "limpet-system", value_parser = controller)]
    pub(crate) controller: ObjectName,
    /// What the controller configures
    #[arg(long, value_enum, default_value = "envoy")]
    pub(crate) target: TargetKind,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// The ConfigMap with the controller's configuration.
pub(crate) const CONFIG_MAP: &str = "limpet-controller";

pub(super) fn controller(text: &str) -> Result<ObjectName, &'static str> {
    let (namespace, name) = text.split_once('/').unwrap_or((text, CONFIG_MAP));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("expected a namespace, or namespace/name");
    }
    Ok(ObjectName::new(namespace, name))
}

/// A route on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteArgument {
    /// `None`: the only kind that has the name.
    pub(crate) kind: Option<Kind>,
    pub(crate) name: String,
}

impl RouteArgument {
    /// The kinds of routes.
    pub(crate) const KINDS: [Kind; 3] = [Kind::HttpRoute, Kind::GrpcRoute, Kind::IngressRoute];

    /// As kubectl takes them: `KIND NAME`, `KIND/NAME` or `NAME`, the kind in any case, in singular or plural, and with
    /// the group behind it.
    ///
    /// # Errors
    /// If it is none of these.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let found = words.join("/");
        let wrong =
            || format!("expected httproute, grpcroute or ingressroute, and NAME, or only NAME; found {found:?}");
        let (kind, name) = match found.split_once('/') {
            Some((kind, name)) => (Some(route_kind(kind).ok_or_else(wrong)?), name),
            None => (None, found.as_str()),
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

fn route_kind(text: &str) -> Option<Kind> {
    let kind = text.split('.').next().unwrap_or_default();
    let kind = kind.strip_suffix(['s', 'S']).unwrap_or(kind);
    RouteArgument::KINDS
        .into_iter()
        .find(|known| known.as_str().eq_ignore_ascii_case(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<RouteArgument, String> {
        RouteArgument::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_route_is_read_as_kubectl_reads_it() {
        for text in [
            "httproute/shop",
            "httproute shop",
            "HTTPRoute/shop",
            "httproutes shop",
            "httproutes.gateway.networking.k8s.io/shop",
        ] {
            let RouteArgument { kind, name } = read(text).unwrap();
            assert_eq!((kind, name.as_str()), (Some(Kind::HttpRoute), "shop"), "{text}");
        }
        assert_eq!(read("ingressroutes shop").unwrap().kind, Some(Kind::IngressRoute));
        assert_eq!(read("shop").unwrap().kind, None);
        for text in [
            "service/shop",
            "service shop",
            "httproute/",
            "httproute/a/b",
            "httproute/a b",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_controller_is_a_namespace_or_a_config_map() {
        let name = |text| controller(text).map(|name| name.to_string());
        assert_eq!(name("limpet-system").as_deref(), Ok("limpet-system/limpet-controller"));
        assert_eq!(name("a/b").as_deref(), Ok("a/b"));
        for wrong in ["", "/b", "a/", "a/b/c"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
