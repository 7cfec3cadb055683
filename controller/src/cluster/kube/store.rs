mod slices;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use kube::core::ApiResource;
use limpet_xds::LogRate;

use super::decode::{DecodedObject, ObjectContent};
use super::kind::REQUIRED;
use super::own_status::ObservedStatus;
use super::reader::WatchSettings;
use super::references::{self, AllWanted, ReferenceChoice, ReferencedObject};
use super::update::StoreUpdate;
use limpet_api::{Kind, ObjectName, ObjectRef, Text};
use limpet_model::endpoints::{self, Endpoint};
use limpet_model::{
    Authorities, Certificate, Map, Memory, Objects, RouteReferences, SessionPolicyKind, SessionPolicyName,
};
pub(crate) use slices::{PodDeletions, SliceIndex};

/// The state of the API server, as watches have reported it.
#[derive(Debug)]
pub(crate) struct Store {
    watched: WatchSettings,
    objects: Arc<Objects>,
    slices: Arc<SliceIndex>,
    observed: Arc<BTreeMap<Kind, Map<ObjectName, ObservedObjectStatus>>>,
    counts: BTreeMap<Kind, usize>,
    malformed: BTreeSet<ObjectRef>,
    logs: LogRate,
    served: BTreeMap<Kind, ApiResource>,
    /// The required kinds that are not served.
    unserved: BTreeSet<Kind>,
    /// Not listed yet.
    awaited: BTreeSet<(Kind, Option<Arc<str>>)>,
    /// The namespaces whose pods were not listed yet, and may be readable.
    awaited_pods: BTreeSet<Option<Arc<str>>>,
    /// The namespaces whose pods were not listed yet.
    unlisted_pods: BTreeSet<Option<Arc<str>>>,
    references: BTreeMap<ReferencedObject, ReferenceChoice>,
    /// References without a watch, and why.
    beyond: BTreeMap<ReferencedObject, String>,
    choice: ReferenceChoice,
    /// Whether anything has changed that references depend on.
    may_want: bool,
    /// Targets of our Gateways' routes; `None`: unknown since they may have changed.
    led_to: Option<BTreeSet<(Kind, ObjectName)>>,
    /// The namespaces whose grants have changed.
    granting: BTreeSet<Text>,
    /// The pods that began or ended to drain.
    changed_pods: BTreeSet<ObjectName>,
    answered: BTreeSet<ReferencedObject>,
    /// The Services that lead to Envoys.
    followed: BTreeSet<ObjectName>,
}

/// The present status of an object that can have ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedObjectStatus {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) status: ObservedStatus,
}

/// The statuses that watches saw last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observation {
    /// Those that can have a status of ours.
    pub(crate) objects: Arc<BTreeMap<Kind, Map<ObjectName, ObservedObjectStatus>>>,
    /// The version and the plural of each served kind.
    pub(crate) served: BTreeMap<Kind, ApiResource>,
}

#[expect(clippy::struct_excessive_bools, reason = "each says what another part reads")]
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreChange {
    /// Whether a graph may differ.
    pub(crate) objects: bool,
    pub(crate) services: BTreeSet<ObjectName>,
    pub(crate) statuses: bool,
    /// Whether other single objects are wanted than before.
    pub(crate) references: bool,
    /// Whether deletions of pods may have changed.
    pub(crate) pods: bool,
}

impl Store {
    pub(crate) fn new(watched: WatchSettings) -> Self {
        let of_kind = |kind: Kind| {
            watched
                .namespaces_of(kind)
                .into_iter()
                .map(move |namespace| (kind, namespace))
        };
        let awaited = watched.kinds().into_iter().flat_map(of_kind).collect();
        let awaited_pods: BTreeSet<_> = watched.namespaces_of_pods().into_iter().collect();
        Self {
            unlisted_pods: awaited_pods.clone(),
            awaited_pods,
            watched,
            objects: Arc::default(),
            slices: Arc::default(),
            observed: Arc::default(),
            counts: BTreeMap::new(),
            malformed: BTreeSet::new(),
            logs: LogRate::default(),
            served: BTreeMap::new(),
            unserved: BTreeSet::new(),
            awaited,
            references: BTreeMap::new(),
            beyond: BTreeMap::new(),
            choice: ReferenceChoice::default(),
            may_want: false,
            led_to: None,
            granting: BTreeSet::new(),
            changed_pods: BTreeSet::new(),
            answered: BTreeSet::new(),
            followed: BTreeSet::new(),
        }
    }

