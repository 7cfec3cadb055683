//! Whether a token would be honoured, and if not, why, and what would accept it. Pure: all verdicts are the filter's.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::carrier;
use super::judgement::{TokenClaims, TokenJudgement, TokenVerdict};
use super::presented::PresentedToken;
use crate::exit::CommandFailure;
use crate::time_format;
use crate::tools::keys::source::{self, KeySourceError};
use crate::tools::token::candidates::{CandidateSession, keyring, without_scope};
use crate::tools::token::verification::{TokenRequest, evaluate};
use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::FilterConfig;
use limpet_core::keyring::{KeyId, Keyring};
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_core::token::{CarrierMode, Claims, DestinationId, Realm, TokenRefusal, UnverifiedToken};
use limpet_model::Graph;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::explanation::{DestinationExplanation, RuleExplanation};
use limpet_model::graph::{Action, Forward, Route, RuleName, Session, SessionUse, Target};

/// What a token is judged by.
pub(super) struct TokenJudge<'a> {
    /// The filter's configuration, with the policies of the graph and with keys.
    pub(super) config: Rc<FilterConfig>,
    /// Why there are no keys.
    pub(super) no_keys: Option<&'a str>,
    pub(super) graph: &'a Graph,
    /// The rules that it is judged for.
    pub(super) rules: &'a [RuleExplanation],
    /// The endpoints of a destination; `None` if they are not known.
    pub(super) endpoints: &'a dyn Fn(&DestinationExplanation) -> Option<Vec<Endpoint>>,
    pub(super) now: Timestamp,
}

/// A session that a token belongs to.
struct TokenOwner<'r> {
    rule: &'r RuleExplanation,
    session: CandidateSession,
    claims: Claims,
}

