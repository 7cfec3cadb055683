//! Why the routes of an object have the sessions that they have.

use super::Contour;
use super::hosts::HostRoute;
use super::services::{ContourService, LoadBalancerStrategy};
use super::sessions::begins_at;
use crate::explained::to;
use crate::explanation::{Contender, FieldOrigin, RuleExplanation};
use crate::graph::Session;
use crate::sessions::{CookieSessions, ExplainedRule, ForeignRule, RuleSession, Sessions};
use limpet_api::{ObjectName, ObjectRef};

impl Contour<'_> {
    /// Why the routes of an object have their sessions, for each host. `decided`: the sessions of all routes;
    /// `explained`: why this object's are so.
    pub(crate) fn explained(
        &self,
        object: &ObjectRef,
        decided: &[RuleSession],
        explained: Vec<ExplainedRule>,
        all: &Sessions,
    ) -> Vec<RuleExplanation> {
        let routes = self.routes().zip(decided);
        let of_object = routes.filter(|((_, route), _)| route.object() == *object);
        let gateway = &self.settings.gateway;
        let rules = of_object
            .zip(explained)
            .map(|(((host, route), decided), explained)| route.explained(host, gateway, decided, explained, all));
        rules.collect()
    }
}

impl HostRoute<'_> {
    fn explained(
        &self,
        host: &str,
        gateway: &ObjectName,
        decided: &RuleSession,
        explained: ExplainedRule,
        all: &Sessions,
    ) -> RuleExplanation {
        let destinations = self.destinations(all).map(|(weight, mut backend)| {
            let own = backend.spec.session.take();
            let own = own.filter(|_| decided.session == Session::Destinations);
            to(weight, &backend, own, &explained, all)
        });
        let is_lost = self.scope.is_none() && self.holder().is_some();
        let lost = is_lost.then(|| format!("browsers drop the cookie on {host}, by its domain"));
        RuleExplanation {
            destinations: destinations.collect(),
            route: self.object(),
            field: self.field(),
            name: None,
            scope: self.facts(host).name.0,
            gateways: vec![gateway.clone()],
            hosts: vec![host.to_owned()],
            contenders: explained.contenders,
            problems: explained.problems.into_iter().chain(lost).collect(),
            notes: explained.notes,
            session: explained.session,
            by_path: Vec::new(),
        }
    }

    fn holder(&self) -> Option<usize> {
        self.forwarding.services.iter().position(begins_at)
    }

    fn strategy(&self) -> Option<LoadBalancerStrategy<'_>> {
        let holder = self.forwarding.services.get(self.holder()?)?;
        Some(holder.strategy)
    }

    fn of_service(&self, field: &str) -> FieldOrigin {
        FieldOrigin::Field {
            object: self.object().to_string(),
            field: format!(
                "{}.services[{}].{field}",
                self.field(),
                self.holder().unwrap_or_default()
            ),
        }
    }
}

impl ForeignRule for HostRoute<'_> {
    fn asks(&self) -> Option<&CookieSessions> {
        let held = self.forwarding.session.as_ref();
        held.filter(|_| self.scope.is_some()).map(|held| &held.sessions)
    }

    fn contenders(&self) -> Vec<Contender> {
        let holder = self.holder();
        let services = self.forwarding.services.iter().enumerate();
        let contender = |(index, service): (usize, &ContourService<'_>)| {
            let (counts, why) = match holder {
                Some(holder) if holder == index && self.scope.is_some() => {
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
                who: format!("{} {}.services[{index}].strategy", self.object(), self.field()),
                counts,
                why: why.to_owned(),
            }
        };
        services.map(contender).collect()
    }

    fn name_from(&self) -> FieldOrigin {
        match self.strategy() {
            Some(LoadBalancerStrategy::StickyCookie { .. }) => self.of_service("stickySessionConfig.cookie.name"),
            _ => FieldOrigin::Default {
                why: "the name of Contour's cookie",
            },
        }
    }

    fn from(&self, annotation: &str) -> Option<FieldOrigin> {
        let has_path =
            matches!(self.strategy(), Some(LoadBalancerStrategy::StickyCookie { path, .. }) if !path.is_empty());
        match annotation {
            "path" if has_path => Some(self.of_service("stickySessionConfig.cookie.path")),
            "source" => Some(self.of_service("strategy")),
            "same-site" => Some(FieldOrigin::Default {
                why: "Contour's cookie had none; with Strict, who comes by a link would lose the session",
            }),
            "script-access" | "partitioned" | "path" | "lifetime-type" | "mode" | "forward" | "query" => {
                Some(FieldOrigin::Default {
                    why: "as Contour's cookie had it",
                })
            }
            _ => None,
        }
    }
}