    /// All except EndpointSlices. Cheap: states share equal objects.
    pub(crate) fn objects(&self) -> Arc<Objects> {
        Arc::clone(&self.objects)
    }

    /// Sets the memory of former objects, once they are listed. Returns whether other single objects are wanted.
    pub(crate) fn set_memory(&mut self, memory: Memory) -> bool {
        if self.objects.memory != memory {
            Arc::make_mut(&mut self.objects).memory = memory;
        }
        self.settle_classes() && self.choose()
    }

    /// Keeps classes that are gone while Gateways name them. Returns whether others are kept than before.
    fn settle_classes(&mut self) -> bool {
        let controller = &self.watched.controller;
        let may_settle = self.watched.serves && self.objects.has_gone_classes();
        let are_others = may_settle && Arc::make_mut(&mut self.objects).settle_classes(controller);
        if are_others {
            self.led_to = None;
        }
        are_others
    }

    /// Sets the Services that lead to Envoys: where their pods are ready is part of the objects.
    pub(crate) fn follow(&mut self, services: BTreeSet<ObjectName>) -> StoreChange {
        let mut change = StoreChange::default();
        if self.followed != services {
            let before = std::mem::replace(&mut self.followed, services);
            let both = before.union(&self.followed).cloned().collect();
            change.objects = self.record_readiness(&both);
            change.references = change.objects && self.choose();
        }
        change
    }

    /// Notes where the pods of these Services are ready, if they lead to Envoys. Returns whether that changed anything.
    fn record_readiness(&mut self, services: &BTreeSet<ObjectName>) -> bool {
        let mut changed = false;
        for service in services {
            let slices = self.slices.of(service);
            let now = self.followed.contains(service).then(|| endpoints::readiness(slices));
            if self.objects.readiness.get(service) != now.as_ref() {
                let readiness = &mut Arc::make_mut(&mut self.objects).readiness;
                match now {
                    Some(now) => drop(readiness.insert(service.clone(), now)),
                    None => drop(readiness.remove(service)),
                }
                changed = true;
            }
        }
        changed
    }

    /// Whether all kinds were listed. Until then, nothing may be served: what is missing would count as deleted.
    pub(crate) fn is_complete(&self) -> bool {
        self.awaited.is_empty() && self.awaited_pods.is_empty()
    }

    pub(crate) fn missing(&self) -> Option<String> {
        let unserved: Vec<_> = self.unserved.iter().map(|kind| kind.as_str()).collect();
        if !unserved.is_empty() {
            let kinds = unserved.join(", ");
            return Some(format!(
                "the API server does not serve {kinds}: install the definitions of the Gateway API"
            ));
        }
        let mut awaited: Vec<_> = self.awaited.iter().map(|(kind, _)| kind.as_str()).collect();
        awaited.dedup();
        awaited.extend((!self.awaited_pods.is_empty()).then_some("Pod"));
        (!awaited.is_empty()).then(|| format!("not read yet: {}", awaited.join(", ")))
    }

    /// Whether the watch of every wanted single object has answered.
    pub(crate) fn has_wanted(&self) -> bool {
        self.references.keys().all(|object| self.answered.contains(object))
    }

    pub(crate) fn references(&self) -> &BTreeMap<ReferencedObject, ReferenceChoice> {
        &self.references
    }

    pub(crate) fn observation(&self) -> Observation {
        Observation {
            objects: Arc::clone(&self.observed),
            served: self.served.clone(),
        }
    }

