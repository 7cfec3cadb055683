//! The results of all islands, put together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use limpet_api::{Kind, ObjectName, ObjectRef, Text};

use super::links::IslandMember;
use crate::build::BuildOutput;
use crate::few::FewSet;
use crate::graph::{ClusterName, Gateway, Hostname, Listener, RuleName, VirtualHost};
use crate::reports::{Condition, GatewayReport};
use crate::sessions::SharedCookies;
use crate::{Graph, Map, Reports, SessionPolicyKind, SessionPolicyName};

/// A listener: its Gateway, port, and place among the listeners of the port.
type ListenerId = (ObjectName, u16, usize);

type Namespaces = FewSet<Arc<str>>;

#[derive(Debug, Default)]
pub(super) struct MergedIslands {
    pub(super) graph: Graph,
    pub(super) reports: Reports,
    pub(super) bytes: usize,
    /// The parts of Gateways that need no route.
    gateways: HashMap<ObjectName, GatewayParts>,
    contour: Option<(ObjectName, Arc<Gateway>)>,
    hosts: HashMap<ListenerId, Map<Hostname, VirtualHost>>,
    /// Attached routes of each listener.
    attached: HashMap<ObjectName, Vec<i32>>,
    /// The namespaces that lead to each Service, by routes and by Contour.
    referencing_namespaces: [Map<ObjectName, Namespaces>; 2],
    /// How many islands have each.
    policies: HashMap<Text, usize>,
    certificates: HashMap<ObjectName, usize>,
    /// Objects of which something else may be remembered than before.
    pub(super) remembered: BTreeSet<ObjectRef>,
    changed: BTreeSet<ObjectName>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct GatewayParts {
    gateway: Option<Arc<Gateway>>,
    report: Option<Arc<GatewayReport>>,
}

/// What an island has put in, as far as it is needed to take it out.
#[derive(Debug, Default)]
pub(super) struct IslandPart {
    pub(super) in_common: SharedCookies,
    members: Box<[Arc<IslandMember>]>,
    policies: Box<[Text]>,
    clusters: Box<[ClusterName]>,
    rules: Box<[RuleName]>,
    hosts: Box<[(ListenerId, Hostname)]>,
    attached: Box<[(ObjectName, Box<[i32]>)]>,
    led_services: Box<[ObjectName]>,
    certificates: Box<[ObjectName]>,
    without_status: Box<[ObjectRef]>,
    /// Contour's, of which something is remembered.
    ingress_routes: Box<[ObjectRef]>,
    bytes: usize,
}

impl IslandPart {
    /// The index in `referencing_namespaces`.
    fn leading(&self) -> usize {
        usize::from(self.is(&IslandMember::Contour))
    }

    fn is(&self, member: &IslandMember) -> bool {
        self.members.first().is_some_and(|first| **first == *member)
    }

    fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        self.members.iter().filter_map(|member| match &**member {
            IslandMember::Object(object) => Some(object),
            IslandMember::Classes | IslandMember::Contour => None,
        })
    }
}

impl MergedIslands {
    pub(super) fn remove(&mut self, part: &IslandPart) {
        for cluster in &part.clusters {
            self.graph.clusters.remove(cluster);
        }
        for rule in &part.rules {
            self.graph.rules.remove(rule);
        }
        for (listener, hostname) in &part.hosts {
            if let Some(hosts) = self.hosts.get_mut(listener) {
                hosts.remove(hostname);
                if hosts.is_empty() {
                    self.hosts.remove(listener);
                }
            }
            self.changed.insert(listener.0.clone());
        }
        for (gateway, counts) in &part.attached {
            self.count(gateway, counts, |attached, count| attached - count);
        }
        for service in &part.led_services {
            if let Some(led_from) = self.referencing_namespaces.get_mut(part.leading()) {
                led_from.remove(service);
            }
            self.join_led_from(service);
        }
        for policy in &part.policies {
            if less(&mut self.policies, policy) {
                self.graph.policies.remove(policy);
            }
        }
        for certificate in &part.certificates {
            if less(&mut self.certificates, certificate) {
                self.graph.certificates.remove(certificate);
            }
        }
        for object in &part.without_status {
            self.reports.without_status.remove(object);
        }
        for object in part.objects() {
            self.take_out_object(object);
        }
        if part.is(&IslandMember::Classes) {
            self.reports.gateway_classes.clear();
        }
        if part.is(&IslandMember::Contour) {
            self.reports.ingress_routes.clear();
            for object in &part.ingress_routes {
                self.graph.memory.forget(object);
                self.remembered.insert(object.clone());
            }
            self.changed.extend(self.contour.take().map(|(name, _)| name));
        }
        self.bytes -= part.bytes;
    }

