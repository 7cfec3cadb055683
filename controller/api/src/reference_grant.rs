use serde::Deserialize;

use super::decode::Spec;

/// `ReferenceGrant`, gateway.networking.k8s.io/v1beta1: permits references to objects of its namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantSpec {
    /// Any of them.
    #[serde(default)]
    pub from: Vec<GrantFrom>,
    /// Any of them.
    #[serde(default)]
    pub to: Vec<GrantTo>,
}

impl Spec for ReferenceGrantSpec {}

/// Objects that may refer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GrantFrom {
    /// The API group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
}

/// What may be referred to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct GrantTo {
    /// The API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The name of the object; all objects of the kind if it is not set.
    #[serde(default)]
    pub name: Option<String>,
}