    /// `None` if not all pods were listed yet.
    pub(crate) fn deletions(&self) -> Option<Arc<PodDeletions>> {
        let are_listed = self.watched.pods && self.unlisted_pods.is_empty();
        are_listed.then(|| Arc::clone(self.slices.deletions()))
    }

    pub(crate) fn endpoints(&self, service: &ObjectName, port_name: &str) -> Vec<Endpoint> {
        self.slices.endpoints(service, port_name)
    }

    /// EndpointSlices with the states of their pods. Cheap, as [`Self::objects`].
    pub(crate) fn slices(&self) -> Arc<SliceIndex> {
        Arc::clone(&self.slices)
    }

    /// For each kind, the numbers of objects, and of those that could not be read.
    pub(crate) fn counts(&self) -> BTreeMap<Kind, (usize, usize)> {
        let count = |kind: Kind| {
            let malformed = self.malformed.iter().filter(|of| of.kind == kind).count();
            let all = self.counts.get(&kind).copied().unwrap_or_default();
            (kind, (all - malformed, malformed))
        };
        Kind::ALL.into_iter().map(count).collect()
    }

    pub(crate) fn apply(&mut self, update: StoreUpdate) -> StoreChange {
        self.apply_all([update])
    }

    /// Applies a batch. Consequences are decided once, because that visits many objects.
    pub(crate) fn apply_all(&mut self, updates: impl IntoIterator<Item = StoreUpdate>) -> StoreChange {
        let mut change = StoreChange::default();
        for update in updates {
            self.take_in(update, &mut change);
        }
        self.settle(&mut change);
        change
    }

    fn take_in(&mut self, update: StoreUpdate, change: &mut StoreChange) {
        match update {
            StoreUpdate::Served(kind, resource) => {
                self.unserved.remove(&kind);
                self.served.insert(kind, resource);
                change.statuses = true;
            }
            // Its objects are not deleted: the Gateway API is not installed, or is being replaced.
            StoreUpdate::NotServed(kind) if REQUIRED.contains(&kind) => {
                self.served.remove(&kind);
                let namespaces = self.watched.namespaces_of(kind).into_iter();
                self.awaited.extend(namespaces.map(|namespace| (kind, namespace)));
                self.unserved.insert(kind);
            }
            StoreUpdate::NotServed(kind) => {
                self.served.remove(&kind);
                self.awaited.retain(|(awaited, _)| *awaited != kind);
                self.replace(kind, None, Vec::new(), change);
            }
            StoreUpdate::Listed(kind, namespace, entries) => {
                self.replace(kind, namespace.as_deref(), entries, change);
                self.awaited.remove(&(kind, namespace));
            }
            StoreUpdate::Applied(kind, entry) => self.insert(kind, *entry, change),
            StoreUpdate::Deleted(kind, name) => self.remove(kind, &name, change),
            StoreUpdate::Secret(name, found) => change.objects |= self.answer_secret(name, found),
            StoreUpdate::ConfigMap(name, found) => change.objects |= self.answer_config_map(name, found),
            StoreUpdate::Node(name, found) => {
                let object = ReferencedObject::Node(name);
                change.objects |= self.answer(&object, |all| &all.nodes, |all| &mut all.nodes, found);
            }
            StoreUpdate::Pods(namespace, pods) => {
                let slices = Arc::make_mut(&mut self.slices);
                slices.set_pods(namespace.as_deref(), pods, &mut self.changed_pods);
                self.awaited_pods.remove(&namespace);
                self.unlisted_pods.remove(&namespace);
                change.pods = true;
            }
            StoreUpdate::Pod(name, pod) => {
                Arc::make_mut(&mut self.slices).set_pod(name, pod, &mut self.changed_pods);
                change.pods = true;
            }
            // What was read before stays in use.
            StoreUpdate::NoPods(namespace) => drop(self.awaited_pods.remove(&namespace)),
        }
    }

