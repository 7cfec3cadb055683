use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{DecodeError, Kind};

/// A name, of which there are many copies: a short one is in place, and copies of a longer one share its text.
pub type Text = smol_str::SmolStr;

/// The namespace and name of an object. The namespace is empty if the kind is not namespaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
}

impl ObjectName {
    /// The name `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The namespace in a name as it is displayed; empty if there is none.
    #[must_use]
    pub fn namespace_in(displayed: &str) -> &str {
        displayed.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

/// As text, so that it can be the key of a map.
impl Serialize for ObjectName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// An object, for reports, logs and events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace and name.
    pub name: ObjectName,
}

impl ObjectRef {
    /// `<kind>/<namespace>/<name>`, with the kind in lower case: what the names of a route's rules begin with.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.kind.as_str().to_ascii_lowercase(), self.name)
    }

    /// The object with this key, if it is of one of these kinds. What follows its name is a part of it.
    #[must_use]
    pub fn from_key(key: &str, kinds: &[Kind]) -> Option<Self> {
        let (kind, name) = key.split_once('/')?;
        let (namespace, name) = name.split_once('/')?;
        let kind = kinds.iter().find(|known| known.as_str().eq_ignore_ascii_case(kind));
        Some(Self {
            kind: *kind?,
            name: ObjectName::new(namespace, name),
        })
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What is read of an object's metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Its name.
    pub name: Text,
    /// Its namespace; empty if the kind is not namespaced.
    #[serde(default)]
    pub namespace: Text,
    /// Its identity. An object that is deleted and created again has another one.
    #[serde(default)]
    pub uid: String,
    /// The number of changes of its spec; 0 in files.
    #[serde(default)]
    pub generation: i64,
    /// When it was created, in RFC 3339 and UTC, so texts sort by time. Empty in files.
    #[serde(default)]
    pub creation_timestamp: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Fields of `spec.sessionPersistence` that the object had when it was written, and that the definition of its kind
    /// does not have any more; with the value, where the metadata has it.
    #[serde(default)]
    pub pruned: BTreeMap<String, Option<String>>,
}

impl Meta {
    /// Namespace and name.
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        ObjectName {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The order among objects that conflict (GEP-713): the oldest first, then by namespace and name.
    #[must_use]
    pub fn precedence(&self) -> (&str, &str, &str) {
        (&self.creation_timestamp, &self.namespace, &self.name)
    }
}

/// A Kubernetes object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<S> {
    /// Its metadata.
    pub meta: Meta,
    /// Its `spec`.
    pub spec: S,
    /// The fields of `spec` that its type does not have, as paths like `spec.rules[0].retry`.
    pub unread: Vec<String>,
    /// Why it could not be read. If set, `spec` has only what [`Spec::readable`](super::Spec::readable) returns.
    pub malformed: Option<DecodeError>,
}
