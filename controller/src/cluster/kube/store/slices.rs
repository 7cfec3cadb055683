use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::pod::{PodDeletion, PodMeta};
use limpet_api::{ObjectName, Text};
use limpet_model::FewMap;
use limpet_model::endpoints::{self, Endpoint, EndpointSlice, SliceEndpoint};

pub(crate) type PodDeletions = BTreeMap<ObjectName, PodDeletion>;

/// EndpointSlices by Service, with the states of their pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct SliceIndex {
    by_service: BTreeMap<ObjectName, Arc<FewMap<ObjectName, EndpointSlice>>>,
    service: BTreeMap<ObjectName, ObjectName>,
    /// The pods of which something is known.
    pods: BTreeMap<ObjectName, PodMeta>,
    deletions: Arc<PodDeletions>,
}

impl SliceIndex {
    pub(super) fn insert(&mut self, name: ObjectName, slice: EndpointSlice, changed: &mut BTreeSet<ObjectName>) {
        if let Some(service) = self.service.get(&name) {
            let known = self.by_service.get(service).and_then(|slices| slices.get(&name));
            if known == Some(&slice) {
                return;
            }
            if *service != slice.service {
                self.remove(&name, changed);
            }
        }
        let service = slice.service.clone();
        changed.insert(service.clone());
        self.service.insert(name.clone(), service.clone());
        Arc::make_mut(self.by_service.entry(service).or_default()).insert(name, slice);
    }

