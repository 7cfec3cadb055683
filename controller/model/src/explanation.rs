//! Why rules have the sessions that they have.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::graph::{ClusterName, PathMatch};
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;

/// Why a rule has the sessions that it has, or none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleExplanation {
    /// The route.
    #[serde(serialize_with = "text")]
    pub route: ObjectRef,
    /// Its path in the route, like `spec.rules[2]`.
    pub field: String,
    /// Its name in the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name in Envoy: the scope of its own sessions.
    pub scope: Text,
    /// The Gateways that it attaches to.
    pub gateways: Vec<ObjectName>,
    /// The hosts that it is served for.
    pub hosts: Vec<String>,
    /// Sources of its sessions, in the order of precedence.
    pub contenders: Vec<Contender>,
    /// Why there are no sessions although an object asks for them, and fields that cannot be followed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Further notes on its sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its sessions, unless its destinations have them or there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionExplanation>,
    /// Sessions of single paths, where the cookie's path is the match's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_path: Vec<PathExplanation>,
    /// Where its requests go.
    pub destinations: Vec<DestinationExplanation>,
}

impl RuleExplanation {
    /// Whether a person means this rule, by its name, its place in the route, or its scope.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let last = self.scope.rsplit_once('/').map(|(_, last)| last);
        [self.name.as_deref(), Some(&self.field), Some(&self.scope), last].contains(&Some(name))
    }

    /// All sessions that its requests may have.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionExplanation> {
        let by_path = self.by_path.iter().map(|of_path| &of_path.session);
        let of_destinations = self.destinations.iter().filter_map(|to| to.session.as_ref());
        self.session.iter().chain(by_path).chain(of_destinations)
    }

    /// The same, to add to them.
    pub fn sessions_mut(&mut self) -> impl Iterator<Item = &mut SessionExplanation> {
        let by_path = self.by_path.iter_mut().map(|of_path| &mut of_path.session);
        let of_destinations = self.destinations.iter_mut().filter_map(|to| to.session.as_mut());
        self.session.iter_mut().chain(by_path).chain(of_destinations)
    }
}

impl fmt::Display for RuleExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.route, self.field)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// A source of a rule's sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contender {
    /// The object, or the part of it.
    pub who: String,
    /// Whether it is the one that counts.
    pub counts: bool,
    /// Why, or why not.
    pub why: String,
}

/// Sessions of a rule, or of a destination.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionExplanation {
    /// The policy's name in the filter's configuration.
    pub policy: Text,
    /// The scope of its tokens.
    pub scope: Text,
    /// The policy.
    pub config: PolicyConfig,
    /// The fields of the policy with their origins.
    pub fields: Vec<FieldExplanation>,
}

/// The sessions of the requests that match by this path.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathExplanation {
    /// The path.
    pub path: PathMatch,
    /// The sessions.
    pub session: SessionExplanation,
}

/// A field of a policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldExplanation {
    /// Its path in the filter's policy, like `cookie.sameSite`.
    pub field: String,
    /// Its value; null if there is none.
    pub value: Value,
    /// Its origin.
    pub from: FieldOrigin,
}

/// The origin of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FieldOrigin {
    /// A field of an object.
    Field {
        /// The object.
        object: String,
        /// The path of the field.
        field: String,
    },
    /// An annotation of an object.
    Annotation {
        /// The object.
        object: String,
        /// The whole name of the annotation.
        annotation: String,
    },
    /// The controller's configuration.
    Controller {
        /// The path of the field.
        field: String,
    },
    /// An object, before its definition changed.
    Memory {
        /// The object.
        object: String,
    },
    /// The controller, where no object says anything.
    Default {
        /// Why.
        why: &'static str,
    },
    /// The filter's own default.
    Filter,
}

impl fmt::Display for FieldOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { object, field } => write!(f, "{object}: {field}"),
            Self::Annotation { object, annotation } => write!(f, "{object}: annotation {annotation}"),
            Self::Controller { field } => write!(f, "configuration of the controller: {field}"),
            Self::Memory { object } => write!(f, "{object}: before its definition changed"),
            Self::Default { why } => write!(f, "default: {why}"),
            Self::Filter => f.write_str("default"),
        }
    }
}

/// A destination of a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DestinationExplanation {
    /// Its share of new sessions.
    pub weight: u32,
    /// Its cluster; none if the reference is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterName>,
    /// How tokens name it: eight hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The Service whose endpoints these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectName>,
    /// The number of the Service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The port's name, as EndpointSlices have it.
    #[serde(skip)]
    pub port_name: String,
    /// Why its requests are answered with status 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// Whether no session begins there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_begins: bool,
    /// Its own sessions, where these count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionExplanation>,
}

fn text<S: serde::Serializer>(object: &ObjectRef, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(object)
}
