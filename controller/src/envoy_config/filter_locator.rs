//! Finding the filter in a configuration of Envoy, wherever it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::node::ConfigNode;
use limpet_core::config;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::FILTER_NAME;

const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";
const MODULE: &str = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";
/// The type of the module's configuration for a route.
pub(crate) const PER_ROUTE: &str = "envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute";
/// The type of the module's cluster specifier.
pub(crate) const SPECIFIER: &str =
    "envoy.extensions.router.cluster_specifiers.dynamic_modules.v3.DynamicModuleClusterSpecifier";
/// The type of the message that may be around any filter's configuration for a route.
pub(crate) const FILTER_CONFIG: &str = "envoy.config.route.v3.FilterConfig";
const TYPED_EXTENSION: &str = "envoy.config.core.v3.TypedExtensionConfig";

/// A build of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LocatedBuild {
    Wasm,
    Module,
}

impl LocatedBuild {
    /// The build for which Envoy's configuration has this type.
    fn of(kind: &str) -> Option<Self> {
        match kind {
            WASM => Some(Self::Wasm),
            MODULE => Some(Self::Module),
            _ => None,
        }
    }

    /// Whether a list of discoverable types has the type of this build.
    pub(crate) fn is_among(self, types: &[ConfigNode<'_>]) -> bool {
        let kinds = types.iter().filter_map(|kind| kind.value.as_str());
        kinds
            .filter_map(|url| url.rsplit('/').next())
            .any(|kind| Self::of(kind) == Some(self))
    }
}

/// Limpet's filter in a configuration of Envoy.
#[derive(Debug, Clone)]
pub(crate) struct LocatedFilter<'a> {
    /// The object around it: an entry of `http_filters`, or a resource of its own.
    pub(crate) holder: ConfigNode<'a>,
    pub(crate) build: LocatedBuild,
    /// Envoy's configuration of the filter.
    pub(crate) envoy: ConfigNode<'a>,
    /// The filter's own configuration.
    pub(crate) configuration: FilterConfiguration<'a>,
}

/// The filter's own configuration, as Envoy hands it to the filter.
#[derive(Debug, Clone)]
pub(crate) struct FilterConfiguration<'a> {
    pub(crate) node: ConfigNode<'a>,
    /// The JSON that Envoy hands over; `None` if the message holds none.
    pub(crate) text: Option<Vec<u8>>,
    /// What is wrong with the message around the text.
    pub(crate) problem: Option<&'static str>,
}

impl FilterConfiguration<'_> {
    /// The configuration, if it has the types of the schema; its values may be wrong.
    pub(crate) fn parsed(&self) -> Option<FilterConfig> {
        config::parse(self.text.as_ref()?).ok()
    }
}

impl<'a> LocatedFilter<'a> {
    /// The name of the filter, or of the resource that it is discovered as.
    pub(crate) fn name(&self) -> &'a str {
        self.holder.text("name").unwrap_or_default()
    }

    /// Whether it is a resource of its own, for a listener elsewhere to discover.
    pub(crate) fn is_resource(&self) -> bool {
        self.holder.kind() == Some(TYPED_EXTENSION)
    }
}

/// Every Limpet filter in a document, in order.
pub(crate) fn filters<'a>(root: &ConfigNode<'a>) -> Vec<LocatedFilter<'a>> {
    let mut found = Vec::new();
    root.visit(&mut |holder| {
        for field in holder.children() {
            if let Some((kind, envoy)) = field.typed()
                && let Some(build) = LocatedBuild::of(kind)
            {
                let filter = LocatedFilter {
                    holder: holder.clone(),
                    configuration: configuration(build, &envoy),
                    build,
                    envoy,
                };
                if is_ours(&filter) {
                    found.push(filter);
                }
            }
        }
    });
    found
}

