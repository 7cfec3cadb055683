//! Findings on objects, from the reports of the last build.

use std::collections::BTreeMap;

use super::search::{MatchedWords, SearchWords};
use super::view::{ConditionView, ObjectVerdict, ObjectView};
use crate::cluster::reconcile::status::shortened;
use limpet_api::{Kind, ObjectName, ObjectRef, ParentRef};
use limpet_model::Reports;
use limpet_model::reports::{Condition, ConditionStatus, IngressRouteReport, IngressRouteStatus};

/// The limit of a message.
const MOST_BYTES: usize = 1000;
/// The limit of an object: a Gateway has up to 64 listeners, a route up to 32 parents.
const MOST_CONDITIONS: usize = 40;
/// In place of a condition's type.
pub(crate) const CURRENT_STATUS: &str = "currentStatus";

#[derive(Debug, Default)]
pub(crate) struct ObjectVerdicts<'a>(BTreeMap<ObjectRef, ReportedObject<'a>>);

#[derive(Debug, Default)]
pub(crate) struct ReportedObject<'a> {
    /// Of the object as a whole.
    whole: ObjectVerdict,
    /// The best and the worst of its listeners or parents.
    parts: Option<(ObjectVerdict, ObjectVerdict)>,
    conditions: Vec<ReportedCondition<'a>>,
}

#[derive(Debug)]
struct ReportedCondition<'a> {
    about: Option<ConditionSubject<'a>>,
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'a str,
    is_wrong: bool,
}

/// A condition that says what is wrong.
#[derive(Debug)]
pub(crate) struct WrongCondition<'a> {
    /// What of the object it is about: a parent of a route, a listener of a Gateway, an ancestor of a policy.
    pub(crate) about: Option<String>,
    pub(crate) kind: &'static str,
    /// Of an `IngressRoute`: its status.
    pub(crate) reason: &'static str,
    pub(crate) message: &'a str,
}

/// What of an object a condition is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConditionSubject<'a> {
    Parent(&'a ParentRef),
    Listener(&'a str),
}

impl ConditionSubject<'_> {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Listener(name) => format!("listener {name}"),
            Self::Parent(parent) => {
                let ParentRef {
                    kind,
                    namespace,
                    name,
                    section_name,
                    port,
                    ..
                } = parent;
                let name = ObjectName::new(namespace.as_deref().unwrap_or_default(), name);
                let section = section_name.as_ref().map(|section| format!(" {section}"));
                let port = port.map(|port| format!(":{port}"));
                format!(
                    "{kind} {name}{}{}",
                    port.unwrap_or_default(),
                    section.unwrap_or_default()
                )
            }
        }
    }
}

impl<'a> ObjectVerdicts<'a> {
    pub(crate) fn new(reports: &'a Reports) -> Self {
        let mut all = Self::default();
        let Reports {
            gateway_classes,
            gateways,
            http_routes,
            grpc_routes,
            session_policies,
            backends,
            backend_tls_policies,
            ingress_routes,
            without_status,
        } = reports;
        for (name, report) in gateway_classes {
            all.add(Kind::GatewayClass, &ObjectName::new("", name), None, &report.conditions);
        }
        for (name, report) in gateways {
            all.add(Kind::Gateway, name, None, &report.conditions);
            all.add(Kind::Gateway, name, None, &report.unready);
            for listener in &report.listeners {
                let about = ConditionSubject::Listener(&listener.name);
                all.add(Kind::Gateway, name, Some(about), &listener.conditions);
            }
        }
        for (kind, routes) in [(Kind::HttpRoute, http_routes), (Kind::GrpcRoute, grpc_routes)] {
            for (name, report) in routes {
                for parent in &report.parents {
                    let about = ConditionSubject::Parent(&parent.parent_ref);
                    all.add(kind, name, Some(about), &parent.conditions);
                }
            }
        }
        let policies = session_policies
            .iter()
            .map(|(name, report)| (name.kind.into(), &name.name, report));
        let tls = backend_tls_policies.iter();
        let tls = tls.map(|(name, report)| (Kind::BackendTlsPolicy, name, report));
        let backends = backends.iter().map(|(name, report)| (Kind::XBackend, name, report));
        for (kind, name, report) in policies.chain(tls).chain(backends) {
            for ancestor in &report.ancestors {
                let about = ConditionSubject::Parent(&ancestor.ancestor_ref);
                all.add(kind, name, Some(about), &ancestor.conditions);
            }
        }
        for (name, report) in ingress_routes {
            all.add_ingress_route(name, report);
        }
        for (object, condition) in without_status {
            all.add(object.kind, &object.name, None, [&**condition]);
        }
        all
    }

