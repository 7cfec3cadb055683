use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::compiled::{CompiledConfig, Fence, Fences, FormerLag, IdleBound, Policy, PolicyUse, RouteUse};
use super::keys::given_of;
use super::schema::{CacheControlConfig, FenceConfig, FilterConfig, PolicyConfig, TokenConfig};
use super::{
    Carrier, ConfigError, HostsByCluster, Problem, begin_rules, carrier_rules, further_rules, idle_bound,
    is_policy_name, move_rules, rebalance_rules, report_rules, source_rules,
};
use crate::name_watch::NameWatch;
use crate::time::{GatewayDuration, Timestamp};
use crate::token::PayloadForm;

/// Far below the 16 bits with which tokens bind scopes' lengths.
pub(crate) const MAX_SCOPE_LEN: usize = 1024;

/// Checks everything but the keys.
pub(crate) fn compile(config: &FilterConfig) -> Result<CompiledConfig, ConfigError> {
    let mut compiler = Compiler {
        declared: config.policies.keys().cloned().collect(),
        ..Compiler::default()
    };
    if config.max_idle.get().is_zero() {
        compiler.problem("maxIdle", "expected a duration greater than zero");
    }
    for (index, (name, policy)) in config.policies.iter().enumerate() {
        compiler.policy(index, name, policy, config.max_idle);
    }
    let mut routes: HashMap<String, Vec<RouteUse>> = HashMap::new();
    let mut known = HashSet::new();
    for (i, route) in config.routes.iter().enumerate() {
        let field = format!("routes[{i}]");
        if !known.insert((&route.route, &route.virtual_host)) {
            compiler.problem(
                &format!("{field}.route"),
                &format!(
                    "expected each route and virtualHost once, found {:?} again",
                    route.route
                ),
            );
        }
        if let Some(used) = compiler.policy_use(&field, &route.policy, route.scope.as_deref()) {
            let entries = routes.entry(route.route.clone()).or_default();
            entries.push(RouteUse {
                virtual_host: route.virtual_host.clone(),
                used,
                per_cluster: route.per_cluster,
            });
            entries.sort_by_key(|entry| entry.virtual_host.is_none());
        }
    }
    let default = config
        .default
        .as_ref()
        .and_then(|default| compiler.policy_use("default", &default.policy, default.scope.as_deref()));
    let fences = compiler.fences(&config.fences);
    let hosts = HostsByCluster::read(&config.hosts, &mut compiler.problems);
    if let Some(reports) = &config.report_sessions {
        compiler.problems.extend(report_rules::problems(reports));
    }
    if !compiler.problems.is_empty() {
        return Err(ConfigError {
            problems: compiler.problems,
        });
    }
    Ok(CompiledConfig {
        policies: compiler.policies,
        routes,
        default,
        access_log: config.access_log,
        report_sessions: config.report_sessions.clone(),
        clock_skew: config.clock_skew.get(),
        fences,
        hosts,
    })
}

#[derive(Default)]
struct Compiler {
    /// All policies' names, valid or not.
    declared: BTreeSet<String>,
    policies: BTreeMap<String, Arc<Policy>>,
    problems: Vec<Problem>,
}

impl Compiler {
    fn problem(&mut self, field: &str, message: &str) {
        self.problems.push(Problem {
            field: field.to_owned(),
            message: message.to_owned(),
        });
    }

    fn policy(&mut self, index: usize, name: &str, config: &PolicyConfig, max_idle: GatewayDuration) {
        let field = format!("policies.{name}");
        self.check(&field, name, config);
        let Some(carrier) = self.carrier(&field, config) else {
            return;
        };
        let (also, tell) = further_rules::further_carriers(&field, config, &carrier, &mut self.problems);
        if carrier.mode().is_some() && !carrier.is_own() && config.idle_timeout.is_some() {
            self.problem(
                &format!("{field}.idleTimeout"),
                "remove it in this mode: a token is renewed only when the application sets its cookie or header \
                 again, so the time of its last use would be unknown; absoluteTimeout bounds it",
            );
        }
        let timeout = |timeout: Option<GatewayDuration>| timeout.map(GatewayDuration::get);
        let absolute_timeout = timeout(config.absolute_timeout);
        let idle_bound = idle_bound(config, max_idle);
        // In redirects only, a token is renewed by chance.
        let is_renewable = carrier.is_own() && (tell.is_some() || !matches!(carrier, Carrier::Query { .. }));
        let moves = move_rules::moves(&field, config, &carrier, is_renewable, &mut self.problems);
        // Sessions that may restart are renewed even without an idle timeout.
        let longest = idle_bound.or(absolute_timeout).unwrap_or_default();
        let rebalance = rebalance_rules::rebalance(&field, config, &carrier, is_renewable, longest, &mut self.problems);
        let (rebalance, idle_bound) = match rebalance {
            Some((rebalance, bound)) => (Some(rebalance), Some(bound)),
            None => (None, idle_bound.map(|bound| IdleBound::new(bound, is_renewable))),
        };
        let own = begin_rules::OwnFields {
            carrier: &carrier,
            also: &also,
            tell: tell.as_deref(),
        };
        let begin = begin_rules::begin(&field, config, &own, &mut self.problems);
        let end = begin_rules::end(&field, config, &own, &mut self.problems);
        let policy = Policy {
            name: name.to_owned(),
            index,
            carrier,
            also,
            tell,
            begin,
            end,
            moves,
            rebalance,
            strict: config.strict,
            strict_status: config.strict_status,
            absolute_timeout,
            idle_bound,
            former_lags: self.former_lags(&field, config),
            form: match config.token {
                TokenConfig::Sealed => PayloadForm::Sealed,
                TokenConfig::Signed => PayloadForm::Signed,
            },
            keep_cache_control: config.cache_control == CacheControlConfig::Keep,
            name_watch: NameWatch::default(),
        };
        self.policies.insert(name.to_owned(), Arc::new(policy));
    }