    fn settle(&mut self, change: &mut StoreChange) {
        let pods = std::mem::take(&mut self.changed_pods);
        change.services.extend(self.slices.services_of(&pods));
        if self.record_readiness(&change.services) {
            change.objects = true;
            self.may_want = true;
        }
        // Before that, what is missing may just not be listed yet.
        if change.objects && self.is_complete() && self.settle_classes() {
            self.may_want = true;
        }
        if std::mem::take(&mut self.may_want) {
            change.references = self.choose();
        }
    }

    /// Records a Secret's content. Returns whether it is new, as all `answer` methods do.
    fn answer_secret(&mut self, name: ObjectName, found: Option<Result<Certificate, String>>) -> bool {
        let (found, why) = or_known(self.objects.certificates.get(&name), found);
        let object = ReferencedObject::Secret(name);
        let is_new = self.answer(&object, |all| &all.certificates, |all| &mut all.certificates, found);
        self.answer(
            &object,
            |all| &all.kept_certificates,
            |all| &mut all.kept_certificates,
            why,
        ) || is_new
    }

    fn answer_config_map(&mut self, name: ObjectName, found: Option<Result<Authorities, String>>) -> bool {
        let (found, why) = or_known(self.objects.authorities.get(&name), found);
        let object = ReferencedObject::ConfigMap(name);
        let is_new = self.answer(&object, |all| &all.authorities, |all| &mut all.authorities, found);
        self.answer(
            &object,
            |all| &all.kept_authorities,
            |all| &mut all.kept_authorities,
            why,
        ) || is_new
    }

    fn answer<T: Clone + PartialEq>(
        &mut self,
        object: &ReferencedObject,
        known: impl Fn(&Objects) -> &OrdMap<ObjectName, T>,
        kept: impl Fn(&mut Objects) -> &mut OrdMap<ObjectName, T>,
        found: Option<T>,
    ) -> bool {
        // An update of an object that is not wanted any more may still be on its way.
        if !self.references.contains_key(object) {
            return false;
        }
        let name = object.name();
        let changed = known(&self.objects).get(name) != found.as_ref();
        if changed {
            let kept = kept(Arc::make_mut(&mut self.objects));
            match found {
                Some(found) => kept.insert(name.clone(), found),
                None => kept.remove(name),
            };
        }
        self.answered.insert(object.clone()) || changed
    }

    /// Chooses the single objects to watch. Returns whether they are others than before.
    fn choose(&mut self) -> bool {
        if !self.watched.serves {
            return false;
        }
        let granting = std::mem::take(&mut self.granting);
        if !granting.is_empty() {
            Arc::make_mut(&mut self.objects).catch_up_grants(&granting);
        }
        let WatchSettings {
            controller, contour, ..
        } = &self.watched;
        let all = references::all_references(&self.objects, controller, contour.as_ref(), &mut self.led_to);
        let AllWanted {
            watched: wanted,
            beyond,
        } = all;
        let is_same = wanted.iter().eq(self.references.keys());
        if is_same && self.beyond == beyond {
            return false;
        }
        let objects = Arc::make_mut(&mut self.objects);
        let former = self.references.keys().chain(self.beyond.keys());
        let gone = former.filter(|object| !wanted.contains(*object) || self.beyond.contains_key(*object));
        for object in gone {
            match object {
                ReferencedObject::Secret(name) => {
                    objects.certificates.remove(name);
                    objects.kept_certificates.remove(name);
                }
                ReferencedObject::ConfigMap(name) => {
                    objects.authorities.remove(name);
                    objects.kept_authorities.remove(name);
                }
                ReferencedObject::Node(name) => drop(objects.nodes.remove(name)),
            }
        }
        for (object, why) in &beyond {
            match object {
                ReferencedObject::Secret(name) => drop(objects.certificates.insert(name.clone(), Err(why.clone()))),
                ReferencedObject::ConfigMap(name) => drop(objects.authorities.insert(name.clone(), Err(why.clone()))),
                ReferencedObject::Node(_) => {}
            }
        }
        self.beyond = beyond;
        if is_same {
            return false;
        }
        self.choice.next();
        self.answered.retain(|object| wanted.contains(object));
        let since = |object: &ReferencedObject| self.references.get(object).copied().unwrap_or(self.choice);
        let with_choice = |object: ReferencedObject| (object.clone(), since(&object));
        self.references = wanted.into_iter().map(with_choice).collect();
        true
    }

