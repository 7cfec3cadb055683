//! The HTTP filters of a listener, and what each route needs of them. See "The chain" in
//! `docs/reference/envoy-configuration.md`.

use std::sync::Arc;

use envoy_types::pb::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use envoy_types::pb::envoy::config::accesslog::v3::{AccessLogFilter, ResponseFlagFilter};
use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutation as Change;
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::Action;
use envoy_types::pb::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use envoy_types::pb::envoy::config::core::v3::{
    DataSource, ExtensionConfigSource, HeaderValue, HeaderValueOption, TypedExtensionConfig, data_source,
};
use envoy_types::pb::envoy::config::route::v3::FilterConfig;
use envoy_types::pb::envoy::extensions::filters::http::cors::v3::Cors;
use envoy_types::pb::envoy::extensions::filters::http::dynamic_modules::v3::DynamicModuleFilter;
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{HeaderMutation, Mutations};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::stateful_session_per_route::Override;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute,
};
use envoy_types::pb::envoy::extensions::filters::http::wasm::v3::Wasm;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpFilter, LocalReplyConfig, ResponseMapper,
};
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3::HeaderMutation as Early;
use envoy_types::pb::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use envoy_types::pb::google::protobuf::Any;
use prost::Name as _;

use super::options::FilterBuild;
use super::pack::{ads, number, pack};
use limpet_core::config::schema::PolicyConfig;
use limpet_core::envoy::{
    DESTINATION_HEADER, HOST_HEADER, INTERNAL_HEADERS, ROUTE_SESSION_FORMAT, SESSION_HEADER, STRICT_HOST_HEADER,
};

/// Steers sessions of policies that are not strict.
const SOFT: &str = "limpet.stateful_session";
/// Steers sessions of strict policies.
const STRICT: &str = "limpet.stateful_session_strict";
const BEFORE_WASM: &str = "limpet.internal_headers";
const MISSING_FILTER: &str = "This Envoy has no filter for the sessions of this route.\n";

pub(super) const CORS: &str = "envoy.filters.http.cors";

/// Removes clients' copies of the internal headers before the first route match.
pub(crate) fn early_mutation(build: &FilterBuild) -> TypedExtensionConfig {
    let headers: &[&str] = match build {
        FilterBuild::Wasm(_) => &INTERNAL_HEADERS,
        // The module steers without headers. Only routes match on the destination.
        FilterBuild::Module(_) => &[DESTINATION_HEADER],
    };
    TypedExtensionConfig {
        name: "envoy.http.early_header_mutation.header_mutation".to_owned(),
        typed_config: Some(pack(Early {
            mutations: headers.iter().map(|name| remove(name)).collect(),
        })),
    }
}

pub(super) fn http_filters(build: &FilterBuild) -> Vec<HttpFilter> {
    let ours = |type_url| discovered(build.discovered_name(), vec![type_url], None);
    match build {
        FilterBuild::Wasm(_) => {
            let [soft, strict] = behind_wasm();
            vec![cors(), before_wasm(), ours(Wasm::type_url()), soft, strict, router()]
        }
        FilterBuild::Module(_) => vec![cors(), ours(DynamicModuleFilter::type_url()), router()],
    }
}

pub(super) fn router() -> HttpFilter {
    filter("envoy.filters.http.router", pack(Router::default()))
}

/// Goes in front of all others, since a preflight is answered here, and in every chain, because a changed chain would
/// end the connections of the listener.
fn cors() -> HttpFilter {
    HttpFilter {
        disabled: true,
        ..filter(CORS, pack(Cors {}))
    }
}

/// Gives the wasm filter the route's session, and keeps internal headers from clients.
pub(crate) fn before_wasm() -> HttpFilter {
    filter(BEFORE_WASM, internal_headers_filter())
}

/// The filters behind the wasm filter. Each route enables what it needs.
pub(crate) fn behind_wasm() -> [HttpFilter; 2] {
    [false, true].map(|strict| {
        let (name, config) = steering(strict);
        HttpFilter {
            disabled: true,
            ..filter(name, pack(config))
        }
    })
}

/// Our filter, discovered by ECDS under this name. It accepts these types.
///
/// While Envoy has no configuration that it accepts, the default replaces the filter. Without a default, Envoy refuses
/// the requests of all routes that do not disable the filter: see [`missing_filter`] and [`without_session`].
pub(crate) fn discovered(name: &str, mut type_urls: Vec<String>, default_config: Option<Any>) -> HttpFilter {
    type_urls.push(HeaderMutation::type_url());
    let discovery = ExtensionConfigSource {
        config_source: Some(ads()),
        default_config,
        type_urls,
        ..ExtensionConfigSource::default()
    };
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::ConfigDiscovery(discovery)),
        ..HttpFilter::default()
    }
}

