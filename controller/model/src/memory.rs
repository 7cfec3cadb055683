//! What is remembered of objects, because they do not tell it any more: the names of rules without a name, and the
//! sessions of policies whose fields the API server left out after an upgrade.
//!
//! Whoever has the same memory and the same objects makes the same of them, and makes it again with the memory that
//! results. So replicas agree, and a restart changes nothing.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::former_session::{FormerSession, FormerSessions};
use crate::rule_names::{RouteNames, RuleNames};

/// The greatest size of the text, but for its frame: an object in a cluster has room for 1 MiB.
const MOST_BYTES: usize = 800_000;

/// What is remembered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub(crate) rule_names: RuleNames,
    pub(crate) sessions: FormerSessions,
}

/// The memory as text.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    routes: Vec<RouteNames>,
    policies: Vec<FormerSession>,
}

impl Memory {
    /// Reads the JSON that [`Memory::text`] writes. Unknown fields are ignored: while the controller is updated, the
    /// leader may be of a newer release.
    ///
    /// # Errors
    /// If it is invalid, with the place of the first mistake in the text, or the route with a wrong name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Written = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(Self {
            rule_names: RuleNames::read(written.routes)?,
            sessions: written.policies.into_iter().collect(),
        })
    }

    /// As sorted JSON, one object per line.
    #[must_use]
    pub fn text(&self) -> String {
        let routes: Vec<String> = self.rule_names.routes().map(line).collect();
        let policies: Vec<String> = self.sessions.iter().map(line).collect();
        format!(
            "{{\"routes\":[\n{}\n],\"policies\":[\n{}\n]}}",
            routes.join(",\n"),
            policies.join(",\n")
        )
    }

    /// How many objects are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rule_names.routes().count() + self.sessions.iter().count()
    }

    /// Forgets what there is no room for, in this order, and the last by name first:
    /// 1. routes whose rules have the names of their matches;
    /// 2. policies that still have their fields;
    /// 3. routes whose rules have former names;
    /// 4. the policies in `pruned`, which an upgrade took fields from.
    ///
    /// No session moves now because of the first two: their objects still tell the same.
    pub(crate) fn fit(&mut self, pruned: &BTreeSet<String>) {
        let routes = self.rule_names.routes().map(size);
        let mut all: usize = routes.chain(self.sessions.iter().map(size)).sum();
        for is_needed in [false, true] {
            let gone = self.rule_names.routes().rev();
            let gone = gone.filter(|route| route.has_former_names() == is_needed);
            for route in excess(&mut all, gone.map(|route| (route.route(), size(route)))) {
                self.rule_names.forget(&route);
            }
            let gone = self.sessions.iter().rev();
            let gone = gone.filter(|session| pruned.contains(session.policy()) == is_needed);
            for policy in excess(&mut all, gone.map(|session| (session.policy(), size(session)))) {
                self.sessions.forget(&policy);
            }
        }
    }
}

/// As many entries as must go until `all` bytes are few enough. What they have is taken off `all`.
fn excess<'e>(all: &mut usize, entries: impl Iterator<Item = (&'e str, usize)>) -> Vec<String> {
    let must_go = entries.take_while(|(_, bytes)| {
        let must_go = *all > MOST_BYTES;
        *all -= if must_go { *bytes } else { 0 };
        must_go
    });
    must_go.map(|(name, _)| name.to_owned()).collect()
}

/// The bytes of a line of the text.
fn size(entry: &impl Serialize) -> usize {
    line(entry).len() + 2
}

