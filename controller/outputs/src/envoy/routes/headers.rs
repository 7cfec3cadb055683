//! Header changes of routes.

use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::config::route::v3::Route as EnvoyRoute;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;

use limpet_model::graph::{Destination, HeaderChanges, Route};

#[derive(Debug, Clone)]
pub(super) struct HeaderMutations {
    requests: Direction,
    responses: Direction,
}

/// Envoy removes headers first and then adds.
#[derive(Debug, Clone)]
struct Direction {
    remove: Vec<String>,
    add: Vec<HeaderValueOption>,
}

impl HeaderMutations {
    pub(super) fn of_rule(route: &Route) -> Self {
        Self {
            requests: Direction::of(&route.request_headers),
            responses: Direction::of(&route.response_headers),
        }
    }

    pub(super) fn of_destination(destination: &Destination) -> Self {
        Self {
            requests: Direction::of(&destination.request_headers),
            responses: Direction::of(&destination.response_headers),
        }
    }

    /// These changes, followed by others.
    pub(super) fn then(self, then: &Self) -> Self {
        Self {
            requests: self.requests.then(&then.requests),
            responses: self.responses.then(&then.responses),
        }
    }

    pub(super) fn apply(self, route: &mut EnvoyRoute) {
        route.request_headers_to_add = self.requests.add;
        route.request_headers_to_remove = self.requests.remove;
        route.response_headers_to_add = self.responses.add;
        route.response_headers_to_remove = self.responses.remove;
    }

    pub(super) fn apply_to_entry(self, entry: &mut ClusterWeight) {
        entry.request_headers_to_add = self.requests.add;
        entry.request_headers_to_remove = self.requests.remove;
        entry.response_headers_to_add = self.responses.add;
        entry.response_headers_to_remove = self.responses.remove;
    }
}

impl Direction {
    fn of(changes: &HeaderChanges) -> Self {
        let remains = |(name, value): &&(String, String)| {
            !changes.remove.contains(name) && is_changeable(name) && is_value(value)
        };
        let set = changes.set.iter().filter(remains);
        let set = set.map(|field| option(field, HeaderAppendAction::OverwriteIfExistsOrAdd));
        let add = changes.add.iter().filter(remains);
        let add = add.map(|field| option(field, HeaderAppendAction::AppendIfExistsOrAdd));
        Self {
            remove: changes
                .remove
                .iter()
                .filter(|name| is_changeable(name))
                .cloned()
                .collect(),
            add: set.chain(add).collect(),
        }
    }

    fn then(mut self, then: &Self) -> Self {
        let is_removed = |option: &HeaderValueOption| {
            let name = option.header.as_ref().map(|header| &header.key);
            name.is_some_and(|name| then.remove.contains(name))
        };
        self.add.retain(|option| !is_removed(option));
        self.add.extend(then.add.iter().cloned());
        self.remove.extend(then.remove.iter().cloned());
        self.remove.sort();
        self.remove.dedup();
        self
    }
}

fn option((name, value): &(String, String), action: HeaderAppendAction) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.clone(),
            // Envoy reads the value as a format, in which a percent sign starts a command.
            value: value.replace('%', "%%"),
            ..HeaderValue::default()
        }),
        append_action: action.into(),
        keep_empty_value: value.is_empty(),
        ..HeaderValueOption::default()
    }
}

/// A change that Envoy does not permit makes it refuse the whole configuration.
fn is_changeable(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(':') && name != "host"
}

fn is_value(value: &str) -> bool {
    !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
