//! Turns Kubernetes objects into a [`Graph`] and [`Reports`], with [`build`].
//!
//! The crate is pure: no client, no clock, no environment. An invalid reference stays in the graph as a destination
//! that answers 500 with its weight, and in a report with the path of its field. So a bad object never affects the
//! traffic of another one.
//!
//! Endpoints do not go through the graph: a change of a Service's EndpointSlices changes one Envoy resource
//! ([`endpoints`]).
#![cfg_attr(test, allow(clippy::too_many_lines, reason = "tests have long tables of cases"))]

mod addresses;
mod affinity;
mod assemble;
mod backend_tls;
mod backend_tls_status;
mod build;
mod certificate;
mod contour;
pub mod endpoints;
mod envoys;
mod explained;
pub mod explanation;
pub mod expression;
mod fair_share;
mod features;
mod few;
mod field_problem;
mod foreign;
mod gateways;
mod gone_classes;
mod grant_index;
mod grants;
pub mod graph;
mod incremental;
mod infrastructure;
mod manager;
mod maps;
mod memory;
mod memory_room;
mod objects;
mod parameters_room;
mod pod_labels;
mod references;
mod remembered_class;
mod remembered_sessions;
pub mod reports;
mod route_report;
mod routes;
mod rule_names;
mod session_fields;
mod sessions;
mod settings;
/// Hashes for names.
pub mod short_hash;
mod stand_in;
mod tls_version;
mod unknown_annotations;
mod unknown_fields;
mod unsupported;
mod without_status;

pub use addresses::is_node_port;
pub use build::{build, explain};
pub use certificate::{Authorities, Certificate};
pub use contour::contour_secrets;
pub use envoys::{
    ADMIN_PORT, EnvoyDeployment, Envoys, GATEWAY_NAME, READY_PORT, check_envoy_defaults, envoys_certificate,
    envoys_keys, envoys_labels, envoys_name, envoys_uri,
};
pub use fair_share::{WantedSizes, beyond_share, fair_share, within_share};
pub use features::SUPPORTED_FEATURES;
pub use few::{FewMap, FewSet};
pub use grants::{GrantedReferences, Referrer};
pub use graph::Graph;
pub use incremental::Incremental;
pub use infrastructure::{AllowedMetadata, allowed as allowed_metadata};
pub use manager::{MANAGED_BY, MANAGER};
pub use maps::Map;
pub use memory::Memory;
pub use objects::{
    Objects, Quarantined, RouteReferences, RouteReplacement, SessionPolicyKind, SessionPolicyName, StandIn,
};
pub use pod_labels::pod_labels;
pub use references::{is_ours, selector_service};
pub use reports::Reports;
pub use routes::gateways_of;
pub use session_fields::{CookiePath, ScopeName, SessionFields, SessionScope, SessionSplit, ValueOrNone};
pub use sessions::{PRUNED_LIFETIME, PRUNED_NAME, check_defaults, costs_of_deletion};
pub use settings::{
    CONTROLLER_NAME, ContourPorts, ContourSettings, GatewayOwner, ManagedEnvoys, SessionLimits, Settings,
};
pub use short_hash::short_hash;
pub use unknown_annotations::{reads_annotation, unknown_annotations};
pub use unsupported::{Extent, Unsupported};

/// Counts rules, members and grants that this thread has looked at, for tests.
#[cfg(test)]
mod looked {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn at_one() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The count since the last call.
    pub(crate) fn take() -> usize {
        COUNT.replace(0)
    }
}
