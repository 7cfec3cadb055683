//! Changes that keep a policy's sessions.

use std::collections::BTreeMap;
use std::fmt;

use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use crate::cluster::kube::pruned;
use limpet_api::Kind;
use limpet_model::{PRUNED_LIFETIME, PRUNED_NAME};

/// Annotations in place of fields.
const NAME: &str = "session.limpet.dev/session-name";
const LIFETIME: &str = "session.limpet.dev/lifetime-type";
/// Restores what sessions do in splits by the fields up to release 1.6.
const SPLIT: &str = "session.limpet.dev/split";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum MigrationNeed {
    /// Its sessions survive as it is.
    Nothing(&'static str),
    /// An upgrade removed fields, whose values are not in the object.
    Unknown(String),
    Session(LegacySession),
}

/// Fields that the next release of the Gateway API lacks or has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LegacySession {
    name: Option<String>,
    lifetime: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MigrationTarget {
    /// They are in every release.
    Annotations,
    /// `cookie` and `header` of release 1.7.
    Fields,
}

impl fmt::Display for MigrationTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotations => "annotations, until the definition has fields for it",
            Self::Fields => "the fields of release 1.7",
        })
    }
}

impl fmt::Display for LegacySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_ref().map(|name| format!("the name {name}"));
        let lifetime = self
            .lifetime
            .as_ref()
            .map(|lifetime| format!("the lifetime {lifetime}"));
        let parts: Vec<String> = [name, lifetime].into_iter().flatten().collect();
        f.write_str(&parts.join(" and "))
    }
}

pub(super) fn need(policy: &DynamicObject) -> MigrationNeed {
    let Some(persistence) = policy.data.pointer("/spec/sessionPersistence") else {
        return MigrationNeed::Nothing("it asks for no sessions");
    };
    if persistence.get("cookie").is_some() || persistence.get("header").is_some() {
        return MigrationNeed::Nothing("it has the fields of release 1.7");
    }
    let pruned = pruned(Kind::XBackendTrafficPolicy, &policy.metadata, policy.data.get("spec"));
    let value = |field: &str, annotation: &str| {
        let own = persistence.pointer(&format!("/{}", field.replace('.', "/")));
        let own = own.and_then(Value::as_str).map(str::to_owned);
        let kept = annotations(policy).get(annotation).cloned();
        own.or(kept).or_else(|| pruned.get(field).cloned().flatten())
    };
    let session = LegacySession {
        name: value(PRUNED_NAME, NAME),
        lifetime: value(PRUNED_LIFETIME, LIFETIME),
    };
    let unknown =
        |field: &str, value: &Option<String>| (pruned.contains_key(field) && value.is_none()).then(|| field.to_owned());
    let lost = [
        unknown(PRUNED_NAME, &session.name),
        unknown(PRUNED_LIFETIME, &session.lifetime),
    ];
    let lost: Vec<String> = lost.into_iter().flatten().collect();
    if !lost.is_empty() {
        return MigrationNeed::Unknown(format!(
            "the API server leaves out what it had in {}, and its metadata does not tell. Where the controller \
             remembers it, the status of the policy says what it was: write the policy again with the fields of \
             release 1.7",
            lost.join(" and ")
        ));
    }
    if session == LegacySession::default() {
        return MigrationNeed::Nothing("it has no name and no lifetime of its own");
    }
    MigrationNeed::Session(session)
}

/// A merge patch for the policy as it was read; `None`: nothing to change.
pub(super) fn patch(policy: &DynamicObject, session: &LegacySession, form: MigrationTarget) -> Option<Value> {
    let kept = annotations(policy);
    let mut annotations = Map::new();
    let mut spec = None;
    match form {
        MigrationTarget::Annotations => {
            for (annotation, value) in [(NAME, &session.name), (LIFETIME, &session.lifetime)] {
                if let Some(value) = value.as_ref().filter(|value| kept.get(annotation) != Some(value)) {
                    annotations.insert(annotation.to_owned(), json!(value));
                }
            }
            if annotations.is_empty() {
                return None;
            }
        }
        MigrationTarget::Fields => {
            let old = [NAME, LIFETIME]
                .into_iter()
                .filter(|annotation| kept.contains_key(*annotation));
            annotations.extend(old.map(|annotation| (annotation.to_owned(), Value::Null)));
            if !kept.contains_key(SPLIT) {
                annotations.insert(SPLIT.to_owned(), json!("keep"));
            }
            spec = Some(json!({"sessionPersistence": fields(policy, session)}));
        }
    }
    let mut metadata = Map::new();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), annotations.into());
    }
    // A policy that was changed meanwhile is not overwritten.
    let version = policy.metadata.resource_version.as_ref();
    metadata.extend(version.map(|version| ("resourceVersion".to_owned(), json!(version))));
    let mut patch = Map::from_iter([("metadata".to_owned(), metadata.into())]);
    patch.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    Some(patch.into())
}

