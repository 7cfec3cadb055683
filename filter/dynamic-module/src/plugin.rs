//! The configuration in force, which all workers share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use limpet_core::config::FencesAhead;
use limpet_core::config::schema::{FilterConfig, SdsKeysConfig};
use limpet_core::source::SharedTables;
use limpet_core::{Counters, DefinedCounters, Filter, config};

use crate::abi::{self, Counter, EnvoyFilter, EnvoyFilterConfig, HostError, LogLevel};
use crate::discovered_filter::DiscoveredFilter;
use crate::host;
use crate::reporter::ModuleReporter;

/// Fences of all configurations in this process.
static FENCES_AHEAD: Mutex<FencesAhead> = Mutex::new(FencesAhead::new());

/// Tables of all configurations: entries outlast one that does not change their policy.
static TABLES: SharedTables = SharedTables::new();

/// Warnings in Envoy's log.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The most warnings in [`SAID`], because they name policies, and a control plane may rename one with each change.
const REMEMBERED: usize = 1024;

/// Logs a warning, unless an earlier configuration did.
pub(crate) fn warn_once(text: String) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.contains(&text) {
        return;
    }
    abi::log(LogLevel::Warn, &format!("limpet: {text}"));
    if said.len() == REMEMBERED {
        said.pop_first();
    }
    said.insert(text);
}

#[derive(Debug)]
pub(crate) struct ModulePlugin {
    /// Without keys if these are in a secret.
    pub(crate) filter: Filter,
    discovered: Option<DiscoveredFilter>,
    pub(crate) counters: Counters<Counter>,
    reporter: Option<ModuleReporter>,
}

impl ModulePlugin {
    pub(crate) fn unregister(&self) {
        if let Some(reporter) = &self.reporter {
            reporter.unregister();
        }
    }

    pub(crate) fn on_schedule(&self, configured: &EnvoyFilterConfig<'_>) {
        if let Some(reporter) = &self.reporter {
            reporter.report(configured);
        }
    }

    pub(crate) fn on_answer<'a>(
        &self,
        is_answer: bool,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) {
        if let Some(reporter) = &self.reporter {
            reporter.on_answer(is_answer, fields, body);
        }
    }

    /// The filter with the keyring of the secret; `None` to use [`ModulePlugin::filter`].
    pub(crate) fn discovered(&self, exchange: &EnvoyFilter<'_>) -> Result<Option<Arc<Filter>>, HostError> {
        let Some(discovered) = &self.discovered else {
            return Ok(None);
        };
        let secret = exchange.secret(discovered.secret)?;
        Ok(discovered.filter(secret, &self.filter).unwrap_or_else(|error| {
            exchange.count(self.counters.refused_secrets());
            abi::log(LogLevel::Error, &format!("limpet: secret refused: {error}"));
            discovered.newest()
        }))
    }
}

pub(crate) fn configure(configuring: &EnvoyFilterConfig<'_>, json: &[u8]) -> Option<ModulePlugin> {
    match try_configure(configuring, json) {
        Ok(plugin) => Some(plugin),
        Err(error) => {
            abi::log(LogLevel::Error, &format!("limpet: configuration refused: {error}"));
            None
        }
    }
}

/// A route's configuration, in the form of a route's metadata.
#[derive(Debug)]
pub(crate) struct PerRouteConfig(pub(crate) Vec<u8>);

/// Reads the configuration of a route, or logs why it is refused. Envoy does not say for which filter it is, so only a
/// request shows whether the policy exists.
pub(crate) fn configure_per_route(session: &[u8]) -> Option<PerRouteConfig> {
    if let Err(error) = limpet_core::RouteSession::parse(session) {
        let line = format!(
            "limpet: route configuration refused: {error}, found {:?}",
            String::from_utf8_lossy(session)
        );
        abi::log(LogLevel::Error, &line);
        return None;
    }
    Some(PerRouteConfig(session.to_vec()))
}

fn try_configure(configuring: &EnvoyFilterConfig<'_>, json: &[u8]) -> Result<ModulePlugin, String> {
    let mut config = config::parse(json).map_err(|error| error.to_string())?;
    let by_virtual_host = config.routes.iter().position(|route| route.virtual_host.is_some());
    if let Some(index) = by_virtual_host.filter(|_| !abi::is_1_40()) {
        // Older versions return something else, and the route would silently lose its sessions.
        return Err(format!(
            "routes[{index}].virtualHost: dynamic modules learn the virtual host from Envoy 1.40 on, \
             and this one is older"
        ));
    }
    // A panic cannot leave it half-changed.
    let mut fences_ahead = FENCES_AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
    let ahead = fences_ahead.bound(&mut config, host::now());
    drop(fences_ahead);
    let (filter, discovered, warnings) = if let Some(sds) = &config.sds_keys {
        let (filter, discovered) = discover(configuring, &config, sds)?;
        (filter, Some(discovered), config::warnings(&config))
    } else {
        let environment = |name: &str| std::env::var(name).ok();
        let (filter, warnings) = Filter::new(&config, &environment).map_err(|error| error.to_string())?;
        (filter, None, warnings)
    };
    filter.remember_tokens();
    filter.set_tables(|policy, rules| TABLES.get_or_insert(policy, rules));
    // Each configuration has its own, which Envoy drops with it.
    let counters = Counters::define(&filter, &mut DefinedCounters::default(), |name| {
        configuring.counter(name)
    });
    let counters = counters.map_err(|error| error.to_string())?;
    let reporter = filter
        .report_sessions()
        .and_then(|rules| ModuleReporter::register(rules, configuring));
    for warning in warnings.into_iter().chain(ahead) {
        warn_once(format!("{}: {warning}", warning.field()));
    }
    Ok(ModulePlugin {
        filter,
        discovered,
        counters,
        reporter,
    })
}

/// Subscribes to the secret. If it is there already, it must be a keyring.
fn discover(
    configuring: &EnvoyFilterConfig<'_>,
    config: &FilterConfig,
    sds: &SdsKeysConfig,
) -> Result<(Filter, DiscoveredFilter), String> {
    if !abi::has_secrets() {
        return Err(
            "sdsKeys: Envoy hands secrets (SDS) to dynamic modules from 1.40 on, and this one is older".to_owned(),
        );
    }
    let filter = Filter::without_keys(config).map_err(|error| error.to_string())?;
    let subscribed = configuring.subscribe(&sds.name, &sds.source());
    let discovered = DiscoveredFilter::new(subscribed.map_err(|_| NO_SECRET.to_owned())?);
    let secret = configuring
        .secret(discovered.secret)
        .map_err(|error| error.to_string())?;
    discovered
        .filter(secret, &filter)
        .map_err(|error| format!("sdsKeys.name: expected a secret that holds a keyring; {error}"))?;
    Ok((filter, discovered))
}

const NO_SECRET: &str = "sdsKeys: Envoy does not take it: \
    expected the name of a secret in its bootstrap configuration, or an Envoy ConfigSource in sdsConfig, \
    for an Envoy that has a node id and cluster";
