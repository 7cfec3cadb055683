//! What became of each object, in the words of Contour 1.0.0. What it has no words for begins with the field's path.

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::{IngressRouteSpec, Kind, Object, ObjectName, ObjectRef};

use super::go::quoted;
use super::read::{Content, Does, Mistake};
use super::roots::{FORBIDDEN, Host};
use super::tree::{Fault, Place, Step, Tree};
use crate::Objects;
use crate::reports::{IngressRouteReport, IngressRouteStatus};

/// The most notes of an object: its fields may be anything.
const MOST_NOTES: usize = 16;
/// The most bytes of a text: a status and an Event have no room for more.
const MOST_BYTES: usize = 4096;

/// What reports are made of.
pub(super) struct Inputs<'a> {
    pub(super) objects: &'a Objects,
    pub(super) ours: &'a BTreeMap<&'a ObjectName, &'a Object<IngressRouteSpec>>,
    pub(super) roots: &'a BTreeMap<&'a ObjectName, Result<Host, Arc<str>>>,
    pub(super) contents: &'a BTreeMap<&'a ObjectName, Result<Content<'a>, Mistake>>,
    pub(super) tree: &'a Tree<'a>,
    /// The routes in whose place another object's count.
    pub(super) overruled: &'a BTreeMap<&'a ObjectName, Vec<String>>,
}

impl Inputs<'_> {
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
        if let Some(Err(text)) = self.roots.get(name) {
            return Some(Arc::clone(text));
        }
        // Nobody looks at what no root leads to.
        if object.spec.virtualhost.is_none() && !self.is_reached(name) {
            return None;
        }
        let own = match self.contents.get(name) {
            Some(Err(mistake)) => Some((mistake.place, mistake.text.clone())),
            _ => None,
        };
        let of_edge = self.tree.faults.get(name);
        let of_edge = of_edge.map(|(place, fault)| (*place, self.told(name, object, *place, fault)));
        let to_root = own.as_ref().and_then(|_| self.to_root(object));
        let first = own
            .into_iter()
            .chain(of_edge)
            .chain(to_root)
            .min_by_key(|(place, _)| *place);
        let refused = || {
            let object = ObjectRef {
                kind: Kind::IngressRoute,
                name: name.clone(),
            };
            let words = &self.objects.quarantined.get(&object)?.words;
            Some(format!("refused by Envoy: {words}"))
        };
        first.map(|(_, text)| text).or_else(refused).map(Arc::from)
    }

    fn told(&self, name: &ObjectName, object: &Object<IngressRouteSpec>, place: Place, fault: &Fault) -> String {
        match fault {
            Fault::Outside { given } => {
                let prefix = match self.contents.get(name) {
                    Some(Ok(content)) => content.rules.get(place.route).map(|rule| rule.prefix),
                    _ => object.spec.routes.get(place.route).map(|rule| rule.prefix.as_str()),
                };
                let prefix = prefix.unwrap_or_default();
                format!(
                    "the path prefix {} does not match the parent's path prefix {}",
                    quoted(prefix),
                    quoted(given)
                )
            }
            Fault::ToRoot => TO_ROOT.to_owned(),
            Fault::Cycle(names) => format!("route creates a delegation cycle: {names}"),
        }
    }

    /// Whether an object with a mistake delegates to a root as well, which Contour may see first.
    fn to_root(&self, object: &Object<IngressRouteSpec>) -> Option<(Place, String)> {
        let route = object.spec.routes.iter().position(|rule| {
            rule.services.is_empty()
                && rule.delegate.as_ref().is_some_and(|delegate| {
                    let own = object.meta.namespace.as_str();
                    let namespace = Some(delegate.namespace.as_str()).filter(|name| !name.is_empty());
                    let target = ObjectName::new(namespace.unwrap_or(own), &delegate.name);
                    self.roots.contains_key(&target)
                })
        })?;
        let place = Place {
            route,
            step: Step::Target,
        };
        Some((place, TO_ROOT.to_owned()))
    }

    /// The host as the root writes it.
    fn vhost(&self, name: &ObjectName) -> Arc<str> {
        let root = if self.roots.contains_key(name) {
            Some(name)
        } else {
            self.tree.reached.get(name).copied()
        };
        let object = root.and_then(|root| self.ours.get(root));
        let host = object.and_then(|object| object.spec.virtualhost.as_ref());
        let may_be = root.is_some_and(|root| !matches!(self.roots.get(root), Some(Err(text)) if **text == *FORBIDDEN));
        let fqdn = host.map_or("", |host| host.fqdn.trim());
        Arc::from(if may_be { fqdn } else { "" })
    }

    fn notes(&self, name: &ObjectName) -> Vec<String> {
        let content = self.contents.get(name).and_then(|content| content.as_ref().ok());
        let own = content.map_or(&[][..], |content| &content.notes).iter().cloned();
        let rules = content.map_or(&[][..], |content| &content.rules).iter().enumerate();
        let dangling = rules.filter(|(index, _)| {
            let known = self.tree.dangling.range((name, *index)..).next();
            known == Some(&(name, *index))
        });
        let dangling = dangling.filter_map(|(_, rule)| match &rule.does {
            Does::Delegate(to) => Some(format!(
                "spec.routes[{}].delegate: expected an IngressRoute of our class, found {to}, which is none; the route \
                 is left out",
                rule.index
            )),
            _ => None,
        });
        let overruled = self.overruled.get(name).into_iter().flatten().cloned();
        let mut notes: Vec<String> = own.chain(dangling).chain(overruled).collect();
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

/// Who delegates to it is told so, and what it has is left out.
const TO_ROOT: &str = "root ingressroute cannot delegate to another root ingressroute";
fn shortened(text: Arc<str>) -> Arc<str> {
    if text.len() <= MOST_BYTES {
        return text;
    }
    let mut ends = (0..=MOST_BYTES).rev();
    let start = ends.find_map(|end| text.get(..end)).unwrap_or_default();
    format!("{start}\u{2026}").into()
}
