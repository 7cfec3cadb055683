//! The sessions of routes: a token in place of Contour's hash.

use limpet_core::config::schema::{CookieModeConfig, LifetimeTypeConfig, SameSiteConfig, SourceConfig};

use limpet_api::ObjectName;

use super::go::quoted;
use super::services::{Service, Strategy};
use crate::Settings;
use crate::graph::HashOn;
use crate::session_fields::{CookiePath, OrNone, SessionFields};
use crate::sessions::{ByCookie, CookieSessions};

const COOKIE: &str = "X-Contour-Session-Affinity";

#[derive(Debug)]
pub(super) struct Held {
    pub(super) sessions: CookieSessions,
    service: (ObjectName, u16),
}

pub(super) fn begins_at(service: &Service<'_>) -> bool {
    matches!(
        service.strategy,
        Strategy::Cookie | Strategy::StickyCookie { .. } | Strategy::StickyAddress
    )
}

/// The sessions of a route belong to its first service with a strategy that is a session.
///
/// # Errors
/// If they cannot be followed. `field`: the route's; `prefix`: its match.
pub(super) fn of_route(
    services: &[Service<'_>],
    overrides: &SessionFields,
    settings: &Settings,
    (field, prefix): (&str, &str),
) -> Result<Option<Held>, String> {
    let Some((index, service)) = services.iter().enumerate().find(|(_, service)| begins_at(service)) else {
        return Ok(None);
    };
    let config = format!("{field}.services[{index}].stickySessionConfig.cookie");
    let (name, path, by_address) = match service.strategy {
        Strategy::StickyCookie { name, path } => (name, path, false),
        Strategy::StickyAddress => (COOKIE, "", true),
        _ => (COOKIE, "", false),
    };
    if !path.is_empty() && !path.starts_with('/') {
        return Err(format!(
            "{config}.path: expected a path that begins with /, found {}",
            quoted(path)
        ));
    }
    let defaults = defaults(settings, path, by_address);
    let sessions = ByCookie {
        name,
        overrides,
        defaults: &defaults,
        path: prefix,
        limits: settings.session_limits,
    };
    Ok(Some(Held {
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
        query: Some(OrNone(None)),
        source: Some(OrNone(by_address.then(SourceConfig::default))),
        domain: None,
        scope: None,
        split: None,
        ..of_controller.clone()
    }
}

impl Held {
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

pub(super) fn hash(services: &[Service<'_>], held: Option<&Held>) -> Vec<HashOn> {
    let mut hash = Vec::new();
    for service in services {
        let on = match service.strategy {
            Strategy::Cookie => HashOn::Cookie(COOKIE.to_owned()),
            // Its name is checked where it is the session's.
            Strategy::StickyCookie { name, .. } if held.is_some_and(|held| held.cookie().is_some()) => {
                HashOn::Cookie(name.to_owned())
            }
            Strategy::StickyHeader(name) => HashOn::Header(name.to_ascii_lowercase()),
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
