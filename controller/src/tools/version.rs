//! `limpet version`: this command.

use std::env::consts::ARCH;

use serde_json::{Value, json};

use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};

pub(crate) fn run(form: Output) -> Result<CommandVerdict, CommandFailure> {
    let client = ClientVersion::new();
    match form {
        Output::Text { .. } => output::print(&format!("{}\n", client.text()))?,
        Output::Document(format) => output::print_document(format, &json!({"client": client.json()}))?,
    }
    Ok(CommandVerdict::Good)
}

/// What this command is.
#[derive(Debug)]
pub(crate) struct ClientVersion {
    version: &'static str,
    /// Of the checkout that it was built from, if the build knows it.
    commit: Option<&'static str>,
    /// As rustc names it.
    target: String,
}

impl ClientVersion {
    pub(crate) fn new() -> Self {
        let system = if cfg!(target_os = "macos") {
            "apple-darwin"
        } else if cfg!(target_env = "musl") {
            "unknown-linux-musl"
        } else {
            "unknown-linux-gnu"
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("SOURCE_REVISION").filter(|commit| !commit.is_empty()),
            target: format!("{ARCH}-{system}"),
        }
    }

    /// `limpet 0.1.0 (commit 0123456, x86_64-unknown-linux-gnu)`
    pub(crate) fn text(&self) -> String {
        let commit = self
            .commit
            .map_or_else(String::new, |commit| format!("commit {commit}, "));
        format!("limpet {} ({commit}{})", self.version, self.target)
    }

    pub(crate) fn json(&self) -> Value {
        json!({"version": self.version, "commit": self.commit, "target": self.target})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_left_out_where_it_is_not_known() {
        let of = |commit| ClientVersion {
            version: "0.1.0",
            commit,
            target: "x86_64-unknown-linux-gnu".to_owned(),
        };
        assert_eq!(of(None).text(), "limpet 0.1.0 (x86_64-unknown-linux-gnu)");
        let known = of(Some("0123456"));
        assert_eq!(known.text(), "limpet 0.1.0 (commit 0123456, x86_64-unknown-linux-gnu)");
        assert_eq!(known.json()["commit"], "0123456");
    }
}