impl TokenJudge<'_> {
    pub(super) fn judge(&self, presented: &PresentedToken) -> Result<TokenJudgement, CommandFailure> {
        let mut judgement = TokenJudgement {
            presented: presented.words(),
            form: None,
            key_id: None,
            verdict: TokenVerdict::Refused,
            reason: None,
            why: String::new(),
            rule: None,
            accepted_by: None,
            counts: None,
            ready: None,
            claims: None,
        };
        let token = presented.token.as_bytes();
        let unverified = match UnverifiedToken::parse(token) {
            Ok(unverified) => unverified,
            Err(refusal) => {
                let count = presented.token.chars().count();
                judgement.why = format!("it is no token: expected 60 or 76 characters of base64url, found {count}");
                return Ok(judgement.refused(refusal));
            }
        };
        judgement.form = Some(unverified.form.name());
        judgement.key_id = Some(unverified.key_id.0);
        let keyring = match self.keyring(unverified.key_id) {
            Ok(keyring) => keyring,
            Err(told) => return Ok(self.without_key(judgement, unverified.key_id, told)),
        };
        match self.owner(&keyring, token) {
            Some(owner) => self.owned(judgement, presented, unverified.key_id, &owner),
            None => Ok(self.foreign(judgement, presented, &keyring)),
        }
    }

    /// The key of a token.
    fn keyring(&self, id: KeyId) -> Result<Keyring, Option<KeySourceError>> {
        if let Some(why) = self.no_keys {
            return Err(Some(KeySourceError::Wrong(why.to_owned())));
        }
        keyring(&self.config, Some(id))
    }

    fn without_key(&self, mut judgement: TokenJudgement, id: KeyId, told: Option<KeySourceError>) -> TokenJudgement {
        match told {
            Some(KeySourceError::Revoked) => {
                judgement.why = format!("key {id} is revoked: none of its tokens counts any more");
                judgement.refused(TokenRefusal::RevokedKey)
            }
            Some(unavailable) => {
                judgement.verdict = TokenVerdict::NotVerified;
                judgement.why = unavailable.to_string();
                judgement
            }
            None => {
                let known = source::states(&self.config).unwrap_or_default();
                let known: Vec<String> = known.iter().map(|(id, _)| id.to_string()).collect();
                judgement.why = format!("key {id} is not in the keyring, which has {}", known.join(", "));
                judgement.accepted_by = Some(format!(
                    "Envoys whose keyring has the key {id}: another cluster, or this one before the key was removed"
                ));
                judgement.refused(TokenRefusal::UnknownKey)
            }
        }
    }

    /// The session of the rules that it is of.
    fn owner(&self, keyring: &Keyring, token: &[u8]) -> Option<TokenOwner<'_>> {
        for rule in self.rules {
            for session in rule.sessions() {
                for session in self.candidate(&session.policy, &session.scope).in_each_carrier() {
                    if let Some(claims) = opened(&session, keyring, token) {
                        return Some(TokenOwner { rule, session, claims });
                    }
                }
            }
        }
        None
    }

    fn candidate(&self, policy: &str, scope: &str) -> CandidateSession {
        CandidateSession {
            config: Rc::clone(&self.config),
            policy: policy.to_owned(),
            scope: scope.to_owned(),
            carrier: 0,
        }
    }

    fn owned(
        &self,
        mut judgement: TokenJudgement,
        presented: &PresentedToken,
        key: KeyId,
        owner: &TokenOwner<'_>,
    ) -> Result<TokenJudgement, CommandFailure> {
        let TokenOwner { rule, session, claims } = owner;
        judgement.rule = Some(rule.to_string());
        judgement.claims = Some(self.claims(session, claims));
        let told_in = session
            .policy_config()
            .and_then(|policy| Some(policy.tell.as_ref()?.header.name.as_str()));
        let request = match &presented.header {
            // What a response tells in another header is for the client to put in its place.
            Some((name, value)) if !told_in.is_some_and(|told| told.eq_ignore_ascii_case(name)) => {
                TokenRequest::with(name, value)
            }
            _ => TokenRequest::new(session, &presented.token),
        };
        match evaluate(session, request, key, self.now)? {
            RequestOutcome::Steered | RequestOutcome::Rebalanced => Ok(self.steered(judgement, owner)),
            RequestOutcome::NoToken => {
                let (config, scope) = (session.policy_config(), &session.scope);
                let name = config
                    .and_then(|config| carrier::name(config, scope))
                    .unwrap_or_default();
                let kind = config.map_or("cookie", carrier::kind);
                judgement.why = format!("the filter does not look for it there, but in the {kind} {name}");
                judgement.reason = Some("no_token".to_owned());
                judgement.accepted_by = Some(format!("this rule, in the {kind} {name}"));
                Ok(judgement)
            }
            RequestOutcome::Refused(refusal) => {
                judgement.why = self.refusal(refusal, session, claims);
                Ok(judgement.refused(refusal))
            }
        }
    }

    /// A token that the filter honours, unless the route does not lead to its destination, or the backend is gone.
    fn steered(&self, mut judgement: TokenJudgement, owner: &TokenOwner<'_>) -> TokenJudgement {
        let TokenOwner { rule, session, claims } = owner;
        let hash = claims.destination.to_string();
        let is_it = |to: &&DestinationExplanation| to.hash.as_deref() == Some(&hash);
        let Some(destination) = rule.destinations.iter().find(is_it) else {
            let (cluster, rules) = self.leading_to(claims.destination);
            let named = cluster.map(|cluster| format!(", {cluster},")).unwrap_or_default();
            judgement.why = format!("its destination {hash}{named} is no cluster of this rule");
            judgement.accepted_by =
                (!rules.is_empty()).then(|| format!("this rule, once it leads there again: {} there", leads(&rules)));
            return judgement.refused(TokenRefusal::UnknownDestination);
        };
        judgement.verdict = TokenVerdict::Honoured;
        let cluster = destination
            .cluster
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let backend = claims.host;
        let Some(endpoints) = (self.endpoints)(destination) else {
            judgement.why = format!("requests go to {backend} of {cluster}; whether it is there is not known");
            return judgement;
        };
        if let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.address == backend) {
            let pod = endpoint.pod.as_ref().map(|pod| format!(", pod {pod}"));
            let state = match endpoint.state {
                EndpointState::Ready => {
                    let (service, pod) = (destination.service.as_ref(), endpoint.pod.as_ref());
                    let name = service
                        .zip(pod)
                        .map(|(service, pod)| ObjectName::new(&service.namespace, pod));
                    judgement.ready = name;
                    "ready"
                }
                EndpointState::Draining => "draining: it keeps its sessions and gets no new ones",
            };
            judgement.why = format!(
                "requests go to {backend} of {cluster}{} ({state})",
                pod.unwrap_or_default()
            );
            return judgement;
        }
        let is_strict = session.policy_config().is_some_and(|policy| policy.strict);
        let then = if is_strict {
            "the policy is strict, so requests fail"
        } else {
            "the request goes to another one, and gets a new token"
        };
        judgement.verdict = TokenVerdict::Moved;
        judgement.why = format!(
            "the token is good, but no endpoint of {cluster} that takes requests has the address {backend}: {then}"
        );
        judgement.accepted_by = Some("this rule, once a pod is ready at this address and port again".to_owned());
        judgement
    }

    fn refusal(&self, refusal: TokenRefusal, session: &CandidateSession, claims: &Claims) -> String {
        let ago = |time| time_format::distance(time, self.now);
        let policy = session.policy_config();
        match refusal {
            TokenRefusal::Expired => {
                let timeout = policy.and_then(|policy| policy.absolute_timeout);
                let end = timeout.map(|timeout| claims.issued_at.after(timeout.get()));
                let (timeout, end) = (words(timeout), end.map(ago).unwrap_or_default());
                format!(
                    "it expired {end}: absoluteTimeout is {timeout}, and it was issued {}",
                    ago(claims.issued_at)
                )
            }
            TokenRefusal::Idle => {
                let (bound, field) = session.idle_bound().unzip();
                format!(
                    "it was last used {}, and {} is {} (sessions end up to a tenth later)",
                    ago(claims.last_seen),
                    field.unwrap_or_default(),
                    words(bound)
                )
            }
            TokenRefusal::FromTheFuture => {
                let later = claims.issued_at.max(claims.last_seen);
                let skew = self.config.clock_skew;
                format!(
                    "it is of a time {}, and clocks may differ by {skew}: compare the clocks of the Envoys",
                    ago(later)
                )
            }
            TokenRefusal::Fenced => format!(
                "it is fenced: {} has got another pod since the session began, {}",
                claims.host,
                ago(claims.issued_at)
            ),
            other => format!("the filter refuses it: {other}"),
        }
    }

    /// Of no session of these rules.
    fn foreign(&self, mut judgement: TokenJudgement, presented: &PresentedToken, keyring: &Keyring) -> TokenJudgement {
        let token = presented.token.as_bytes();
        for SessionUse { policy, scope } in sessions(self.graph) {
            let session = self.candidate(&policy, &scope);
            if let Some(claims) = opened(&session, keyring, token) {
                let whose = self.whose(&scope);
                judgement.why = format!("its scope is {scope}: it belongs to {whose}");
                judgement.accepted_by = Some(whose);
                judgement.claims = Some(self.claims(&session, &claims));
                return judgement.refused(TokenRefusal::BadSignature);
            }
        }
        // Of a name or a mode that no policy has any more, or of a rule that has lost its sessions.
        for scope in scopes(self.graph, self.rules) {
            for (mode, name) in self.carriers(presented, &scope) {
                let realm = Realm::new(keyring, scope.as_bytes(), mode, &name);
                if realm.open(token).is_ok() {
                    let whose = self.whose(&scope);
                    let mode = mode.name();
                    judgement.why = format!(
                        "it was made for {whose} with another session, {mode} {name}, which it does not have any more"
                    );
                    judgement.accepted_by = Some(format!("{whose}, with a session of the {mode} {name}"));
                    return judgement.refused(TokenRefusal::BadSignature);
                }
            }
        }
        if self.rules.is_empty() {
            judgement.verdict = TokenVerdict::NotVerified;
            "nothing serves the route, so what its rules accept is not known: no verdict is possible"
                .clone_into(&mut judgement.why);
            return judgement;
        }
        let names: BTreeSet<String> = self
            .rules
            .iter()
            .flat_map(RuleExplanation::sessions)
            .filter_map(|session| {
                let name = carrier::name(&session.config, &session.scope)?;
                Some(format!("{} {name}", carrier::kind(&session.config)))
            })
            .collect();
        let expected = if names.is_empty() {
            "these rules have no sessions with tokens".to_owned()
        } else {
            let names: Vec<String> = names.into_iter().collect();
            format!("tokens of these rules are in {}", names.join(", "))
        };
        judgement.why = format!(
            "it was changed, or made with another key of this id, or for a scope or name that nothing here has; \
             {expected}"
        );
        judgement.refused(TokenRefusal::BadSignature)
    }

    /// The carriers that a token may have been made for.
    fn carriers(&self, presented: &PresentedToken, scope: &str) -> Vec<(CarrierMode, String)> {
        let own = presented
            .name
            .as_deref()
            .map(|name| without_scope(name, scope).to_owned());
        let of_policies = self.config.policies.values().filter_map(|policy| policy.carrier());
        let names: BTreeSet<String> = of_policies.map(|(_, name)| name.to_owned()).chain(own).collect();
        let modes = match presented.mode {
            Some(CarrierMode::Cookie) => vec![CarrierMode::Cookie, CarrierMode::CookieRewrite],
            Some(mode) => vec![mode],
            None => CarrierMode::ALL.to_vec(),
        };
        let of_mode = |mode: CarrierMode| names.iter().map(move |name| (mode, name.clone()));
        modes.into_iter().flat_map(of_mode).collect()
    }

    /// The rule of a scope, or what else has it.
    fn whose(&self, scope: &str) -> String {
        if let Some(rule) = self.rules.iter().find(|rule| rule.scope == scope) {
            return rule.to_string();
        }
        match self.graph.rules.get(&RuleName(scope.into())) {
            Some(origin) => {
                let name = origin
                    .name
                    .as_ref()
                    .map(|name| format!(" ({name})"))
                    .unwrap_or_default();
                format!("{}, spec.rules[{}]{name}", origin.route, origin.index)
            }
            None => scope.to_owned(),
        }
    }

    /// The cluster of this destination, and the rules that lead to it.
    fn leading_to(&self, destination: DestinationId) -> (Option<String>, BTreeSet<String>) {
        let clusters: Vec<_> = self
            .graph
            .clusters
            .keys()
            .filter(|name| name.destination() == destination)
            .collect();
        let mut rules = BTreeSet::new();
        for (route, forward) in forwards(self.graph) {
            let leads = forward.destinations.iter().any(|to| match &to.target {
                Target::Cluster(name) => clusters.contains(&name),
                Target::Invalid { .. } => false,
            });
            if leads {
                rules.insert(self.whose(&route.rule.0));
            }
        }
        (clusters.first().map(ToString::to_string), rules)
    }

    fn claims(&self, session: &CandidateSession, claims: &Claims) -> TokenClaims {
        let absolute = session.policy_config().and_then(|policy| policy.absolute_timeout);
        let idle = session.idle_bound().map(|(bound, _)| bound);
        let end = |begin: Timestamp, timeout: Option<GatewayDuration>| Some(begin.after(timeout?.get()));
        TokenClaims {
            host: claims.host.to_string(),
            destination: claims.destination.to_string(),
            cluster: self.leading_to(claims.destination).0,
            issued_at: claims.issued_at,
            last_seen: claims.last_seen,
            age: claims.age(),
            moving: claims.is_moving(),
            absolute_end: end(claims.issued_at, absolute),
            idle_end: end(claims.last_seen, idle),
        }
    }
}

