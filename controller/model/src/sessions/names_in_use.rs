//! Cookies whose names older objects have, so that they get the scope behind their names. A client keeps one cookie of
//! a name, path and domain or host, so either would end the other's session.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::UsedBackend;
use super::build_context::BuildContext;
use super::cookie_counts::CookieCounts;
use super::facts::RuleId;
use super::rules::{RuleChoice, SessionSource};
use super::shared_names::{CookiePlace, ScopeAge, SharedNames, WrittenCookie, ages, cookie_places};
use limpet_api::{Meta, ObjectName};
use limpet_core::config::schema::CookieConfig;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CookieWriter<'a> {
    Rule(RuleId<'a>),
    Backend(&'a ObjectName),
}

#[derive(Debug)]
pub(super) struct NamesInUse<'a> {
    older: HashMap<CookieWriter<'a>, (String, String)>,
    /// A rule of each scope.
    rules: HashMap<&'a str, &'a RuleChoice<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CookieNotes<'a> {
    names_in_use: &'a NamesInUse<'a>,
    crowds: &'a CookieCounts<'a>,
}

impl<'a> NamesInUse<'a> {
    /// `written`: the cookies, and the oldest scope elsewhere that has the name before.
    pub(super) fn find(
        chosen: &'a [RuleChoice<'a>],
        used: &'a BTreeMap<&'a ObjectName, UsedBackend<'a>>,
        context: BuildContext<'_>,
        written: &mut Vec<(WrittenCookie, Option<(String, String)>)>,
    ) -> Self {
        let ages = ages(chosen.iter().map(|rule| (rule.scope.of_cookie.as_str(), since(rule))));
        let of_rules = chosen.iter().filter(|rule| !rule.scope.has_several_cookies);
        let of_rules = of_rules.flat_map(|rule| {
            let scope = rule.scope.of_cookie.as_str();
            let since = (ages.get(scope).map_or("", String::as_str), scope);
            let cookies = rule.named_cookies();
            cookies.map(move |cookie| {
                let places = cookie_places(cookie, rule.facts.hosts_of_gateways());
                (CookieWriter::Rule(rule.facts.id()), since, places, cookie)
            })
        });
        let of_backends = used.iter().filter_map(|(name, backend)| {
            let since = (backend.since.as_str(), backend.scope.as_str());
            let cookie = backend.draft.named_cookie()?;
            let hosts = backend.places.iter().map(|(gateway, host)| (gateway.clone(), host));
            Some((CookieWriter::Backend(name), since, cookie_places(cookie, hosts), cookie))
        });
        let all: Vec<(CookieWriter<'a>, ScopeAge<'_>, BTreeSet<CookiePlace>, &CookieConfig)> =
            of_rules.chain(of_backends).collect();
        let mut names = SharedNames::default();
        for (writer, since, places, cookie) in &all {
            names.add(*writer, *since, places.iter().cloned(), cookie);
        }
        let shared = names.shared().into_iter();
        let mut older: HashMap<CookieWriter<'a>, (String, String)> = shared
            .map(|(writer, (since, scope))| (writer, (since.to_owned(), scope.to_owned())))
            .collect();
        if let Some(elsewhere) = context.elsewhere {
            for (writer, since, places, cookie) in all {
                for cookie in WrittenCookie::all(since, places, cookie) {
                    let found = elsewhere.older(&cookie);
                    if let Some(found) = &found {
                        let known = older.entry(writer).or_insert_with(|| found.clone());
                        if found < known {
                            known.clone_from(found);
                        }
                    }
                    written.push((cookie, found));
                }
            }
        }
        let rules = chosen
            .iter()
            .map(|rule| (rule.scope.of_cookie.as_str(), rule))
            .collect();
        Self { older, rules }
    }

    pub(super) fn older<'s>(&'s self, rule: &'s RuleChoice<'_>) -> Option<&'s str> {
        self.scope(CookieWriter::Rule(rule.facts.id()))
    }

    pub(super) fn older_than_backend<'s>(&'s self, name: &'s ObjectName) -> Option<&'s str> {
        self.scope(CookieWriter::Backend(name))
    }

    pub(super) fn backend_warning(&self, name: &ObjectName, cookie: &CookieConfig) -> Option<String> {
        Some(why_longer(cookie, self.older_than_backend(name)?))
    }

    /// Rules of one route, or of one policy, have one author.
    fn is_others(&self, rule: &RuleChoice<'_>, scope: &str) -> bool {
        let is_same = |older: &&RuleChoice<'_>| match (older.source, rule.source) {
            (SessionSource::Policy(older), SessionSource::Policy(own)) => older.policy.name == own.policy.name,
            _ => older.facts.route == rule.facts.route,
        };
        !self.rules.get(scope).is_some_and(is_same)
    }

    fn scope<'s>(&'s self, writer: CookieWriter<'s>) -> Option<&'s str> {
        self.older.get(&writer).map(|(_, scope)| scope.as_str())
    }
}

impl<'a> CookieNotes<'a> {
    pub(super) fn new(names_in_use: &'a NamesInUse<'a>, crowds: &'a CookieCounts<'a>) -> Self {
        Self { names_in_use, crowds }
    }

    pub(super) fn for_rule(self, rule: &RuleChoice<'_>) -> impl Iterator<Item = String> {
        let older = self.names_in_use.older(rule).filter(|_| rule.draft.is_some());
        let older = older.filter(|scope| self.names_in_use.is_others(rule, scope));
        let mut cookies = rule.named_cookies();
        let name = older.zip(cookies.next()).map(|(scope, cookie)| {
            let why = why_longer(cookie, scope);
            format!("{why}, on: {} {}", rule.facts.route, rule.facts.field)
        });
        name.into_iter().chain(self.crowds.warning(rule))
    }
}

fn why_longer(CookieConfig { name, .. }: &CookieConfig, older: &str) -> String {
    format!(
        "the cookie is called \"{name}~\" and eight characters, because sessions of {older} had the name \"{name}\" \
         before, for the same hosts"
    )
}

/// Since a rule, and what asks for its sessions, are there.
fn since(rule: &RuleChoice<'_>) -> String {
    let route = rule.facts.meta;
    // Of sessions of one age, a rule's take nothing from a policy's (GEP-1619).
    let of_policy = u8::from(!matches!(rule.source, SessionSource::Policy(_)));
    let later = match rule.source {
        SessionSource::Policy(owner) => route
            .creation_timestamp
            .as_str()
            .max(&owner.policy.object.meta.creation_timestamp),
        _ => route.creation_timestamp.as_str(),
    };
    // Rules of one route are as old as it is.
    let index: String = rule.facts.field.chars().filter(char::is_ascii_digit).collect();
    format!("{later} {of_policy} {} {index:0>5}", route.object_name())
}

pub(super) fn since_of(backend: &Meta) -> String {
    format!("{} {}", backend.creation_timestamp, backend.object_name())
}
