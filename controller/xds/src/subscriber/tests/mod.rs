//! Requests and publications in, responses out.

mod delta;
mod hosts;
mod order;
mod preflight;
mod state_of_the_world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::rpc::Status;

use super::*;
use ResourceType::{Cluster, ClusterLoadAssignment, ExtensionConfig, Listener, RouteConfiguration, Secret};
use limpet_resources::Resources;

fn resource(resource_type: ResourceType, name: &str, content: &str) -> Arc<Resource> {
    Arc::new(Resource::new(resource_type, name, content.into()))
}

struct Bed {
    group: ResourceGroup,
    stream: Subscriber,
    resources: Resources,
    now: Instant,
    /// The last response of each type.
    sent: BTreeMap<ResourceType, SubscriberResponse>,
    names: BTreeMap<ResourceType, Vec<String>>,
}

impl Bed {
    fn new(protocol: ProtocolVariant) -> Self {
        let mut group = ResourceGroup::default();
        group.make_all_wholes();
        Self {
            group,
            stream: Subscriber::new(protocol, StreamService::Aggregated, NodeAbilities::default()),
            resources: Resources::new(),
            now: Instant::now(),
            sent: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Publishes these in addition to what is there; what has no content is removed.
    fn publish(&mut self, changes: &[(ResourceType, &str, &str)]) {
        for (resource_type, name, content) in changes {
            if content.is_empty() {
                self.resources.remove(*resource_type, name);
            } else {
                self.resources.insert(resource(*resource_type, name, content));
            }
        }
        self.group.publish(self.resources.clone());
    }

    fn reconnect(&mut self) {
        let abilities = NodeAbilities {
            takes_hosts: self.stream.takes_hosts,
            has_preflight: self.stream.has_preflight,
        };
        self.stream = Subscriber::new(self.stream.protocol, StreamService::Aggregated, abilities);
        self.sent.clear();
    }

    /// Everything that is sent now, in order: `TYPE name=content … -removed …`.
    fn responses(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(response) = self.stream.next(&self.group, self.now) {
            let mut words = vec![response.resource_type.to_string()];
            for resource in &response.resources {
                words.push(format!(
                    "{}={}",
                    resource.name(),
                    String::from_utf8_lossy(resource.body())
                ));
            }
            words.extend(response.removed.iter().map(|name| format!("-{name}")));
            all.push(words.join(" "));
            self.sent.insert(response.resource_type, response);
        }
        all
    }

    fn ask(&mut self, resource_type: ResourceType, names: &[&str]) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let all = self.names.entry(resource_type).or_default();
        all.extend(names.clone());
        if self.stream.protocol == ProtocolVariant::StateOfTheWorld {
            let nonce = self.sent.get(&resource_type).map(|response| response.nonce.to_string());
            self.send(resource_type, nonce.unwrap_or_default(), None);
        } else {
            let request = DeltaDiscoveryRequest {
                resource_names_subscribe: names,
                ..DeltaDiscoveryRequest::default()
            };
            self.stream.delta_request(resource_type, request, &self.group);
        }
    }

    fn drop_names(&mut self, resource_type: ResourceType, names: &[&str]) {
        let all = self.names.entry(resource_type).or_default();
        all.retain(|name| !names.contains(&name.as_str()));
        if self.stream.protocol == ProtocolVariant::StateOfTheWorld {
            self.ask(resource_type, &[]);
        } else {
            let request = DeltaDiscoveryRequest {
                resource_names_unsubscribe: names.iter().map(ToString::to_string).collect(),
                ..DeltaDiscoveryRequest::default()
            };
            self.stream.delta_request(resource_type, request, &self.group);
        }
    }

    fn come_with(&mut self, resource_type: ResourceType, names: &[&str], has: &[(&str, &str)]) {
        let version = |(name, content): &(&str, &str)| {
            let version = resource(resource_type, name, content).version();
            ((*name).to_owned(), version.to_string())
        };
        let request = DeltaDiscoveryRequest {
            resource_names_subscribe: names.iter().map(ToString::to_string).collect(),
            initial_resource_versions: has.iter().map(version).collect(),
            ..DeltaDiscoveryRequest::default()
        };
        self.stream.delta_request(resource_type, request, &self.group);
    }

    fn ack(&mut self, resource_type: ResourceType) -> ResponseVerdict {
        let nonce = self.sent[&resource_type].nonce.to_string();
        self.send(resource_type, nonce, None)
    }

    fn nack(&mut self, resource_type: ResourceType, message: &str) -> ResponseVerdict {
        let nonce = self.sent[&resource_type].nonce.to_string();
        self.send(resource_type, nonce, Some(message))
    }

    fn send(&mut self, resource_type: ResourceType, nonce: String, error: Option<&str>) -> ResponseVerdict {
        let error_detail = error.map(|message| Status {
            message: message.to_owned(),
            ..Status::default()
        });
        match self.stream.protocol {
            ProtocolVariant::Delta => {
                let request = DeltaDiscoveryRequest {
                    response_nonce: nonce,
                    error_detail,
                    ..DeltaDiscoveryRequest::default()
                };
                self.stream.delta_request(resource_type, request, &self.group)
            }
            ProtocolVariant::StateOfTheWorld => {
                let request = DiscoveryRequest {
                    response_nonce: nonce,
                    error_detail,
                    resource_names: self.names.get(&resource_type).cloned().unwrap_or_default(),
                    ..DiscoveryRequest::default()
                };
                self.stream.request(resource_type, request, &self.group)
            }
        }
    }

    /// Acknowledges everything until there is nothing more; returns what was sent.
    fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let responses = self.responses();
            if responses.is_empty() {
                return all;
            }
            all.extend(responses);
            for each in ResourceType::ALL {
                let asked = each == RouteConfiguration && self.stream.preflight.is_under_way();
                if asked || self.stream.types[each].in_flight.is_some() {
                    self.ack(each);
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    fn is_settled(&self) -> bool {
        let mut asked_for = ResourceType::ALL
            .into_iter()
            .filter(|each| self.stream.has_asked_for(*each));
        self.stream.is_idle(&self.group) && asked_for.all(|each| self.stream.asks_for_all(each))
    }

    /// Refusals, as `TYPE name: words`.
    fn refusals(&self) -> Vec<String> {
        let refusals = self.stream.refusals();
        refusals
            .map(|(resource_type, name, _, words)| format!("{resource_type} {name}: {words}"))
            .collect()
    }
}
