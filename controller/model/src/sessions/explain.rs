//! Why a rule has its sessions, as other modules decided.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Value, json};

use super::annotations::camel_case;
use super::backends::x_backends;
use super::by_cookie::ForeignRule;
use super::facts::{RuleFacts, Sessionless, services};
use super::field_error::PREFIX;
use super::former::{KEPT_NAME, LIFETIME, NAME, RestoredFrom};
use super::objects::{PolicyObject, ValidPolicy};
use super::origins::{FieldSource, Origins};
use super::persistence::{self, Dialect, Persistence, Shape};
use super::policy::PolicyDraft;
use super::policy_status::{lost_targets, message};
use super::rules::{PolicyOutcome, RuleChoice, SessionChooser, SessionSource};
use super::{RuleSession, UsedBackend};
use crate::StandIn;
use crate::explanation::{Contender, FieldExplanation, FieldOrigin, PathExplanation, SessionExplanation};
use crate::field_problem::joined;
use crate::graph::{Session, SessionUse};
use crate::objects::RuleBackend;
use crate::session_fields::{FieldTarget, SessionField};
use limpet_api::{Kind, ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;
use limpet_core::time::GatewayDuration;

#[derive(Debug, Default)]
pub(crate) struct ExplainedRule {
    pub(crate) contenders: Vec<Contender>,
    pub(crate) problems: Vec<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) session: Option<SessionExplanation>,
    pub(crate) by_path: Vec<PathExplanation>,
    pub(crate) of_backends: BTreeMap<RuleBackend, Vec<FieldExplanation>>,
}

pub(super) struct RuleExplainer<'a> {
    pub(super) chooser: &'a SessionChooser<'a>,
    /// XBackends whose sessions rules have.
    pub(super) used: &'a BTreeMap<&'a ObjectName, UsedBackend<'a>>,
    pub(super) policies: &'a BTreeMap<Text, PolicyConfig>,
    pub(super) stand_ins: &'a BTreeMap<ObjectRef, StandIn>,
}

struct SessionRequest<'a> {
    object: String,
    /// The field above `sessionPersistence`.
    parent: &'a str,
    persistence: &'a Persistence,
    restored: &'a [(&'static str, RestoredFrom)],
    route: &'a ObjectRef,
}

