//! The messages of the two forms of the protocol.

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse, Resource as Message};
use envoy_types::pb::google::protobuf::Any;

use super::group::ResourceGroup;
use super::limits::{clip, memory_of};
use super::subscriber::{ProtocolVariant, ResponseVerdict, Subscriber, SubscriberResponse};
use limpet_resources::{Resource, ResourceType};

/// A form of the protocol.
pub(super) trait Wire: Send + 'static {
    type Request: Send + 'static;
    type Response: Send + 'static;

    const PROTOCOL: ProtocolVariant;

    fn node(request: &Self::Request) -> Option<&Node>;
    fn type_url(request: &Self::Request) -> &str;
    /// Removes repeated names, and cuts off what is too long.
    fn tidy(request: &mut Self::Request);
    fn names(request: &Self::Request) -> impl Iterator<Item = &str>;
    /// The bytes that the request makes the server send again.
    fn weight(
        subscriber: &Subscriber,
        resource_type: ResourceType,
        request: &Self::Request,
        group: &ResourceGroup,
    ) -> usize;
    /// The memory of this type's names that the node asks for after the request, if it was `before`.
    fn memory(subscriber: &Subscriber, resource_type: ResourceType, request: &Self::Request, before: usize) -> usize;
    fn receive(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &ResourceGroup,
    ) -> ResponseVerdict;
    fn encode(response: SubscriberResponse) -> Self::Response;
}

pub(super) struct Delta;

impl Wire for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    const PROTOCOL: ProtocolVariant = ProtocolVariant::Delta;

    fn node(request: &Self::Request) -> Option<&Node> {
        request.node.as_ref()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn tidy(request: &mut Self::Request) {
        unique(&mut request.resource_names_subscribe);
        unique(&mut request.resource_names_unsubscribe);
        if let Some(error) = &mut request.error_detail {
            clip(&mut error.message);
        }
    }

    fn names(request: &Self::Request) -> impl Iterator<Item = &str> {
        let lists = [&request.resource_names_subscribe, &request.resource_names_unsubscribe];
        let had = request.initial_resource_versions.keys();
        lists.into_iter().flatten().chain(had).map(String::as_str)
    }

    fn weight(
        subscriber: &Subscriber,
        resource_type: ResourceType,
        request: &Self::Request,
        group: &ResourceGroup,
    ) -> usize {
        // The node may ask again for what it gives up, as if that were new.
        let lists = [&request.resource_names_subscribe, &request.resource_names_unsubscribe];
        let known = lists.into_iter().flatten();
        let known = known.filter(|name| subscriber.has_named(resource_type, name));
        known.map(|name| group.weight(resource_type, name)).sum()
    }

    fn memory(subscriber: &Subscriber, resource_type: ResourceType, request: &Self::Request, before: usize) -> usize {
        let is_named = |name: &&String| subscriber.has_named(resource_type, name);
        let all = |names: &mut dyn Iterator<Item = &String>| names.map(|name| memory_of(name)).sum::<usize>();
        let new = all(&mut request.resource_names_subscribe.iter().filter(|name| !is_named(name)));
        let gone = all(&mut request.resource_names_unsubscribe.iter().filter(is_named));
        let had = all(&mut request.initial_resource_versions.keys());
        (before + new + had).saturating_sub(gone)
    }

    fn receive(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &ResourceGroup,
    ) -> ResponseVerdict {
        subscriber.delta_request(resource_type, request, group)
    }

    fn encode(response: SubscriberResponse) -> Self::Response {
        let message = |resource: &Resource| Message {
            name: resource.name().to_string(),
            version: resource.version().to_string(),
            resource: Some(any(resource)),
            ..Message::default()
        };
        DeltaDiscoveryResponse {
            resources: response.resources.iter().map(|resource| message(resource)).collect(),
            removed_resources: response.removed.iter().map(ToString::to_string).collect(),
            type_url: response.resource_type.url().to_owned(),
            nonce: response.nonce.to_string(),
            ..DeltaDiscoveryResponse::default()
        }
    }
}

pub(super) struct StateOfTheWorld;

impl Wire for StateOfTheWorld {
    type Request = DiscoveryRequest;
    type Response = DiscoveryResponse;

    const PROTOCOL: ProtocolVariant = ProtocolVariant::StateOfTheWorld;

