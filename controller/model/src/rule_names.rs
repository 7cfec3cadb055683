//! The names of rules without a name. Such a rule is called by a hash of its matches.
//!
//! If its matches change, it keeps its name, which is the scope of its sessions. So the names of each route's rules are
//! remembered, by their former matches. The same memory and route give the same names, also with the memory that
//! results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Map;
use crate::maps::{are_equal, changed};
use crate::short_hash::short_hash;

/// The names of rules without a name, by route.
#[derive(Debug, Clone, Default, Eq)]
pub(crate) struct RuleNames(Map<String, RouteNames>);

impl PartialEq for RuleNames {
    fn eq(&self, other: &Self) -> bool {
        are_equal(&self.0, &other.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouteNames {
    /// `<kind>/<namespace>/<name>`.
    route: String,
    /// A route that is created again is another one.
    uid: String,
    rules: Vec<RememberedName>,
}

/// The hash of a rule's matches, and its name. Two short texts, because there are many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RememberedName(String, String);

impl RememberedName {
    fn matches(&self) -> &str {
        &self.0
    }

    fn name(&self) -> &str {
        &self.1
    }

    /// A name is a hash, so what is remembered cannot lead out of its route.
    fn is_valid(&self) -> bool {
        let is_hash = |text: &str| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash(&self.0) && is_hash(&self.1)
    }
}

impl RuleNames {
    /// # Errors
    /// If a name is invalid.
    pub(crate) fn read(routes: Vec<RouteNames>) -> Result<Self, String> {
        let mut names = Self::default();
        for route in routes {
            if !route.rules.iter().all(RememberedName::is_valid) {
                return Err(format!("{}: expected names of eight hexadecimal digits", route.route));
            }
            names.0.insert(route.route.clone(), Arc::new(route));
        }
        Ok(names)
    }

    pub(crate) fn routes(&self) -> impl Iterator<Item = &RouteNames> {
        self.0.values().map(|names| &**names)
    }

    pub(crate) fn changed<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a String> {
        changed(&self.0, &other.0)
    }

    pub(crate) fn route(&self, route: &str) -> Option<&RouteNames> {
        self.0.get(route).map(|names| &**names)
    }

    pub(crate) fn copy(&mut self, other: &Self, route: &str) {
        if let Some(names) = other.0.get(route) {
            self.0.insert(route.to_owned(), Arc::clone(names));
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn forget(&mut self, route: &str) {
        self.0.remove(route);
    }

    /// A route from a file has no uid.
    pub(crate) fn of(&self, route: &str, uid: &str) -> &[RememberedName] {
        let known = self.0.get(route).filter(|known| uid.is_empty() || known.uid == uid);
        known.map(|known| known.rules.as_slice()).unwrap_or_default()
    }

    /// Nothing is remembered of a route without such rules.
    pub(crate) fn set(&mut self, route: String, uid: &str, rules: Vec<RememberedName>) {
        if rules.is_empty() {
            self.0.remove(&route);
        } else {
            let names = RouteNames {
                route: route.clone(),
                uid: uid.to_owned(),
                rules,
            };
            self.0.insert(route, Arc::new(names));
        }
    }
}

impl RouteNames {
    pub(crate) fn route(&self) -> &str {
        &self.route
    }

    pub(crate) fn has_former_names(&self) -> bool {
        self.rules.iter().any(|rule| rule.matches() != rule.name())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RuleIdentity<'a> {
    pub(crate) own_name: Option<&'a str>,
    /// The hash of its matches.
    pub(crate) matches: String,
}

/// The names of all rules, and what to remember. Rules with the same matches have the same name.
pub(crate) fn assign(former: &[RememberedName], rules: &[RuleIdentity<'_>]) -> (Vec<String>, Vec<RememberedName>) {
    let own: BTreeSet<&str> = rules.iter().filter_map(|rule| rule.own_name).collect();
    // A rule that took the name for its own has the sessions now.
    let former: Vec<&RememberedName> = former.iter().filter(|known| !own.contains(known.name())).collect();
    let mut names = inherited(&former, rules);
    let mut used: BTreeSet<String> = own.iter().map(|name| (*name).to_owned()).collect();
    used.extend(names.values().cloned());
    for rule in unnamed(rules) {
        if !names.contains_key(rule.matches.as_str()) {
            let name = unused(&rule.matches, &used);
            used.insert(name.clone());
            names.insert(&rule.matches, name);
        }
    }
    let name = |rule: &RuleIdentity<'_>| names.get(rule.matches.as_str()).cloned().unwrap_or_default();
    let all = rules
        .iter()
        .map(|rule| rule.own_name.map_or_else(|| name(rule), str::to_owned));
    let mut known = BTreeSet::new();
    let remembered = unnamed(rules).filter(|rule| known.insert(&rule.matches));
    let remembered = remembered.map(|rule| RememberedName(rule.matches.clone(), name(rule)));
    (all.collect(), remembered.collect())
}

fn unnamed<'r>(rules: &'r [RuleIdentity<'_>]) -> impl Iterator<Item = &'r RuleIdentity<'r>> {
    rules.iter().filter(|rule| rule.own_name.is_none())
}

/// The names that rules keep, by their matches: with the same matches, wherever they are; with changed ones, if between
/// the same unchanged neighbours as before, and as many.
fn inherited<'r>(former: &[&RememberedName], rules: &'r [RuleIdentity<'_>]) -> BTreeMap<&'r str, String> {
    let place = |matches: &str| former.iter().position(|known| known.matches() == matches);
    let kept: BTreeSet<usize> = rules.iter().filter_map(|rule| place(&rule.matches)).collect();
    let mut names = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut changed: Vec<&str> = Vec::new();
    let mut begin = 0;
    // The end of the route is the last neighbour.
    for rule in rules.iter().map(Some).chain([None]) {
        let matches = rule.map(|rule| rule.matches.as_str());
        if matches.is_some_and(|matches| !seen.insert(matches)) {
            continue;
        }
        let end = matches.map_or(Some(former.len()), place);
        if let (None, Some(rule)) = (end, rule) {
            changed.extend(rule.own_name.is_none().then_some(rule.matches.as_str()));
            continue;
        }
        let end = end.unwrap_or_default();
        let gone: &[&RememberedName] = former.get(begin..end).unwrap_or_default();
        if gone.len() == changed.len() && !(begin..end).any(|index| kept.contains(&index)) {
            names.extend(
                changed
                    .iter()
                    .zip(gone)
                    .map(|(matches, gone)| (*matches, gone.name().to_owned())),
            );
        }
        changed.clear();
        begin = end + 1;
        if let (Some(rule), Some(known)) = (rule.filter(|rule| rule.own_name.is_none()), former.get(end)) {
            names.insert(&rule.matches, known.name().to_owned());
        }
    }
    names
}

/// The hash of the matches, unless another rule of the route is called so.
fn unused(matches: &str, used: &BTreeSet<String>) -> String {
    let others = (1_u32..).map(|number| short_hash(format!("{matches}/{number}").as_bytes()));
    let mut names = std::iter::once(matches.to_owned()).chain(others);
    names.find(|name| !used.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
