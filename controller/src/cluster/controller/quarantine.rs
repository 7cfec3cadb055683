//! Routes that Envoys refuse in spite of all checks, and their replacements. See `design/refused-routes.md`.
//!
//! A refusal is known by the refused content: a build checks whether a unit of the preflight is one that was refused,
//! and replaces the route that it came from. So a mark ends by itself when the route, or whatever else made the unit
//! bad, changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::cluster::reconcile::replicas::{RefusedRoute, ReplicaView};
use crate::cluster::reconcile::status::shortened;
use limpet_api::{GrpcRouteSpec, HttpRouteSpec, IngressRouteSpec, Kind, Object, ObjectName, ObjectRef, Text};
use limpet_model::{Map, Objects, Quarantined, RouteReplacement};
use limpet_resources::{Name, ResourceVersion, Resources};
use limpet_xds::RefusedUnit;

/// The most bytes of Envoy's message that are kept.
const WORDS: usize = 1000;
/// How many routes of a namespace are replaced because the Envoys of its own Gateways refuse them: each is built twice
/// in each build. Beyond that, these Envoys wait, and nothing changes for others.
const MOST_OF_OWN: usize = 500;

type RefusedUnits<T> = BTreeMap<(Name, ResourceVersion), T>;

#[derive(Debug, Clone)]
struct LocalRefusals {
    message: Arc<str>,
    /// The Gateway of the refusing Envoys, and the number of their addresses.
    gateway: Name,
    refusing: usize,
}

/// The refused units, and their replacements.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quarantine {
    /// By the Envoys of this replica.
    refused: RefusedUnits<LocalRefusals>,
    /// By the Envoys of other replicas.
    elsewhere: RefusedUnits<Arc<str>>,
    /// The version of each route before the last change that an Envoy accepted.
    former: BTreeMap<ObjectRef, RouteObject>,
}

#[derive(Debug, Clone)]
pub(crate) struct RouteRefusal {
    message: Arc<str>,
    /// Whether only Envoys of Gateways in the route's namespace refuse it.
    is_own: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RouteObject {
    Http(Arc<Object<HttpRouteSpec>>),
    Grpc(Arc<Object<GrpcRouteSpec>>),
    Ingress(Arc<Object<IngressRouteSpec>>),
}

impl Quarantine {
    /// `asked`: how many addresses of a Gateway's Envoys have a say. Once those that refused are no longer most of
    /// them, all are asked again. Returns whether there is anything to build.
    pub(crate) fn record_refusals(&mut self, refusals: Vec<RefusedUnit>, asked: impl Fn(&str) -> usize) -> bool {
        let before = self.refused.len();
        self.refused
            .retain(|_, decided| 2 * decided.refusing > asked(&decided.gateway));
        let mut is_changed = self.refused.len() != before;
        for refusal in refusals {
            let words = format!("Envoy {}: {}", refusal.node, refusal.message);
            let key = (refusal.unit, refusal.version);
            self.refused.entry(key).or_insert_with(|| {
                is_changed = true;
                LocalRefusals {
                    message: shortened(&words, WORDS).into(),
                    gateway: refusal.group,
                    refusing: refusal.refusing,
                }
            });
        }
        is_changed
    }

    /// Records refusals of other replicas' Envoys. Returns whether anything is new.
    pub(crate) fn record_remote_refusals(&mut self, others: &ReplicaView) -> bool {
        let told = others.values().flat_map(|said| &said.refused_routes);
        let refused = told.filter_map(|route| {
            let key = (Name::from(route.unit.as_str()), ResourceVersion::parse(&route.version)?);
            Some((key, shortened(&route.words, WORDS).into()))
        });
        let before = std::mem::replace(&mut self.elsewhere, refused.collect());
        self.elsewhere.keys().any(|key| !before.contains_key(key))
    }

    /// For other replicas: only refusals of our Envoys. Otherwise two replicas would keep each other's for ever.
    pub(crate) fn local_refusals(&self) -> BTreeSet<RefusedRoute> {
        let told = self.refused.iter().map(|((unit, version), decided)| RefusedRoute {
            unit: unit.to_string(),
            version: version.to_string(),
            words: decided.message.to_string(),
        });
        told.collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.elsewhere.is_empty()
    }

    /// The routes with refused units, and these refusals. Other replicas count only for Gateways not in `asked`: where
    /// this replica has Envoys, they report themselves. `gateways_of`: the Gateways that may have the unit of a route.
    pub(crate) fn of(
        &self,
        resources: &BTreeMap<ObjectName, Resources>,
        gateways_of: impl Fn(&ObjectRef) -> BTreeSet<ObjectName>,
        asked: &BTreeSet<ObjectName>,
        hits: &mut BTreeSet<(Name, ResourceVersion)>,
    ) -> BTreeMap<ObjectRef, RouteRefusal> {
        let mut found: BTreeMap<ObjectRef, RouteRefusal> = BTreeMap::new();
        for key in self.refused.keys().chain(self.elsewhere.keys()) {
            let (name, version) = key;
            let Some(object) = object_of(name) else { continue };
            let own = self.refused.get(key);
            let by = own.map(|decided| ObjectName::namespace_in(&decided.gateway));
            let is_own = by == Some(&*object.name.namespace);
            let own = own.map(|decided| &decided.message);
            let elsewhere = self.elsewhere.get(key);
            let has_it = |gateway: &ObjectName| {
                let unit = resources.get(gateway).and_then(|resources| resources.unit(name));
                unit.is_some_and(|unit| unit.version() == *version)
            };
            for gateway in gateways_of(&object).into_iter().filter(has_it) {
                let words = own.or_else(|| elsewhere.filter(|_| !asked.contains(&gateway)));
                if let Some(words) = words.cloned() {
                    let known = found
                        .entry(object.clone())
                        .or_insert(RouteRefusal { message: words, is_own });
                    known.is_own &= is_own;
                    hits.insert(key.clone());
                }
            }
        }
        found
    }