    fn take_out_object(&mut self, ObjectRef { kind, name }: &ObjectRef) {
        let policy = |kind| SessionPolicyName {
            kind,
            name: name.clone(),
        };
        match kind {
            Kind::HttpRoute => drop(self.reports.http_routes.remove(name)),
            Kind::GrpcRoute => drop(self.reports.grpc_routes.remove(name)),
            Kind::XBackend => drop(self.reports.backends.remove(name)),
            Kind::BackendTlsPolicy => drop(self.reports.backend_tls_policies.remove(name)),
            Kind::BackendLbPolicy => {
                let name = policy(SessionPolicyKind::BackendLbPolicy);
                self.reports.session_policies.remove(&name);
            }
            Kind::XBackendTrafficPolicy => {
                let name = policy(SessionPolicyKind::XBackendTrafficPolicy);
                self.reports.session_policies.remove(&name);
            }
            Kind::Gateway => {
                self.gateways.remove(name);
                self.graph.envoys.remove(name);
                self.changed.insert(name.clone());
            }
            _ => {}
        }
        let (kind, name) = (*kind, name.clone());
        let object = ObjectRef { kind, name };
        self.graph.memory.forget(&object);
        self.remembered.insert(object);
    }

    /// Puts in what was built of an island, without the parts of objects that the members only read.
    pub(super) fn insert(&mut self, members: &[Arc<IslandMember>], built: BuildOutput) -> IslandPart {
        let BuildOutput {
            graph,
            mut reports,
            in_common,
            ..
        } = built;
        let mut part = IslandPart {
            in_common,
            members: members.into(),
            ..IslandPart::default()
        };
        let first = members.first().map(|member| &**member);
        self.insert_without_status(std::mem::take(&mut reports.without_status), first, &mut part);
        match first {
            Some(IslandMember::Classes) => self.reports.gateway_classes = reports.gateway_classes,
            Some(IslandMember::Contour) => {
                self.reports.ingress_routes.clone_from(&reports.ingress_routes);
                self.insert_contour(&graph, &mut part);
            }
            Some(IslandMember::Object(object)) if object.kind == Kind::Gateway => {
                self.insert_gateway(&object.name, &graph, &reports);
                self.insert_certificates(&graph, &mut part);
            }
            _ => {
                self.insert_routes(&graph, &reports, &mut part);
                self.insert_graph(&graph, &mut part);
                part.bytes = graph.memory.bytes();
                self.bytes += part.bytes;
                self.graph.memory.add(graph.memory);
                self.remembered.extend(part.objects().cloned());
                self.reports.http_routes.extend(reports.http_routes);
                self.reports.grpc_routes.extend(reports.grpc_routes);
                self.reports.session_policies.extend(reports.session_policies);
                self.reports.backends.extend(reports.backends);
                self.reports.backend_tls_policies.extend(reports.backend_tls_policies);
            }
        }
        part
    }

    /// Findings on the island's own objects. `first`: of its members.
    fn insert_without_status(
        &mut self,
        all: Map<ObjectRef, Condition>,
        first: Option<&IslandMember>,
        part: &mut IslandPart,
    ) {
        let is_own = |object: &ObjectRef| match first {
            Some(IslandMember::Classes) => [Kind::GatewayClass, Kind::ReferenceGrant].contains(&object.kind),
            Some(IslandMember::Contour) => [Kind::IngressRoute, Kind::TlsCertificateDelegation].contains(&object.kind),
            Some(IslandMember::Object(of)) if of.kind == Kind::Gateway => of == object,
            _ => ![Kind::Gateway, Kind::GatewayClass, Kind::ReferenceGrant].contains(&object.kind),
        };
        let own: Vec<_> = all.into_iter().filter(|(object, _)| is_own(object)).collect();
        part.without_status = own.iter().map(|(object, _)| object.clone()).collect();
        self.reports.without_status.extend(own);
    }

    fn insert_contour(&mut self, graph: &Graph, part: &mut IslandPart) {
        if let Some((name, gateway)) = graph.gateways.iter().next() {
            self.contour = Some((name.clone(), Arc::clone(gateway)));
            self.changed.insert(name.clone());
        }
        self.insert_graph(graph, part);
        self.insert_certificates(graph, part);
        // What it only reads is remembered with its own island.
        let memory = graph.memory.only(Kind::IngressRoute);
        part.ingress_routes = memory.objects().into_iter().collect();
        part.bytes = memory.bytes();
        self.bytes += part.bytes;
        self.remembered.extend(part.ingress_routes.iter().cloned());
        self.graph.memory.add(memory);
    }

    fn insert_graph(&mut self, graph: &Graph, part: &mut IslandPart) {
        part.clusters = graph.clusters.keys().cloned().collect();
        self.graph.clusters.extend(graph.clusters.clone());
        part.rules = graph.rules.keys().cloned().collect();
        self.graph.rules.extend(graph.rules.clone());
        part.policies = graph.policies.keys().cloned().collect();
        for (name, policy) in &graph.policies {
            let islands = self.policies.entry(name.clone()).or_default();
            *islands += 1;
            if *islands == 1 {
                self.graph.policies.insert(name.clone(), Arc::clone(policy));
            }
        }
        part.led_services = graph.referencing_namespaces.keys().cloned().collect();
        if let Some(led_from) = self.referencing_namespaces.get_mut(part.leading()) {
            led_from.extend(graph.referencing_namespaces.clone());
        }
        for service in graph.referencing_namespaces.keys() {
            self.join_led_from(service);
        }
    }