    /// Checks the fields that depend on no other.
    fn check(&mut self, field: &str, name: &str, config: &PolicyConfig) {
        if !is_policy_name(name) {
            self.problem(
                field,
                "expected a name of 1 to 128 letters, digits, dots, underscores or hyphens",
            );
        }
        for (name, timeout) in [
            ("absoluteTimeout", config.absolute_timeout),
            ("idleTimeout", config.idle_timeout),
        ] {
            if timeout.is_some_and(|timeout| timeout.get().is_zero()) {
                self.problem(&format!("{field}.{name}"), "expected a duration greater than zero");
            }
        }
        if !(400..=599).contains(&config.strict_status) {
            self.problem(&format!("{field}.strictStatus"), "expected a status from 400 to 599");
        }
    }

    /// The policy's own carrier; `None` if not exactly one is given.
    fn carrier(&mut self, field: &str, config: &PolicyConfig) -> Option<Carrier> {
        Some(match (&config.cookie, &config.header, &config.query, &config.source) {
            (Some(cookie), None, None, None) => {
                let field = format!("{field}.cookie");
                carrier_rules::cookie(&field, cookie, config.absolute_timeout, &mut self.problems)
            }
            (None, Some(header), None, None) => {
                carrier_rules::header(&format!("{field}.header"), header, &mut self.problems)
            }
            (None, None, Some(query), None) => {
                further_rules::query(&format!("{field}.query"), query, &mut self.problems)
            }
            (None, None, None, Some(source)) => source_rules::source(field, config, source, &mut self.problems),
            _ => {
                let found = given_of(&[
                    ("cookie", config.cookie.is_some()),
                    ("header", config.header.is_some()),
                    ("query", config.query.is_some()),
                    ("source", config.source.is_some()),
                ]);
                let message = format!("expected exactly one of cookie, header, query and source, found {found}");
                self.problem(field, &message);
                return None;
            }
        })
    }

    fn former_lags(&mut self, field: &str, config: &PolicyConfig) -> Vec<FormerLag> {
        let mut all = Vec::with_capacity(config.former_lags.len());
        for (i, former) in config.former_lags.iter().enumerate() {
            let field = format!("{field}.formerLags[{i}]");
            if former.lag.get().is_zero() {
                self.problem(&format!("{field}.lag"), "expected a duration greater than zero");
            }
            self.namespace(&field, former.namespace.as_deref());
            all.push(FormerLag {
                namespace: former.namespace.as_deref().map(Box::from),
                lag: former.lag.get(),
                until: Timestamp::from_unix_seconds(former.until),
            });
        }
        all
    }

    fn namespace(&mut self, field: &str, namespace: Option<&str>) {
        if namespace == Some("") {
            self.problem(&format!("{field}.namespace"), "expected a name, or no namespace");
        }
    }

    fn policy_use(&mut self, field: &str, policy: &str, scope: Option<&str>) -> Option<PolicyUse> {
        if scope.is_some_and(|scope| scope.is_empty() || scope.len() > MAX_SCOPE_LEN) {
            self.problem(&format!("{field}.scope"), "expected 1 to 1024 bytes");
        }
        if let Some(policy) = self.policies.get(policy) {
            return Some(PolicyUse {
                policy: Arc::clone(policy),
                scope: scope.map(str::to_owned),
            });
        }
        if !self.declared.contains(policy) {
            self.problem(
                &format!("{field}.policy"),
                &format!("expected a name from policies, found {policy:?}"),
            );
        }
        None
    }

    fn fences(&mut self, configs: &[FenceConfig]) -> Fences {
        let mut fences = Fences::default();
        for (i, config) in configs.iter().enumerate() {
            let address = match (config.address.parse::<IpAddr>(), config.address.parse::<SocketAddr>()) {
                (Ok(ip), _) => (ip, None),
                (_, Ok(host)) => (host.ip(), Some(host.port())),
                _ => {
                    self.problem(
                        &format!("fences[{i}].address"),
                        "expected an IP address, or one with a port like 10.0.0.7:80 or [2001:db8::7]:80",
                    );
                    continue;
                }
            };
            self.namespace(&format!("fences[{i}]"), config.namespace.as_deref());
            fences.0.entry(address.0).or_default().push(Fence {
                port: address.1,
                namespace: config.namespace.as_deref().map(Box::from),
                not_before: Timestamp::from_unix_seconds(config.not_before),
            });
        }
        fences
    }
}