    pub(super) fn remove(&mut self, name: &ObjectName, changed: &mut BTreeSet<ObjectName>) {
        let Some(service) = self.service.remove(name) else {
            return;
        };
        if let Some(slices) = self.by_service.get_mut(&service) {
            Arc::make_mut(slices).remove(name);
            if slices.is_empty() {
                self.by_service.remove(&service);
            }
        }
        changed.insert(service);
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ObjectName> {
        self.service.keys()
    }

    pub(super) fn has(&self, name: &ObjectName) -> bool {
        self.service.contains_key(name)
    }

    pub(super) fn of(&self, service: &ObjectName) -> impl Iterator<Item = &EndpointSlice> {
        let slices = self.by_service.get(service).into_iter();
        slices.flat_map(|slices| slices.values())
    }

    pub(crate) fn endpoints(&self, service: &ObjectName, port_name: &str) -> Vec<Endpoint> {
        let drains = |endpoint: &SliceEndpoint| {
            let pod = endpoint.pod.as_ref().filter(|_| !self.pods.is_empty());
            let pod = pod.and_then(|pod| self.pods.get(&ObjectName::new(&service.namespace, pod)));
            pod.is_some_and(|pod| pod.drains(endpoint))
        };
        endpoints::endpoints(self.of(service), port_name, drains)
    }

    /// Sets all pods of a namespace, or of all. Adds to `changed` those that begin or end to drain.
    pub(super) fn set_pods(
        &mut self,
        namespace: Option<&str>,
        pods: Vec<(ObjectName, PodMeta)>,
        changed: &mut BTreeSet<ObjectName>,
    ) {
        let listed: BTreeMap<_, _> = pods.into_iter().collect();
        let is_listed = |name: &ObjectName| listed.contains_key(name);
        let here = |name: &ObjectName| namespace.is_none_or(|namespace| name.namespace == namespace);
        let gone = self.pods.keys().filter(|name| here(name) && !is_listed(name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.set_pod(name, None, changed);
        }
        for (name, pod) in listed {
            self.set_pod(name, Some(pod), changed);
        }
    }

    /// Adds the pod to `changed` if it begins or ends to drain.
    pub(super) fn set_pod(&mut self, name: ObjectName, pod: Option<PodMeta>, changed: &mut BTreeSet<ObjectName>) {
        let known = self.pods.get(&name).and_then(PodMeta::draining);
        if known != pod.as_ref().and_then(PodMeta::draining) {
            changed.insert(name.clone());
        }
        let deletion = pod.as_ref().and_then(PodMeta::deletion);
        if self.deletions.get(&name) != deletion.as_ref() {
            let deletions = Arc::make_mut(&mut self.deletions);
            match deletion {
                Some(deletion) => drop(deletions.insert(name.clone(), deletion)),
                None => drop(deletions.remove(&name)),
            }
        }
        match pod {
            Some(pod) => drop(self.pods.insert(name, pod)),
            None => drop(self.pods.remove(&name)),
        }
    }

    pub(super) fn deletions(&self) -> &Arc<PodDeletions> {
        &self.deletions
    }

    /// The Services that lead to one of these pods. Visits all endpoints of a namespace once, because an index of all
    /// pods would take memory for each.
    pub(super) fn services_of(&self, pods: &BTreeSet<ObjectName>) -> Vec<ObjectName> {
        let mut by_namespace: BTreeMap<&Text, BTreeSet<&str>> = BTreeMap::new();
        for pod in pods {
            by_namespace.entry(&pod.namespace).or_default().insert(&pod.name);
        }
        let mut leading = Vec::new();
        for (namespace, pods) in by_namespace {
            let leads = |slice: &EndpointSlice| {
                #[cfg(test)]
                crate::cluster::looked::at_one();
                let mut names = slice.endpoints.iter().filter_map(|endpoint| endpoint.pod.as_deref());
                names.any(|name| pods.contains(name))
            };
            let services = self.by_service.range(ObjectName::new(namespace, "")..);
            let here = services.take_while(|(service, _)| service.namespace == *namespace);
            let of_pods = here.filter(|(_, slices)| slices.values().any(leads));
            leading.extend(of_pods.map(|(service, _)| service.clone()));
        }
        leading
    }
}

#[cfg(test)]
mod tests {
    use limpet_model::endpoints::EndpointState::{self, Draining, Ready};
    use serde_json::json;

    use super::*;
    use crate::cluster::kube::pod::RawPod;

    /// `pods`: uid, name, and the last number of the address.
    fn slice(service: &str, pods: &[(&str, &str, u8)]) -> EndpointSlice {
        let endpoint = |(uid, name, number): &(&str, &str, u8)| {
            json!({
                "addresses": [format!("10.0.0.{number}")],
                "targetRef": {"kind": "Pod", "name": name, "uid": uid},
            })
        };
        let endpoints: Vec<_> = pods.iter().map(endpoint).collect();
        let read = |value| serde_json::from_value(value).unwrap();
        let ports = serde_json::from_value(json!([{"port": 80}])).unwrap();
        EndpointSlice::read(ObjectName::new("shop", service), ports, read(json!(endpoints)))
    }

    fn pod(uid: &str, annotations: &serde_json::Value) -> Option<PodMeta> {
        let pod = json!({"metadata": {"uid": uid, "annotations": annotations}});
        PodMeta::read(&serde_json::from_value::<RawPod>(pod).unwrap(), "limpet")
    }

    fn draining(uid: &str) -> Option<PodMeta> {
        pod(uid, &json!({endpoints::DRAIN: "2026-11-23T06:00:00Z"}))
    }

    fn name(name: &str) -> ObjectName {
        ObjectName::new("shop", name)
    }

    fn states(slices: &SliceIndex, service: &str) -> Vec<EndpointState> {
        let endpoints = slices.endpoints(&name(service), "");
        endpoints.into_iter().map(|endpoint| endpoint.state).collect()
    }

    /// `web` with both pods, `api` with one, `other` with neither.
    fn three_services() -> SliceIndex {
        let mut slices = SliceIndex::default();
        let mut changed = BTreeSet::new();
        for slice in [
            slice("web", &[("u-1", "a", 1), ("u-2", "b", 2)]),
            slice("api", &[("u-1", "a", 1)]),
            slice("other", &[("u-3", "c", 3)]),
        ] {
            slices.insert(name(&format!("{}-1", slice.service.name)), slice, &mut changed);
        }
        slices
    }

    fn set(slices: &mut SliceIndex, pod: &str, says: Option<PodMeta>) -> Vec<Text> {
        let mut changed = BTreeSet::new();
        slices.set_pod(name(pod), says, &mut changed);
        let services = slices.services_of(&changed).into_iter();
        services.map(|service| service.name).collect()
    }

    #[test]
    fn a_pod_drains_in_all_its_services() {
        let mut slices = three_services();
        assert_eq!(set(&mut slices, "a", draining("u-1")), ["api", "web"]);
        assert_eq!(states(&slices, "web"), [Draining, Ready]);
        assert_eq!(states(&slices, "api"), [Draining]);
        assert_eq!(states(&slices, "other"), [Ready]);
        assert!(set(&mut slices, "a", draining("u-1")).is_empty(), "nothing is new");
        assert_eq!(set(&mut slices, "a", None), ["api", "web"]);
        assert_eq!(states(&slices, "web"), [Ready, Ready]);
    }

    #[test]
    fn a_pod_of_the_same_name_does_not_drain_for_another() {
        let mut slices = three_services();
        set(&mut slices, "a", draining("u-0"));
        assert_eq!(states(&slices, "api"), [Ready]);
        assert_eq!(set(&mut slices, "a", draining("u-1")), ["api", "web"]);
        assert_eq!(states(&slices, "api"), [Draining]);
    }

    #[test]
    fn what_else_a_pod_says_changes_no_endpoints() {
        let mut slices = three_services();
        let costs = pod("u-1", &json!({"controller.kubernetes.io/pod-deletion-cost": "1"}));
        assert!(costs.is_some() && set(&mut slices, "a", costs).is_empty());
        assert_eq!(states(&slices, "web"), [Ready, Ready]);
    }

    #[test]
    fn a_list_is_all_pods_that_say_anything_where_it_is_from() {
        let mut slices = three_services();
        set(&mut slices, "a", draining("u-1"));
        let mut list = |namespace: Option<&str>, pods: Vec<(ObjectName, PodMeta)>| {
            let mut changed = BTreeSet::new();
            slices.set_pods(namespace, pods, &mut changed);
            let services = slices.services_of(&changed).into_iter();
            services.map(|service| service.name).collect::<Vec<_>>()
        };
        assert!(list(Some("pay"), Vec::new()).is_empty());
        let b = draining("u-2").map(|pod| (name("b"), pod));
        assert_eq!(list(Some("shop"), b.into_iter().collect()), ["api", "web"]);
        assert_eq!(list(None, Vec::new()), ["web"]);
    }
}