fn line(entry: &impl Serialize) -> String {
    // What is remembered is texts.
    serde_json::to_string(entry).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_names::{Rule, Unnamed, assign};
    use crate::short_hash::short_hash;

    fn remembered(former: &[Unnamed], matches: &str) -> Vec<Unnamed> {
        let rule = Rule {
            own_name: None,
            matches: short_hash(matches.as_bytes()),
        };
        assign(former, &[rule]).1
    }

    #[test]
    fn what_is_remembered_is_read_again_for_the_same_route_alone() {
        let rules = remembered(&[], "a");
        let mut memory = Memory::default();
        assert_eq!(Memory::parse(&memory.text()).unwrap(), memory);
        memory
            .rule_names
            .set("httproute/shop/web".to_owned(), "1", rules.clone());
        memory
            .rule_names
            .set("grpcroute/shop/web".to_owned(), "2", rules.clone());
        memory.sessions = [FormerSession::new("shop/web", "3", Some("session"), Some("Permanent"))]
            .into_iter()
            .collect();
        let read = Memory::parse(&memory.text()).unwrap();
        assert_eq!(read, memory);
        assert_eq!(read.count(), 3);
        let names = &read.rule_names;
        assert_eq!(names.of("httproute/shop/web", "1"), rules);
        // A route from a file has no uid.
        assert_eq!(names.of("httproute/shop/web", ""), rules);
        assert_eq!(names.of("httproute/shop/web", "2"), []);
        assert_eq!(names.of("httproute/shop/other", "1"), []);
        for wrong in [
            "",
            r#"{"routes": [{"route": "r", "uid": "", "rules": [["0123abcd", "../shop"]]}]}"#,
            r#"{"routes": {}}"#,
            r#"{"policies": [{"policy": 1, "uid": ""}]}"#,
        ] {
            assert!(Memory::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_newer_release_remembers_besides_is_ignored() {
        let newer = r#"{
            "routes": [{"route": "r", "uid": "", "rules": [["0123abcd", "0123abcd"]], "since": 1}],
            "policies": [{"policy": "shop/web", "uid": "", "sessionName": "s", "mode": "strict"}],
            "others": []
        }"#;
        assert_eq!(Memory::parse(newer).unwrap().count(), 2);
    }

    #[test]
    fn routes_with_former_names_are_the_last_to_be_forgotten() {
        let own = remembered(&[], "a");
        let former = remembered(&own, "x");
        let mut memory = Memory::default();
        for number in 0..20_000 {
            memory
                .rule_names
                .set(format!("httproute/shop/{number:05}"), "1", own.clone());
        }
        memory
            .rule_names
            .set("httproute/shop/z".to_owned(), "1", former.clone());
        memory.fit(&BTreeSet::new());
        assert!((5000..20_000).contains(&memory.count()), "{}", memory.count());
        assert!(memory.text().len() <= MOST_BYTES + 100);
        assert_eq!(memory.rule_names.of("httproute/shop/z", "1"), former);
        let before = memory.clone();
        memory.fit(&BTreeSet::new());
        assert_eq!(memory, before);
    }

    #[test]
    fn policies_that_lost_fields_are_the_last_to_be_forgotten() {
        let own = remembered(&[], "a");
        let former = remembered(&own, "x");
        let mut memory = Memory::default();
        memory.rule_names.set("httproute/shop/own".to_owned(), "1", own.clone());
        memory
            .rule_names
            .set("httproute/shop/web".to_owned(), "1", former.clone());
        let policy = |number: usize| format!("shop/{number:05}");
        let session = |number| FormerSession::new(&policy(number), "1", Some("session"), Some("Permanent"));
        memory.sessions = (0..20_000).map(session).collect();
        let mut all_pruned = memory.clone();

        let pruned = BTreeSet::from([policy(19_999)]);
        memory.fit(&pruned);
        assert!(memory.text().len() <= MOST_BYTES + 100);
        assert!((5000..20_000).contains(&memory.count()), "{}", memory.count());
        assert!(memory.sessions.iter().any(|session| pruned.contains(session.policy())));
        assert_eq!(memory.rule_names.of("httproute/shop/web", "1"), former);
        assert_eq!(memory.rule_names.of("httproute/shop/own", "1"), []);
        let before = memory.clone();
        memory.fit(&pruned);
        assert_eq!(memory, before);

        all_pruned.fit(&(0..20_000).map(policy).collect());
        assert!(all_pruned.text().len() <= MOST_BYTES + 100);
        assert_eq!(all_pruned.rule_names.routes().count(), 0);
    }
}
