//! The filter in Envoy's configuration.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    AsyncDataSource, BackoffStrategy, HttpUri, RemoteDataSource, TypedExtensionConfig, async_data_source, http_uri,
};
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilter;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{HeaderMutation, Mutations};
use envoy_types::pb::envoy::extensions::filters::http::wasm::v3::Wasm;
use envoy_types::pb::envoy::extensions::wasm::v3::{
    EnvironmentVariables, FailurePolicy, PluginConfig, ReloadConfig, VmConfig, plugin_config,
};
use envoy_types::pb::google::protobuf::{Any, StringValue};
use limpet_api::ObjectName;
use limpet_core::config::schema::{FilterConfig, ReportSessionsConfig};

use super::bootstrap::CONTROLLER;
use super::code::{CODE_CLUSTER, local, module_config};
use super::options::{EnvoyOptions, FilterBuild, WasmFilter};
use super::pack::{duration, pack};
use crate::filter::{FilterInputs, variables};
use limpet_core::envoy::FILTER_NAME;

/// The least time until Envoy replaces a VM that has ended just after its start. All requests fail meanwhile, by
/// default for a second.
const RELOAD_INTERVAL: Duration = Duration::from_millis(100);

/// The filter as an ECDS resource. Without policies, requests pass without a filter.
#[must_use]
pub fn extension_config(config: &FilterConfig, options: &EnvoyOptions) -> TypedExtensionConfig {
    let filter = if config.policies.is_empty() && config.routes.is_empty() {
        pass_through()
    } else {
        filter(config, options)
    };
    TypedExtensionConfig {
        name: options.filter.discovered_name().to_owned(),
        typed_config: Some(filter),
    }
}

pub(super) fn reports(gateway: &ObjectName, inputs: &FilterInputs) -> Option<ReportSessionsConfig> {
    inputs
        .report_sessions
        .then(|| ReportSessionsConfig::new(CONTROLLER, &gateway.to_string()))
}

/// Lets all requests pass unchanged.
pub(crate) fn pass_through() -> Any {
    pack(HeaderMutation {
        mutations: Some(Mutations::default()),
        ..HeaderMutation::default()
    })
}

fn filter(config: &FilterConfig, options: &EnvoyOptions) -> Any {
    // All keys of its maps are strings, so it serializes.
    let text = serde_json::to_string(config).unwrap_or_default();
    let configuration = Some(pack(StringValue { value: text }));
    match &options.filter {
        FilterBuild::Wasm(code) => pack(Wasm {
            config: Some(PluginConfig {
                name: FILTER_NAME.to_owned(),
                configuration,
                // A VM that has ended would answer 503 until Envoy restarts.
                failure_policy: FailurePolicy::FailReload.into(),
                reload_config: Some(ReloadConfig {
                    backoff: Some(BackoffStrategy {
                        base_interval: duration(RELOAD_INTERVAL),
                        ..BackoffStrategy::default()
                    }),
                }),
                vm: Some(plugin_config::Vm::VmConfig(VmConfig {
                    runtime: "envoy.wasm.runtime.v8".to_owned(),
                    code: Some(wasm_code(code)),
                    environment_variables: Some(EnvironmentVariables {
                        host_env_keys: variables(config),
                        ..EnvironmentVariables::default()
                    }),
                    ..VmConfig::default()
                })),
                ..PluginConfig::default()
            }),
        }),
        FilterBuild::Module(module) => pack(DynamicModuleFilter {
            dynamic_module_config: Some(module_config(module)),
            filter_name: FILTER_NAME.to_owned(),
            filter_config: configuration,
            ..DynamicModuleFilter::default()
        }),
    }
}

fn wasm_code(code: &WasmFilter) -> AsyncDataSource {
    match code {
        WasmFilter::File(file) => local(file),
        WasmFilter::Remote(remote) => AsyncDataSource {
            specifier: Some(async_data_source::Specifier::Remote(RemoteDataSource {
                http_uri: Some(HttpUri {
                    uri: remote.url.clone(),
                    timeout: duration(Duration::from_secs(30)),
                    http_upstream_type: Some(http_uri::HttpUpstreamType::Cluster(CODE_CLUSTER.to_owned())),
                }),
                sha256: remote.sha256.clone(),
                ..RemoteDataSource::default()
            })),
        },
    }
}
