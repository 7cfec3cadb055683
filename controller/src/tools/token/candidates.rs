//! The sessions that a token may be of: keys, policies and scopes to try it with.

use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Value, json};

use super::token_argument::TokenArgument;
use crate::cli::RealmArgs;
use crate::envoy_config::discovery;
use crate::envoy_config::node::ConfigNode;
use crate::envoy_config::{filter_configs, filter_locator};
use crate::exit::CommandFailure;
use crate::tools::keys::keys_file;
use crate::tools::keys::source::{self, KeySourceError};
use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::config::schema::{FilterConfig, PolicyConfig};
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring};
use limpet_core::time::GatewayDuration;
use limpet_core::token::{CarrierMode, DestinationId, Realm, cluster_base};
use limpet_core::{RouteSession, Split, config, scope_of_cluster};

/// The scope of sessions without any other.
const DEFAULT_SCOPE: &str = "default";

/// A session that the token may be of.
#[derive(Debug, Clone)]
pub(crate) struct CandidateSession {
    pub(crate) config: Rc<FilterConfig>,
    /// The name of a policy of `config`.
    pub(crate) policy: String,
    pub(crate) scope: String,
    /// Which of the policy's carriers the token is bound to: its own one is the first.
    pub(crate) carrier: usize,
}

#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) list: Vec<CandidateSession>,
    /// The clusters in the configuration, by what tokens name them by.
    clusters: BTreeSet<String>,
    /// Whether the policies come from a configuration, rather than from arguments.
    pub(super) has_policies: bool,
}

impl CandidateSession {
    pub(crate) fn policy_config(&self) -> Option<&PolicyConfig> {
        self.config.policies.get(&self.policy)
    }

    /// How the token travels, and the name of its cookie or header.
    pub(crate) fn carrier(&self) -> (CarrierMode, &str) {
        let carrier = self
            .policy_config()
            .and_then(|policy| policy.carriers().nth(self.carrier));
        carrier.unwrap_or((CarrierMode::Cookie, ""))
    }

    /// The same session in each of its carriers: former ones, too.
    pub(crate) fn in_each_carrier(&self) -> impl Iterator<Item = Self> {
        let count = self.policy_config().map_or(0, |policy| policy.carriers().count());
        (0..count.max(1)).map(|carrier| Self {
            carrier,
            ..self.clone()
        })
    }

    /// What tokens of this session are bound to, with the key of this id, or without an id with the one that signs.
    ///
    /// # Errors
    /// If the key is not available; `None` if there is no such key.
    pub(super) fn realm(&self, id: Option<KeyId>) -> Result<Realm, Option<KeySourceError>> {
        let keyring = keyring(&self.config, id)?;
        let (mode, name) = self.carrier();
        Ok(Realm::new(&keyring, self.scope.as_bytes(), mode, name))
    }

    /// How long the session may be idle, and the field that sets it.
    pub(crate) fn idle_bound(&self) -> Option<(GatewayDuration, &'static str)> {
        let policy = self.policy_config()?;
        match (policy.idle_timeout, policy.absolute_timeout) {
            (Some(bound), _) => Some((bound, "idleTimeout")),
            (None, None) => Some((self.config.max_idle, "maxIdle")),
            (None, Some(_)) => None,
        }
    }

    /// Policy, scope and carrier, for people.
    pub(super) fn words(&self, candidates: &Candidates) -> String {
        let (mode, name) = self.carrier();
        let scope = &self.scope;
        if candidates.has_policies {
            format!("policy {}, scope {scope}, {} {name}", self.policy, mode.name())
        } else {
            format!("scope {scope}, {} {name}", mode.name())
        }
    }
}

/// A keyring with only the key of this id, or without an id the one that signs.
///
/// # Errors
/// If the key is not available; `None` if there is no such key.
pub(crate) fn keyring(config: &FilterConfig, id: Option<KeyId>) -> Result<Keyring, Option<KeySourceError>> {
    let entry = source::key(config, id).map_err(Some)?.ok_or(None)?;
    let secret = entry.secret.as_ref().ok_or(Some(KeySourceError::Revoked))?;
    let key = Key::new(entry.id, KeyState::Signing, secret);
    Keyring::new(vec![key]).map_err(|error| Some(KeySourceError::Wrong(error.to_string())))
}

impl Candidates {
    /// The base of the clusters of this destination, if there are any in the configuration.
    pub(super) fn cluster(&self, destination: DestinationId) -> Option<&str> {
        let is_it = |cluster: &&String| DestinationId::of_cluster(cluster.as_bytes()) == destination;
        self.clusters.iter().find(is_it).map(String::as_str)
    }

