//! The sessions of routes: a token in place of Contour's hash.

use limpet_core::config::schema::{CookieModeConfig, LifetimeTypeConfig, SameSiteConfig, SourceConfig};

use limpet_api::ObjectName;

use super::go::quoted;
use super::services::{ContourService, LoadBalancerStrategy};
use crate::Settings;
use crate::graph::HashOn;
use crate::session_fields::{CookiePath, SessionFields, ValueOrNone};
use crate::sessions::{CookieSessionInputs, CookieSessions};

const COOKIE: &str = "X-Contour-Session-Affinity";

#[derive(Debug)]
pub(super) struct IngressSession {
    pub(super) sessions: CookieSessions,
    service: (ObjectName, u16),
}

pub(super) fn begins_at(service: &ContourService<'_>) -> bool {
    matches!(
        service.strategy,
        LoadBalancerStrategy::Cookie | LoadBalancerStrategy::StickyCookie { .. } | LoadBalancerStrategy::StickyAddress
    )
}

/// The sessions of a route belong to its first service with a strategy that is a session.
///
/// # Errors
/// If they cannot be followed. `field`: the route's; `prefix`: its match.
pub(super) fn of_route(
    services: &[ContourService<'_>],
    overrides: &SessionFields,
    settings: &Settings,
    (field, prefix): (&str, &str),
) -> Result<Option<IngressSession>, String> {
    let Some((index, service)) = services.iter().enumerate().find(|(_, service)| begins_at(service)) else {
        return Ok(None);
    };
    let config = format!("{field}.services[{index}].stickySessionConfig.cookie");
    let (name, path, by_address) = match service.strategy {
        LoadBalancerStrategy::StickyCookie { name, path } => (name, path, false),
        LoadBalancerStrategy::StickyAddress => (COOKIE, "", true),
        _ => (COOKIE, "", false),
    };
    if !path.is_empty() && !path.starts_with('/') {
        return Err(format!(
            "{config}.path: expected a path that begins with /, found {}",
            quoted(path)
        ));
    }
    let defaults = defaults(settings, path, by_address);
    let sessions = CookieSessionInputs {
        name,
        overrides,
        defaults: &defaults,
        path: prefix,
        limits: settings.session_limits,
    };
    Ok(Some(IngressSession {
        sessions: sessions.sessions(&config, &format!("{field}.match"))?,
        service: (service.name.clone(), service.port),
    }))
}

/// Where the route's annotations say nothing: what Contour's cookie had, else the controller's defaults.
fn defaults(settings: &Settings, path: &str, by_address: bool) -> SessionFields {
    let of_controller = &settings.session_defaults;
    SessionFields {
        // Contour's had none. With `Strict`, a client that comes by a link would lose the session.
        same_site: Some(SameSiteConfig::Lax),
        script_access: Some(false),
        partitioned: Some(false),
        path: Some(if path.is_empty() {
            CookiePath::Root
        } else {
            CookiePath::At(path.to_owned())
        }),
        lifetime_type: Some(LifetimeTypeConfig::Session),
        mode: Some(CookieModeConfig::Insert),
        // The backend saw it, and the router hashes what Contour's Envoys have set.
        forward: Some(true),
        query: Some(ValueOrNone(None)),
        source: Some(ValueOrNone(by_address.then(SourceConfig::default))),
        domain: None,
        scope: None,
        split: None,
        ..of_controller.clone()
    }
}

impl IngressSession {
    /// The scope on a host. Its second part is the namespace of the Service, for fences: EndpointSlices of others on
    /// the host do not count.
    pub(super) fn scope(&self, host: &str) -> String {
        let (ObjectName { namespace, name }, port) = &self.service;
        format!("contour/{namespace}/{host}/{name}:{port}")
    }

    /// The name and path by which a client tells it from others of the host.
    pub(super) fn cookie(&self) -> Option<(String, String)> {
        let cookie = self.sessions.cookie()?;
        Some((cookie.name.clone(), cookie.path.clone()))
    }
}

pub(super) fn hash(services: &[ContourService<'_>], held: Option<&IngressSession>) -> Vec<HashOn> {
    let mut hash = Vec::new();
    for service in services {
        let on = match service.strategy {
            LoadBalancerStrategy::Cookie => HashOn::Cookie(COOKIE.to_owned()),
            // Its name is checked where it is the session's.
            LoadBalancerStrategy::StickyCookie { name, .. } if held.is_some_and(|held| held.cookie().is_some()) => {
                HashOn::Cookie(name.to_owned())
            }
            LoadBalancerStrategy::StickyHeader(name) => HashOn::Header(name.to_ascii_lowercase()),
            _ => continue,
        };
        if !hash.contains(&on) {
            hash.push(on);
        }
    }
    if held.is_some_and(|held| held.sessions.is_by_address())
        || services.iter().any(|service| service.affinity.is_some())
    {
        hash.push(HashOn::Address);
    }
    hash
}
