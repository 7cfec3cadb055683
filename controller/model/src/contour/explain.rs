//! Why the routes of an object have the sessions that they have.

use std::collections::BTreeMap;

use super::read::{Forwarding, Rule};
use super::services::{Service, Strategy};
use super::sessions::begins_at;
use crate::explanation::{
    Contender, DestinationExplanation, FieldExplanation, FieldOrigin, RuleExplanation, SessionExplanation,
};
use crate::graph::{Action, ClusterName, Target};
use crate::sessions::{CookieSessions, affinity_fields};
use limpet_api::{Kind, ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;

/// A route, before its policies have names.
#[derive(Debug)]
pub(super) struct Unnamed {
    pub(super) rule: RuleExplanation,
    /// The index of the policy of its sessions.
    pub(super) policy: Option<usize>,
}

impl Unnamed {
    /// `names`: those of the policies by their indices; `own`: the sessions of a cluster where it has its own.
    pub(super) fn named<'c>(
        self,
        names: &[Text],
        policies: &BTreeMap<Text, PolicyConfig>,
        gateway: &ObjectName,
        own: impl Fn(&ClusterName) -> Option<(usize, &'c str)>,
    ) -> RuleExplanation {
        let Self { mut rule, policy } = self;
        rule.gateways.push(gateway.clone());
        if let (Some(session), Some(name)) = (&mut rule.session, policy.and_then(|policy| names.get(policy))) {
            session.policy.clone_from(name);
            return rule;
        }
        for to in &mut rule.destinations {
            let used = to.cluster.as_ref().and_then(&own);
            to.session = used.and_then(|(policy, scope)| {
                let policy = names.get(policy)?.clone();
                let config = policies.get(&policy)?.clone();
                let timeout = config.source?.timeout;
                Some(SessionExplanation {
                    fields: affinity_fields(to.service.as_ref()?, timeout),
                    scope: scope.into(),
                    policy,
                    config,
                })
            });
        }
        rule
    }
}

/// What a route of a host is explained by.
pub(super) struct Input<'a> {
    pub(super) object: &'a ObjectName,
    pub(super) rule: &'a Rule<'a>,
    pub(super) forwarding: &'a Forwarding<'a>,
    /// Its name in Envoy.
    pub(super) name: &'a str,
    pub(super) host: &'a str,
    pub(super) action: &'a Action,
    /// The sessions, with the policy, its index and the scope.
    pub(super) session: Option<(&'a CookieSessions, &'a PolicyConfig, usize, &'a str)>,
}

impl Input<'_> {
    pub(super) fn explained(&self) -> Unnamed {
        let route = ObjectRef {
            kind: Kind::IngressRoute,
            name: self.object.clone(),
        };
        let field = format!("spec.routes[{}]", self.rule.index);
        let session = self.session.map(|(sessions, config, _, scope)| SessionExplanation {
            policy: Text::default(),
            scope: scope.into(),
            config: config.clone(),
            fields: self.fields(sessions, config, &route, &field),
        });
        let scope = self.session.map_or(self.name, |(.., scope)| scope);
        let is_lost = session.is_none() && self.holder().is_some();
        Unnamed {
            policy: self.session.map(|(_, _, policy, _)| policy),
            rule: RuleExplanation {
                contenders: self.contenders(&route, &field, session.is_some()),
                route,
                name: None,
                scope: scope.into(),
                gateways: Vec::new(),
                hosts: vec![self.host.to_owned()],
                problems: is_lost
                    .then(|| format!("browsers drop the cookie on {}, by its domain", self.host))
                    .into_iter()
                    .collect(),
                notes: Vec::new(),
                session,
                by_path: Vec::new(),
                destinations: self.destinations(),
                field,
            },
        }
    }

    /// The first service with a strategy that is a session.
    fn holder(&self) -> Option<usize> {
        self.forwarding.services.iter().position(begins_at)
    }

    fn contenders(&self, route: &ObjectRef, field: &str, has_session: bool) -> Vec<Contender> {
        let holder = self.holder();
        let services = self.forwarding.services.iter().enumerate();
        let contender = |(index, service): (usize, &Service<'_>)| {
            let (counts, why) = match holder {
                Some(holder) if holder == index && has_session => {
                    (true, "the first service of the route with a strategy that is a session")
                }
                Some(holder) if holder == index => (false, "its sessions cannot be had on this host"),
                Some(_) if begins_at(service) => (false, "an earlier service of the route says it"),
                None if service.affinity.is_some() => {
                    (true, "no strategy is written, and the Service has sessionAffinity")
                }
                _ => (false, "it is no session"),
            };
            Contender {
                who: format!("{route} {field}.services[{index}].strategy"),
                counts,
                why: why.to_owned(),
            }
        };
        services.map(contender).collect()
    }

    fn fields(
        &self,
        sessions: &CookieSessions,
        config: &PolicyConfig,
        route: &ObjectRef,
        field: &str,
    ) -> Vec<FieldExplanation> {
        let object = route.to_string();
        let service = format!("{field}.services[{}]", self.holder().unwrap_or_default());
        let of_service = |field: &str| FieldOrigin::Field {
            object: object.clone(),
            field: format!("{service}.{field}"),
        };
        let strategy = self.holder().and_then(|index| self.forwarding.services.get(index));
        let (name, has_path) = match strategy.map(|service| service.strategy) {
            Some(Strategy::StickyCookie { path, .. }) => {
                (of_service("stickySessionConfig.cookie.name"), !path.is_empty())
            }
            _ => (
                FieldOrigin::Default {
                    why: "the name of Contour's cookie",
                },
                false,
            ),
        };
        sessions.fields(config, &object, &name, |annotation| match annotation {
            "path" if has_path => Some(of_service("stickySessionConfig.cookie.path")),
            "source" => Some(of_service("strategy")),
            "same-site" => Some(FieldOrigin::Default {
                why: "Contour's cookie had none; with Strict, who comes by a link would lose the session",
            }),
            "script-access" | "partitioned" | "path" | "lifetime-type" | "mode" | "forward" | "query" => {
                Some(FieldOrigin::Default {
                    why: "as Contour's cookie had it",
                })
            }
            _ => None,
        })
    }

    fn destinations(&self) -> Vec<DestinationExplanation> {
        let Action::Forward(forward) = self.action else {
            return Vec::new();
        };
        let all = forward.destinations.iter().zip(&self.forwarding.services);
        let explained = all.map(|(destination, service)| {
            let cluster: Option<ClusterName> = match &destination.target {
                Target::Cluster(name) => Some(name.clone()),
                Target::Invalid { .. } => None,
            };
            DestinationExplanation {
                weight: destination.weight,
                hash: cluster.as_ref().map(|name| name.destination().to_string()),
                cluster,
                service: Some(service.name.clone()),
                port: Some(service.port),
                port_name: service.port_name().to_owned(),
                never_begins: self.session.is_some() && !begins_at(service),
                ..DestinationExplanation::default()
            }
        });
        explained.collect()
    }
}