    fn add(
        &mut self,
        kind: Kind,
        name: &ObjectName,
        about: Option<ConditionSubject<'a>>,
        conditions: impl IntoIterator<Item = &'a Condition>,
    ) {
        let object = ObjectRef {
            kind,
            name: name.clone(),
        };
        let object = self.0.entry(object).or_default();
        let mut worst = ObjectVerdict::Accepted;
        for condition in conditions {
            let verdict = ObjectVerdict::of(condition.kind, condition.status, condition.reason);
            worst = worst.max(verdict);
            object.conditions.push(ReportedCondition {
                about,
                kind: condition.kind,
                status: match condition.status {
                    ConditionStatus::True => "True",
                    ConditionStatus::False => "False",
                    ConditionStatus::Unknown => "Unknown",
                },
                reason: condition.reason,
                message: &condition.message,
                is_wrong: verdict != ObjectVerdict::Accepted,
            });
        }
        if about.is_some() {
            let (least, most) = object.parts.unwrap_or((worst, worst));
            object.parts = Some((least.min(worst), most.max(worst)));
        } else {
            object.whole = object.whole.max(worst);
        }
    }

    fn add_ingress_route(&mut self, name: &ObjectName, report: &'a IngressRouteReport) {
        let is_wrong = report.status != IngressRouteStatus::Valid;
        let status = ReportedCondition {
            about: None,
            kind: CURRENT_STATUS,
            status: report.status.as_str(),
            reason: "",
            message: &report.description,
            is_wrong,
        };
        let notes = report.notes.iter().map(|note| ReportedCondition {
            about: None,
            kind: "note",
            status: "",
            reason: "",
            message: note,
            is_wrong: true,
        });
        let verdict = match (is_wrong, report.notes.is_empty()) {
            (true, _) => ObjectVerdict::Refused,
            (false, false) => ObjectVerdict::Partly,
            (false, true) => ObjectVerdict::Accepted,
        };
        let said = [status].into_iter().chain(notes).collect();
        let object = ObjectRef {
            kind: Kind::IngressRoute,
            name: name.clone(),
        };
        let object = self.0.entry(object).or_default();
        object.whole = verdict;
        object.conditions = said;
    }

    /// The conditions that say what is wrong.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = (&ObjectRef, WrongCondition<'a>)> {
        let conditions = self.0.iter().flat_map(|(object, said)| {
            let wrong = said.conditions.iter().filter(|said| said.is_wrong);
            wrong.map(move |said| (object, said))
        });
        conditions.map(|(object, said)| {
            let condition = WrongCondition {
                about: said.about.as_ref().map(ConditionSubject::text),
                kind: said.kind,
                reason: if said.kind == CURRENT_STATUS {
                    said.status
                } else {
                    said.reason
                },
                message: said.message,
            };
            (object, condition)
        })
    }

    pub(super) fn get(&self, object: &ObjectRef) -> Option<&ReportedObject<'a>> {
        self.0.get(object)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectRef, &ReportedObject<'a>)> {
        self.0.iter()
    }
}

impl ReportedObject<'_> {
    /// It is refused as a whole only if all of its parts are.
    pub(super) fn verdict(&self) -> ObjectVerdict {
        let parts = match self.parts {
            None | Some((_, ObjectVerdict::Accepted)) => ObjectVerdict::Accepted,
            Some((ObjectVerdict::Refused, _)) => ObjectVerdict::Refused,
            Some(_) => ObjectVerdict::Partly,
        };
        self.whole.max(parts)
    }

    /// Matches the conditions that are wrong.
    pub(super) fn match_words(&self, search: &SearchWords) -> MatchedWords {
        let texts = self.conditions.iter().filter(|said| said.is_wrong);
        let texts = texts.flat_map(|said| [said.kind, said.reason, said.message]);
        search.match_words(texts.chain([self.verdict().word()]))
    }

    pub(super) fn conditions(&self) -> Vec<ConditionView> {
        self.shown(|_| true)
    }

    /// Has only the conditions that are wrong.
    pub(super) fn refused(&self, object: &ObjectRef) -> ObjectView {
        ObjectView {
            kind: object.kind.as_str(),
            namespace: object.name.namespace.to_string(),
            name: object.name.name.to_string(),
            verdict: self.verdict(),
            conditions: self.shown(|said| said.is_wrong),
        }
    }

    fn shown(&self, which: impl Fn(&&ReportedCondition<'_>) -> bool) -> Vec<ConditionView> {
        let said = self.conditions.iter().filter(which).take(MOST_CONDITIONS);
        let said = said.map(|said| ConditionView {
            about: said.about.as_ref().map(ConditionSubject::text),
            kind: said.kind,
            status: said.status,
            reason: said.reason,
            message: shortened(said.message, MOST_BYTES).to_owned(),
        });
        said.collect()
    }
}

impl ObjectVerdict {
    /// What a condition means for its object: it is refused if it is not accepted or not programmed.
    pub(crate) fn of(kind: &str, status: ConditionStatus, reason: &str) -> Self {
        let is_partly = reason.starts_with("Partially");
        match (kind, status) {
            ("Accepted" | "Programmed", ConditionStatus::False) if reason != "Pending" => Self::Refused,
            // The conditions that are there only where something is wrong.
            ("PartiallyInvalid" | "Conflicted", ConditionStatus::False) => Self::Accepted,
            ("PartiallyInvalid" | "Conflicted", _) => Self::Partly,
            (_, ConditionStatus::True) if !is_partly => Self::Accepted,
            _ => Self::Partly,
        }
    }
}
