//! An Envoy's measures before it has too many connections, or no memory left.

use std::time::Duration;

use envoy_types::pb::envoy::config::overload::v3::trigger::TriggerOneof;
use envoy_types::pb::envoy::config::overload::v3::{
    OverloadAction, OverloadManager, ResourceMonitor, ThresholdTrigger, Trigger, resource_monitor,
};
use envoy_types::pb::envoy::extensions::resource_monitors::downstream_connections::v3::DownstreamConnectionsConfig;
use envoy_types::pb::envoy::extensions::resource_monitors::fixed_heap::v3::FixedHeapConfig;
use envoy_types::pb::google::protobuf::Any;

use super::super::pack::{duration, pack};

const CONNECTIONS: &str = "envoy.resource_monitors.global_downstream_max_connections";
const HEAP: &str = "envoy.resource_monitors.fixed_heap";

/// Actions of Envoy at shares of the heap's limit. First it gives free memory back. Later it answers 503 and accepts no
/// connections, to spare memory for the requests that are under way.
const HEAP_ACTIONS: [(&str, f64); 3] = [
    ("envoy.overload_actions.shrink_heap", 0.9),
    ("envoy.overload_actions.stop_accepting_requests", 0.95),
    ("envoy.overload_actions.stop_accepting_connections", 0.98),
];

/// Limits of an Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverloadLimits {
    /// Bytes of Envoy's heap, without the VMs of the wasm filter.
    pub heap: u64,
    /// Connections of clients at the same time, in all listeners. Envoy closes further ones at once.
    pub connections: u32,
}

pub(super) fn manager(limits: OverloadLimits) -> OverloadManager {
    let connections = pack(DownstreamConnectionsConfig {
        max_active_downstream_connections: limits.connections.into(),
    });
    let heap = pack(FixedHeapConfig {
        max_heap_size_bytes: limits.heap,
        ..FixedHeapConfig::default()
    });
    OverloadManager {
        refresh_interval: duration(Duration::from_millis(250)),
        resource_monitors: vec![monitor(CONNECTIONS, connections), monitor(HEAP, heap)],
        actions: HEAP_ACTIONS.map(|(name, share)| action(name, share)).to_vec(),
        ..OverloadManager::default()
    }
}

fn monitor(name: &str, config: Any) -> ResourceMonitor {
    ResourceMonitor {
        name: name.to_owned(),
        config_type: Some(resource_monitor::ConfigType::TypedConfig(config)),
    }
}

fn action(name: &str, share: f64) -> OverloadAction {
    let threshold = TriggerOneof::Threshold(ThresholdTrigger { value: share });
    OverloadAction {
        name: name.to_owned(),
        triggers: vec![Trigger {
            name: HEAP.to_owned(),
            trigger_oneof: Some(threshold),
        }],
        ..OverloadAction::default()
    }
}
