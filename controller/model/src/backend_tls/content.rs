//! What a policy demands.

use std::net::IpAddr;

use super::{TlsPolicyContent, means_service};
use crate::Objects;
use crate::certificate::Authorities;
use crate::field_problem::{FieldProblem, joined};
use crate::graph::{BackendTls, SubjectAltName, TrustedAuthorities};
use crate::reports::Condition;
use limpet_api::{BackendTlsPolicySpec, BackendValidation, CaCertificateRef, Kind, Object, ObjectName};

const MAX_HOSTNAME: usize = 253;

/// The most bytes of PEM of several references together: Envoys have each combination as its own secret.
const MOST_OF_SEVERAL: usize = 256 << 10;

pub(super) fn read(objects: &Objects, name: &ObjectName, object: &Object<BackendTlsPolicySpec>) -> TlsPolicyContent {
    let problems = problems(object);
    if !problems.is_empty() {
        return TlsPolicyContent {
            tls: Err(invalid(&problems)),
            resolved: None,
        };
    }
    let validation = &object.spec.validation;
    let (authorities, resolved) = if validation.ca_certificate_refs.is_empty() {
        let resolved = Condition::holds("ResolvedRefs", "ResolvedRefs", "The policy has no references");
        (Ok(TrustedAuthorities::System), resolved)
    } else {
        resolve(objects, name, &validation.ca_certificate_refs)
    };
    let names = if validation.subject_alt_names.is_empty() {
        vec![SubjectAltName::Dns(validation.hostname.clone())]
    } else {
        validation.subject_alt_names.iter().filter_map(alt_name).collect()
    };
    TlsPolicyContent {
        tls: authorities.map(|authorities| BackendTls {
            sni: validation.hostname.clone(),
            subject_alt_names: names,
            authorities,
        }),
        resolved: Some(resolved),
    }
}

fn invalid(problems: &[FieldProblem]) -> Condition {
    Condition::fails("Accepted", "Invalid", joined(problems))
}

/// An unknown field may demand more than is known here, so it is refused.
fn problems(object: &Object<BackendTlsPolicySpec>) -> Vec<FieldProblem> {
    if let Some(error) = &object.malformed {
        return vec![error.clone().into()];
    }
    let unknown = object.unread.iter().map(|field| FieldProblem {
        field: field.clone(),
        message: "this field is not supported".to_owned(),
    });
    let mut problems: Vec<FieldProblem> = unknown.collect();
    for (index, target) in object.spec.target_refs.iter().enumerate() {
        if Kind::find(&target.group, &target.kind).is_none() && means_service(target) {
            problems.push(FieldProblem {
                field: format!("spec.targetRefs[{index}]"),
                message: format!(
                    "expected the kind Service of group \"\", found {} of group {:?}",
                    target.kind, target.group
                ),
            });
        }
    }
    let mut problem = |field: &str, message: String| {
        problems.push(FieldProblem {
            field: format!("spec.validation.{field}"),
            message,
        });
    };
    let validation = &object.spec.validation;
    let hostname = &validation.hostname;
    if !is_hostname(hostname) {
        problem("hostname", format!("expected the name of a host, found {hostname:?}"));
    }
    for (index, name) in validation.subject_alt_names.iter().enumerate() {
        if alt_name(name).is_none() {
            let expected = "expected the type Hostname with a hostname, or URI with a uri";
            problem(&format!("subjectAltNames[{index}]"), expected.to_owned());
        }
    }
    match (well_known(validation), validation.ca_certificate_refs.is_empty()) {
        (None, true) => problem(
            "caCertificateRefs",
            "expected a ConfigMap, or wellKnownCACertificates".to_owned(),
        ),
        (Some(_), false) => problem(
            "wellKnownCACertificates",
            "expected nothing beside caCertificateRefs".to_owned(),
        ),
        (Some(other), true) if other != "System" => {
            problem("wellKnownCACertificates", format!("expected System, found {other}"));
        }
        _ => {}
    }
    problems
}

fn well_known(validation: &BackendValidation) -> Option<&str> {
    let well_known = validation.well_known_ca_certificates.as_deref();
    well_known.filter(|name| !name.is_empty())
}

