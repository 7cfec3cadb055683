//! What became of each object, in the words of Contour 1.0.0, else beginning with the field's path.

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::{IngressRouteSpec, Kind, Object, ObjectName, ObjectRef};

use super::delegation_tree::{DelegationFault, DelegationTree, ErrorPosition, MOST_IN_ALL, MOST_ROUTES};
use super::go::quoted;
use super::hosts::HostFindings;
use super::read::{IngressAction, IngressRouteContent, IngressRouteError};
use super::roots::{FORBIDDEN, RootHost};
use crate::Objects;
use crate::gateways::KEPT_CERTIFICATE;
use crate::reports::{IngressRouteReport, IngressRouteStatus};

/// The most notes of an object, whose fields may be anything.
const MOST_NOTES: usize = 16;
/// The most bytes of a text: a status and an Event have no room for more.
const MOST_BYTES: usize = 4096;
/// The most bytes of a host's name (RFC 1035, section 2.3.4).
const MOST_NAME: usize = 253;

const TO_ROOT: &str = "root ingressroute cannot delegate to another root ingressroute";

pub(super) struct IngressReportInputs<'a> {
    pub(super) objects: &'a Objects,
    pub(super) ours: &'a BTreeMap<&'a ObjectName, &'a Object<IngressRouteSpec>>,
    pub(super) roots: &'a BTreeMap<&'a ObjectName, Result<RootHost, Arc<str>>>,
    pub(super) contents: &'a BTreeMap<&'a ObjectName, Result<IngressRouteContent<'a>, IngressRouteError>>,
    pub(super) tree: &'a DelegationTree<'a>,
    pub(super) hosts: &'a HostFindings<'a>,
}

