//! Makes a policy of the filter, and checks it as the filter does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::field_error::{ObjectField, SessionFieldError};
use super::origins::{FieldSource, Origins};
use super::persistence::{Persistence, PersistenceType};
use super::renamed::FormerSessions;
use crate::session_fields::{
    CookiePath, FieldTarget, SessionCarrier, SessionField, SessionFields, SessionScope, SessionSplit,
};
use crate::short_hash::short_hash;
use crate::{SessionLimits, Settings};
use limpet_core::Filter;
use limpet_core::carrier::cookie_domain;
use limpet_core::config::schema::{
    CookieConfig, CookieModeConfig, FilterConfig, FurtherConfig, FurtherFieldConfig, FurtherParameterConfig,
    HeaderConfig, HeaderModeConfig, LifetimeTypeConfig, PolicyConfig, SdsKeysConfig,
};
use limpet_core::config::{MAX_ALSO, Problem};

const GENERATED_NAME: &str = "limpet";

const GENERATED_HEADER: &str = "limpet-session-";

/// A policy, without what depends on the rules that it governs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PolicyDraft {
    pub(super) config: PolicyConfig,
    pub(super) is_unnamed: bool,
    pub(super) scope: SessionScope,
    pub(super) split: SessionSplit,
    pub(super) origins: Origins,
    /// Carriers that the sessions had before they were renamed, the newest first.
    pub(super) former: Vec<OwnCarrier>,
}

/// A carrier of the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnCarrier {
    holder: SessionCarrier,
    /// `None`: each scope has its own name.
    name: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyInputs<'a> {
    pub(super) persistence: &'a Persistence,
    pub(super) overrides: &'a SessionFields,
    /// Those that are a route's, if the others are its policy's.
    pub(super) of_route: Option<&'a SessionFields>,
    pub(super) defaults: &'a SessionFields,
    pub(super) path: Option<&'a str>,
    pub(super) limits: SessionLimits,
}

impl OwnCarrier {
    /// Whether the filter takes it as a former carrier of this policy.
    fn fits(&self, config: &PolicyConfig) -> bool {
        let name = self.name.clone().unwrap_or_else(|| GENERATED_NAME.to_owned());
        let mut config = config.clone();
        config.also = vec![former(self.holder, name)];
        refusal(&config).is_none()
    }
}

impl<'a> PolicyInputs<'a> {
    pub(super) fn new(persistence: &'a Persistence, overrides: &'a SessionFields, settings: &'a Settings) -> Self {
        Self {
            persistence,
            overrides,
            of_route: None,
            defaults: &settings.session_defaults,
            path: None,
            limits: settings.session_limits,
        }
    }
}

