use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cluster::cli::LogFormat;

/// The filter without `RUST_LOG`. Failures in kube are logged by its callers, with their consequence.
const DEFAULT: &str = "info,kube_client=off,kube_runtime=off";

/// Logs to stderr, as `RUST_LOG` says, else as [`DEFAULT`].
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // It fails only if a test has set up logs before, and these will do.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