impl RuleExplainer<'_> {
    pub(super) fn rules(
        &self,
        route: Option<&ObjectRef>,
        chosen: &[RuleChoice<'_>],
        decided: &[RuleSession],
    ) -> Vec<ExplainedRule> {
        let all = chosen.iter().zip(decided);
        let of_route = all.filter(|(rule, _)| Some(&rule.facts.route) == route);
        of_route.map(|(rule, decided)| self.rule(rule, decided)).collect()
    }

    fn rule(&self, rule: &RuleChoice<'_>, decided: &RuleSession) -> ExplainedRule {
        let mut problems: Vec<String> = rule.problems.iter().map(ToString::to_string).collect();
        problems.extend(self.stand_ins.get(&rule.facts.route).map(ToString::to_string));
        if rule.is_refused && problems.is_empty() {
            problems.push("another rule of the route says what is wrong with the route's annotations".to_owned());
        }
        let session = |used: &Session, draft: &PolicyDraft| {
            let (Session::Rule(used) | Session::EachDestination(used)) = used else {
                return None;
            };
            let SessionUse { policy, scope } = used;
            let config = self.policies.get(policy)?;
            Some(SessionExplanation {
                policy: policy.clone(),
                scope: scope.clone(),
                config: config.clone(),
                fields: self.fields_of_rule(rule, draft, config),
            })
        };
        let by_path = rule.each.iter().filter_map(|(path, draft)| {
            Some(PathExplanation {
                path: path.clone(),
                session: session(decided.of_path(path), draft)?,
            })
        });
        ExplainedRule {
            contenders: self.contenders(rule),
            problems,
            notes: decided.notes.clone(),
            session: rule.draft.as_ref().and_then(|draft| session(&decided.session, draft)),
            by_path: by_path.collect(),
            of_backends: match decided.session {
                Session::Destinations => self.of_backends(rule.facts),
                Session::Rule(_) | Session::EachDestination(_) | Session::None => BTreeMap::new(),
            },
        }
    }

    /// Contenders in the order of precedence (`rules::Chooser`).
    fn contenders(&self, rule: &RuleChoice<'_>) -> Vec<Contender> {
        let facts = rule.facts;
        if let Some(foreign) = facts.foreign {
            return foreign.contenders();
        }
        let mut all = vec![of_rule(rule)];
        let asking = x_backends(facts).filter(|name| self.chooser.backends.requests_sessions(name));
        all.extend(asking.map(|name| self.of_x_backend(rule, name)));
        all.extend(rule.outcomes.iter().map(|(policy, outcome)| Contender {
            who: policy.to_string(),
            counts: *outcome == PolicyOutcome::Governs,
            why: self.why_of_policy(facts, policy, *outcome),
        }));
        let affine = services(facts).filter(|name| self.chooser.affinities.timeout(name).is_some());
        all.extend(affine.map(|name| of_affinity(rule, name)));
        all
    }

    fn of_x_backend(&self, rule: &RuleChoice<'_>, name: &ObjectName) -> Contender {
        let (counts, why) = match (rule.source, self.chooser.backends.0.get(name)) {
            (SessionSource::Destinations | SessionSource::Kept(_), Some(Err(problems))) => {
                (false, format!("it is refused: {}", joined(problems)))
            }
            (SessionSource::Destinations | SessionSource::Kept(_), _) if rule.is_without() => (false, refused(rule)),
            (SessionSource::Destinations, _) => (true, self.of_own(name)),
            (SessionSource::Kept(first), _) if first == name => (
                true,
                "it is the first one, and the rule has its sessions: split is keep".to_owned(),
            ),
            (SessionSource::Kept(first), _) => (false, format!("split is keep, and {first} is before it")),
            _ => (false, "sessionPersistence of the rule takes precedence".to_owned()),
        };
        Contender {
            who: format!("{} {name}", Kind::XBackend),
            counts,
            why,
        }
    }

    fn why_of_policy(&self, facts: &RuleFacts<'_>, policy: &PolicyObject<'_>, outcome: PolicyOutcome<'_>) -> String {
        let why = self.why(facts, policy, outcome);
        match self.stand_ins.get(&policy.name.object_ref()) {
            Some(stand_in) => format!("{why}; {stand_in}"),
            None => why,
        }
    }

    fn why(&self, facts: &RuleFacts<'_>, policy: &PolicyObject<'_>, outcome: PolicyOutcome<'_>) -> String {
        match (outcome, &policy.content) {
            (PolicyOutcome::Governs, _) => "the oldest one that targets a Service of the rule".to_owned(),
            (_, Err(problems)) => format!("it is refused: {}", joined(problems)),
            (_, Ok(None)) => "it asks for no sessions".to_owned(),
            (PolicyOutcome::TargetLost, _) => {
                let lost = lost_targets(self.chooser.targets, policy, facts);
                let lost = lost.map(|(text, service)| format!("{text}: {service}"));
                lost.collect::<Vec<_>>().join("; ")
            }
            (outcome, _) => message(policy, outcome).unwrap_or_default(),
        }
    }

    fn of_own(&self, name: &ObjectName) -> String {
        let object = ObjectRef {
            kind: Kind::XBackend,
            name: name.clone(),
        };
        match self.stand_ins.get(&object) {
            Some(stand_in) => format!("it has sessions of its own; {stand_in}"),
            None => "it has sessions of its own".to_owned(),
        }
    }

    fn of_backends(&self, facts: &RuleFacts<'_>) -> BTreeMap<RuleBackend, Vec<FieldExplanation>> {
        let mut all = BTreeMap::new();
        for name in x_backends(facts) {
            if let (Some(own), Some(used)) = (self.chooser.backends.own(name), self.used.get(name)) {
                let asker = SessionRequest {
                    object: format!("{} {name}", Kind::XBackend),
                    parent: "spec",
                    persistence: &own.persistence,
                    restored: &[],
                    route: &facts.route,
                };
                let draft = used.draft();
                let config = draft.of_scope(&super::backends::scope(name), false);
                let fields = asker.fields(&draft.origins, &config);
                all.insert(RuleBackend::XBackend(name.clone()), fields);
            }
        }
        for name in services(facts) {
            if let Some(timeout) = self.chooser.affinities.timeout(name) {
                let fields = affinity_fields(name, timeout.into());
                all.insert(RuleBackend::Service(name.clone()), fields);
            }
        }
        all
    }

    fn fields_of_rule(
        &self,
        rule: &RuleChoice<'_>,
        draft: &PolicyDraft,
        config: &PolicyConfig,
    ) -> Vec<FieldExplanation> {
        let facts = rule.facts;
        if let Some(foreign) = facts.foreign {
            return fields_of_foreign(foreign, &facts.route, draft, config);
        }
        let inline = facts.inline.map(|inline| persistence::read(inline, Dialect::Either));
        let (object, parent, persistence, restored): (String, &str, &Persistence, &[_]) = match (rule.source, &inline) {
            (SessionSource::Policy(ValidPolicy { policy, content }), _) => {
                (policy.to_string(), "spec", &content.persistence, &content.restored)
            }
            (SessionSource::Kept(first), _) => match self.chooser.backends.own(first) {
                Some(own) => (format!("{} {first}", Kind::XBackend), "spec", &own.persistence, &[]),
                None => return Vec::new(),
            },
            (_, Some(Ok(persistence))) => (facts.route.to_string(), &facts.field, persistence, &[]),
            _ => return Vec::new(),
        };
        let asker = SessionRequest {
            object,
            parent,
            persistence,
            restored,
            route: &facts.route,
        };
        let mut fields = asker.fields(&draft.origins, config);
        fields.extend(asker.of_rules(rule, draft));
        fields
    }
}

