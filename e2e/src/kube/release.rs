//! Releases of the Gateway API.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// A release of the Gateway API, in its experimental channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// The last one with `BackendLBPolicy`.
    V1_2_1,
    /// The last minor release with the first form of `XBackendTrafficPolicy` and inline sessions.
    V1_6_1,
    /// A release with `XBackend`.
    V1_7_0,
}

impl Release {
    /// All releases.
    pub const ALL: [Self; 3] = [Self::V1_2_1, Self::V1_6_1, Self::V1_7_0];

    /// The git tag.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::V1_2_1 => "v1.2.1",
            Self::V1_6_1 => "v1.6.1",
            Self::V1_7_0 => "v1.7.0",
        }
    }

    /// The files of the experimental channel, sorted: definitions, and the admission policy that refuses other
    /// releases' definitions.
    ///
    /// # Errors
    /// If they do not exist.
    pub fn definitions(self) -> Result<Vec<PathBuf>> {
        self.channel("experimental")
    }

    /// As [`Release::definitions`], for the channel `standard` or `experimental`.
    ///
    /// # Errors
    /// As [`Release::definitions`].
    pub fn channel(self, channel: &str) -> Result<Vec<PathBuf>> {
        let directory = tools::gateway_api_crds()?.join(self.tag()).join(channel);
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("{}: e2e/tools/crds.sh fetches it", directory.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry?.path();
            let extension = file.extension().unwrap_or_default();
            if extension == "yaml" && !file.ends_with("kustomization.yaml") {
                files.push(file);
            }
        }
        ensure!(!files.is_empty(), "no definitions in {}", directory.display());
        files.sort();
        Ok(files)
    }
}