    fn replace(&mut self, kind: Kind, namespace: Option<&str>, entries: Vec<DecodedObject>, change: &mut StoreChange) {
        let listed: BTreeSet<_> = entries.iter().map(|entry| entry.name.clone()).collect();
        for name in self.names(kind, namespace) {
            if !listed.contains(&name) {
                self.remove(kind, &name, change);
            }
        }
        for entry in entries {
            self.insert(kind, entry, change);
        }
    }

    fn insert(&mut self, kind: Kind, entry: DecodedObject, change: &mut StoreChange) {
        let DecodedObject {
            name,
            uid,
            version,
            status,
            content,
        } = entry;
        if let Some(status) = status {
            let observed = ObservedObjectStatus { uid, version, status };
            if self
                .observed
                .get(&kind)
                .and_then(|known| known.get(&name))
                .map(|known| &**known)
                != Some(&observed)
            {
                let all = Arc::make_mut(&mut self.observed);
                all.entry(kind).or_default().insert(name.clone(), Arc::new(observed));
                change.statuses = true;
            }
        }
        let object = ObjectRef {
            kind,
            name: name.clone(),
        };
        if let Some(error) = content.malformed() {
            // Its status or an Event reports later mistakes.
            if self.malformed.insert(object)
                && let Some(left_out) = self.logs.permit()
            {
                let (kind, field, error) = (kind.as_str(), &error.field, &error.message);
                tracing::warn!(kind, object = %name, field, error, left_out, "cannot be read");
            }
        } else {
            self.malformed.remove(&object);
        }
        self.insert_content(kind, name, content, change);
    }

    fn remove(&mut self, kind: Kind, name: &ObjectName, change: &mut StoreChange) {
        if self.observed.get(&kind).is_some_and(|known| known.contains_key(name))
            && let Some(known) = Arc::make_mut(&mut self.observed).get_mut(&kind)
        {
            known.remove(name);
        }
        let object = name.clone();
        self.malformed.remove(&ObjectRef { kind, name: object });
        self.remove_content(kind, name, change);
    }

    fn insert_content(&mut self, kind: Kind, name: ObjectName, content: ObjectContent, change: &mut StoreChange) {
        let leads_elsewhere = self.leads_elsewhere(&name, &content);
        let can_want = self.can_want(kind, &name, leads_elsewhere);
        let namespace = name.namespace.clone();
        let mut count = |is_new: bool| *self.counts.entry(kind).or_default() += usize::from(is_new);
        /// Whether that changed anything.
        macro_rules! put {
            ($map:ident, $name:expr, $object:expr) => {{
                let known = self.objects.$map.get(&$name);
                count(known.is_none());
                let changed = known.is_none_or(|known| **known != $object);
                if changed {
                    Arc::make_mut(&mut self.objects)
                        .$map
                        .insert($name, Arc::new($object));
                }
                changed
            }};
        }
        let changed = match content {
            ObjectContent::GatewayClass(object) => {
                let was_gone = Arc::make_mut(&mut self.objects).forget_gone_class(&name.name);
                put!(gateway_classes, name.name, object) | was_gone
            }
            ObjectContent::Gateway(object) => put!(gateways, name, object),
            ObjectContent::HttpRoute(object) => put!(http_routes, name, object),
            ObjectContent::GrpcRoute(object) => put!(grpc_routes, name, object),
            ObjectContent::ReferenceGrant(object) => put!(reference_grants, name, object),
            ObjectContent::Service(object) => put!(services, name, object),
            ObjectContent::XBackend(object) => put!(backends, name, object),
            ObjectContent::BackendTlsPolicy(object) => put!(backend_tls_policies, name, object),
            ObjectContent::EnvoyDeployment(object) => put!(envoy_deployments, name, *object),
            ObjectContent::IngressRoute(object) => put!(ingress_routes, name, object),
            ObjectContent::CertificateDelegation(object) => put!(certificate_delegations, name, object),
            ObjectContent::Namespace(labels) => {
                let known = self.objects.namespaces.get(&name.name);
                count(known.is_none());
                let changed = known != Some(&labels);
                if changed {
                    let objects = Arc::make_mut(&mut self.objects);
                    objects.namespaces.insert(name.name, labels);
                }
                changed
            }
            ObjectContent::SessionPolicy(kind, object) => {
                let name = SessionPolicyName { kind, name };
                put!(session_policies, name, object)
            }
            ObjectContent::Slice(slice) => {
                count(!self.slices.has(&name));
                Arc::make_mut(&mut self.slices).insert(name, slice, &mut change.services);
                false
            }
        };
        if changed {
            change.objects = true;
            self.note_change(kind, &namespace, can_want, leads_elsewhere);
        }
    }

