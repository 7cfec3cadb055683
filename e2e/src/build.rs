//! The two builds of the filter, and what Envoy's configuration has to say for each. Tests are written for the wasm filter's chain; for the
//! dynamic module the harness rewrites it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::config::{each_object, each_wasm};
use crate::tools;

const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
const MODULE: &str = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter";

/// Filters that are in the chain for the wasm filter's sake.
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
    /// When the variable says something else.
    pub fn tested() -> Result<Self> {
        match std::env::var("LIMPET_FILTER").as_deref() {
            Err(_) | Ok("" | "wasm") => Ok(Self::Wasm),
            Ok("module") => Ok(Self::Module),
            Ok(other) => bail!("LIMPET_FILTER is {other}: expected wasm or module"),
        }
    }

    /// What Envoy calls one of the filter's counters, named as in `web.issued`.
    #[must_use]
    pub fn counter(self, name: &str) -> String {
        let namespace = match self {
            Self::Wasm => "wasmcustom",
            Self::Module => "dynamicmodulescustom",
        };
        format!("{namespace}.limpet.{name}")
    }

    /// Puts this build in the place of the wasm filter of a configuration, with what it needs around it and no more.
    ///
    /// # Errors
    /// When there is no such build.
    pub(crate) fn put_into(self, configuration: &mut Value) -> Result<()> {
        match self {
            Self::Wasm => use_wasm(configuration),
            Self::Module => {
                use_module(configuration);
                Ok(())
            }
        }
    }

    /// Variables of Envoy's environment that this build asks for.
    ///
    /// # Errors
    /// When there is no such build.
    pub(crate) fn environment(self) -> Result<Option<(&'static str, String)>> {
        match self {
            Self::Wasm => Ok(None),
            Self::Module => module_directory(&tools::module()?).map(Some),
        }
    }
}

/// The variable that tells Envoy where this module is.
///
/// # Errors
/// When it is nowhere.
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
        // Filter state that a wasm filter sets has a prefix.
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
