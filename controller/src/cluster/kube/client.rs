//! Our client of the API server. kube's own does not notice a dead connection while a watch is silent, and logs each
//! failure.

use std::time::Duration;

use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::ServiceBuilder;
use tower::retry::RetryLayer;

use super::reach::ApiReachability;
use crate::cluster::cli::ClusterArgs;
use crate::exit::CommandFailure;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{file}: {source}")]
    File {
        file: String,
        source: kube::config::KubeconfigError,
    },
    #[error("no cluster: expected --kubeconfig, KUBECONFIG, ~/.kube/config, or a service account of the cluster: {0}")]
    None(#[from] kube::config::InferConfigError),
    #[error("--context {context}: {source}")]
    Context {
        context: String,
        source: kube::config::KubeconfigError,
    },
    #[error("no client for the cluster: {0}")]
    Client(#[from] kube::Error),
}

/// Our field manager in server-side applies.
pub(crate) const FIELD_MANAGER: &str = "limpet";

/// Silence before a probe, time between probes, and probes until a connection is dead.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
/// As long as the API server lets a request last, except for watches.
const ANSWER: Duration = Duration::from_secs(60);

impl From<ConnectError> for CommandFailure {
    fn from(error: ConnectError) -> Self {
        Self(error.to_string())
    }
}

pub(crate) struct ApiConnection {
    pub(crate) client: Client,
    pub(crate) address: String,
}

/// Makes a client from the given kubeconfig, else from `KUBECONFIG`, else from `~/.kube/config`, else from the service
/// account.
///
/// # Errors
/// If nothing says how to reach an API server. Whether one answers is not checked.
pub(crate) async fn connect(cluster: &ClusterArgs) -> Result<ApiConnection, ConnectError> {
    let options = KubeConfigOptions {
        context: cluster.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match (&cluster.kubeconfig, &cluster.context) {
        (Some(file), _) => {
            let failed = |source| ConnectError::File {
                file: file.display().to_string(),
                source,
            };
            let read = Kubeconfig::read_from(file).map_err(failed)?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(failed)?
        }
        (None, Some(context)) => {
            let failed = |source| ConnectError::Context {
                context: context.clone(),
                source,
            };
            Config::from_kubeconfig(&options).await.map_err(failed)?
        }
        (None, None) => Config::infer().await?,
    };
    let address = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = client(config, &address)?;
    Ok(ApiConnection { client, address })
}

fn client(config: Config, address: &str) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // Its error says that proxies are not supported.
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(config.connect_timeout);
    let (silence, interval, probes) = KEEP_ALIVE;
    connector.set_keepalive(Some(silence));
    connector.set_keepalive_interval(Some(interval));
    connector.set_keepalive_retries(Some(probes));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let reach = ApiReachability::new(address);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_result(move |result| reach.observe(result))
        .timeout(ANSWER)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
