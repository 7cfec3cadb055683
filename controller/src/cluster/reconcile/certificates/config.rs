use std::time::Duration;

use serde::Deserialize;

use limpet_api::ObjectName;
use limpet_core::time::GatewayDuration;

/// The controller's own authority for xDS. Durations are GEP-2257's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AuthorityConfig {
    /// In the controller's own namespace.
    pub(crate) secret: String,
    /// For the server's certificate; if empty, the names of the Service with the Lease's name.
    pub(crate) server_names: Vec<String>,
    /// An authority's validity. At two thirds of it, another one begins to take its place.
    pub(crate) life: GatewayDuration,
    /// A certificate's validity. It is renewed at two thirds of it.
    pub(crate) certificate_life: GatewayDuration,
    /// A rotation's minimum phase: longer than a kubelet takes to replace a mounted Secret.
    pub(crate) phase_time: GatewayDuration,
}

impl Default for AuthorityConfig {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        Self {
            secret: "limpet-xds-authority".to_owned(),
            server_names: Vec::new(),
            life: days(365).into(),
            certificate_life: days(30).into(),
            phase_time: Duration::from_secs(600).into(),
        }
    }
}

impl AuthorityConfig {
    /// Fails if an authority would end before its certificates or its replacement.
    pub(crate) fn check(&self) -> Result<(), String> {
        let whole = [("life", self.life), ("certificateLife", self.certificate_life)];
        for (field, duration) in whole {
            if duration.get() < Duration::from_secs(1) {
                return Err(format!("{field}: expected at least 1s, found {duration}"));
            }
        }
        for (field, duration) in [
            ("certificateLife", self.certificate_life),
            ("phaseTime", self.phase_time),
        ] {
            if duration.get() > self.life.get() / 4 {
                return Err(format!(
                    "{field}: expected at most a fourth of life, which is {}, found {duration}",
                    self.life
                ));
            }
        }
        Ok(())
    }

    pub(super) fn server_names(&self, service: &ObjectName) -> Vec<String> {
        if self.server_names.is_empty() {
            let ObjectName { namespace, name } = service;
            vec![
                name.to_string(),
                format!("{name}.{namespace}"),
                format!("{name}.{namespace}.svc"),
            ]
        } else {
            self.server_names.clone()
        }
    }
}
