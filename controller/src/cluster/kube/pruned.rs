//! Fields that the API server leaves out because the definition has changed. The metadata still has each field's
//! writer, and what kubectl applied last.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use limpet_api::Kind;
use limpet_model::{PRUNED_LIFETIME, PRUNED_NAME};

/// The annotation with kubectl's copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that a session policy had when it was written and lacks now, with their values if kubectl applied them
/// last and no other change came since. A policy of the newer shape was written since, so it lacks nothing.
pub(crate) fn pruned(kind: Kind, meta: &ObjectMeta, spec: Option<&Value>) -> BTreeMap<String, Option<String>> {
    let persistence = spec.and_then(|spec| spec.get("sessionPersistence"));
    let Some(persistence) = persistence.filter(|_| kind == Kind::XBackendTrafficPolicy) else {
        return BTreeMap::new();
    };
    if persistence.get("cookie").is_some() || persistence.get("header").is_some() {
        return BTreeMap::new();
    }
    let managed = meta.managed_fields.iter().flatten();
    let managed: Vec<(&Value, bool)> = managed
        .filter_map(|entry| {
            let fields = entry.fields_v1.as_ref()?.0.pointer("/f:spec/f:sessionPersistence")?;
            Some((fields, keeps_applied(entry)))
        })
        .collect();
    let owned = |field: &str| format!("/f:{}", field.replace('.', "/f:"));
    let place = |field: &str| format!("/{}", field.replace('.', "/"));
    let has = |fields: &Value, field: &str| fields.pointer(&owned(field)).is_some();
    let applied = meta.annotations.as_ref().and_then(|all| all.get(LAST_APPLIED));
    let applied: Option<Value> = applied.and_then(|text| serde_json::from_str(text).ok());
    let lost = [PRUNED_NAME, PRUNED_LIFETIME].into_iter().filter(|field| {
        let was_there = managed.iter().any(|(fields, _)| has(fields, field));
        was_there && persistence.pointer(&place(field)).is_none()
    });
    let value = |field: &str| {
        managed.iter().find(|(fields, keeps)| *keeps && has(fields, field))?;
        let applied = applied.as_ref()?.pointer("/spec/sessionPersistence")?;
        applied.pointer(&place(field))?.as_str().map(str::to_owned)
    };
    lost.map(|field| (field.to_owned(), value(field))).collect()
}

/// Whether the annotation has what this writer wrote: it wrote the annotation, or the API server does so for it.
fn keeps_applied(entry: &ManagedFieldsEntry) -> bool {
    let annotations = |fields: &Value| fields.pointer("/f:metadata/f:annotations").cloned();
    let annotations = entry.fields_v1.as_ref().and_then(|fields| annotations(&fields.0));
    let is_own = annotations.is_some_and(|all| all.get(format!("f:{LAST_APPLIED}")).is_some());
    let is = |text: &Option<String>, expected: &str| text.as_deref() == Some(expected);
    is_own || is(&entry.manager, "kubectl") && is(&entry.operation, "Apply")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(kind: Kind, object: &Value) -> BTreeMap<String, Option<String>> {
        let meta = serde_json::from_value(object["metadata"].clone()).unwrap();
        pruned(kind, &meta, object.get("spec"))
    }

    #[test]
    fn fields_that_were_written_and_are_gone_are_found() {
        let kind = Kind::XBackendTrafficPolicy;
        let owned = json!({"f:spec": {"f:sessionPersistence": {
            "f:sessionName": {},
            "f:type": {},
            "f:cookieConfig": {".": {}, "f:lifetimeType": {}},
        }}});
        let fields = |fields: &Value| {
            json!([{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields}])
        };
        let mut object = json!({
            "metadata": {"name": "web", "managedFields": fields(&owned)},
            "spec": {"sessionPersistence": {"type": "Cookie"}},
        });
        let nothing = BTreeMap::new();
        let unknown = [("sessionName", None), ("cookieConfig.lifetimeType", None)];
        let names = |pairs: &[(&str, Option<&str>)]| {
            let own = |(name, value): &(&str, Option<&str>)| ((*name).to_owned(), value.map(str::to_owned));
            pairs.iter().map(own).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(of(kind, &object), names(&unknown));
        assert_eq!(of(Kind::BackendLbPolicy, &object), nothing);
        let applied = json!({"spec": {"sessionPersistence": {"sessionName": "shop"}}}).to_string();
        object["metadata"]["annotations"] = json!({LAST_APPLIED: applied});
        let known = [("sessionName", Some("shop")), ("cookieConfig.lifetimeType", None)];
        assert_eq!(of(kind, &object), names(&known));
        // Not applied, but written in another way.
        object["metadata"]["managedFields"][0]["manager"] = json!("kubectl-edit");
        object["metadata"]["managedFields"][0]["operation"] = json!("Update");
        assert_eq!(of(kind, &object), names(&unknown));
        let mut applying = owned.clone();
        applying["f:metadata"] = json!({"f:annotations": {format!("f:{LAST_APPLIED}"): {}}});
        object["metadata"]["managedFields"][0]["fieldsV1"] = applying;
        assert_eq!(of(kind, &object), names(&known));
        // It is still there, or was never written.
        object["spec"]["sessionPersistence"] =
            json!({"sessionName": "web", "cookieConfig": {"lifetimeType": "Session"}});
        assert_eq!(of(kind, &object), nothing);
        object["spec"]["sessionPersistence"] = json!({"type": "Cookie"});
        object["metadata"]["managedFields"] = fields(&json!({"f:spec": {"f:sessionPersistence": {"f:type": {}}}}));
        assert_eq!(of(kind, &object), nothing);
        // Written in the newer shape.
        object["metadata"]["managedFields"] = fields(&owned);
        object["spec"]["sessionPersistence"] = json!({"type": "Cookie", "cookie": {}});
        assert_eq!(of(kind, &object), nothing);
    }
}
