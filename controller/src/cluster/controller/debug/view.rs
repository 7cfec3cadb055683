//! The content of `graph.json`. Every field is chosen here, so nothing else of an object can leak: no content of a
//! Secret, and no value of a header or a query, which may be a password.

use serde::Serialize;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DebugView {
    pub(super) search: Vec<String>,
    pub(super) published: bool,
    pub(super) gateways: Vec<GatewayView>,
    pub(super) routes: Vec<RouteView>,
    /// The ports that these routes lead to.
    pub(super) services: Vec<ServiceView>,
    pub(super) refused: Vec<ObjectView>,
    pub(super) left_out: LeftOut,
}

/// How many matches are not shown, because there are too many.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftOut {
    pub(super) gateways: usize,
    pub(super) routes: usize,
    /// Of the routes that are shown.
    pub(super) rules: usize,
    /// Of the rules that are shown.
    pub(super) services: usize,
    /// Of the Services that are shown.
    pub(super) pods: usize,
    pub(super) refused: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ObjectVerdict {
    #[default]
    Accepted,
    /// A part does not count.
    Partly,
    Refused,
}

impl ObjectVerdict {
    /// A word that can be searched for.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Partly => "partly",
            Self::Refused => "refused",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConditionView {
    /// A parent of a route, a listener of a Gateway, an ancestor of a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) about: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) reason: &'static str,
    pub(super) message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectView {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) verdict: ObjectVerdict,
    pub(super) conditions: Vec<ConditionView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GatewayView {
    /// `namespace/name`.
    pub(super) id: String,
    pub(super) verdict: ObjectVerdict,
    pub(super) conditions: Vec<ConditionView>,
    pub(super) listeners: Vec<ListenerView>,
    pub(super) addresses: Vec<String>,
    /// How many it serves, whatever was searched for.
    pub(super) routes: usize,
    /// How many are connected to this replica.
    pub(super) envoys: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListenerView {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) hostname: String,
    pub(super) tls: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RouteView {
    /// `kind/namespace/name`, with the kind in small letters.
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) verdict: ObjectVerdict,
    pub(super) conditions: Vec<ConditionView>,
    pub(super) gateways: Vec<String>,
    pub(super) hostnames: Vec<String>,
    pub(super) rules: Vec<RuleView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleView {
    /// Without the route's name.
    pub(super) name: String,
    pub(super) matches: Vec<MatchView>,
    pub(super) more_matches: usize,
    /// `none`, `rule` or `destinations`.
    pub(super) sessions: &'static str,
    /// The rule's own sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<SessionView>,
    /// For requests that go to no backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<AnswerView>,
    pub(super) destinations: Vec<DestinationView>,
    /// The ids of the Services that get copies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) mirrors: Vec<String>,
}

/// An answer of Envoy itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerView {
    pub(super) status: u16,
    /// Why, or where a redirect leads to.
    pub(super) text: String,
}

/// A match, with only the names of headers and query parameters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MatchView {
    /// `Exact`, `Prefix`, `Text` or `Regex`.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) method: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) headers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) query: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) grpc: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionView {
    pub(super) policy: String,
    pub(super) scope: String,
    /// A mode (`cookie`, `header-prefix`, …), or `source`.
    pub(super) carrier: &'static str,
    /// The cookie, the header or the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) absolute_timeout: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DestinationView {
    pub(super) weight: u32,
    /// The id of the Service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
    /// Why requests are answered with 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) invalid: Option<String>,
    /// The backend's own sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<SessionView>,
}

/// A port of a Service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceView {
    /// `namespace/name:port`.
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    /// The DNS name of the endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) external_name: Option<String>,
    pub(super) pods: Vec<PodView>,
    pub(super) more_pods: usize,
    /// Of all its present pods, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sessions: Option<usize>,
    /// Pods that are gone, and the sessions that may still name them.
    pub(super) gone_pods: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gone_sessions: Option<usize>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodView {
    /// An endpoint need not be a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) address: String,
    /// `ready`, `draining` or `gone`.
    pub(super) state: &'static str,
    /// Whether Envoys do not get the address yet, because its owner changed and they lack the fence.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) held_back: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fences: Vec<FenceView>,
    /// If counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sessions: Option<SessionsView>,
}

/// A fence against sessions of the address's former owner.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FenceView {
    /// The namespace of the fenced routes.
    pub(super) namespace: String,
    /// Sessions that began before are not the pod's. RFC 3339.
    pub(super) not_before: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionsView {
    pub(super) sessions: usize,
    pub(super) streams: u64,
    pub(super) requests: u64,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_use: Option<String>,
    /// When the oldest session began. RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oldest: Option<String>,
}