    /// The first few candidates, for people.
    pub(super) fn words(&self) -> String {
        let shown = self.list.iter().take(8).map(|candidate| candidate.words(self));
        let more = self.list.len().saturating_sub(8);
        let rest = (more > 0).then(|| format!("and {more} more"));
        shown.chain(rest).collect::<Vec<_>>().join("; ")
    }

    /// From `--keys` or `--config`; none without either.
    pub(super) fn from_args(
        args: &RealmArgs,
        argument: Option<&TokenArgument<'_>>,
        timeouts: [Option<GatewayDuration>; 2],
    ) -> Result<Self, CommandFailure> {
        match (&args.keys, &args.config) {
            (Some(file), _) => Self::from_keys(args, file, argument, timeouts),
            (None, Some(file)) => Self::from_config(args, file),
            (None, None) => Ok(Self::default()),
        }
    }

    fn from_keys(
        args: &RealmArgs,
        file: &str,
        argument: Option<&TokenArgument<'_>>,
        [absolute_timeout, idle_timeout]: [Option<GatewayDuration>; 2],
    ) -> Result<Self, CommandFailure> {
        let name = args.name.as_deref().or(argument.and_then(|argument| argument.name));
        let Some(name) = name else {
            let problem = "expected --name, the name of the cookie or header, which a token is bound to (or give the \
                           token as name=value)";
            return Err(CommandFailure(problem.to_owned()));
        };
        let scope = args.scope.clone().unwrap_or_else(|| DEFAULT_SCOPE.to_owned());
        let name = without_scope(name, &scope);
        let mode = args.mode.or(argument.and_then(|argument| argument.mode));
        let mode = mode.unwrap_or(CarrierMode::Cookie);
        let (carrier, how) = mode.name().split_once('-').unwrap_or((mode.name(), "insert"));
        // A query has no mode, and needs a header that tells its tokens. No token is bound to it.
        let is_query = mode == CarrierMode::Query;
        let place = if is_query {
            json!({"name": name})
        } else {
            json!({"name": name, "mode": how})
        };
        let tell = is_query.then(|| json!({"header": {"name": "x-token"}}));
        let policy = json!({
            carrier: place,
            "tell": tell,
            "absoluteTimeout": absolute_timeout,
            "idleTimeout": idle_timeout,
        });
        let written = json!({
            "keys": [],
            "policies": {"-": policy},
            // Without timeouts, the configuration of the token is unknown, so no bound ends its session.
            "maxIdle": "99999h",
        });
        let mut config =
            config::parse(written.to_string().as_bytes()).map_err(|error| CommandFailure(error.to_string()))?;
        config.keys = Some(keys_file::read(file)?);
        let candidate = CandidateSession {
            config: Rc::new(config),
            policy: "-".to_owned(),
            scope,
            carrier: 0,
        };
        Ok(Self {
            list: vec![candidate],
            ..Self::default()
        })
    }

    fn from_config(args: &RealmArgs, file: &str) -> Result<Self, CommandFailure> {
        let documents = discovery::read(file)?;
        let roots: Vec<ConfigNode<'_>> = documents
            .iter()
            .map(|(file, value)| ConfigNode::root(file, value))
            .collect();
        let configs = filter_configs::read(file, &roots)?;
        let mut candidates = Self {
            has_policies: true,
            clusters: clusters(&roots),
            ..Self::default()
        };
        let routes = routes(&roots);
        for config in configs {
            let config = Rc::new(config);
            for (policy, scope) in sessions(&config, &routes, args.scope.as_deref()) {
                if args.policy.as_ref().is_none_or(|wanted| *wanted == policy) {
                    candidates.list.push(CandidateSession {
                        config: Rc::clone(&config),
                        policy,
                        scope,
                        carrier: 0,
                    });
                }
            }
        }
        if candidates.list.is_empty() {
            let wanted = args.policy.as_deref().unwrap_or_default();
            return Err(CommandFailure(format!("{file}: no policy {wanted:?} in it")));
        }
        Ok(candidates)
    }
}

/// The name that tokens are bound to; the name of the cookie may also have the scope (`perScope`).
pub(crate) fn without_scope<'n>(name: &'n str, scope: &str) -> &'n str {
    let base = name.rsplit_once('~').map_or(name, |(base, _)| base);
    if CookieNames::new(base, scope.as_bytes(), true).current() == name {
        base
    } else {
        name
    }
}

/// The routes of the documents.
#[derive(Debug, Default)]
struct DocumentRoutes<'a> {
    names: Vec<&'a str>,
    named: Vec<DocumentSession<'a>>,
    /// The clusters of all.
    clusters: BTreeSet<String>,
}

