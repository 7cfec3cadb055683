//! The explanation for people.

use std::collections::BTreeMap;

use serde_json::Value;

use super::judgement::{TokenJudgement, TokenVerdict};
use super::{Explanation, JudgedTokens, carrier, state_name};
use crate::output::printable;
use crate::time_format;
use limpet_core::time::Timestamp;
use limpet_model::endpoints::Endpoint;
use limpet_model::explanation::{DestinationExplanation, RuleExplanation, SessionExplanation};

/// `is_wide`: with endpoints.
pub(super) fn text(explanation: &Explanation, now: Timestamp, is_wide: bool) -> String {
    let mut text = String::new();
    for unknown in &explanation.unknown {
        line(&mut text, 0, &format!("not known: {unknown}"));
    }
    for problem in &explanation.problems {
        line(&mut text, 0, &format!("{}: {problem}", explanation.route));
    }
    for rule in &explanation.rules {
        if !text.is_empty() {
            text.push('\n');
        }
        of_rule(&mut text, rule, now, is_wide.then_some(&explanation.endpoints));
    }
    if let Some(JudgedTokens { tokens, note }) = &explanation.judged {
        if let Some(note) = note {
            line(&mut text, 0, "");
            line(&mut text, 0, note);
        }
        for judgement in tokens {
            line(&mut text, 0, "");
            of_token(&mut text, judgement, now);
        }
    }
    text
}

fn of_token(text: &mut String, judgement: &TokenJudgement, now: Timestamp) {
    let verdict = match (judgement.verdict, &judgement.reason) {
        (TokenVerdict::Honoured, _) => "honoured".to_owned(),
        (TokenVerdict::NotVerified, _) => "not verified".to_owned(),
        (TokenVerdict::Refused, Some(reason)) => format!("not honoured ({reason})"),
        (TokenVerdict::Refused, None) | (TokenVerdict::Moved, _) => "not honoured".to_owned(),
    };
    line(text, 0, &format!("{}: {verdict}", judgement.presented));
    line(text, 1, &format!("why          {}", judgement.why));
    if let Some(counts) = judgement.counts {
        let words = if counts {
            "yes: of the tokens that the rule honours, it was issued last"
        } else {
            "no: the rule honours another one that was issued later"
        };
        line(text, 1, &format!("counts       {words}"));
    }
    if let Some(accepted_by) = &judgement.accepted_by {
        line(text, 1, &format!("accepted by  {accepted_by}"));
    }
    if let Some(rule) = &judgement.rule {
        line(text, 1, &format!("session of   {rule}"));
    }
    if let (Some(form), Some(key)) = (judgement.form, judgement.key_id) {
        line(text, 1, &format!("token        {form}, key {key}"));
    }
    let Some(claims) = &judgement.claims else { return };
    line(text, 1, &format!("backend      {}", claims.host));
    let cluster = claims.cluster.as_deref().unwrap_or("no cluster that is known");
    line(text, 1, &format!("destination  {} ({cluster})", claims.destination));
    for (label, time) in [
        ("issued", Some(claims.issued_at)),
        ("last seen", Some(claims.last_seen)),
        ("absolute", claims.absolute_end),
        ("idle", claims.idle_end),
    ] {
        if let Some(time) = time {
            line(text, 1, &format!("{label:11}  {}", time_format::words(time, now)));
        }
    }
    if claims.moving {
        line(
            text,
            1,
            "moving       the application named the backend, which has not answered yet",
        );
    }
}

