//! Requests of the state-of-the-world protocol.

use std::collections::BTreeSet;
use std::sync::Arc;

use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;

use super::subscription::{InitialState, SentResource, WILDCARD, version_of};
use super::{ResponseVerdict, Subscriber, catalogue};
use crate::group::ResourceGroup;
use limpet_resources::{Name, ResourceType};

impl Subscriber {
    /// Whether the answer to a later response is still to come (xDS protocol, "ACK and NACK semantics": stale nonces).
    pub(crate) fn is_stale(&self, resource_type: ResourceType, nonce: &str) -> bool {
        !nonce.is_empty() && *nonce != self.types[resource_type].sent_nonce.to_string()
    }

    pub(crate) fn request(
        &mut self,
        resource_type: ResourceType,
        request: DiscoveryRequest,
        group: &ResourceGroup,
    ) -> ResponseVerdict {
        let nonce = &request.response_nonce;
        if self.is_stale(resource_type, nonce) {
            return ResponseVerdict::None;
        }
        let error = request.error_detail.as_ref().map(|error| error.message.as_str());
        let answer = self.answer(resource_type, nonce, error, group);
        let catalogue = catalogue(self.takes_hosts, resource_type, group);
        let subscription = &mut self.types[resource_type];

        let mut names: BTreeSet<Name> = request.resource_names.into_iter().map(Name::from).collect();
        let everything = names.remove(WILDCARD);
        // A node that named resources before and names none now wants none (xDS protocol, "How the client specifies
        // what resources to return").
        let by_default = names.is_empty() && resource_type.has_wildcard() && subscription.names.is_empty();
        let everything = everything || by_default && (!subscription.started || subscription.wildcard);

        if !subscription.started {
            subscription.started = true;
            subscription.wildcard = everything;
            subscription.names = names;
            subscription.owed_an_answer = everything && request.version_info.is_empty();
            if !request.version_info.is_empty() {
                subscription.former = InitialState::Version(request.version_info);
            }
            return answer;
        }
        if everything && !subscription.wildcard {
            subscription.subscribe_wildcard(catalogue);
        } else if !everything && subscription.wildcard {
            subscription.unsubscribe_wildcard(catalogue);
        }
        let gone: Vec<_> = subscription.names.difference(&names).cloned().collect();
        let new: Vec<_> = names.difference(&subscription.names).cloned().collect();
        for name in gone {
            subscription.unsubscribe(&name, catalogue);
            self.awaited.remove(&name);
        }
        for name in new {
            subscription.subscribe(&name, catalogue);
        }
        answer
    }

    /// A node that reconnects with the current version has all resources.
    pub(super) fn recognize(&mut self, resource_type: ResourceType, group: &ResourceGroup) {
        let subscription = &mut self.types[resource_type];
        let InitialState::Version(version) = &subscription.former else {
            return;
        };
        let version = version.clone();
        subscription.former = InitialState::Something;
        let catalogue = catalogue(self.takes_hosts, resource_type, group);
        let asked_for: Vec<_> = catalogue
            .iter()
            .filter(|resource| subscription.subscribes(resource.name()))
            .collect();
        if version_of(asked_for.iter().copied()).to_string() == version {
            for resource in asked_for {
                let held = SentResource {
                    version: Some(resource.version()),
                    resource: Some(Arc::clone(resource)),
                };
                subscription.has.insert(Arc::clone(resource.name()), held);
            }
        }
    }
}
