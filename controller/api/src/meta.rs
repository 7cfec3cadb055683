use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{DecodeError, Kind};

/// An object's namespace and name. The namespace is empty where objects of the kind have none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// The name `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// As its text, so that it can be a map's key.
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
    pub name: String,
    /// Its namespace; empty where objects of the kind have none.
    #[serde(default)]
    pub namespace: String,
    /// Its identity: another object of the same name has another.
    #[serde(default)]
    pub uid: String,
    /// Counts the changes of its spec; 0 in files.
    #[serde(default)]
    pub generation: i64,
    /// When it was made, in RFC 3339 and UTC, so that the order of texts is the order of times. Empty in files.
    #[serde(default)]
    pub creation_timestamp: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

impl Meta {
    /// Namespace and name.
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        ObjectName::new(&self.namespace, &self.name)
    }

    /// Where this object stands among others that conflict with it (GEP-713): the oldest first, then by namespace and name.
    #[must_use]
    pub fn precedence(&self) -> (&str, &str, &str) {
        (&self.creation_timestamp, &self.namespace, &self.name)
    }
}

/// An object of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object<S> {
    /// Its metadata.
    pub meta: Meta,
    /// What is wanted.
    pub spec: S,
    /// The fields of `spec` that nothing reads, as paths like `spec.rules[0].retry`.
    pub unread: Vec<String>,
    /// Why it could not be read. `spec` then says no more than whose object it is ([`Spec::readable`](super::Spec::readable)).
    pub malformed: Option<DecodeError>,
}