impl PolicyInputs<'_> {
    /// The carrier that these would ask for in place of the object's own.
    pub(super) fn carrier_by(&self, persistence: &Persistence, overrides: &SessionFields) -> Option<OwnCarrier> {
        let parts = PolicyInputs {
            persistence,
            overrides,
            ..*self
        };
        parts.carrier()
    }

    /// The carrier; `None` if it is not the filter's own.
    fn carrier(&self) -> Option<OwnCarrier> {
        let holder = self.holder();
        let name = self.persistence.name.clone();
        let of_query = || Some(self.overrides.merged_over(self.defaults).query?.0?.name);
        match holder {
            SessionCarrier::OwnCookie => Some(OwnCarrier { holder, name }),
            SessionCarrier::OwnHeader => {
                let name = name.map(|name| name.to_ascii_lowercase());
                Some(OwnCarrier { holder, name })
            }
            SessionCarrier::Query => {
                let name = name.or_else(of_query);
                Some(OwnCarrier { holder, name })
            }
            SessionCarrier::Applications | SessionCarrier::Source => None,
        }
    }

    /// Carriers that a policy or an `XBackend` gave these sessions before.
    pub(super) fn former(&self, former: &[FormerSessions]) -> Vec<OwnCarrier> {
        let carrier = |former: &FormerSessions| {
            let persistence = former.persistence()?;
            let of_route = self.of_route.map(|route| route.merged_over(&former.overrides));
            self.carrier_by(&persistence, of_route.as_ref().unwrap_or(&former.overrides))
        };
        former.iter().filter_map(carrier).collect()
    }

    /// Carriers that the route gave the sessions of this rule before.
    pub(super) fn former_of_rule(&self, former: &[FormerSessions], rule: &str) -> Vec<OwnCarrier> {
        let carrier = |former: &FormerSessions| {
            let of_rule = former.of_rule(rule);
            self.carrier_by(of_rule.as_ref().unwrap_or(self.persistence), &former.overrides)
        };
        former.iter().filter_map(carrier).collect()
    }

    /// The draft of sessions that had these carriers before.
    ///
    /// # Errors
    /// As [`Self::draft`].
    pub(super) fn draft_after(
        &self,
        former: impl IntoIterator<Item = OwnCarrier>,
    ) -> Result<PolicyDraft, Vec<SessionFieldError>> {
        let mut draft = self.draft()?;
        let own = self.carrier();
        for carrier in former {
            let is_other = own.as_ref() != Some(&carrier) && !draft.former.contains(&carrier);
            // Former and present fields may be put together in ways that nothing has checked.
            if is_other && carrier.fits(&draft.config) {
                draft.former.push(carrier);
            }
        }
        Ok(draft)
    }

    /// # Errors
    /// If a field cannot be followed. The faults name each field.
    pub(super) fn draft(&self) -> Result<PolicyDraft, Vec<SessionFieldError>> {
        let PolicyInputs {
            persistence,
            overrides,
            defaults,
            ..
        } = *self;
        let holder = self.holder();
        let name = match &persistence.name {
            None if holder == SessionCarrier::Applications => {
                let message = "expected the name of the application's cookie or header, because the mode is not insert";
                return Err(vec![SessionFieldError::persistence(persistence.name_field(), message)]);
            }
            name => name.as_deref().unwrap_or(GENERATED_NAME),
        };
        let mut config = PolicyConfig::default();
        match (holder, persistence.carrier) {
            (SessionCarrier::Query, _) => self.check_in_place_of_cookie(holder, "query")?,
            (SessionCarrier::Source, _) => self.check_in_place_of_cookie(holder, "source")?,
            (_, PersistenceType::Header) => config.header = Some(self.header(name)?),
            (_, PersistenceType::Cookie) => {
                let mut cookie = CookieConfig::named(name);
                if let Some(path) = self.path {
                    path.clone_into(&mut cookie.path);
                }
                config.cookie = Some(cookie);
            }
        }
        let below = defaults.merged_over(&persistence.shape.defaults(holder));
        let annotated = overrides.merged_over(&below.only(|of| of.applies_to(holder)));
        let fields = persistence.fields.merged_over(&annotated);
        fields.apply(&mut config);
        if let (Some(query), Some(name)) = (&mut config.query, &persistence.name) {
            query.name.clone_from(name);
        }
        if overrides.rebalance.is_none() {
            drop_vain_rebalance(&mut config);
        }
        self.check_limits(&config)?;
        self.check(&config)?;
        Ok(PolicyDraft {
            config,
            is_unnamed: persistence.name.is_none(),
            scope: fields.scope.clone().unwrap_or_default(),
            split: fields.split.unwrap_or(SessionSplit::Keep),
            origins: self.origins(holder, &fields),
            former: Vec::new(),
        })
    }

    fn origins(&self, holder: SessionCarrier, fields: &SessionFields) -> Origins {
        let of_matches = self.path.is_some() && !matches!(fields.path, Some(CookiePath::At(_)));
        Origins::new(holder, |entry| {
            if !entry.is_set_in(fields) {
                None
            } else if entry.config == ["cookie.path"] && of_matches {
                Some(FieldSource::Matches)
            } else if entry.is_set_in(&self.persistence.fields) {
                Some(FieldSource::Persistence)
            } else if self.of_route.is_some_and(|route| entry.is_set_in(route)) {
                Some(FieldSource::Route)
            } else if entry.is_set_in(self.overrides) {
                Some(FieldSource::Annotations)
            } else if entry.is_set_in(self.defaults) {
                Some(FieldSource::Defaults)
            } else {
                Some(FieldSource::Shape)
            }
        })
    }

    pub(super) fn holder(&self) -> SessionCarrier {
        let of_cookie = |fields: &SessionFields| fields.in_place_of_cookie().filter(|_| self.persistence.is_cookie());
        if let Some(holder) = of_cookie(self.overrides) {
            return holder;
        }
        if self.mode() != CookieModeConfig::Insert {
            return SessionCarrier::Applications;
        }
        match of_cookie(&self.overrides.merged_over(self.defaults)) {
            Some(holder) => holder,
            None if self.persistence.is_cookie() => SessionCarrier::OwnCookie,
            None => SessionCarrier::OwnHeader,
        }
    }

    fn mode(&self) -> CookieModeConfig {
        self.overrides.mode.or(self.defaults.mode).unwrap_or_default()
    }

    /// Checks fields beside this annotation, as far as the filter's check does not.
    fn check_in_place_of_cookie(&self, holder: SessionCarrier, annotation: &str) -> Result<(), Vec<SessionFieldError>> {
        let PolicyInputs {
            persistence, overrides, ..
        } = *self;
        let none = format!("remove it with {annotation}");
        let refused = |of| matches!(of, FieldTarget::Cookie | FieldTarget::Carrier) && !of.applies_to(holder);
        let refused = overrides.set_of(refused);
        let mut faults: Vec<SessionFieldError> = refused
            .map(|field| SessionFieldError::annotation(&field.annotation(), none.as_str()))
            .collect();
        if holder == SessionCarrier::Query && overrides.source.as_ref().is_some_and(|source| source.0.is_some()) {
            faults.push(SessionFieldError::annotation("source", none));
        }
        if overrides.mode.is_some_and(|mode| mode != CookieModeConfig::Insert) {
            let message = format!("expected insert, or none, with {annotation}");
            faults.push(SessionFieldError::annotation("mode", message));
        }
        // The API server fills in the defaults of both fields.
        let is_permanent = persistence.fields.lifetime_type == Some(LifetimeTypeConfig::Permanent);
        let has_path = matches!(persistence.fields.path, Some(CookiePath::At(_)));
        for (is_wrong, field, expected) in [
            (is_permanent, "cookie.lifetimeType", "Session"),
            (has_path, "cookie.path", "/"),
        ] {
            if is_wrong {
                let message = format!("expected {expected}, or none, with the annotation {annotation}");
                faults.push(self.fault(field, &message));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The Gateway API's rules for timeouts, and the controller's limits of timeouts and tables.
    fn check_limits(&self, policy: &PolicyConfig) -> Result<(), Vec<SessionFieldError>> {
        let mut faults = Vec::new();
        for (field, timeout) in [
            ("absoluteTimeout", policy.absolute_timeout),
            ("idleTimeout", policy.idle_timeout),
            ("source.timeout", policy.source.map(|source| source.timeout)),
        ] {
            let longest = self.limits.life;
            if let Some(timeout) = timeout.filter(|timeout| *timeout > longest) {
                let message = format!(
                    "expected at most {longest}, the maxSessionLife of the controller's configuration, found {timeout}"
                );
                faults.push(self.fault(field, &message));
            }
        }
        let most = self.limits.source_entries;
        if let Some(source) = policy.source.filter(|source| source.entries > most) {
            let message = format!(
                "expected at most {most}, the maxSourceEntries of the controller's configuration, found {}",
                source.entries
            );
            faults.push(self.fault("source.entries", &message));
        }
        let lifetime = policy.cookie.as_ref().map(|cookie| cookie.lifetime_type);
        if lifetime == Some(LifetimeTypeConfig::Permanent) && policy.absolute_timeout.is_none() {
            let message = "expected a duration, because the cookie's lifetimeType is Permanent";
            faults.push(SessionFieldError::persistence("absoluteTimeout", message));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn header(&self, name: &str) -> Result<HeaderConfig, Vec<SessionFieldError>> {
        let of_cookies = self.overrides.set_of(FieldTarget::is_for_cookies);
        let refused =
            of_cookies.map(|field| SessionFieldError::annotation(&field.annotation(), "remove it with type Header"));
        let faults: Vec<SessionFieldError> = refused.collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let mode = match self.mode() {
            CookieModeConfig::Insert => HeaderModeConfig::Insert,
            CookieModeConfig::Prefix => HeaderModeConfig::Prefix,
            CookieModeConfig::Rewrite => {
                let message = "expected insert or prefix, because the type is Header";
                return Err(vec![SessionFieldError::annotation("mode", message)]);
            }
        };
        Ok(HeaderConfig {
            name: name.to_owned(),
            mode,
            forward: false,
        })
    }

    /// The filter refuses a whole configuration for one bad policy, so none may be emitted.
    fn check(&self, policy: &PolicyConfig) -> Result<(), Vec<SessionFieldError>> {
        if let Some(problems) = refusal(policy) {
            let of_policy = |problem: &Problem| {
                let field = problem.field.strip_prefix("policies.policy.").unwrap_or_default();
                self.fault(field, &problem.message)
            };
            return Err(problems.iter().map(of_policy).collect());
        }
        if self.persistence.name.is_none() && policy.header.is_some() {
            self.check_beside_generated_header(policy)?;
        }
        match policy.domain().and_then(cookie_domain::problem) {
            Some(message) => Err(vec![self.fault("cookie.domain", &message)]),
            None => Ok(()),
        }
    }

    /// Refuses further headers that may have the name which the header of a scope gets.
    fn check_beside_generated_header(&self, policy: &PolicyConfig) -> Result<(), Vec<SessionFieldError>> {
        let also = policy.also.iter().enumerate();
        let also =
            also.filter_map(|(i, also)| Some((format!("also[{i}].header.name"), also.header.as_ref()?.name.as_str())));
        let tell = policy.tell.iter();
        let tell = tell.map(|tell| ("tell.header.name".to_owned(), tell.header.name.as_str()));
        let generated = |name: &str| name.to_ascii_lowercase().starts_with(GENERATED_HEADER);
        let names = also.chain(tell).filter(|(_, name)| generated(name));
        let message = format!(
            "expected a header that does not begin with {GENERATED_HEADER}, as the sessions' own one does without a \
             sessionName"
        );
        let faults: Vec<SessionFieldError> = names.map(|(field, _)| self.fault(&field, &message)).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn fault(&self, field: &str, message: &str) -> SessionFieldError {
        let below = SessionField::of_config(field).map(|(_, below)| below);
        let place = self.place(field);
        let message = match below.filter(|below| !below.is_empty()) {
            Some(below) if matches!(place, ObjectField::Annotation(_) | ObjectField::Default(_)) => {
                format!("{below}: {message}")
            }
            _ => message.to_owned(),
        };
        SessionFieldError { place, message }
    }

    /// The field of the object that sets this field of the filter's policy.
    fn place(&self, field: &str) -> ObjectField {
        let persistence = ObjectField::Persistence;
        let is_name = ["cookie.name", "header.name"].contains(&field);
        if is_name || field == "query.name" && self.persistence.name.is_some() {
            return persistence(self.persistence.name_field());
        }
        if field == "cookie.path" && self.path.is_some() {
            return ObjectField::Matches;
        }
        let Some((entry, _)) = SessionField::of_config(field) else {
            return persistence("");
        };
        match self.persistence.field_of(entry) {
            Some(field) => persistence(field),
            None if !entry.is_set_in(self.overrides) && entry.is_set_in(self.defaults) => {
                ObjectField::Default(entry.annotation())
            }
            None => ObjectField::Annotation(entry.annotation()),
        }
    }
}

impl PolicyDraft {
    /// The cookie's name differs from other scopes' with `per_scope`.
    pub(super) fn of_scope(&self, scope: &str, per_scope: bool) -> PolicyConfig {
        let mut config = self.config.clone();
        if let Some(cookie) = &mut config.cookie
            && cookie.mode == CookieModeConfig::Insert
        {
            cookie.per_scope = per_scope || self.is_unnamed;
        }
        if let Some(header) = &mut config.header
            && self.is_unnamed
        {
            header.name = generated_header(scope);
        }
        self.add_former(&mut config, scope);
        config
    }

    /// Adds former carriers for which there is room, and which mean nothing else now.
    fn add_former(&self, config: &mut PolicyConfig, scope: &str) {
        let own = (&config.cookie, &config.header, &config.query);
        let own = match own {
            (Some(cookie), ..) => Some((SessionCarrier::OwnCookie, cookie.name.clone())),
            (_, Some(header), _) => Some((SessionCarrier::OwnHeader, header.name.to_ascii_lowercase())),
            (.., query) => query.as_ref().map(|query| (SessionCarrier::Query, query.name.clone())),
        };
        let mut known: Vec<(SessionCarrier, String)> = config.also.iter().filter_map(of_further).chain(own).collect();
        for OwnCarrier { holder, name } in &self.former {
            let name = match (name, holder) {
                (Some(name), _) => name.clone(),
                (None, SessionCarrier::OwnHeader) => generated_header(scope),
                (None, _) => GENERATED_NAME.to_owned(),
            };
            let carrier = (*holder, name.clone());
            if config.also.len() < MAX_ALSO && !known.contains(&carrier) {
                known.push(carrier);
                config.also.push(former(*holder, name));
            }
        }
    }

    pub(super) fn former_note(&self) -> Option<String> {
        let words = |carrier: &OwnCarrier| {
            let what = match carrier.holder {
                SessionCarrier::OwnHeader => "header",
                SessionCarrier::Query => "parameter",
                _ => "cookie",
            };
            match &carrier.name {
                Some(name) => format!("{what} {name:?}"),
                None => format!("{what} without a name of its own"),
            }
        };
        let former: Vec<String> = self.former.iter().map(words).collect();
        // The model has no clock, so the remark outlives the tokens.
        let note = || {
            let former = former.join(" and ");
            format!(
                "tokens in the former {former} still count until they time out (the filter looks for them until there \
                 were two later names)"
            )
        };
        (!former.is_empty()).then(note)
    }

    pub(super) fn named_cookie(&self) -> Option<&CookieConfig> {
        let cookie = self.config.cookie.as_ref().filter(|_| !self.is_unnamed);
        cookie.filter(|cookie| cookie.mode == CookieModeConfig::Insert)
    }
}

fn refusal(policy: &PolicyConfig) -> Option<Vec<Problem>> {
    const NAME: &str = "policy";
    let a_while = Duration::from_secs(60).into();
    let config = FilterConfig {
        keys: None,
        wrapped_keys: None,
        sds_keys: Some(SdsKeysConfig {
            name: "keyring".to_owned(),
            sds_config: None,
        }),
        policies: BTreeMap::from([(NAME.to_owned(), policy.clone())]),
        routes: Vec::new(),
        default: None,
        access_log: false,
        report_sessions: None,
        max_idle: a_while,
        clock_skew: a_while,
        fences: Vec::new(),
        hosts: BTreeMap::new(),
    };
    Filter::without_keys(&config).err().map(|error| error.problems)
}

/// A default of `rebalance` is for sessions that live longer than that.
fn drop_vain_rebalance(config: &mut PolicyConfig) {
    let longest = config.idle_timeout.or(config.absolute_timeout);
    let after = config.rebalance;
    config.rebalance = after.filter(|after| longest.is_none_or(|longest| *after < longest));
}

fn former(holder: SessionCarrier, name: String) -> FurtherConfig {
    let field = |name| FurtherFieldConfig { name, forward: false };
    let mut further = FurtherConfig {
        cookie: None,
        header: None,
        query: None,
        former: true,
    };
    match holder {
        SessionCarrier::OwnHeader => further.header = Some(field(name)),
        SessionCarrier::Query => further.query = Some(FurtherParameterConfig { name, forward: false }),
        _ => further.cookie = Some(field(name)),
    }
    further
}

fn of_further(further: &FurtherConfig) -> Option<(SessionCarrier, String)> {
    let FurtherConfig {
        cookie, header, query, ..
    } = further;
    match (cookie, header) {
        (Some(cookie), _) => Some((SessionCarrier::OwnCookie, cookie.name.clone())),
        (_, Some(header)) => Some((SessionCarrier::OwnHeader, header.name.to_ascii_lowercase())),
        (None, None) => query.as_ref().map(|query| (SessionCarrier::Query, query.name.clone())),
    }
}

/// The name of a header without an explicit one. GEP-1619 requires a different one for each scope, and the filter
/// appends the scope to names of cookies only. Names that begin with `x-limpet-` are reserved.
fn generated_header(scope: &str) -> String {
    format!("{GENERATED_HEADER}{}", short_hash(scope.as_bytes()))
}