/// `sessionPersistence` with the fields of release 1.7.
fn fields(policy: &DynamicObject, session: &LegacySession) -> Map<String, Value> {
    let field = |name: &str| policy.data.pointer(&format!("/spec/sessionPersistence/{name}"));
    let is_header = field("type") == Some(&json!("Header"));
    let name = session.name.as_ref().map(|name| ("name".to_owned(), json!(name)));
    let lifetime = session.lifetime.as_ref().filter(|_| !is_header);
    let lifetime = lifetime.map(|lifetime| ("lifetimeType".to_owned(), json!(lifetime)));
    let carrier: Map<String, Value> = name.into_iter().chain(lifetime).collect();
    let old = ["sessionName", "cookieConfig"]
        .into_iter()
        .filter(|old| field(old).is_some());
    let mut fields: Map<String, Value> = old.map(|old| (old.to_owned(), Value::Null)).collect();
    fields.insert(if is_header { "header" } else { "cookie" }.to_owned(), carrier.into());
    fields
}

fn annotations(policy: &DynamicObject) -> BTreeMap<String, String> {
    policy.metadata.annotations.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(annotations: &Value, persistence: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "gateway.networking.x-k8s.io/v1alpha1",
            "kind": "XBackendTrafficPolicy",
            "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "7", "annotations": annotations},
            "spec": {"sessionPersistence": persistence},
        }))
        .unwrap()
    }

    fn change(policy: &DynamicObject, form: MigrationTarget) -> Option<Value> {
        let MigrationNeed::Session(session) = need(policy) else {
            return None;
        };
        patch(policy, &session, form)
    }

    #[test]
    fn name_and_lifetime_go_to_annotations_and_then_to_fields() {
        let named = json!({"sessionName": "s", "type": "Cookie", "cookieConfig": {"lifetimeType": "Permanent"}});
        let before = policy(&json!({}), &named);
        let kept = json!({NAME: "s", LIFETIME: "Permanent"});
        assert_eq!(
            change(&before, MigrationTarget::Annotations),
            Some(json!({"metadata": {"annotations": kept, "resourceVersion": "7"}}))
        );
        assert_eq!(change(&policy(&kept, &named), MigrationTarget::Annotations), None);
        let after = policy(&kept, &json!({"type": "Cookie"}));
        let expected = json!({
            "metadata": {"annotations": {NAME: null, LIFETIME: null, SPLIT: "keep"}, "resourceVersion": "7"},
            "spec": {"sessionPersistence": {"cookie": {"name": "s", "lifetimeType": "Permanent"}}},
        });
        assert_eq!(change(&after, MigrationTarget::Fields), Some(expected));
        let chosen = policy(&json!({NAME: "s", SPLIT: "choose"}), &json!({"type": "Cookie"}));
        let annotations = &change(&chosen, MigrationTarget::Fields).unwrap()["metadata"]["annotations"];
        assert_eq!(*annotations, json!({NAME: null}), "what it says stays");
        let header = policy(&json!({NAME: "X-S"}), &json!({"type": "Header"}));
        let fields = change(&header, MigrationTarget::Fields).unwrap();
        assert_eq!(
            fields["spec"],
            json!({"sessionPersistence": {"header": {"name": "X-S"}}})
        );
    }

    #[test]
    fn a_policy_whose_sessions_survive_is_left_alone() {
        for persistence in [
            json!({"type": "Cookie", "absoluteTimeout": "1h"}),
            json!({"type": "Cookie", "cookie": {"name": "s"}}),
            json!({"type": "Header", "header": {"name": "X-S"}}),
            Value::Null,
        ] {
            let need = need(&policy(&json!({}), &persistence));
            assert!(matches!(need, MigrationNeed::Nothing(_)), "{persistence}: {need:?}");
        }
    }

    #[test]
    fn what_is_lost_and_not_known_is_said() {
        let mut policy = policy(&json!({}), &json!({"type": "Cookie"}));
        policy.metadata.managed_fields = serde_json::from_value(json!([
            {"fieldsV1": {"f:spec": {"f:sessionPersistence": {"f:sessionName": {}}}}},
        ]))
        .unwrap();
        let MigrationNeed::Unknown(why) = need(&policy) else {
            panic!("{:?}", need(&policy))
        };
        assert!(why.contains("what it had in sessionName,"), "{why}");
        policy.metadata.annotations = Some(BTreeMap::from([(NAME.to_owned(), "s".to_owned())]));
        assert!(matches!(need(&policy), MigrationNeed::Session(_)));
    }
}