const OVER_HTTP_TOO: FieldOrigin = FieldOrigin::Default {
    why: "the host is served over HTTP as well, and browsers keep one cookie of a name",
};

const RENAMED: FieldOrigin = FieldOrigin::Default {
    why: "the sessions were there before they were renamed",
};

fn refused(rule: &RuleChoice<'_>) -> String {
    let why = rule.sessionless().and_then(Sessionless::reason);
    format!(
        "it would, but {}",
        why.unwrap_or("the rule's sessions cannot be followed")
    )
}

fn of_rule(rule: &RuleChoice<'_>) -> Contender {
    let (counts, why) = match (rule.facts.inline, rule.source, &rule.draft) {
        (None, ..) => (false, "it is not set".to_owned()),
        (Some(_), SessionSource::Inline, Some(_)) => (true, "it takes precedence over everything else".to_owned()),
        (Some(_), ..) => (false, refused(rule)),
    };
    Contender {
        who: format!("{} {}.sessionPersistence", rule.facts.route, rule.facts.field),
        counts,
        why,
    }
}

fn of_affinity(rule: &RuleChoice<'_>, name: &ObjectName) -> Contender {
    let (counts, why) = match rule.source {
        _ if rule.is_without() => (false, refused(rule)),
        SessionSource::Affinity => (true, "nothing else asks for sessions".to_owned()),
        SessionSource::Destinations => (true, "no policy takes precedence at this destination".to_owned()),
        SessionSource::Inline => (false, "sessionPersistence of the rule takes precedence".to_owned()),
        SessionSource::Policy(owner) => (false, format!("{} takes precedence", owner.policy)),
        SessionSource::Kept(first) => (false, format!("{} {first} takes precedence", Kind::XBackend)),
        SessionSource::None => (false, String::new()),
    };
    Contender {
        who: format!("{} {name}, sessionAffinity", Kind::Service),
        counts,
        why,
    }
}

fn affinity_fields(service: &ObjectName, timeout: GatewayDuration) -> Vec<FieldExplanation> {
    let field = |field: &str, value: Value, of: &str| FieldExplanation {
        field: field.to_owned(),
        value,
        from: FieldOrigin::Field {
            object: format!("{} {service}", Kind::Service),
            field: of.to_owned(),
        },
    };
    let of_timeout = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
    vec![
        field("source", json!("the client's address"), "spec.sessionAffinity"),
        field("source.timeout", json!(timeout.to_string()), of_timeout),
    ]
}

