//! Virtual hosts as resources of their own, so that a change travels as its host alone.

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};

use super::resource;
use limpet_resources::{Resource, ResourceType};

/// The route configuration without virtual hosts, and its virtual hosts, one for each domain.
///
/// A virtual host is called `<route configuration>/<domain>`, so a domain never moves from one to another: Envoy
/// refuses a domain that two have, even for the moment between two changes.
pub(super) fn apart(mut configuration: RouteConfiguration) -> Vec<Resource> {
    let mut all = Vec::new();
    for host in std::mem::take(&mut configuration.virtual_hosts) {
        for domain in &host.domains {
            let name = format!("{}/{domain}", configuration.name);
            let host = VirtualHost {
                name: name.clone(),
                domains: vec![domain.clone()],
                ..host.clone()
            };
            all.push(resource(ResourceType::VirtualHost, &name, &host));
        }
    }
    all.push(resource(
        ResourceType::RouteConfiguration,
        &configuration.name,
        &configuration,
    ));
    all
}