    fn insert_certificates(&mut self, graph: &Graph, part: &mut IslandPart) {
        part.certificates = graph.certificates.keys().cloned().collect();
        for (name, certificate) in &graph.certificates {
            *self.certificates.entry(name.clone()).or_default() += 1;
            self.graph.certificates.insert(name.clone(), Arc::clone(certificate));
        }
    }

    fn insert_gateway(&mut self, name: &ObjectName, graph: &Graph, reports: &Reports) {
        let of_gateway = GatewayParts {
            gateway: graph.gateways.get(name).cloned(),
            report: reports.gateways.get(name).cloned(),
        };
        self.gateways.insert(name.clone(), of_gateway);
        if let Some(envoys) = graph.envoys.get(name) {
            self.graph.envoys.insert(name.clone(), Arc::clone(envoys));
        }
        self.changed.insert(name.clone());
    }

    /// What routes add to Gateways.
    fn insert_routes(&mut self, graph: &Graph, reports: &Reports, part: &mut IslandPart) {
        let mut hosts = Vec::new();
        for (name, gateway) in &graph.gateways {
            for (port, listeners) in &gateway.ports {
                for (place, listener) in listeners.iter().enumerate() {
                    let id = (name.clone(), *port, place);
                    for (hostname, host) in of_routes(listener) {
                        let known = self.hosts.entry(id.clone()).or_default();
                        known.insert(hostname.clone(), Arc::clone(host));
                        hosts.push((id.clone(), hostname.clone()));
                        self.changed.insert(name.clone());
                    }
                }
            }
        }
        part.hosts = hosts.into();
        let mut attached = Vec::new();
        for (name, report) in &reports.gateways {
            let counts: Box<[i32]> = report
                .listeners
                .iter()
                .map(|listener| listener.attached_routes)
                .collect();
            if counts.iter().any(|count| *count > 0) {
                self.count(name, &counts, |attached, count| attached + count);
                attached.push((name.clone(), counts));
            }
        }
        part.attached = attached.into();
    }

    fn count(&mut self, gateway: &ObjectName, counts: &[i32], add: impl Fn(i32, i32) -> i32) {
        let attached = self.attached.entry(gateway.clone()).or_default();
        attached.resize(attached.len().max(counts.len()), 0);
        for (attached, count) in attached.iter_mut().zip(counts) {
            *attached = add(*attached, *count);
        }
        self.changed.insert(gateway.clone());
    }

    fn join_led_from(&mut self, service: &ObjectName) {
        let [routes, contour] = &self.referencing_namespaces;
        let joined = match (routes.get(service), contour.get(service)) {
            (None, None) => {
                self.graph.referencing_namespaces.remove(service);
                return;
            }
            (Some(one), None) | (None, Some(one)) => Arc::clone(one),
            (Some(one), Some(other)) => Arc::new(one.iter().chain(other.iter()).cloned().collect()),
        };
        self.graph.referencing_namespaces.insert(service.clone(), joined);
    }

    pub(super) fn finish(&mut self) {
        for name in std::mem::take(&mut self.changed) {
            let GatewayParts { gateway, report } = self.gateways.get(&name).cloned().unwrap_or_default();
            let of_contour = self.contour.iter().find(|(contour, _)| *contour == name);
            let gateway = of_contour
                .map(|(_, gateway)| Arc::clone(gateway))
                .or_else(|| gateway.map(|gateway| Arc::new(self.with_hosts(&name, &gateway))));
            match gateway {
                Some(gateway) => drop(self.graph.gateways.insert(name.clone(), gateway)),
                None => drop(self.graph.gateways.remove(&name)),
            }
            match report {
                Some(mut report) => {
                    let listeners = Arc::make_mut(&mut report).listeners.iter_mut();
                    let attached = self.attached.get(&name).into_iter().flatten();
                    for (listener, attached) in listeners.zip(attached) {
                        listener.attached_routes = *attached;
                    }
                    self.reports.gateways.insert(name, report);
                }
                None => drop(self.reports.gateways.remove(&name)),
            }
        }
    }

    fn with_hosts(&self, name: &ObjectName, gateway: &Gateway) -> Gateway {
        let mut gateway = gateway.clone();
        for (port, listeners) in &mut gateway.ports {
            for (place, listener) in listeners.iter_mut().enumerate() {
                if let Some(hosts) = self.hosts.get(&(name.clone(), *port, place)) {
                    let without_routes = std::mem::replace(&mut listener.virtual_hosts, hosts.clone());
                    for (hostname, host) in without_routes {
                        listener.virtual_hosts.entry(hostname).or_insert(host);
                    }
                }
            }
        }
        gateway
    }
}

/// The virtual hosts of a listener, without the one that is there in any case.
fn of_routes(listener: &Listener) -> impl Iterator<Item = (&Hostname, &Arc<VirtualHost>)> {
    let hosts = listener.virtual_hosts.iter();
    hosts.filter(|(hostname, host)| **hostname != listener.hostname || !host.routes.is_empty())
}

/// Returns whether that was the last one.
fn less<K: std::hash::Hash + Eq + Clone>(counts: &mut HashMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(key);
    }
    is_last
}
