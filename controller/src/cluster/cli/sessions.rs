use clap::Args;

use super::ReachArgs;

/// Show where sessions live: for each pod its sessions, its streams, and when it was used last
///
/// A session counts until its idle bound is over. `STREAMS` are requests in flight, also long ones. `REQUESTS` are
/// those since the controllers started, or since the pod got sessions after a time without any. The state is
/// `ready`, `draining`, `gone` (no endpoint any more), or `unrouted` (no route leads to the Service any more). `12+`
/// means at least 12 sessions: the controllers do not know all Envoys, and a warning says why. `-o wide` adds the
/// address of the pod. With `-o json`, pods are in a list `pods`; with --watch, each change is an object.
///
/// The command asks all ready controllers through the API server: the kubeconfig needs the rights to list pods in the
/// controller's namespace, and to get `pods/proxy` there.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet sessions -n shop
  limpet sessions -A -o wide
  limpet sessions pod/shop-1 --watch")]
pub(crate) struct SessionsArgs {
    /// A Service or a pod: `shop`, `service/shop` or `pod shop-1` [default: all]
    #[arg(value_name = "SERVICE|POD", num_args = 0..=2)]
    pub(crate) name: Vec<String>,
    /// The namespace [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Show all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Stay, and print a line for each change
    #[arg(long, short)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}

impl SessionsArgs {
    /// As in `pod/shop-1`.
    pub(crate) fn name(&self) -> Option<String> {
        (!self.name.is_empty()).then(|| self.name.join("/"))
    }
}
