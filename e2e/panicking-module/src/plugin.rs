//! Configurations that panic on demand.

use std::ops::Deref;

use crate::abi::EnvoyFilterConfig;
use crate::shipped::plugin as shipped;
pub(crate) use crate::shipped::plugin::warn_once;

#[derive(Debug)]
pub(crate) struct ModulePlugin {
    shipped: shipped::ModulePlugin,
    text: Vec<u8>,
}

impl Deref for ModulePlugin {
    type Target = shipped::ModulePlugin;

    fn deref(&self) -> &Self::Target {
        &self.shipped
    }
}

impl Drop for ModulePlugin {
    fn drop(&mut self) {
        panic_where(&self.text, "config_destroy");
    }
}

pub(crate) fn configure(configuring: &EnvoyFilterConfig<'_>, json: &[u8]) -> Option<ModulePlugin> {
    panic_where(json, "config_new");
    shipped::configure(configuring, json).map(|shipped| ModulePlugin {
        shipped,
        text: json.to_vec(),
    })
}

#[derive(Debug)]
pub(crate) struct PerRouteConfig(pub(crate) Vec<u8>);

impl Drop for PerRouteConfig {
    fn drop(&mut self) {
        panic_where(&self.0, "per_route_config_destroy");
    }
}

pub(crate) fn configure_per_route(session: &[u8]) -> Option<PerRouteConfig> {
    panic_where(session, "per_route_config_new");
    shipped::configure_per_route(session).map(|shipped::PerRouteConfig(session)| PerRouteConfig(session))
}

impl ModulePlugin {
    pub(crate) fn panic_in(&self, hook: &str) {
        panic_where(&self.text, hook);
    }
}

pub(crate) fn panic_where(text: &[u8], hook: &str) {
    let asked = String::from_utf8_lossy(text).contains(&format!("panic-in-{hook}"));
    assert!(!asked, "in {hook}, as a test asked for");
}
