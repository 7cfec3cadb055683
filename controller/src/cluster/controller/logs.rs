use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::cluster::cli::LogFormat;

/// Writes logs to stderr from now on, at the level in `RUST_LOG`, else at `info`.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
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
