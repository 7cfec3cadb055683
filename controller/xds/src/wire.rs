//! The messages of the two forms of the protocol.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse, Resource as Message};
use envoy_types::pb::google::protobuf::Any;

use super::group::Group;
use super::subscriber::{Answer, Protocol, Response, Subscriber};
use limpet_resources::{Resource, ResourceType};

/// A form of the protocol.
pub(super) trait Wire: Send + 'static {
    type Request: Send + 'static;
    type Response: Send + 'static;

    const PROTOCOL: Protocol;

    fn node(request: &Self::Request) -> Option<&Node>;
    fn type_url(request: &Self::Request) -> &str;
    fn take_in(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &Group,
    ) -> Answer;
    fn encode(response: Response) -> Self::Response;
}

pub(super) struct Delta;

impl Wire for Delta {
    type Request = DeltaDiscoveryRequest;
    type Response = DeltaDiscoveryResponse;

    const PROTOCOL: Protocol = Protocol::Delta;

    fn node(request: &Self::Request) -> Option<&Node> {
        request.node.as_ref()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn take_in(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &Group,
    ) -> Answer {
        subscriber.delta_request(resource_type, request, group)
    }

    fn encode(response: Response) -> Self::Response {
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

    const PROTOCOL: Protocol = Protocol::StateOfTheWorld;

    fn node(request: &Self::Request) -> Option<&Node> {
        request.node.as_ref()
    }

    fn type_url(request: &Self::Request) -> &str {
        &request.type_url
    }

    fn take_in(
        subscriber: &mut Subscriber,
        resource_type: ResourceType,
        request: Self::Request,
        group: &Group,
    ) -> Answer {
        subscriber.request(resource_type, request, group)
    }

    fn encode(response: Response) -> Self::Response {
        DiscoveryResponse {
            version_info: response.version.map(|version| version.to_string()).unwrap_or_default(),
            resources: response.resources.iter().map(|resource| any(resource)).collect(),
            type_url: response.resource_type.url().to_owned(),
            nonce: response.nonce.to_string(),
            ..DiscoveryResponse::default()
        }
    }
}

fn any(resource: &Resource) -> Any {
    Any {
        type_url: resource.resource_type().url().to_owned(),
        value: resource.body().to_vec(),
    }
}
