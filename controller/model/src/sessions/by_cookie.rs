//! Sessions of objects without `sessionPersistence`: a cookie, and annotations.

use std::collections::BTreeMap;
use std::fmt;

use super::annotations;
use super::field_error::{ObjectField, SessionFieldError};
use super::persistence::{Persistence, PersistenceType, Shape};
use super::policy::{PolicyDraft, PolicyInputs};
use crate::SessionLimits;
use crate::explanation::{Contender, FieldOrigin};
use crate::session_fields::{SessionCarrier, SessionFields};
use limpet_core::carrier::cookie_domain;
use limpet_core::config::schema::CookieConfig;

/// # Errors
/// If an annotation cannot be followed, with its path.
pub(crate) fn annotated(annotations: &BTreeMap<String, String>) -> Result<SessionFields, String> {
    let message = "remove it: the sessions of these routes keep their Service, and each has its own";
    let read = annotations::read_without_rules(annotations, message);
    read.map_err(|faults| told(faults, "", ""))
}

pub(crate) trait ForeignRule: fmt::Debug {
    fn asks(&self) -> Option<&CookieSessions>;
    /// Objects that may give it sessions, in the order of precedence.
    fn contenders(&self) -> Vec<Contender>;
    /// The origin of the cookie's name.
    fn name_from(&self) -> FieldOrigin;
    /// The origin of a field without an annotation of this name; `None`: the controller's configuration.
    fn from(&self, annotation: &str) -> Option<FieldOrigin>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct CookieSessionInputs<'a> {
    pub(crate) name: &'a str,
    pub(crate) overrides: &'a SessionFields,
    /// Used where annotations say nothing.
    pub(crate) defaults: &'a SessionFields,
    pub(crate) path: &'a str,
    pub(crate) limits: SessionLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CookieSessions(pub(super) PolicyDraft);

impl CookieSessionInputs<'_> {
    /// `field`: what gives the cookie its name; `matched`: what gives it the path of the route.
    ///
    /// # Errors
    /// If something cannot be followed, with its path.
    pub(crate) fn sessions(&self, field: &str, matched: &str) -> Result<CookieSessions, String> {
        let is_of_route = self.overrides.path == Some(crate::CookiePath::Route);
        let persistence = |name: Option<&str>| Persistence {
            shape: Shape::Foreign,
            carrier: PersistenceType::Cookie,
            name: name.map(str::to_owned),
            fields: SessionFields::default(),
        };
        let named = persistence(Some(self.name));
        let parts = PolicyInputs {
            persistence: &named,
            overrides: self.overrides,
            of_route: None,
            defaults: self.defaults,
            path: is_of_route.then_some(self.path),
            limits: self.limits,
        };
        // A query has its own name.
        let unnamed = persistence(None);
        let parts = if parts.holder() == SessionCarrier::Query {
            PolicyInputs {
                persistence: &unnamed,
                ..parts
            }
        } else {
            parts
        };
        parts
            .draft()
            .map(CookieSessions)
            .map_err(|faults| told(faults, field, matched))
    }
}

impl CookieSessions {
    pub(crate) fn foreign_domain(&self, host: &str) -> Option<&str> {
        let domain = self.0.config.domain()?;
        (!cookie_domain::may_come_from(domain, host)).then_some(domain)
    }

    /// The filter's own cookie.
    pub(crate) fn cookie(&self) -> Option<&CookieConfig> {
        self.0.named_cookie()
    }

    pub(crate) fn is_by_address(&self) -> bool {
        self.0.config.source.is_some()
    }
}

fn told(faults: Vec<SessionFieldError>, field: &str, matched: &str) -> String {
    let told = faults.into_iter().map(|fault| match fault.place {
        ObjectField::Persistence(below) => {
            format!(
                "{field}{}: {}",
                below.strip_prefix("cookie").unwrap_or_default(),
                fault.message
            )
        }
        ObjectField::Matches => format!("{matched}: {}", fault.message),
        ObjectField::Annotation(_) | ObjectField::Default(_) => fault.below("spec").to_string(),
    });
    told.collect::<Vec<_>>().join("; ")
}
