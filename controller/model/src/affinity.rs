//! Services with `sessionAffinity: ClientIP`: the client's address holds the session, for each port of a Service.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reports::Condition;
use super::{Objects, field_problem::FieldProblem};
use limpet_api::{Kind, ObjectName, ObjectRef, ServiceSpec};
use limpet_core::config::schema::{PolicyConfig, SourceConfig};

/// Seconds that the API server fills in.
const DEFAULT_TIMEOUT: u32 = 10_800;
/// A day: the longest one that the API server accepts.
const MAX_TIMEOUT: u32 = 86_400;

/// How long the affinity of a Service lasts after its last use, if it has any.
///
/// # Errors
/// If the API server would not accept its fields.
pub(super) fn of(service: &ServiceSpec) -> Result<Option<Duration>, FieldProblem> {
    match service.session_affinity.as_deref() {
        None | Some("None") => return Ok(None),
        Some("ClientIP") => {}
        Some(other) => {
            return Err(FieldProblem {
                field: "spec.sessionAffinity".to_owned(),
                message: format!("expected None or ClientIP, found {other:?}"),
            });
        }
    }
    let config = service.session_affinity_config.as_ref();
    let seconds = config.and_then(|config| config.client_ip.as_ref()?.timeout_seconds);
    let seconds = seconds.unwrap_or(DEFAULT_TIMEOUT);
    if (1..=MAX_TIMEOUT).contains(&seconds) {
        return Ok(Some(Duration::from_secs(seconds.into())));
    }
    Err(FieldProblem {
        field: "spec.sessionAffinityConfig.clientIP.timeoutSeconds".to_owned(),
        message: format!("expected 1 to {MAX_TIMEOUT}, found {seconds}"),
    })
}

/// As [`of`]. A Service with a mistake, which [`problems`] reports, has no affinity.
pub(super) fn of_named(objects: &Objects, service: &ObjectName) -> Option<Duration> {
    of(&objects.services.get(service)?.spec).ok().flatten()
}

/// The sessions of a Service with affinity. A client is its whole address, and gets another endpoint at once when its
/// own is gone.
pub(super) fn policy(timeout: Duration) -> PolicyConfig {
    PolicyConfig {
        source: Some(SourceConfig {
            prefix_v6: 128,
            timeout: timeout.into(),
            ..SourceConfig::default()
        }),
        ..PolicyConfig::default()
    }
}

/// The scope of the sessions of a Service's port, shared by all rules that lead to it.
pub(super) fn scope(service: &ObjectName, port: u16) -> String {
    format!("service/{}/{}/{port}", service.namespace, service.name)
}

/// Problems of Services' affinity, which only Services from files can have.
pub(super) fn problems(objects: &Objects) -> BTreeMap<ObjectRef, Condition> {
    let wrong = objects.services.iter().filter_map(|(name, service)| {
        let FieldProblem { field, message } = of(&service.spec).err()?;
        let object = ObjectRef {
            kind: Kind::Service,
            name: name.clone(),
        };
        Some((
            object,
            Condition::fails("Accepted", "Invalid", format!("{field}: {message}")),
        ))
    });
    wrong.collect()
}