    fn note_change(&mut self, kind: Kind, namespace: &Text, can_want: bool, leads_elsewhere: bool) {
        self.may_want |= can_want;
        if leads_elsewhere {
            self.led_to = None;
        }
        if kind == Kind::ReferenceGrant {
            self.granting.insert(namespace.clone());
        }
    }

    /// Whether this object may change the targets of our Gateways' routes.
    fn leads_elsewhere(&self, name: &ObjectName, content: &ObjectContent) -> bool {
        let objects = &self.objects;
        match content {
            ObjectContent::GatewayClass(_) => true,
            ObjectContent::Gateway(object) => {
                let class = &object.spec.gateway_class_name;
                let known = objects.gateways.get(name);
                known.is_none_or(|known| known.spec.gateway_class_name != *class)
            }
            ObjectContent::HttpRoute(object) => {
                let now = RouteReferences::of_http(object);
                let known = objects.http_routes.get(name);
                known.is_none_or(|known| !RouteReferences::of_http(known).has_same_references(&now))
            }
            ObjectContent::GrpcRoute(object) => {
                let now = RouteReferences::of_grpc(object);
                let known = objects.grpc_routes.get(name);
                known.is_none_or(|known| !RouteReferences::of_grpc(known).has_same_references(&now))
            }
            _ => false,
        }
    }

    /// Whether wanted single objects may depend on this one.
    fn can_want(&self, kind: Kind, name: &ObjectName, leads_elsewhere: bool) -> bool {
        match kind {
            Kind::GatewayClass | Kind::Gateway | Kind::ReferenceGrant | Kind::BackendTlsPolicy | Kind::IngressRoute => {
                true
            }
            // Policies count if routes lead to their targets.
            Kind::HttpRoute | Kind::GrpcRoute => leads_elsewhere && !self.objects.backend_tls_policies.is_empty(),
            // Nodes count for Services that lead to Envoys.
            Kind::Service => self.objects.readiness.contains_key(name),
            _ => false,
        }
    }