/// By its name, or by the fields of its configuration.
fn is_ours(filter: &LocatedFilter<'_>) -> bool {
    let inner = match filter.build {
        LocatedBuild::Wasm => filter.envoy.at(&["config", "name"]),
        LocatedBuild::Module => filter.envoy.at(&["dynamic_module_config", "name"]),
    };
    let named = filter.name() == FILTER_NAME || inner.and_then(|name| name.value.as_str()) == Some(FILTER_NAME);
    named || filter.configuration.parsed().is_some() || {
        let json = filter.configuration.text.as_deref().unwrap_or_default();
        let value: Option<Value> = serde_json::from_slice(json).ok();
        let has = |value: &Value, field| value.get(field).is_some();
        value.is_some_and(|value| {
            has(&value, "policies") && ["keys", "wrappedKeys", "sdsKeys"].iter().any(|keys| has(&value, keys))
        })
    }
}

/// The filter's own configuration in Envoy's configuration of it.
fn configuration<'a>(build: LocatedBuild, envoy: &ConfigNode<'a>) -> FilterConfiguration<'a> {
    let (message, missing, no_struct) = match build {
        LocatedBuild::Wasm => (
            envoy.at(&["config", "configuration"]),
            "expected the filter's configuration in config.configuration",
            Some("expected a google.protobuf.StringValue: Envoy hands a Struct to the filter as protobuf, not as JSON"),
        ),
        LocatedBuild::Module => (
            envoy.get("filter_config"),
            "expected the filter's configuration in filter_config",
            None,
        ),
    };
    match message {
        Some(message) => handed(&message, no_struct),
        None => FilterConfiguration {
            node: envoy.clone(),
            text: None,
            problem: Some(missing),
        },
    }
}

/// What Envoy hands to a filter: the text of a `StringValue` or `BytesValue`, and to modules a `Struct` as JSON;
/// `no_struct`: the problem with a `Struct`, if there is one.
fn handed<'a>(message: &ConfigNode<'a>, no_struct: Option<&'static str>) -> FilterConfiguration<'a> {
    let Some(node) = message.entry("value") else {
        return FilterConfiguration {
            node: message.clone(),
            text: None,
            problem: Some("expected a value"),
        };
    };
    let text = node.value.as_str();
    let (text, problem) = match message.kind() {
        Some("google.protobuf.StringValue") => (text.map(|text| text.as_bytes().to_vec()), "expected a string"),
        Some("google.protobuf.BytesValue") => (
            text.and_then(|text| STANDARD.decode(text).ok()),
            "expected bytes in base64",
        ),
        Some("google.protobuf.Struct") => {
            let text = Some(node.value.to_string().into_bytes());
            let problem = no_struct;
            return FilterConfiguration { node, text, problem };
        }
        _ => (None, "expected a google.protobuf.StringValue or BytesValue"),
    };
    let problem = text.is_none().then_some(problem);
    FilterConfiguration { node, text, problem }
}

/// Envoy's configuration of the filter for a route, a virtual host, all routes, or a weighted cluster; with its type.
pub(crate) fn per_route<'a>(level: &ConfigNode<'a>, filter: &str) -> Option<(&'a str, ConfigNode<'a>)> {
    let (kind, content) = level.get("typed_per_filter_config")?.entry(filter)?.typed()?;
    if kind == FILTER_CONFIG {
        return content.get("config")?.typed();
    }
    Some((kind, content))
}

/// The configuration of a cluster specifier, as Envoy hands it to the module.
pub(crate) fn specifier<'a>(envoy: &ConfigNode<'a>) -> FilterConfiguration<'a> {
    match envoy.get("specifier_config") {
        Some(message) => handed(&message, None),
        None => FilterConfiguration {
            node: envoy.clone(),
            text: None,
            problem: Some("expected the destinations in specifier_config"),
        },
    }
}

/// The session that Envoy's configuration of the module for a route names.
pub(crate) fn route_session<'a>(per_route: &ConfigNode<'a>) -> FilterConfiguration<'a> {
    match per_route.get("filter_config") {
        Some(message) => handed(
            &message,
            Some("expected a google.protobuf.StringValue with <policy>/<scope>"),
        ),
        None => FilterConfiguration {
            node: per_route.clone(),
            text: None,
            problem: Some("expected a google.protobuf.StringValue with <policy>/<scope> in filter_config"),
        },
    }
}