impl IngressReportInputs<'_> {
    pub(super) fn reports(&self) -> BTreeMap<ObjectName, IngressRouteReport> {
        let valid: Arc<str> = "valid IngressRoute".into();
        let orphaned: Arc<str> = "this IngressRoute is not part of a delegation chain from a root IngressRoute".into();
        let reports = self.ours.iter().map(|(name, object)| {
            let (status, description) = match self.mistake(name, object) {
                Some(text) => (IngressRouteStatus::Invalid, shortened(text)),
                None if self.is_reached(name) => (IngressRouteStatus::Valid, Arc::clone(&valid)),
                None => (IngressRouteStatus::Orphaned, Arc::clone(&orphaned)),
            };
            let report = IngressRouteReport {
                status,
                description,
                vhost: self.vhost(name),
                is_root: object.spec.virtualhost.is_some(),
                notes: if status == IngressRouteStatus::Valid {
                    self.notes(name)
                } else {
                    Vec::new()
                },
            };
            ((*name).clone(), report)
        });
        reports.collect()
    }

    fn is_reached(&self, name: &ObjectName) -> bool {
        self.tree.reached.contains_key(name)
    }

    /// The first mistake, in the order in which Contour looks for them.
    fn mistake(&self, name: &ObjectName, object: &Object<IngressRouteSpec>) -> Option<Arc<str>> {
        if let Some(error) = &object.malformed {
            return Some(error.to_string().into());
        }
        let object_ref = ObjectRef {
            kind: Kind::IngressRoute,
            name: name.clone(),
        };
        if let Some(stand_in) = self.objects.stand_ins.get(&object_ref) {
            return Some(stand_in.to_string().into());
        }
        if let Some(Err(text)) = self.roots.get(name) {
            return Some(Arc::clone(text));
        }
        // An object that no root reaches is not checked.
        if object.spec.virtualhost.is_none() && !self.is_reached(name) {
            return None;
        }
        let own = match self.contents.get(name) {
            Some(Err(mistake)) => Some((mistake.place, mistake.text.clone())),
            _ => None,
        };
        let of_edge = self.tree.faults.get(name);
        let of_edge = of_edge.map(|(place, fault)| (*place, Self::told(object, *place, fault)));
        let first = own.into_iter().chain(of_edge).min_by_key(|(place, _)| *place);
        if self.tree.too_large.contains(name) {
            let message = format!(
                "spec.routes: expected at most {MOST_ROUTES} routes of a host, delegations included, and \
                 {MOST_IN_ALL} of all hosts"
            );
            return Some(message.into());
        }
        let foreign = self.hosts.foreign.get(name).cloned();
        let refused = || {
            let words = &self.objects.quarantined.get(&object_ref)?.words;
            Some(format!("refused by Envoy: {words}"))
        };
        first.map(|(_, text)| text).or(foreign).or_else(refused).map(Arc::from)
    }

    fn told(object: &Object<IngressRouteSpec>, place: ErrorPosition, fault: &DelegationFault) -> String {
        match fault {
            DelegationFault::Outside { given } => {
                let rule = object.spec.routes.get(place.route);
                let prefix = rule.map_or("", |rule| &rule.prefix);
                format!(
                    "the path prefix {} does not match the parent's path prefix {}",
                    quoted(prefix),
                    quoted(given)
                )
            }
            DelegationFault::ToRoot => TO_ROOT.to_owned(),
            DelegationFault::Cycle(names) => format!("route creates a delegation cycle: {names}"),
        }
    }

    fn vhost(&self, name: &ObjectName) -> Arc<str> {
        let root = if self.roots.contains_key(name) {
            Some(name)
        } else {
            self.tree.reached.get(name).copied()
        };
        let object = root.and_then(|root| self.ours.get(root));
        let host = object.and_then(|object| object.spec.virtualhost.as_ref());
        let may_be = root.is_some_and(|root| !matches!(self.roots.get(root), Some(Err(text)) if **text == *FORBIDDEN));
        // A label of metrics, which have no room for any text.
        let fqdn = host.map_or("", |host| host.fqdn.trim());
        Arc::from(if may_be && fqdn.len() <= MOST_NAME { fqdn } else { "" })
    }

    fn notes(&self, name: &ObjectName) -> Vec<String> {
        let content = self.contents.get(name).and_then(|content| content.as_ref().ok());
        let own = content.map_or(&[][..], |content| &content.notes).iter().cloned();
        let rules = content.map_or(&[][..], |content| &content.rules).iter();
        let dangling = rules.filter(|rule| {
            let known = self.tree.dangling.range((name, rule.index)..).next();
            known == Some(&(name, rule.index))
        });
        let dangling = dangling.filter_map(|rule| match &rule.action {
            IngressAction::Delegate(to) => Some(format!(
                "spec.routes[{}].delegate: expected an IngressRoute of our class, found {to}, which is not there or of \
                 another class; the route is left out",
                rule.index
            )),
            IngressAction::Forward(_) => None,
        });
        let host = self.roots.get(name).and_then(|root| root.as_ref().ok());
        let kept = host.and_then(|host| {
            let secret = &host.tls.as_ref()?.secret;
            let why = self.objects.kept_certificates.get(secret)?;
            Some(format!(
                "spec.virtualhost.tls.secretName: Secret {secret}: {why}; {KEPT_CERTIFICATE}"
            ))
        });
        let overruled = self.hosts.overruled.get(name).into_iter().flatten().cloned();
        let mut notes: Vec<String> = kept.into_iter().chain(own).chain(dangling).chain(overruled).collect();
        let more = notes.len().saturating_sub(MOST_NOTES);
        notes.truncate(MOST_NOTES);
        if more > 0 {
            notes.push(format!("and {more} more"));
        }
        notes
            .into_iter()
            .map(|note| shortened(note.into()).to_string())
            .collect()
    }
}

fn shortened(text: Arc<str>) -> Arc<str> {
    if text.len() <= MOST_BYTES {
        return text;
    }
    let mut ends = (0..=MOST_BYTES).rev();
    let start = ends.find_map(|end| text.get(..end)).unwrap_or_default();
    format!("{start}\u{2026}").into()
}
