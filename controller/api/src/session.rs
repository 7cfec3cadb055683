//! Session persistence in all its forms (GEP-1619).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decode::{Spec, items};

/// `BackendLBPolicy` (gateway.networking.k8s.io/v1alpha2) and `XBackendTrafficPolicy`
/// (gateway.networking.x-k8s.io/v1alpha1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPolicySpec {
    /// What it applies to, in its own namespace.
    #[serde(default)]
    pub target_refs: Vec<PolicyTarget>,
    /// The sessions.
    #[serde(default)]
    pub session_persistence: Option<SessionPersistence>,
}

impl Spec for SessionPolicySpec {
    fn readable(spec: &Value) -> Self {
        Self {
            target_refs: items(spec, "targetRefs"),
            session_persistence: None,
        }
    }
}

/// What a policy applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTarget {
    /// Its API group; empty for the core group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// `sessionPersistence`, with the fields of both shapes: `sessionName`, `cookieConfig` and `idleTimeout` up to 1.6,
/// `cookie` and `header` from 1.7 on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPersistence {
    /// The name of cookie or header (up to 1.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// How long a session lasts (GEP-2257).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<String>,
    /// How long a session may stay unused (GEP-2257; up to 1.5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<String>,
    /// `Cookie` (also when left out) or `Header`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The cookie (up to 1.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_config: Option<CookieSettings>,
    /// The cookie (from 1.7 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<CookieSettings>,
    /// The header (from 1.7 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderSettings>,
}

/// The session cookie.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieSettings {
    /// Its name (from 1.7 on).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its path (from 1.7 on); `/` if it is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// `Session` (also when left out) or `Permanent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_type: Option<String>,
}

/// The session header.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderSettings {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
