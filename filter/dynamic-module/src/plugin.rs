//! A configuration in force, which all workers share.

use limpet_core::{Counters, Filter, config};

use crate::abi::{self, Configuring, Counter, Level};

/// A configuration in force, and its counters.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) filter: Filter,
    pub(crate) counters: Counters<Counter>,
}

/// Puts a configuration in force; `None` where it is refused, and the log says why.
pub(crate) fn configure(configuring: &Configuring<'_>, json: &[u8]) -> Option<Plugin> {
    match try_configure(configuring, json) {
        Ok(plugin) => Some(plugin),
        Err(error) => {
            abi::log(Level::Error, &format!("limpet: configuration refused: {error}"));
            None
        }
    }
}

/// What a route's metadata would say of its sessions, in Envoy's own configuration of the route.
#[derive(Debug)]
pub(crate) struct RouteSession(pub(crate) Vec<u8>);

/// Takes a route's configuration; `None` where it is refused, and the log says why. Envoy does not tell which filter it is for, so
/// whether there is such a policy shows when a request comes.
pub(crate) fn configure_route(session: &[u8]) -> Option<RouteSession> {
    if let Err(error) = limpet_core::RouteSession::parse(session) {
        let line = format!(
            "limpet: route configuration refused: {error}, found {:?}",
            String::from_utf8_lossy(session)
        );
        abi::log(Level::Error, &line);
        return None;
    }
    Some(RouteSession(session.to_vec()))
}

fn try_configure(configuring: &Configuring<'_>, json: &[u8]) -> Result<Plugin, String> {
    let config = config::parse(json).map_err(|error| error.to_string())?;
    let by_virtual_host = config.routes.iter().position(|route| route.virtual_host.is_some());
    if let Some(index) = by_virtual_host.filter(|_| !abi::is_1_40()) {
        // Its answer would be something else, and the route's sessions would be gone without a word.
        return Err(format!(
            "routes[{index}].virtualHost: dynamic modules learn the virtual host from Envoy 1.40 on, and this one is older"
        ));
    }
    let environment = |name: &str| std::env::var(name).ok();
    let (filter, warnings) = Filter::new(&config, &environment).map_err(|error| error.to_string())?;
    let counters = Counters::define(&filter, |name| configuring.counter(name)).map_err(|error| error.to_string())?;
    for warning in warnings {
        abi::log(Level::Warn, &format!("limpet: {warning}"));
    }
    Ok(Plugin { filter, counters })
}