/// `name`: the origin of the session's name; `origin`: of a field that the part says.
fn fields(
    origins: &Origins,
    config: &PolicyConfig,
    name: impl Fn(&str) -> FieldOrigin,
    origin: impl Fn(&SessionField, FieldSource) -> FieldOrigin,
) -> Vec<FieldExplanation> {
    // Every policy can be written as JSON.
    let written = serde_json::to_value(config).unwrap_or_default();
    let carrier = ["cookie", "header", "query"]
        .into_iter()
        .find(|name| written.get(name).is_some());
    let mut all = Vec::new();
    if let (Some(carrier), Some((_, plain))) = (carrier, config.carrier()) {
        all.push(FieldExplanation {
            field: format!("{carrier}.name"),
            value: plain.into(),
            from: name(carrier),
        });
    }
    for (entry, part) in origins.fields() {
        for field in fields_of(entry, carrier, &written) {
            let otherwise = match field.as_str() {
                "also" if !config.also.is_empty() => RENAMED,
                _ => FieldOrigin::Filter,
            };
            all.push(FieldExplanation {
                value: value(&written, &field),
                from: part.map_or(otherwise, |part| origin(entry, part)),
                field,
            });
        }
    }
    if config.cookie.as_ref().is_some_and(|cookie| cookie.per_scope) {
        all.push(FieldExplanation {
            field: "cookie.perScope".to_owned(),
            value: true.into(),
            from: FieldOrigin::Default {
                why: "other sessions of the same clients may have the name",
            },
        });
    }
    all
}

fn fields_of_foreign(
    rule: &dyn ForeignRule,
    object: &ObjectRef,
    draft: &PolicyDraft,
    config: &PolicyConfig,
) -> Vec<FieldExplanation> {
    let of_name = |carrier: &str| match carrier {
        "query" => annotation(object, "query"),
        _ => rule.name_from(),
    };
    fields(&draft.origins, config, of_name, |entry, part| {
        let name = entry.annotation();
        match part {
            FieldSource::Defaults => rule.from(&name).unwrap_or_else(|| controllers(&name)),
            FieldSource::Shape => FieldOrigin::Filter,
            FieldSource::Schemes => OVER_HTTP_TOO,
            _ => annotation(object, &name),
        }
    })
}

fn controllers(annotation: &str) -> FieldOrigin {
    FieldOrigin::Controller {
        field: format!("sessionDefaults.{}", camel_case(annotation)),
    }
}