fn of_rule(
    text: &mut String,
    rule: &RuleExplanation,
    now: Timestamp,
    endpoints: Option<&BTreeMap<String, Vec<Endpoint>>>,
) {
    line(text, 0, &rule.to_string());
    let gateways: Vec<String> = rule.gateways.iter().map(ToString::to_string).collect();
    line(text, 1, &format!("scope     {}", rule.scope));
    line(text, 1, &format!("hosts     {}", rule.hosts.join(", ")));
    line(text, 1, &format!("gateways  {}", gateways.join(", ")));
    line(text, 1, "decided by, in the order of precedence:");
    for contender in &rule.contenders {
        let mark = if contender.counts { "counts" } else { "does not" };
        line(text, 2, &format!("{mark:8}  {}: {}", contender.who, contender.why));
    }
    for problem in &rule.problems {
        line(text, 1, &format!("problem: {problem}"));
    }
    for note in &rule.notes {
        line(text, 1, &format!("note: {note}"));
    }
    match &rule.session {
        Some(session) => of_session(text, 1, "session", session, now),
        None if rule.sessions().next().is_none() => {
            line(text, 1, "no session: load balancing chooses for each request");
        }
        None => {}
    }
    for of_path in &rule.by_path {
        let path = serde_json::to_string(&of_path.path).unwrap_or_default();
        of_session(text, 1, &format!("session of the match {path}"), &of_path.session, now);
    }
    if !rule.destinations.is_empty() {
        line(text, 1, "destinations:");
    }
    for destination in &rule.destinations {
        of_destination(text, destination, now);
        let cluster = destination.cluster.as_ref().map(ToString::to_string);
        let endpoints = endpoints.and_then(|known| known.get(&cluster?));
        for Endpoint {
            address, state, pod, ..
        } in endpoints.into_iter().flatten()
        {
            let pod = pod.as_ref().map_or_else(String::new, |pod| format!(", pod {pod}"));
            line(text, 3, &format!("{address}  {}{pod}", state_name(*state)));
        }
    }
}

fn of_session(text: &mut String, depth: usize, what: &str, session: &SessionExplanation, now: Timestamp) {
    let SessionExplanation {
        config, scope, policy, ..
    } = session;
    let held = match carrier::name(config, scope) {
        Some(name) => format!("{} {name}", carrier::kind(config)),
        None => "the client's address, without a token".to_owned(),
    };
    line(text, depth, &format!("{what}: {held} (policy {policy}, scope {scope})"));
    for (when, sent) in carrier::lines(config, scope, now) {
        let when = if when.is_empty() {
            String::new()
        } else {
            format!("  ({when})")
        };
        line(text, depth + 1, &format!("{sent}{when}"));
    }
    let rows = session
        .fields
        .iter()
        .map(|field| (&field.field, value(&field.value), &field.from));
    let rows: Vec<_> = rows.collect();
    let wide = |of: &dyn Fn(usize) -> usize| (0..rows.len()).map(of).max().unwrap_or(0);
    let name_width = wide(&|row| rows.get(row).map_or(0, |(name, ..)| name.len()));
    let value_width = wide(&|row| rows.get(row).map_or(0, |(_, value, _)| value.len())).min(24);
    for (name, value, from) in &rows {
        line(
            text,
            depth + 1,
            &format!("{name:name_width$}  {value:value_width$}  {from}"),
        );
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn of_destination(text: &mut String, destination: &DestinationExplanation, now: Timestamp) {
    let weight = destination.weight;
    if let Some(why) = &destination.invalid {
        return line(text, 2, &format!("none, weight {weight}, answered with 500: {why}"));
    }
    let shown = |text: Option<String>| text.unwrap_or_default();
    let service = shown(destination.service.as_ref().map(ToString::to_string));
    let port = shown(destination.port.map(|port| format!(":{port}")));
    let cluster = shown(destination.cluster.as_ref().map(ToString::to_string));
    let hash = shown(destination.hash.clone());
    let begins = if destination.never_begins {
        ", no session begins there"
    } else {
        ""
    };
    line(
        text,
        2,
        &format!("{hash}  Service {service}{port}, weight {weight}, cluster {cluster}{begins}"),
    );
    if let Some(session) = &destination.session {
        of_session(text, 3, "session", session, now);
    }
}

/// What users wrote is shown without what would change a terminal.
fn line(text: &mut String, depth: usize, words: &str) {
    for _ in 0..depth {
        text.push_str("  ");
    }
    text.push_str(&printable(words));
    text.push('\n');
}
