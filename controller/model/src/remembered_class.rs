//! What is remembered of a GatewayClass.

use limpet_api::{GatewayClassSpec, Meta, Object, ParametersRef};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RememberedClass {
    name: String,
    controller_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_ref: Option<RememberedParameters>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RememberedParameters {
    group: String,
    kind: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

impl RememberedClass {
    /// The class, as far as anything of it counts.
    pub(crate) fn object(&self) -> Object<GatewayClassSpec> {
        let parameters_ref = self.parameters_ref.clone().map(|of| ParametersRef {
            group: of.group,
            kind: of.kind,
            name: of.name,
            namespace: of.namespace,
        });
        Object {
            meta: Meta {
                name: self.name.as_str().into(),
                ..Meta::default()
            },
            spec: GatewayClassSpec {
                controller_name: self.controller_name.clone(),
                parameters_ref,
            },
            unread: Vec::new(),
            malformed: None,
        }
    }

    pub(crate) fn new(name: &str, spec: &GatewayClassSpec) -> Self {
        let parameters_ref = spec.parameters_ref.as_ref().map(|of| RememberedParameters {
            group: of.group.clone(),
            kind: of.kind.clone(),
            name: of.name.clone(),
            namespace: of.namespace.clone(),
        });
        Self {
            name: name.to_owned(),
            controller_name: spec.controller_name.clone(),
            parameters_ref,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn controller_name(&self) -> &str {
        &self.controller_name
    }
}