impl SessionRequest<'_> {
    fn fields(&self, origins: &Origins, config: &PolicyConfig) -> Vec<FieldExplanation> {
        let of_name = |carrier: &str| self.name(carrier);
        fields(origins, config, of_name, |entry, part| self.origin(entry, part))
    }

    fn of_rules(&self, rule: &RuleChoice<'_>, draft: &PolicyDraft) -> Vec<FieldExplanation> {
        let is_split = rule.facts.clusters.len() > 1;
        let of_rules = draft
            .origins
            .fields()
            .filter(|(entry, _)| entry.of == FieldTarget::Rules);
        let told = of_rules.filter_map(|(entry, part)| {
            let field = entry.annotation();
            let value = match field.as_str() {
                "scope" => json!(draft.scope),
                _ => json!(draft.split),
            };
            let part = part.filter(|part| *part != FieldSource::Shape || is_split)?;
            let from = self.origin(entry, part);
            Some(FieldExplanation { field, value, from })
        });
        told.collect()
    }

    fn name(&self, carrier: &str) -> FieldOrigin {
        match &self.persistence.name {
            Some(_) => self.persistence_field(self.persistence.name_field(), NAME),
            None if carrier == "query" => annotation(&self.object, "query"),
            None => FieldOrigin::Default {
                why: "the object names none",
            },
        }
    }

    fn origin(&self, entry: &SessionField, part: FieldSource) -> FieldOrigin {
        let name = entry.annotation();
        match part {
            FieldSource::Persistence => {
                self.persistence_field(self.persistence.field_of(entry).unwrap_or_default(), LIFETIME)
            }
            FieldSource::Route => annotation(self.route, &name),
            FieldSource::Annotations => annotation(&self.object, &name),
            FieldSource::Defaults => controllers(&name),
            FieldSource::Shape => FieldOrigin::Default {
                why: match self.persistence.shape {
                    Shape::Union => "sessionPersistence has the shape from release 1.7 on",
                    Shape::Named | Shape::Foreign => "sessionPersistence has the shape up to release 1.6",
                },
            },
            FieldSource::Schemes => OVER_HTTP_TOO,
            FieldSource::Matches => FieldOrigin::Field {
                object: self.object.clone(),
                field: format!("{}.matches", self.parent),
            },
        }
    }

    /// A field of `sessionPersistence`, or what it was restored from. `former`: the field that an upgrade takes.
    fn persistence_field(&self, field: &str, former: &str) -> FieldOrigin {
        let restored = self.restored.iter().find(|(of, _)| *of == former);
        let is_former = former == NAME || field.ends_with("lifetimeType");
        match restored.filter(|_| is_former) {
            Some((_, RestoredFrom::Annotation)) => annotation(&self.object, KEPT_NAME),
            Some((_, RestoredFrom::Memory)) => FieldOrigin::Memory {
                object: self.object.clone(),
            },
            None => FieldOrigin::Field {
                object: self.object.clone(),
                field: format!("{}.sessionPersistence.{field}", self.parent),
            },
        }
    }
}

fn annotation(object: &dyn Display, name: &str) -> FieldOrigin {
    FieldOrigin::Annotation {
        object: object.to_string(),
        annotation: format!("{PREFIX}{name}"),
    }
}

fn fields_of(entry: &SessionField, carrier: Option<&str>, written: &Value) -> Vec<String> {
    let of_carrier = |name: &str| carrier.map(|carrier| format!("{carrier}.{name}"));
    if entry.of == FieldTarget::Rules {
        return Vec::new();
    }
    if entry.config.is_empty() {
        // `mode` is the carrier's, and a query has none.
        return of_carrier("mode")
            .filter(|_| carrier != Some("query"))
            .into_iter()
            .collect();
    }
    let fields = entry.config.iter().filter(|field| match field.split_once('.') {
        Some((of, _)) => carrier == Some(of),
        // Only one of these holds the session.
        None => !["query", "source"].contains(*field) || written.get(field).is_some(),
    });
    fields.map(|field| (*field).to_owned()).collect()
}

fn value(written: &Value, field: &str) -> Value {
    let pointer = format!("/{}", field.replace('.', "/"));
    if let Some(value) = written.pointer(&pointer) {
        return value.clone();
    }
    match field.rsplit('.').next() {
        Some("httpOnly") => true.into(),
        Some("strict" | "partitioned" | "forward") => false.into(),
        Some("strictStatus") => 503.into(),
        Some("begin") => "always".into(),
        Some("mode") => "insert".into(),
        Some("also") => json!([]),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_has_the_filters_default() {
        for (carrier, policy) in [
            (Some("cookie"), json!({"cookie": {"name": "s"}})),
            (Some("header"), json!({"header": {"name": "s"}})),
            (Some("query"), json!({"query": {"name": "s", "redirects": true}})),
            (None, json!({"source": {}})),
        ] {
            let policy: PolicyConfig = serde_json::from_value(policy).unwrap();
            let written = serde_json::to_value(&policy).unwrap();
            for field in SessionField::ALL
                .iter()
                .flat_map(|entry| fields_of(entry, carrier, &written))
            {
                let mut with = written.clone();
                let (above, name) = field.rsplit_once('.').unwrap_or(("", &field));
                let above = if above.is_empty() { &mut with } else { &mut with[above] };
                above[name] = value(&written, &field);
                let read: PolicyConfig =
                    serde_json::from_value(with).unwrap_or_else(|error| panic!("{field}: {error}"));
                assert_eq!(read, policy, "{field}");
            }
        }
    }
}
