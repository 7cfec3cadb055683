//! The filter's configuration in an object of another control plane: as it is, without a message of Envoy's around it.

use std::collections::{BTreeMap, BTreeSet};

use super::filter_locator::LocatedBuild;
use super::node::ConfigNode;
use limpet_core::envoy::FILTER_NAME;

/// A configuration of the filter, and what the object around it says about its use.
#[derive(Debug, Clone)]
pub(crate) struct ForeignConfig<'a> {
    pub(crate) node: ConfigNode<'a>,
    /// The build that reads it.
    pub(crate) build: LocatedBuild,
    /// The environment variables that Envoy hands to a wasm filter.
    pub(crate) forwarded: BTreeSet<String>,
    /// The variables that the object itself has for it.
    pub(crate) values: BTreeMap<String, String>,
}

impl ForeignConfig<'_> {
    /// The configuration as the filter reads it.
    pub(crate) fn json(&self) -> Vec<u8> {
        self.node.value.to_string().into_bytes()
    }
}

/// The configurations in an object of another control plane, at least one, or what the object lacks; `None` if the
/// document is no such object.
pub(crate) fn find<'a>(root: &ConfigNode<'a>) -> Option<Result<Vec<ForeignConfig<'a>>, &'static str>> {
    let (group, _) = root.text("apiVersion")?.split_once('/')?;
    let spec = root.get("spec");
    match (group, root.text("kind")?) {
        ("extensions.istio.io", "WasmPlugin") => {
            let found = spec.as_ref().and_then(wasm_plugin);
            let missing = "expected the filter's configuration in spec.pluginConfig";
            Some(found.map(|found| vec![found]).ok_or(missing))
        }
        ("gateway.envoyproxy.io", "EnvoyExtensionPolicy") => {
            let found = spec.as_ref().map(extension_policy).unwrap_or_default();
            let missing = "no Limpet filter in it: expected an entry of spec.dynamicModule or spec.wasm named limpet, \
                           with a config";
            Some(if found.is_empty() { Err(missing) } else { Ok(found) })
        }
        _ => None,
    }
}

/// Of Istio.
fn wasm_plugin<'a>(spec: &ConfigNode<'a>) -> Option<ForeignConfig<'a>> {
    let variables = spec.get("vmConfig").map(|vm| vm.list("env")).unwrap_or_default();
    let value =
        |variable: &ConfigNode<'a>| Some((variable.text("name")?.to_owned(), variable.text("value")?.to_owned()));
    Some(ForeignConfig {
        values: variables.iter().filter_map(value).collect(),
        node: spec.get("pluginConfig")?,
        build: LocatedBuild::Wasm,
        forwarded: variables
            .iter()
            .filter_map(|variable| variable.text("name"))
            .map(str::to_owned)
            .collect(),
    })
}

/// Of Envoy Gateway.
fn extension_policy<'a>(spec: &ConfigNode<'a>) -> Vec<ForeignConfig<'a>> {
    let entry = |entry: ConfigNode<'a>, build| {
        let names = entry.get("env").map(|env| env.list("hostKeys")).unwrap_or_default();
        let forwarded = names.iter().filter_map(|name| name.value.as_str());
        (entry.text("name") == Some(FILTER_NAME)).then_some(ForeignConfig {
            node: entry.get("config")?,
            build,
            values: BTreeMap::new(),
            forwarded: forwarded.map(str::to_owned).collect(),
        })
    };
    let wasm = spec
        .list("wasm")
        .into_iter()
        .filter_map(|item| entry(item, LocatedBuild::Wasm));
    let modules = spec
        .list("dynamicModule")
        .into_iter()
        .filter_map(|item| entry(item, LocatedBuild::Module));
    wasm.chain(modules).collect()
}
