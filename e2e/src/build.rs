//! The filter's two builds. The harness rewrites the tests' chain, of the wasm filter, for the dynamic module.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::config::{each_object, each_wasm};
use crate::tools;

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const MODULE: &str = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

/// The filters that only the wasm filter needs.
const HELPERS: [&str; 3] = [
    "limpet.internal_headers",
    "limpet.stateful_session",
    "limpet.stateful_session_strict",
];

/// A build of the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// `dist/limpet.wasm`.
    Wasm,
    /// `dist/liblimpet.so`.
    Module,
}

impl Build {
    /// The build under test (`LIMPET_FILTER`: `wasm`, the default, or `module`).
    ///
    /// # Errors
    /// If the variable has another value.
    pub fn tested() -> Result<Self> {
        match std::env::var("LIMPET_FILTER").as_deref() {
            Err(_) | Ok("" | "wasm") => Ok(Self::Wasm),
            Ok("module") => Ok(Self::Module),
            Ok(other) => bail!("LIMPET_FILTER is {other}: expected wasm or module"),
        }
    }

    /// The name of the filter that Envoy discovers from the controller.
    #[must_use]
    pub fn discovered_name(self) -> &'static str {
        match self {
            Self::Wasm => "limpet.wasm",
            Self::Module => "limpet.module",
        }
    }

    /// Envoy's name for a counter of the filter, such as `web.issued`.
    #[must_use]
    pub fn counter(self, name: &str) -> String {
        let namespace = match self {
            Self::Wasm => "wasmcustom",
            Self::Module => "dynamicmodulescustom",
        };
        format!("{namespace}.limpet.{name}")
    }

    pub(crate) fn put_into(self, configuration: &mut Value) -> Result<()> {
        match self {
            Self::Wasm => use_wasm(configuration),
            Self::Module => {
                use_module(configuration);
                Ok(())
            }
        }
    }

    pub(crate) fn environment(self) -> Result<Option<(&'static str, String)>> {
        match self {
            Self::Wasm => Ok(None),
            Self::Module => module_directory(&tools::module()?).map(Some),
        }
    }
}

pub(crate) fn module_directory(module: &Path) -> Result<(&'static str, String)> {
    let directory = module.parent().context("the module is in no directory")?;
    Ok((
        "ENVOY_DYNAMIC_MODULES_SEARCH_PATH",
        directory.to_string_lossy().into_owned(),
    ))
}

fn use_wasm(configuration: &mut Value) -> Result<()> {
    let wasm = tools::wasm()?;
    each_wasm(configuration, &mut |filter| {
        let file = &mut filter["config"]["vm_config"]["code"]["local"]["filename"];
        if file == "dist/limpet.wasm" {
            *file = wasm.to_string_lossy().into();
        }
    });
    Ok(())
}

fn use_module(configuration: &mut Value) {
    each_object(configuration, &mut |object| {
        if let Some(filters) = object.get_mut("http_filters").and_then(Value::as_array_mut)
            && filters.iter().any(|filter| filter["name"] == "limpet")
        {
            filters.retain(|filter| !HELPERS.iter().any(|helper| filter["name"] == *helper));
        }
        if let Some(types) = object.get_mut("type_urls").and_then(Value::as_array_mut) {
            types
                .iter_mut()
                .filter(|url| *url == WASM)
                .for_each(|url| *url = MODULE.into());
        }
        // A wasm filter's filter state has a prefix.
        if let Some(format) = object.get_mut("inline_string")
            && let Some(text) = format.as_str()
        {
            *format = text.replace("FILTER_STATE(wasm.limpet.", "FILTER_STATE(limpet.").into();
        }
    });
    each_wasm(configuration, &mut |filter| {
        let module = json!({
            "@type": MODULE,
            "dynamic_module_config": {"name": "limpet"},
            "filter_name": "limpet",
            "filter_config": filter["config"]["configuration"],
        });
        if filter["config"]["vm_config"]["code"]["local"]["filename"] == "dist/limpet.wasm"
            && let Value::Object(module) = module
        {
            *filter = module;
        }
    });
}
