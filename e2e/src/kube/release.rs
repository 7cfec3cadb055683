//! Releases of the Gateway API.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::tools;

/// A release of the Gateway API, its experimental channel: what its custom resource definitions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Release {
    /// The last one with `BackendLBPolicy`.
    V1_2_1,
    /// The last minor one whose `XBackendTrafficPolicy` and inline fields have their first shape.
    V1_6_1,
    /// With `XBackend`.
    V1_7_0,
}

impl Release {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::V1_2_1, Self::V1_6_1, Self::V1_7_0];

    /// As it is tagged.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::V1_2_1 => "v1.2.1",
            Self::V1_6_1 => "v1.6.1",
            Self::V1_7_0 => "v1.7.0",
        }
    }

    /// The files of its definitions, sorted.
    ///
    /// # Errors
    /// When they are not there; the message says what to do.
    pub fn definitions(self) -> Result<Vec<PathBuf>> {
        let directory = tools::gateway_api_crds()?.join(self.tag()).join("experimental");
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("{}: e2e/tools/crds.sh brings it", directory.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let file = entry?.path();
            // Two are something else: a list for kustomize, and a policy that refuses the definitions of other releases.
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with("s.yaml") && name.contains("k8s.io_") && !name.contains("_vap_") {
                files.push(file);
            }
        }
        ensure!(!files.is_empty(), "no definitions in {}", directory.display());
        files.sort();
        Ok(files)
    }
}
