//! The runtime of commands that ask a cluster.

use tokio::runtime::{Builder, Runtime};

use crate::exit::CommandFailure;

/// A runtime of one thread.
///
/// # Errors
/// If the system refuses it.
pub(crate) fn runtime() -> Result<Runtime, CommandFailure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| CommandFailure(format!("cannot start: {error}")))
}
