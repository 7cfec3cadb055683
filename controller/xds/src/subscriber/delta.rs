//! Requests of the incremental protocol.

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use super::subscription::{SentResource, WILDCARD};
use super::{ResponseVerdict, Subscriber, catalogue};
use crate::group::ResourceGroup;
use limpet_resources::{ResourceType, ResourceVersion};

impl Subscriber {
    /// The request may answer a response, subscribe to resources, or both.
    pub(crate) fn delta_request(
        &mut self,
        resource_type: ResourceType,
        request: DeltaDiscoveryRequest,
        group: &ResourceGroup,
    ) -> ResponseVerdict {
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let answer = self.answer(resource_type, &request.response_nonce, error, group);
        if resource_type == ResourceType::VirtualHost && !self.types[resource_type].started {
            self.recognize_hosts(group);
        }
        let catalogue = catalogue(self.takes_hosts, resource_type, group);
        let subscription = &mut self.types[resource_type];

        if !subscription.started {
            subscription.started = true;
            let names = &request.resource_names_subscribe;
            let everything =
                names.is_empty() && resource_type.has_wildcard() || names.iter().any(|name| name == WILDCARD);
            subscription.wildcard = everything;
            subscription.owed_an_answer = everything && request.initial_resource_versions.is_empty();
            for name in request.resource_names_subscribe {
                if name != WILDCARD {
                    subscription.names.insert(name.into());
                }
            }
            for (name, version) in request.initial_resource_versions {
                if subscription.subscribes(&name) {
                    let version = ResourceVersion::parse(&version);
                    subscription.has.insert(
                        name.into(),
                        SentResource {
                            version,
                            resource: None,
                        },
                    );
                }
            }
            // Take in all changes of the group, from the first one on.
            return answer;
        }

        for name in request.resource_names_subscribe {
            if name == WILDCARD {
                subscription.subscribe_wildcard(catalogue);
            } else {
                subscription.subscribe(&name.into(), catalogue);
            }
        }
        for name in request.resource_names_unsubscribe {
            let subscription = &mut self.types[resource_type];
            if name == WILDCARD {
                subscription.unsubscribe_wildcard(catalogue);
            } else {
                subscription.unsubscribe(&name.as_str().into(), catalogue);
                self.awaited.remove(name.as_str());
                if resource_type == ResourceType::RouteConfiguration {
                    self.forget_hosts(&name, group);
                }
            }
        }
        answer
    }
}