/// A session that a route or a cluster names.
#[derive(Debug)]
struct DocumentSession<'a> {
    /// The name of the route, if it is one.
    route: Option<&'a str>,
    session: String,
    /// The clusters of the route, if it is one.
    clusters: BTreeSet<String>,
}

fn routes<'a>(roots: &[ConfigNode<'a>]) -> DocumentRoutes<'a> {
    let mut routes = DocumentRoutes {
        clusters: clusters(roots),
        ..DocumentRoutes::default()
    };
    for root in roots {
        root.visit(&mut |object| {
            let name = object.get("match").map(|_| object.text("name").unwrap_or_default());
            routes.names.extend(name);
            // The metadata of a route, or of a cluster.
            let metadata = object.at(&[
                "metadata",
                "filter_metadata",
                limpet_core::envoy::FILTER_NAME,
                "session",
            ]);
            if let Some(session) = metadata.and_then(|session| session.value.as_str()) {
                routes.named.push(DocumentSession {
                    route: name,
                    session: session.to_owned(),
                    clusters: clusters(std::slice::from_ref(object)),
                });
            }
            if object.kind() == Some(filter_locator::PER_ROUTE)
                && let Some(text) = filter_locator::route_session(object).text
            {
                routes.named.push(DocumentSession {
                    route: None,
                    session: String::from_utf8_lossy(&text).into_owned(),
                    clusters: routes.clusters.clone(),
                });
            }
        });
    }
    routes
}

fn clusters(roots: &[ConfigNode<'_>]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for root in roots {
        root.visit(&mut |object| {
            let listed = object.list("clusters");
            let listed = listed.iter().filter_map(|cluster| cluster.text("name"));
            let all = object.text("cluster").into_iter().chain(listed);
            names.extend(all.map(|name| String::from_utf8_lossy(cluster_base(name.as_bytes())).into_owned()));
        });
    }
    names
}

/// The policies and scopes of the sessions that these routes have with this configuration.
fn sessions(config: &FilterConfig, routes: &DocumentRoutes<'_>, scope: Option<&str>) -> BTreeSet<(String, String)> {
    let mut sessions: BTreeSet<(String, String)> = BTreeSet::new();
    let mut add = |policy: &str, scope: &str| {
        if config.policies.contains_key(policy) && !scope.is_empty() {
            sessions.insert((policy.to_owned(), scope.to_owned()));
        }
    };
    if let Some(scope) = scope {
        config.policies.keys().for_each(|policy| add(policy, scope));
        return sessions;
    }
    for DocumentSession {
        route,
        session,
        clusters,
    } in &routes.named
    {
        let Ok(RouteSession::Rule { policy, scope, split }) = RouteSession::parse(session.as_bytes()) else {
            continue;
        };
        let clusters = (split == Some(Split::Destinations)).then_some(clusters);
        let mut add = |scope: &str| in_clusters(scope, clusters, |scope| add(policy, scope));
        let scope = scope.and_then(|scope| std::str::from_utf8(scope).ok());
        match (scope, route) {
            (Some(scope), _) => add(scope),
            (None, Some(name)) => add(name),
            (None, None) => routes.names.iter().for_each(|name| add(name)),
        }
    }
    for entry in &config.routes {
        let clusters = entry.per_cluster.then_some(&routes.clusters);
        let scope = entry.scope.as_deref().unwrap_or(&entry.route);
        in_clusters(scope, clusters, |scope| add(&entry.policy, scope));
    }
    if let Some(default) = &config.default {
        match &default.scope {
            Some(scope) => add(&default.policy, scope),
            None => routes.names.iter().for_each(|name| add(&default.policy, name)),
        }
    }
    config.policies.keys().for_each(|policy| add(policy, DEFAULT_SCOPE));
    sessions
}

/// Adds the scope, or where each cluster has its own, each cluster's.
fn in_clusters(scope: &str, clusters: Option<&BTreeSet<String>>, mut add: impl FnMut(&str)) {
    match clusters {
        None => add(scope),
        Some(clusters) => {
            for cluster in clusters {
                let scope = scope_of_cluster(scope.as_bytes(), cluster.as_bytes());
                add(&String::from_utf8_lossy(&scope));
            }
        }
    }
}

/// A candidate in the JSON output.
pub(super) fn session_json(candidate: &CandidateSession, candidates: &Candidates) -> Value {
    let (mode, name) = candidate.carrier();
    let policy = candidates.has_policies.then_some(&candidate.policy);
    json!({"policy": policy, "scope": candidate.scope, "mode": mode.name(), "name": name})
}
