//! What the definitions of the Gateway API's releases refuse of objects from files. An API server checks each object by
//! its definition before a controller sees it. What all releases refuse, the model refuses. Of what only some of them
//! refuse, this finds what concerns sessions: the kinds that a release lacks, and the two shapes of
//! `sessionPersistence`. It does not find filters and values that came later, like `CORS` and the status 303.

use std::collections::BTreeMap;

use crate::cluster::gateway_api::GatewayApi;
use limpet_api::{Kind, ObjectName, SessionPersistence};
use limpet_model::{Objects, SessionPolicyKind};

/// The first one with `XBackendTrafficPolicy`.
const TRAFFIC_POLICY: GatewayApi = GatewayApi(3);
/// The first one without `idleTimeout`.
const NO_IDLE_TIMEOUT: GatewayApi = GatewayApi(6);
/// The first one with `XBackend`, and with `cookie` and `header` in place of `sessionName` and `cookieConfig`.
const UNION: GatewayApi = GatewayApi(7);

/// What each release refuses, without those that refuse nothing.
pub(super) fn refusals(objects: &Objects) -> BTreeMap<GatewayApi, Vec<String>> {
    let refusals = GatewayApi::all().map(|release| (release, of_release(release, objects)));
    refusals.filter(|(_, refused)| !refused.is_empty()).collect()
}

/// The same by ranges of releases that refuse the same, like `1.2 to 1.6`.
pub(super) fn by_range(refusals: &BTreeMap<GatewayApi, Vec<String>>) -> BTreeMap<String, &Vec<String>> {
    let mut ranges: Vec<(GatewayApi, GatewayApi, &Vec<String>)> = Vec::new();
    for (release, refused) in refusals {
        match ranges.last_mut() {
            Some((_, last, same)) if *same == refused && last.0 + 1 == release.0 => *last = *release,
            _ => ranges.push((*release, *release, refused)),
        }
    }
    let range = |(first, last, refused): (GatewayApi, GatewayApi, _)| {
        let name = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        (name, refused)
    };
    ranges.into_iter().map(range).collect()
}

fn of_release(release: GatewayApi, objects: &Objects) -> Vec<String> {
    let mut all = Vec::new();
    let mut rule = |kind: Kind, name: &ObjectName, index: usize, persistence: &Option<SessionPersistence>| {
        let field = format!("{kind} {name}: spec.rules[{index}].sessionPersistence");
        all.extend(
            persistence
                .iter()
                .flat_map(|found| of_persistence(release, &field, found)),
        );
    };
    for (name, route) in &objects.http_routes {
        for (index, of_rule) in route.spec.rules.iter().enumerate() {
            rule(Kind::HttpRoute, name, index, &of_rule.session_persistence);
        }
    }
    for (name, route) in &objects.grpc_routes {
        for (index, of_rule) in route.spec.rules.iter().enumerate() {
            rule(Kind::GrpcRoute, name, index, &of_rule.session_persistence);
        }
    }
    // Limpet ships the definition of BackendLBPolicy for every release.
    let policies = objects.session_policies.iter();
    for (name, policy) in policies.filter(|(name, _)| name.kind == SessionPolicyKind::XBackendTrafficPolicy) {
        if release < TRAFFIC_POLICY {
            all.push(format!("{name}: the release does not have this kind"));
        } else if let Some(found) = &policy.spec.session_persistence {
            all.extend(of_persistence(
                release,
                &format!("{name}: spec.sessionPersistence"),
                found,
            ));
        }
    }
    if release < UNION {
        let backends = objects.backends.keys();
        all.extend(backends.map(|name| format!("{} {name}: the release does not have this kind", Kind::XBackend)));
    }
    all
}

fn of_persistence(release: GatewayApi, field: &str, found: &SessionPersistence) -> Vec<String> {
    let is_union = release >= UNION;
    let unknown = [
        ("sessionName", is_union && found.session_name.is_some()),
        ("cookieConfig", is_union && found.cookie_config.is_some()),
        (
            "idleTimeout",
            release >= NO_IDLE_TIMEOUT && found.idle_timeout.is_some(),
        ),
        ("cookie", !is_union && found.cookie.is_some()),
        ("header", !is_union && found.header.is_some()),
    ];
    let unknown = unknown.into_iter().filter(|(_, is_there)| *is_there);
    let mut all: Vec<String> = unknown
        .map(|(name, _)| format!("{field}.{name}: the release does not have this field"))
        .collect();
    let is_header = found.kind.as_deref() == Some("Header");
    if is_union && !is_header && found.cookie.is_none() {
        all.push(format!(
            "{field}.cookie: expected it, which may be empty, because the type is Cookie"
        ));
    }
    if is_union && is_header && found.header.is_none() {
        all.push(format!("{field}.header: expected it, because the type is Header"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_refuse_the_same_are_one_range() {
        let refused = |words: &str| vec![words.to_owned()];
        let all = [(2, "a"), (3, "a"), (5, "a"), (6, "b"), (7, "b")];
        let all = all.map(|(minor, words)| (GatewayApi(minor), refused(words))).into();
        let ranges = by_range(&all);
        assert_eq!(ranges.keys().collect::<Vec<_>>(), ["1.2 to 1.3", "1.5", "1.6 to 1.7"]);
    }
}