    fn remove_content(&mut self, kind: Kind, name: &ObjectName, change: &mut StoreChange) {
        let leads_elsewhere = matches!(
            kind,
            Kind::GatewayClass | Kind::Gateway | Kind::HttpRoute | Kind::GrpcRoute
        );
        let can_want = self.can_want(kind, name, leads_elsewhere);
        let mut uncount = || {
            if let Some(count) = self.counts.get_mut(&kind) {
                *count -= 1;
            }
        };
        macro_rules! take {
            ($map:ident, $name:expr) => {{
                let there = self.objects.$map.contains_key($name);
                if there {
                    Arc::make_mut(&mut self.objects).$map.remove($name);
                    uncount();
                }
                there
            }};
        }
        let policy = |kind| SessionPolicyName {
            kind,
            name: name.clone(),
        };
        let changed = match kind {
            Kind::GatewayClass => {
                let class = self.objects.gateway_classes.get(&name.name).cloned();
                // One that is gone already is not counted.
                let was_there = !self.objects.gone_classes.contains(&name.name);
                let changed = was_there && take!(gateway_classes, &name.name);
                if let Some(class) = class.filter(|_| was_there && self.watched.serves) {
                    Arc::make_mut(&mut self.objects).keep_class(&class, &self.watched.controller);
                }
                changed
            }
            Kind::Gateway => take!(gateways, name),
            Kind::HttpRoute => take!(http_routes, name),
            Kind::GrpcRoute => take!(grpc_routes, name),
            Kind::ReferenceGrant => take!(reference_grants, name),
            Kind::Service => take!(services, name),
            Kind::XBackend => take!(backends, name),
            Kind::BackendTlsPolicy => take!(backend_tls_policies, name),
            Kind::EnvoyDeployment => take!(envoy_deployments, name),
            Kind::IngressRoute => take!(ingress_routes, name),
            Kind::TlsCertificateDelegation => take!(certificate_delegations, name),
            Kind::Namespace => take!(namespaces, &name.name),
            Kind::BackendLbPolicy => take!(session_policies, &policy(SessionPolicyKind::BackendLbPolicy)),
            Kind::XBackendTrafficPolicy => take!(session_policies, &policy(SessionPolicyKind::XBackendTrafficPolicy)),
            Kind::EndpointSlice => {
                if self.slices.has(name) {
                    uncount();
                }
                Arc::make_mut(&mut self.slices).remove(name, &mut change.services);
                false
            }
        };
        if changed {
            change.objects = true;
            self.note_change(kind, &name.namespace, can_want, leads_elsewhere);
        }
    }

    /// The names of a kind's objects in a namespace, or in all.
    fn names(&self, kind: Kind, namespace: Option<&str>) -> Vec<ObjectName> {
        let objects = &self.objects;
        let policies = |kind: SessionPolicyKind| {
            let names = objects.session_policies.keys();
            names
                .filter(move |name| name.kind == kind)
                .map(|name| name.name.clone())
        };
        let cluster_wide = |name: &Text| ObjectName::new("", name);
        let mut names: Vec<ObjectName> = match kind {
            Kind::GatewayClass => {
                let names = objects.gateway_classes.keys();
                let names = names.filter(|name| !objects.gone_classes.contains(*name));
                names.map(cluster_wide).collect()
            }
            Kind::Gateway => objects.gateways.keys().cloned().collect(),
            Kind::HttpRoute => objects.http_routes.keys().cloned().collect(),
            Kind::GrpcRoute => objects.grpc_routes.keys().cloned().collect(),
            Kind::ReferenceGrant => objects.reference_grants.keys().cloned().collect(),
            Kind::Service => objects.services.keys().cloned().collect(),
            Kind::XBackend => objects.backends.keys().cloned().collect(),
            Kind::BackendTlsPolicy => objects.backend_tls_policies.keys().cloned().collect(),
            Kind::EnvoyDeployment => objects.envoy_deployments.keys().cloned().collect(),
            Kind::IngressRoute => objects.ingress_routes.keys().cloned().collect(),
            Kind::TlsCertificateDelegation => objects.certificate_delegations.keys().cloned().collect(),
            Kind::Namespace => objects.namespaces.keys().map(cluster_wide).collect(),
            Kind::BackendLbPolicy => policies(SessionPolicyKind::BackendLbPolicy).collect(),
            Kind::XBackendTrafficPolicy => policies(SessionPolicyKind::XBackendTrafficPolicy).collect(),
            Kind::EndpointSlice => self.slices.names().cloned().collect(),
        };
        names.retain(|name| namespace.is_none_or(|namespace| name.namespace == namespace));
        names
    }
}

/// The content of a single object, and why its present state does not count: valid content stays until the object is
/// gone.
fn or_known<T: Clone>(
    known: Option<&Result<T, String>>,
    found: Option<Result<T, String>>,
) -> (Option<Result<T, String>>, Option<String>) {
    match (known, found) {
        (Some(Ok(valid)), Some(Err(why))) => (Some(Ok(valid.clone())), Some(why)),
        (_, found) => (found, None),
    }
}
