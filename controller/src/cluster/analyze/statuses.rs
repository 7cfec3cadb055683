//! Findings of statuses: what the controller wrote of objects, in a cluster. Pure.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::Value;

use super::code::{FindingCode, Subject};
use super::finding::{AnalysisFinding, FindingPlace};
use crate::cluster::controller::{CURRENT_STATUS, ConditionSubject, ObjectVerdict};
use crate::cluster::kube::{CONTOUR_FIELDS, EntryList, ListedStatus, is_own_condition, is_own_entry, items};
use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};
use limpet_model::reports::{ConditionStatus, IngressRouteStatus};

/// What a status says is wrong. `controller`: the controller's name. Of a GatewayClass or a Gateway, the caller knows
/// that it is the controller's.
pub(super) fn of_status(kind: Kind, listed: &ListedStatus, controller: &str) -> Vec<AnalysisFinding> {
    let ListedStatus {
        object,
        generation,
        status,
    } = listed;
    let object = ObjectRef {
        kind,
        name: object.clone(),
    };
    let conditions = |of: &Value, about: Option<&str>| -> Vec<AnalysisFinding> {
        let wrong = items(of, "conditions").filter(|condition| is_wrong(condition, *generation));
        wrong.map(|condition| finding(&object, about, condition)).collect()
    };
    if let Some(list) = EntryList::of(kind) {
        let own = items(status, list.name).filter(|entry| is_own_entry(entry, controller));
        return own
            .flat_map(|entry| {
                let parent = ParentRef::deserialize(&entry[list.reference]).unwrap_or_default();
                conditions(entry, Some(&ConditionSubject::Parent(&parent).text()))
            })
            .collect();
    }
    match kind {
        Kind::GatewayClass | Kind::Gateway => {
            let own = items(status, "conditions").filter(|condition| is_own_condition(condition));
            let own = own.filter(|condition| is_wrong(condition, *generation));
            let of_gateway = own.map(|condition| finding(&object, None, condition));
            let of_listeners = items(status, "listeners").flat_map(|listener| {
                let name = listener["name"].as_str().unwrap_or_default();
                let about = ConditionSubject::Listener(name).text();
                // The Gateway's own `Programmed` says why.
                let own = items(listener, "conditions").filter(|condition| condition["type"] != "Programmed");
                let wrong = own.filter(|condition| is_wrong(condition, *generation));
                let object = &object;
                wrong.map(move |condition| finding(object, Some(&about), condition))
            });
            of_gateway.chain(of_listeners).collect()
        }
        Kind::IngressRoute => {
            let text = |field: &str| status[field].as_str().unwrap_or_default();
            let [state, description] = CONTOUR_FIELDS.map(text);
            let code = FindingCode::of(Subject::IngressRoute, CURRENT_STATUS, state);
            let is_wrong = !state.is_empty() && state != IngressRouteStatus::Valid.as_str();
            let place = FindingPlace::object(&object);
            is_wrong
                .then(|| AnalysisFinding::new(place, code, description))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a condition says that something is wrong with this generation.
fn is_wrong(condition: &Value, generation: i64) -> bool {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let status = match text("status") {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    let is_current = condition["observedGeneration"]
        .as_i64()
        .is_none_or(|of| of >= generation);
    is_current && ObjectVerdict::of(text("type"), status, text("reason")) != ObjectVerdict::Accepted
}

fn finding(object: &ObjectRef, about: Option<&str>, condition: &Value) -> AnalysisFinding {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let subject = Subject::of(object.kind, about.is_some());
    let place = FindingPlace {
        part: about.unwrap_or_default().to_owned(),
        ..FindingPlace::object(object)
    };
    AnalysisFinding::new(
        place,
        FindingCode::of(subject, text("type"), text("reason")),
        text("message"),
    )
}

/// What the controller says of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnalyzedGateway {
    pub(crate) name: ObjectName,
    /// `None`: its status does not say it.
    pub(crate) programmed: Option<bool>,
    /// Why it is not: the reason and the message.
    pub(crate) why: String,
}

impl AnalyzedGateway {
    /// What its status says of `Programmed`.
    pub(super) fn of(listed: &ListedStatus) -> Self {
        let mut conditions = items(&listed.status, "conditions");
        let Some(condition) = conditions.find(|condition| condition["type"] == "Programmed") else {
            return Self::unwritten(&listed.object);
        };
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let programmed = match text("status") {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        };
        let why = format!("{}: {}", text("reason"), text("message"));
        Self {
            name: listed.object.clone(),
            programmed,
            why: if programmed == Some(true) { String::new() } else { why },
        }
    }

    pub(super) fn unwritten(name: &ObjectName) -> Self {
        Self {
            name: name.clone(),
            programmed: None,
            why: "its status does not say it".to_owned(),
        }
    }
}

/// Both together: what was just built counts, and a status where it knows more.
pub(super) fn merged(built: Vec<AnalysisFinding>, statuses: Vec<AnalysisFinding>) -> Vec<AnalysisFinding> {
    let key = |finding: &AnalysisFinding| (finding.place.clone(), finding.code);
    let known: BTreeSet<_> = built.iter().map(key).collect();
    let further = statuses.into_iter().filter(|finding| !known.contains(&key(finding)));
    further.chain(built).collect()
}

/// Whether a finding of a build depends on objects of this kind being known. The status of its object then says what
/// is right.
pub(super) fn depends_on(finding: &AnalysisFinding, kind: Kind) -> bool {
    let reasons: &[&str] = match kind {
        Kind::Service | Kind::XBackend => &["BackendNotFound", "TargetNotFound"],
        Kind::ReferenceGrant => &["RefNotPermitted"],
        Kind::Gateway => &["NoMatchingParent", "NoRoute", "NothingServed"],
        Kind::GatewayClass => &["Invalid", "NoMatchingParent", "NoRoute", "NothingServed"],
        Kind::HttpRoute | Kind::GrpcRoute => &["NoRoute"],
        Kind::EnvoyDeployment => &["InvalidParameters"],
        Kind::Namespace => &["NotAllowedByListeners"],
        Kind::IngressRoute => &["orphaned", "NothingServed"],
        Kind::TlsCertificateDelegation => &["invalid"],
        Kind::BackendTlsPolicy | Kind::BackendLbPolicy | Kind::XBackendTrafficPolicy | Kind::EndpointSlice => &[],
    };
    let is_of_kind = |reason: &str| reason != "Invalid" || finding.place.kind == Kind::Gateway.as_str();
    reasons
        .iter()
        .any(|reason| finding.code.has_reason(reason) && is_of_kind(reason))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use limpet_api::ObjectName;

    fn lines(kind: Kind, generation: i64, status: Value) -> Vec<String> {
        let listed = ListedStatus {
            object: ObjectName::new("shop", "web"),
            generation,
            status,
        };
        let found = of_status(kind, &listed, "limpet.dev/controller");
        found
            .iter()
            .map(|finding| anstream::adapter::strip_str(&finding.line()).to_string())
            .collect()
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "why", "observedGeneration": 2})
    }

    #[test]
    fn a_status_of_another_controller_or_version_counts() {
        let status = json!({"parents": [
            {"controllerName": "limpet.dev/controller", "parentRef": {"name": "web"}, "conditions": [
                condition("Accepted", "True", "Accepted"),
                condition("ResolvedRefs", "False", "BackendNotFound"),
            ]},
            {"controllerName": "other", "parentRef": {"name": "web"}, "conditions": [
                condition("Accepted", "False", "NoMatchingParent"),
            ]},
        ]});
        let expected = "error [LIMPET0506] HTTPRoute shop/web, Gateway web: why";
        assert_eq!(lines(Kind::HttpRoute, 2, status.clone()), [expected]);
        assert_eq!(lines(Kind::HttpRoute, 3, status), [""; 0]);
    }

    #[test]
    fn what_envoys_made_of_a_gateway_was_left_out() {
        let status = json!({
            "conditions": [
                condition("Accepted", "True", "Accepted"),
                condition("Programmed", "False", "Pending"),
                condition("Other", "False", "Pending"),
            ],
            "listeners": [{"name": "http", "conditions": [
                condition("Programmed", "False", "Pending"),
                condition("Conflicted", "False", "NoConflicts"),
                condition("ResolvedRefs", "False", "InvalidCertificateRef"),
            ]}],
        });
        let expected = [
            "warning [LIMPET0311] Gateway shop/web: why",
            "error [LIMPET0405] Gateway shop/web, listener http: why",
        ];
        assert_eq!(lines(Kind::Gateway, 2, status), expected);
    }

    #[test]
    fn an_ingress_route_was_left_out() {
        let status = |state: &str| json!({"currentStatus": state, "description": "why"});
        let expected = ["error [LIMPET0601] IngressRoute shop/web: why"];
        assert_eq!(lines(Kind::IngressRoute, 1, status("invalid")), expected);
        assert_eq!(lines(Kind::IngressRoute, 1, status("valid")), [""; 0]);
        assert_eq!(lines(Kind::IngressRoute, 1, json!({})), [""; 0]);
    }

    #[test]
    fn a_status_repeats_what_was_built() {
        let listed = |message: &str| {
            let mut of = condition("ResolvedRefs", "False", "BackendNotFound");
            of["message"] = json!(message);
            let entry = json!({"controllerName": "c", "parentRef": {"name": "web"}, "conditions": [of]});
            let listed = ListedStatus {
                object: ObjectName::new("shop", "web"),
                generation: 2,
                status: json!({"parents": [entry]}),
            };
            of_status(Kind::HttpRoute, &listed, "c")
        };
        let both = merged(listed("now"), listed("before"));
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].message, "now");
        assert!(depends_on(&both[0], Kind::Service) && !depends_on(&both[0], Kind::Gateway));
    }
}