    fn node(request: &Self::Request) -> Option<&Node> {
        request.node.as_ref()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn tidy(request: &mut Self::Request) {
        unique(&mut request.resource_names);
        clip(&mut request.version_info);
        if let Some(error) = &mut request.error_detail {
            clip(&mut error.message);
        }
    }

    fn names(request: &Self::Request) -> impl Iterator<Item = &str> {
        request.resource_names.iter().map(String::as_str)
    }

    fn weight(
        subscriber: &Subscriber,
        resource_type: ResourceType,
        request: &Self::Request,
        group: &ResourceGroup,
    ) -> usize {
        if subscriber.is_stale(resource_type, &request.response_nonce) {
            return 0;
        }
        let wanted: BTreeSet<&str> = Self::names(request).collect();
        let gone = subscriber
            .names(resource_type)
            .filter(|name| !wanted.contains(&***name));
        gone.map(|name| group.weight(resource_type, name)).sum()
    }

    fn memory(subscriber: &Subscriber, resource_type: ResourceType, request: &Self::Request, before: usize) -> usize {
        if subscriber.is_stale(resource_type, &request.response_nonce) {
            return before;
        }
        // Each request has all names.
        Self::names(request).map(memory_of).sum()
    }

    fn receive(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &ResourceGroup,
    ) -> ResponseVerdict {
        subscriber.request(resource_type, request, group)
    }

    fn encode(response: SubscriberResponse) -> Self::Response {
        DiscoveryResponse {
            version_info: response.version.map(|version| version.to_string()).unwrap_or_default(),
            resources: response.resources.iter().map(|resource| any(resource)).collect(),
            type_url: response.resource_type.url().to_owned(),
            nonce: response.nonce.to_string(),
            ..DiscoveryResponse::default()
        }
    }
}

fn unique(names: &mut Vec<String>) {
    names.sort_unstable();
    names.dedup();
}

fn any(resource: &Resource) -> Any {
    Any {
        type_url: resource.resource_type().url().to_owned(),
        value: resource.body().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriber::{NodeAbilities, StreamService};
    use limpet_resources::{PREFLIGHT, Resources};

    /// Envoy's start costs nothing; to ask for the same again, or to give it up, costs what it weighs.
    #[test]
    fn what_is_asked_for_again_weighs_what_is_sent() {
        const ROUTES: ResourceType = ResourceType::RouteConfiguration;
        let mut resources = Resources::new();
        let resource = |of_type, name: &str, bytes| Resource::new(of_type, name, vec![0; bytes]);
        for (name, bytes) in [(PREFLIGHT, 10), ("web", 200), ("other", 1)] {
            resources.insert(resource(ROUTES, name, bytes));
        }
        resources.insert(resource(ResourceType::VirtualHost, "web/a", 1000));
        for name in ["a", "b"] {
            resources.insert_unit(resource(ResourceType::VirtualHost, name, 5000));
        }
        let mut group = ResourceGroup::default();
        group.make_all_wholes();
        group.publish(resources);
        let abilities = NodeAbilities {
            takes_hosts: true,
            has_preflight: true,
        };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();

        let mut subscriber = Subscriber::new(ProtocolVariant::Delta, StreamService::Aggregated, abilities);
        let request = |more: &[&str], fewer: &[&str]| DeltaDiscoveryRequest {
            resource_names_subscribe: names(more),
            resource_names_unsubscribe: names(fewer),
            ..DeltaDiscoveryRequest::default()
        };
        let first = request(&[PREFLIGHT, "web"], &[]);
        let weight = |subscriber: &_, request: &_| Delta::weight(subscriber, ROUTES, request, &group);
        assert_eq!(weight(&subscriber, &first), 0);
        Delta::receive(&mut subscriber, ROUTES, first, &group);
        assert_eq!(weight(&subscriber, &request(&["other"], &["other"])), 0);
        assert_eq!(weight(&subscriber, &request(&[PREFLIGHT], &[])), 10_010);
        assert!((1200..1250).contains(&weight(&subscriber, &request(&[], &["web"]))));

        let mut subscriber = Subscriber::new(ProtocolVariant::StateOfTheWorld, StreamService::Aggregated, abilities);
        let request = |wanted: &[&str]| DiscoveryRequest {
            resource_names: names(wanted),
            ..DiscoveryRequest::default()
        };
        let weight = |subscriber: &_, request: &_| StateOfTheWorld::weight(subscriber, ROUTES, request, &group);
        assert_eq!(weight(&subscriber, &request(&[PREFLIGHT, "web"])), 0);
        StateOfTheWorld::receive(&mut subscriber, ROUTES, request(&[PREFLIGHT, "web"]), &group);
        assert_eq!(weight(&subscriber, &request(&[PREFLIGHT, "web", "other"])), 0);
        assert_eq!(weight(&subscriber, &request(&["web"])), 10_010);
    }

    #[test]
    fn a_stale_request_changes_no_account() {
        let abilities = NodeAbilities {
            takes_hosts: false,
            has_preflight: false,
        };
        let subscriber = Subscriber::new(ProtocolVariant::StateOfTheWorld, StreamService::Aggregated, abilities);
        let memory = |nonce: &str| {
            let request = DiscoveryRequest {
                response_nonce: nonce.to_owned(),
                ..DiscoveryRequest::default()
            };
            StateOfTheWorld::memory(&subscriber, ResourceType::Cluster, &request, 7)
        };
        assert_eq!(memory("stale"), 7);
        assert_eq!(memory(""), 0);
    }
}
