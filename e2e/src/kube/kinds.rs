//! An API server's kinds and their paths.

use anyhow::Result;
use serde_json::Value;

#[derive(Debug, Clone)]
pub(super) struct Kind {
    group: String,
    version: String,
    name: String,
    plural: String,
    namespaced: bool,
}

impl Kind {
    /// Whether `asked` names this kind, such as `Service`, `v1/Service` or `gateway.networking.k8s.io/v1/Gateway`.
    fn is(&self, asked: &str) -> bool {
        match asked.rsplit_once('/') {
            Some((api_version, name)) => self.name == name && self.api_version() == api_version,
            None => self.name == asked,
        }
    }

    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of this kind's objects in this namespace, if it has namespaces.
    pub(super) fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let namespace = if self.namespaced {
            format!("/namespaces/{namespace}")
        } else {
            String::new()
        };
        format!("/{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }
}

/// The kinds of discovery (`APIGroupDiscoveryList`), preferred versions first.
#[derive(Debug, Default)]
pub(super) struct Kinds(Vec<Kind>);

impl Kinds {
    pub(super) fn find(&self, asked: &str) -> Option<&Kind> {
        self.0.iter().find(|kind| kind.is(asked))
    }

    /// The `Accept` header for this form.
    pub(super) const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

    pub(super) fn read(answers: &[Value]) -> Result<Self> {
        let mut kinds = Vec::new();
        for group in answers.iter().flat_map(|answer| list(&answer["items"])) {
            for version in list(&group["versions"]) {
                for resource in list(&version["resources"]) {
                    let text = |value: &Value| {
                        Ok::<_, serde_json::Error>(
                            serde_json::from_value::<Option<String>>(value.clone())?.unwrap_or_default(),
                        )
                    };
                    kinds.push(Kind {
                        group: text(&group["metadata"]["name"])?,
                        version: text(&version["version"])?,
                        name: text(&resource["responseKind"]["kind"])?,
                        plural: text(&resource["resource"])?,
                        namespaced: resource["scope"] == "Namespaced",
                    });
                }
            }
        }
        Ok(Self(kinds))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