/// A DNS name without wildcard. RFC 6066 forbids addresses in the Server Name Indication.
fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.len() <= MAX_HOSTNAME && text.split('.').all(is_label) && text.parse::<IpAddr>().is_err()
}

fn alt_name(name: &limpet_api::PolicySubjectAltName) -> Option<SubjectAltName> {
    let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    match name.kind.as_str() {
        "Hostname" => set(&name.hostname)
            .filter(|host| is_hostname(host.strip_prefix("*.").unwrap_or(host)))
            .map(SubjectAltName::Dns),
        "URI" => set(&name.uri).map(SubjectAltName::Uri),
        _ => None,
    }
}

/// The authorities, and whether all can be read. Without any, the error is the condition `Accepted`.
fn resolve(
    objects: &Objects,
    policy: &ObjectName,
    refs: &[CaCertificateRef],
) -> (Result<TrustedAuthorities, Condition>, Condition) {
    let mut found: Vec<&Authorities> = Vec::new();
    let mut bad: Vec<(&str, String)> = Vec::new();
    for (index, reference) in refs.iter().enumerate() {
        let read = authorities(objects, policy, reference);
        match read.and_then(|(read, kept)| Ok((with_room(read, &found)?, kept))) {
            Ok((authorities, kept)) => {
                found.push(authorities);
                bad.extend(kept.map(|why| {
                    let message = format!("{why}; its last valid certificates stay in use");
                    (
                        "InvalidCACertificateRef",
                        format!("spec.validation.caCertificateRefs[{index}].name: {message}"),
                    )
                }));
            }
            Err((reason, field, message)) => bad.push((
                reason,
                format!("spec.validation.caCertificateRefs[{index}]{field}: {message}"),
            )),
        }
    }
    let messages: Vec<&str> = bad.iter().map(|(_, message)| message.as_str()).collect();
    let resolved = match bad.first() {
        None => Condition::holds("ResolvedRefs", "ResolvedRefs", "All references are resolved"),
        Some((reason, _)) => Condition::fails("ResolvedRefs", reason, messages.join("; ")),
    };
    let trusted = match Authorities::joined(found) {
        Some(authorities) => Ok(TrustedAuthorities::Certificates(authorities)),
        None => Err(Condition::fails(
            "Accepted",
            "NoValidCACertificate",
            messages.join("; "),
        )),
    };
    (trusted, resolved)
}

/// The reason, the field below the reference, and the message.
type CertificateRefError = (&'static str, &'static str, String);

/// These authorities, if they have room beside `before`, the authorities of earlier references.
fn with_room<'a>(
    authorities: &'a Authorities,
    before: &[&Authorities],
) -> Result<&'a Authorities, CertificateRefError> {
    let others = before.iter().filter(|other| **other != authorities);
    let bytes = others
        .map(|other| other.bytes())
        .fold(authorities.bytes(), usize::saturating_add);
    if before.is_empty() || bytes <= MOST_OF_SEVERAL {
        return Ok(authorities);
    }
    let message = format!(
        "expected at most {MOST_OF_SEVERAL} bytes of certificates in all ConfigMaps of caCertificateRefs, found \
         {bytes} up to this one, which is left out: put the certificates into one ConfigMap"
    );
    Err(("InvalidCACertificateRef", ".name", message))
}

/// The authorities, and why they are those from before.
fn authorities<'a>(
    objects: &'a Objects,
    policy: &ObjectName,
    reference: &CaCertificateRef,
) -> Result<(&'a Authorities, Option<String>), CertificateRefError> {
    let CaCertificateRef { group, kind, name } = reference;
    if !group.is_empty() || kind != "ConfigMap" {
        let message = format!("expected a ConfigMap, found {kind} of group {group:?}");
        return Err(("InvalidKind", ".kind", message));
    }
    let name = ObjectName::new(&policy.namespace, name);
    let invalid = |message: String| ("InvalidCACertificateRef", ".name", message);
    match objects.authorities.get(&name) {
        Some(Ok(authorities)) => {
            let kept = objects.kept_authorities.get(&name);
            Ok((authorities, kept.map(|why| format!("ConfigMap {name}: {why}"))))
        }
        Some(Err(why)) => Err(invalid(format!("ConfigMap {name}: {why}"))),
        None => Err(invalid(format!("expected ConfigMap {name}, which does not exist"))),
    }
}
