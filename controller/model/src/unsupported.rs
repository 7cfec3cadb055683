//! What an output cannot express, reported on the object that asks for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::{Graph, RuleName, RuleOrigin, SessionRequester};
use super::reports::{Condition, PolicyReport, Reports, UNSUPPORTED_VALUE};
use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};

/// Something that a rule asks for and an output cannot express.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unsupported {
    /// The rule.
    pub rule: RuleName,
    /// The Gateway that this applies to; all if not set.
    pub gateway: Option<ObjectName>,
    /// How much of the rule's sessions.
    pub extent: Extent,
    /// What is unsupported, and why.
    pub message: String,
}

/// How much of a rule's sessions is unsupported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// The rule has no sessions at all.
    All,
    /// Its sessions lack something.
    Part,
}

impl Reports {
    /// Reports what is unsupported, in `Programmed` of the policy or the XBackends that ask for the sessions; if the
    /// rule itself asks, in `PartiallyInvalid` of its route.
    pub fn add_unsupported(&mut self, graph: &Graph, unsupported: &[Unsupported]) {
        if unsupported.is_empty() {
            return;
        }
        let mut by_rule: BTreeMap<&RuleName, Vec<&Unsupported>> = BTreeMap::new();
        for entry in unsupported {
            by_rule.entry(&entry.rule).or_default().push(entry);
        }
        let mut of_policies: BTreeMap<(&SessionRequester, &ObjectName), UnsupportedSummary> = BTreeMap::new();
        for (rule, origin) in &graph.rules {
            let of_rule = by_rule.get(rule).map_or(&[][..], Vec::as_slice);
            if of_rule.is_empty() && origin.requested_by == SessionRequester::Rule {
                continue;
            }
            for gateway in origin.gateways.iter() {
                let here = |entry: &&&Unsupported| entry.gateway.as_ref().is_none_or(|of| of == gateway);
                let entries: Vec<&&Unsupported> = of_rule.iter().filter(here).collect();
                let messages: Vec<String> = entries.iter().map(|entry| origin.message(entry)).collect();
                if origin.requested_by == SessionRequester::Rule {
                    if !messages.is_empty() {
                        self.add_unsupported_inline(&origin.route, gateway, &messages.join("; "));
                    }
                    continue;
                }
                let told = of_policies.entry((&origin.requested_by, gateway)).or_default();
                told.rules += 1;
                told.without_sessions += usize::from(entries.iter().any(|entry| entry.extent == Extent::All));
                told.messages.extend(messages);
            }
        }
        for ((asked_by, gateway), told) in of_policies {
            if told.messages.is_empty() {
                continue;
            }
            let tell = |report: &mut Arc<PolicyReport>| {
                let ancestors = Arc::make_mut(report).ancestors.iter_mut();
                for ancestor in ancestors.filter(|ancestor| is_gateway(&ancestor.ancestor_ref, gateway)) {
                    told.add_to(&mut ancestor.conditions);
                }
            };
            match asked_by {
                SessionRequester::Rule => {}
                SessionRequester::Policy(policy) => self.session_policies.get_mut(policy).into_iter().for_each(tell),
                SessionRequester::Backends(backends) => {
                    for backend in backends {
                        self.backends.get_mut(backend).into_iter().for_each(tell);
                    }
                }
            }
        }
    }

    fn add_unsupported_inline(&mut self, route: &ObjectRef, gateway: &ObjectName, message: &str) {
        let reports = if route.kind == Kind::HttpRoute {
            &mut self.http_routes
        } else {
            &mut self.grpc_routes
        };
        let parents = reports
            .get_mut(&route.name)
            .into_iter()
            .flat_map(|report| &mut Arc::make_mut(report).parents);
        for parent in parents.filter(|parent| {
            let namespace = parent.parent_ref.namespace.as_deref().unwrap_or(&route.name.namespace);
            namespace == gateway.namespace && parent.parent_ref.name == gateway.name
        }) {
            let partly = parent
                .conditions
                .iter_mut()
                .find(|condition| condition.kind == "PartiallyInvalid");
            match partly {
                Some(partly) if partly.message.contains(message) => {}
                Some(partly) => partly.message = format!("{}; {message}", partly.message),
                None => {
                    let partly = Condition::holds("PartiallyInvalid", UNSUPPORTED_VALUE, message);
                    parent.conditions.push(partly);
                }
            }
        }
    }
}

impl RuleOrigin {
    fn message(&self, unsupported: &Unsupported) -> String {
        #[cfg(test)]
        crate::looked::at_one();
        format!("{} spec.rules[{}]: {}", self.route, self.index, unsupported.message)
    }
}

fn is_gateway(reference: &ParentRef, gateway: &ObjectName) -> bool {
    Kind::find(&reference.group, &reference.kind) == Some(Kind::Gateway)
        && reference.namespace.as_deref() == Some(&gateway.namespace)
        && reference.name == gateway.name
}

#[derive(Debug, Default)]
struct UnsupportedSummary {
    rules: usize,
    without_sessions: usize,
    messages: Vec<String>,
}

impl UnsupportedSummary {
    fn add_to(&self, conditions: &mut Vec<Condition>) {
        let message = self.messages.join("; ");
        let known = conditions.iter().position(|condition| condition.kind == "Programmed");
        let known = known.map(|index| conditions.remove(index));
        conditions.push(match known {
            // No rule of the policy has sessions. That condition says more.
            Some(known) if !known.is_true() => known,
            _ if self.without_sessions == self.rules => Condition::fails("Programmed", "Invalid", message),
            Some(known) => Condition {
                message: format!("{}; {message}", known.message),
                ..known
            },
            None => Condition::holds("Programmed", "PartiallyProgrammed", message),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looked;

    #[test]
    fn every_rule_of_the_graph_had_words_for_what_one_of_them_lacks() {
        let mut graph = Graph::default();
        let name = |index: usize| RuleName(format!("httproute/shop/web/{index}").into());
        for index in 0..100 {
            let origin = RuleOrigin {
                route: ObjectRef {
                    kind: Kind::HttpRoute,
                    name: ObjectName::new("shop", "web"),
                },
                index,
                name: None,
                gateways: [ObjectName::new("shop", "web")].into_iter().collect(),
                requested_by: SessionRequester::Rule,
            };
            graph.rules.insert(name(index), Arc::new(origin));
        }
        let unsupported = Unsupported {
            rule: name(7),
            gateway: None,
            extent: Extent::All,
            message: "lost".to_owned(),
        };
        looked::take();
        Reports::default().add_unsupported(&graph, &[unsupported]);
        assert_eq!(looked::take(), 1);
    }
}