/// Filters of a route without sessions. It is served without ours, also while ours is missing. Filters that steer are
/// disabled unless a route enables them.
pub(super) fn without_session(build: &FilterBuild) -> Vec<(String, Any)> {
    let disabled = FilterConfig {
        disabled: true,
        ..FilterConfig::default()
    };
    let before = match build {
        FilterBuild::Wasm(_) => Some(BEFORE_WASM),
        FilterBuild::Module(_) => None,
    };
    let filters = [build.discovered_name()].into_iter().chain(before);
    filters.map(|name| (name.to_owned(), pack(disabled.clone()))).collect()
}

/// The answer where our filter is missing: 503 instead of 500, and the reason. Without the filter, backends would get
/// tokens, and sessions would leave their backends.
pub(super) fn missing_filter() -> LocalReplyConfig {
    let is_missing = ResponseFlagFilter {
        flags: vec!["NFCF".to_owned()],
    };
    LocalReplyConfig {
        mappers: vec![ResponseMapper {
            filter: Some(AccessLogFilter {
                filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(is_missing)),
            }),
            status_code: number(503),
            body: Some(DataSource {
                specifier: Some(data_source::Specifier::InlineString(MISSING_FILTER.to_owned())),
                ..DataSource::default()
            }),
            ..ResponseMapper::default()
        }],
        ..LocalReplyConfig::default()
    }
}

fn internal_headers_filter() -> Any {
    let session = HeaderValueOption {
        header: Some(HeaderValue {
            key: SESSION_HEADER.to_owned(),
            value: ROUTE_SESSION_FORMAT.to_owned(),
            ..HeaderValue::default()
        }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
        ..HeaderValueOption::default()
    };
    pack(HeaderMutation {
        mutations: Some(Mutations {
            request_mutations: vec![
                remove(SESSION_HEADER),
                Change {
                    action: Some(Action::Append(session)),
                },
            ],
            response_mutations: vec![remove(HOST_HEADER), remove(STRICT_HOST_HEADER)],
            ..Mutations::default()
        }),
        ..HeaderMutation::default()
    })
}

fn steering(strict: bool) -> (&'static str, StatefulSession) {
    let (name, header) = if strict {
        (STRICT, STRICT_HOST_HEADER)
    } else {
        (SOFT, HOST_HEADER)
    };
    let state = TypedExtensionConfig {
        name: "envoy.http.stateful_session.header".to_owned(),
        typed_config: Some(pack(HeaderBasedSessionState {
            name: header.to_owned(),
        })),
    };
    let config = StatefulSession {
        session_state: Some(state),
        strict,
        ..StatefulSession::default()
    };
    (name, config)
}

pub(super) fn filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

fn remove(name: &str) -> Change {
    Change {
        action: Some(Action::Remove(name.to_owned())),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativeSteering {
    soft: bool,
    strict: bool,
    /// Whether the route leads requests to another route, which steers them.
    idle: bool,
}

impl NativeSteering {
    pub(crate) fn of(policy: Option<&Arc<PolicyConfig>>) -> Self {
        Self {
            soft: policy.is_none_or(|policy| policy.may_steer(false)),
            strict: policy.is_some_and(|policy| policy.may_steer(true)),
            idle: false,
        }
    }

    pub(crate) fn idle(self) -> Self {
        Self { idle: true, ..self }
    }

    fn filters(self) -> impl Iterator<Item = (&'static str, StatefulSession)> {
        let [soft, strict] = [false, true].map(steering);
        let needed = [(self.soft, soft), (self.strict, strict)].into_iter();
        needed.filter_map(|(is_needed, filter)| is_needed.then_some(filter))
    }

    /// The filters' configurations by their names.
    pub(super) fn per_route(self) -> Vec<(String, Any)> {
        let idle = StatefulSessionPerRoute {
            r#override: Some(Override::Disabled(true)),
        };
        let within = FilterConfig {
            config: Some(if self.idle { pack(idle) } else { Any::default() }),
            ..FilterConfig::default()
        };
        self.filters()
            .map(|(name, _)| (name.to_owned(), pack(within.clone())))
            .collect()
    }

    /// As [`Self::per_route`], for control planes that drop an empty configuration: an active filter repeats its own.
    pub(crate) fn per_route_in_full(self) -> Vec<(String, Any)> {
        if self.idle {
            return self.per_route();
        }
        let in_full = |(name, config): (&str, StatefulSession)| {
            let within = StatefulSessionPerRoute {
                r#override: Some(Override::StatefulSession(config)),
            };
            (name.to_owned(), pack(within))
        };
        self.filters().map(in_full).collect()
    }
}
