use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Why there is no way to reach an API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("{file}: {source}")]
    File {
        file: String,
        source: kube::config::KubeconfigError,
    },
    #[error("no cluster: expected --kubeconfig, KUBECONFIG, or a service account of the cluster: {0}")]
    None(#[from] kube::config::InferConfigError),
    #[error("no client for the cluster: {0}")]
    Client(#[from] kube::Error),
}

/// Our field manager in server-side applies.
pub(crate) const FIELD_MANAGER: &str = "limpet";

/// Longer than a watch lasts, so that only a dead connection runs into it.
const READ_TIMEOUT: Duration = Duration::from_secs(90);

/// Makes a client from the given kubeconfig, else from `KUBECONFIG`, else from the service account.
///
/// # Errors
/// If nothing says how to reach an API server. Whether one answers is not checked.
pub(crate) async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let failed = |source| ConnectError::File {
                file: file.display().to_string(),
                source,
            };
            let read = Kubeconfig::read_from(file).map_err(failed)?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(read, &options).await.map_err(failed)?
        }
        None => Config::infer().await?,
    };
    config.read_timeout = Some(READ_TIMEOUT);
    Ok(Client::try_from(config)?)
}