    /// Replaces these routes of `objects` by the next best. `all`: the original objects. Returns whether there is
    /// anything left to try.
    pub(crate) fn replace(
        &self,
        objects: &mut Objects,
        all: &Objects,
        refused: BTreeMap<ObjectRef, RouteRefusal>,
    ) -> bool {
        let mut replaced: BTreeMap<Text, usize> = BTreeMap::new();
        for object in objects.quarantined.keys() {
            *replaced.entry(object.name.namespace.clone()).or_default() += 1;
        }
        let mut is_changed = false;
        for (object, refusal) in refused {
            let Some(route) = RouteObject::find(all, &object) else {
                continue;
            };
            let known = objects.quarantined.get(&object);
            let replaced = replaced.entry(object.name.namespace.clone()).or_default();
            if known.is_none() && refusal.is_own && *replaced >= MOST_OF_OWN {
                continue;
            }
            let former = self.former.get(&object).filter(|former| **former != route);
            let (next, serves) = match (known.map(|known| known.serves), former) {
                (None, Some(former)) => (former, RouteReplacement::Former),
                (None, None) | (Some(RouteReplacement::Former), _) => (&route, RouteReplacement::Status500),
                (Some(RouteReplacement::Status500), _) => (&route, RouteReplacement::Nothing),
                (Some(RouteReplacement::Nothing), _) => continue,
            };
            *replaced += usize::from(known.is_none());
            let quarantined = Quarantined {
                generation: route.generation(),
                words: known.map_or_else(|| refusal.message.to_string(), |known| known.words.clone()),
                serves,
            };
            next.put_into(objects, &object.name);
            objects.quarantined.insert(object, quarantined);
            is_changed = true;
        }
        is_changed
    }

    /// Forgets the refusals in `known` that hit nothing.
    pub(crate) fn forget(&mut self, known: &Self, hits: &BTreeSet<(Name, ResourceVersion)>) {
        self.refused
            .retain(|key, _| hits.contains(key) || !known.refused.contains_key(key));
    }

    /// Remembers routes as they are before a change.
    pub(crate) fn remember(
        &mut self,
        before: &Objects,
        after: &Objects,
        standing: impl Fn(&ObjectRef) -> RouteStanding,
    ) {
        let http = changed(
            Kind::HttpRoute,
            &before.http_routes,
            &after.http_routes,
            RouteObject::Http,
        );
        let grpc = changed(
            Kind::GrpcRoute,
            &before.grpc_routes,
            &after.grpc_routes,
            RouteObject::Grpc,
        );
        let ingress = changed(
            Kind::IngressRoute,
            &before.ingress_routes,
            &after.ingress_routes,
            RouteObject::Ingress,
        );
        for (object, was) in http.chain(grpc).chain(ingress) {
            let Some(was) = was else {
                self.former.remove(&object);
                continue;
            };
            match standing(&object) {
                RouteStanding::Refused => {}
                RouteStanding::Unknown if self.former.contains_key(&object) => {}
                RouteStanding::Unknown | RouteStanding::Accepted => {
                    self.former.insert(object, was);
                }
            }
        }
    }
}

/// A refusal by one Envoy outweighs approvals by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteStanding {
    Accepted,
    Refused,
    Unknown,
}

/// The objects that differ, as they were, and those that are gone. Takes time only for these.
fn changed<'a, S: Eq>(
    kind: Kind,
    before: &'a Map<ObjectName, Object<S>>,
    after: &'a Map<ObjectName, Object<S>>,
    route: impl Fn(Arc<Object<S>>) -> RouteObject + 'a,
) -> impl Iterator<Item = (ObjectRef, Option<RouteObject>)> + 'a {
    before.diff(after).filter_map(move |item| {
        let (name, was) = match item {
            DiffItem::Add(..) => return None,
            DiffItem::Update { old: (name, was), .. } => (name, Some(route(Arc::clone(was)))),
            DiffItem::Remove(name, _) => (name, None),
        };
        let name = name.clone();
        Some((ObjectRef { kind, name }, was))
    })
}

impl RouteObject {
    fn find(objects: &Objects, object: &ObjectRef) -> Option<Self> {
        match object.kind {
            Kind::HttpRoute => objects.http_routes.get(&object.name).cloned().map(Self::Http),
            Kind::GrpcRoute => objects.grpc_routes.get(&object.name).cloned().map(Self::Grpc),
            Kind::IngressRoute => objects.ingress_routes.get(&object.name).cloned().map(Self::Ingress),
            _ => None,
        }
    }

    fn put_into(&self, objects: &mut Objects, name: &ObjectName) {
        match self {
            Self::Http(route) => drop(objects.http_routes.insert(name.clone(), Arc::clone(route))),
            Self::Grpc(route) => drop(objects.grpc_routes.insert(name.clone(), Arc::clone(route))),
            Self::Ingress(route) => drop(objects.ingress_routes.insert(name.clone(), Arc::clone(route))),
        }
    }

    fn generation(&self) -> i64 {
        match self {
            Self::Http(route) => route.meta.generation,
            Self::Grpc(route) => route.meta.generation,
            Self::Ingress(route) => route.meta.generation,
        }
    }
}

/// The route that a unit came from.
fn object_of(unit: &str) -> Option<ObjectRef> {
    ObjectRef::from_key(unit, &[Kind::HttpRoute, Kind::GrpcRoute, Kind::IngressRoute])
}

#[cfg(test)]
mod tests;