fn words(timeout: Option<GatewayDuration>) -> String {
    timeout.map(|timeout| timeout.to_string()).unwrap_or_default()
}

/// The rules, for people.
fn leads(rules: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = rules.iter().take(4).map(String::as_str).collect();
    let more = rules.len().saturating_sub(shown.len());
    let rest = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    let verb = if rules.len() == 1 { "leads" } else { "lead" };
    format!("{}{rest} {verb}", shown.join("; "))
}

fn opened(session: &CandidateSession, keyring: &Keyring, token: &[u8]) -> Option<Claims> {
    let (mode, name) = session.carrier();
    let realm = Realm::new(keyring, session.scope.as_bytes(), mode, name);
    Some(realm.open(token).ok()?.claims)
}

fn forwards(graph: &Graph) -> impl Iterator<Item = (&Route, &Forward)> {
    let listeners = graph
        .gateways
        .values()
        .flat_map(|gateway| gateway.ports.values().flatten());
    let routes = listeners.flat_map(|listener| listener.virtual_hosts.values().flat_map(|host| &host.routes));
    routes.filter_map(|route| match &route.action {
        Action::Forward(forward) => Some((route, forward)),
        Action::Redirect(_) | Action::Respond { .. } => None,
    })
}

/// Everything that has sessions.
fn sessions(graph: &Graph) -> Vec<SessionUse> {
    let of_rules = forwards(graph).flat_map(|(_, forward)| match &forward.session {
        Session::Rule(used) => vec![used.clone()],
        Session::EachDestination(used) => forward
            .clusters()
            .map(|cluster| used.at(&cluster.base_text()))
            .collect(),
        Session::None | Session::Destinations => Vec::new(),
    });
    let of_clusters = graph.clusters.values().filter_map(|cluster| cluster.session.clone());
    let all = of_rules.chain(of_clusters);
    let distinct: BTreeMap<(Text, Text), SessionUse> = all
        .map(|used| ((used.scope.clone(), used.policy.clone()), used))
        .collect();
    distinct.into_values().collect()
}

/// All scopes that rules have or could have.
fn scopes(graph: &Graph, rules: &[RuleExplanation]) -> BTreeSet<Text> {
    let of_routes = forwards(graph).map(|(route, _)| route.rule.0.clone());
    let own = rules.iter().map(|rule| rule.scope.clone());
    of_routes.chain(own).collect()
}
