//! Listeners, their filters and their routes.

use serde_json::{Value, json};

use super::Config;
use super::json::{each_item, each_wasm, merge, push};

impl Config {
    /// Adds a copy of the first listener with another filter configuration.
    #[must_use]
    pub fn another_listener(mut self, name: &str, filter: &Value) -> Self {
        let mut listener = self.listener().clone();
        listener["name"] = name.into();
        set_filter(&mut listener, filter);
        push(&mut self.bootstrap["static_resources"]["listeners"], listener);
        self
    }

    /// Sets the filter's configuration everywhere, also in its discovered file.
    #[must_use]
    pub fn filter(mut self, filter: &Value) -> Self {
        self.each_file(|file| set_filter(file, filter));
        self
    }

    /// As [`Config::filter`], with [`filter_with`].
    #[must_use]
    pub fn policy(self, policy: &Value) -> Self {
        self.filter(&filter_with(policy))
    }

    /// Sets the environment variables that the filter may read.
    #[must_use]
    pub fn filter_environment(mut self, variables: &[&str]) -> Self {
        self.each_file(|file| {
            each_wasm(file, &mut |wasm| {
                wasm["config"]["vm_config"]["environment_variables"] = json!({"host_env_keys": variables});
            });
        });
        self
    }

    /// Merges a patch (RFC 7396) into the first listener.
    #[must_use]
    pub fn change_listener(mut self, patch: &Value) -> Self {
        merge(self.listener(), patch);
        self
    }

    /// Merges a patch (RFC 7396) into the first listener's connection manager.
    #[must_use]
    pub fn connection_manager(mut self, patch: &Value) -> Self {
        merge(self.hcm(), patch);
        self
    }

    /// Asks clients of a replaced listener at once to close connections. Envoy takes 5 s by default, but the harness
    /// ends such a listener sooner (`--drain-time-s`), which would cut requests off.
    #[must_use]
    pub fn quick_drain(self) -> Self {
        self.connection_manager(&json!({"drain_timeout": "0.1s"}))
    }

    /// Adds filters in front of the first listener's.
    #[must_use]
    pub fn prepend_filters(mut self, filters: &Value) -> Self {
        if let (Some(present), Some(new)) = (self.hcm()["http_filters"].as_array_mut(), filters.as_array()) {
            present.splice(0..0, new.iter().cloned());
        }
        self
    }

    /// Merges a patch (RFC 7396) into every route of the first listener.
    #[must_use]
    pub fn route(mut self, patch: &Value) -> Self {
        each_item(self.routes_mut(), |route| merge(route, patch));
        self
    }

    /// Changes the first listener's route configuration.
    #[must_use]
    pub fn route_configuration(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(self.route_config());
        self
    }

    /// Replaces the first listener's routes.
    #[must_use]
    pub fn routes(mut self, routes: Value) -> Self {
        *self.routes_mut() = routes;
        self
    }

    /// Enables only the strict `stateful_session` filter on every route.
    #[must_use]
    pub fn strict_routes(self) -> Self {
        self.strict_filter().route(&json!({"typed_per_filter_config": {
            "limpet.stateful_session": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "disabled": true,
            },
            "limpet.stateful_session_strict": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "config": {},
            },
        }}))
    }

    /// Enables both `stateful_session` filters on every route, for strict policies whose sessions move.
    #[must_use]
    pub fn moving_strict_routes(self) -> Self {
        self.strict_filter().route(&json!({"typed_per_filter_config": {
            "limpet.stateful_session_strict": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "config": {},
            },
        }}))
    }

    /// Adds the strict `stateful_session` filter behind the other one, disabled as in `two-policies.yaml`, if missing.
    #[must_use]
    pub fn strict_filter(mut self) -> Self {
        let Some(filters) = self.hcm()["http_filters"].as_array_mut() else {
            return self;
        };
        let position = |name| filters.iter().position(|filter| filter["name"] == name);
        if let (None, Some(at)) = (
            position("limpet.stateful_session_strict"),
            position("limpet.stateful_session"),
        ) {
            let mut strict = filters[at].clone();
            strict["name"] = "limpet.stateful_session_strict".into();
            strict["disabled"] = true.into();
            strict["typed_config"]["strict"] = true.into();
            strict["typed_config"]["session_state"]["typed_config"]["name"] = "x-limpet-host-strict".into();
            filters.insert(at + 1, strict);
        }
        self
    }

    /// Removes Limpet from the chain, but not the filters around it.
    #[must_use]
    pub fn without_limpet(mut self) -> Self {
        if let Some(filters) = self.hcm()["http_filters"].as_array_mut() {
            filters.retain(|filter| filter["name"] != "limpet");
        }
        self
    }

    /// Removes from the chain what removes clients' internal headers.
    #[must_use]
    pub fn without_header_removal(mut self) -> Self {
        self.route_config()["request_headers_to_remove"] = json!([]);
        let hcm = self.hcm();
        hcm["early_header_mutation_extensions"] = json!([]);
        if let Some(filters) = hcm["http_filters"].as_array_mut() {
            filters.retain(|filter| filter["name"] != "limpet.internal_headers");
        }
        self
    }

    pub(super) fn hcm(&mut self) -> &mut Value {
        &mut self.listener()["filter_chains"][0]["filters"][0]["typed_config"]
    }

    pub(super) fn routes_mut(&mut self) -> &mut Value {
        &mut self.route_config()["virtual_hosts"][0]["routes"]
    }
}

/// A filter configuration with the default policy `web` and the scope `default`.
#[must_use]
pub fn filter_with(policy: &Value) -> Value {
    json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": policy},
        "default": {"policy": "web", "scope": "default"},
    })
}

fn set_filter(value: &mut Value, filter: &Value) {
    each_wasm(value, &mut |wasm| {
        wasm["config"]["configuration"] = json!({
            "@type": "type.googleapis.com/google.protobuf.StringValue",
            "value": filter.to_string(),
        });
    });
}
