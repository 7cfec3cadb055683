//! The table of session fields that objects have no field for, or not in every release. Annotations and the
//! controller's `sessionDefaults` set them.
//!
//! From a field's entry follow the name of the annotation (`same-site` for `same_site`), the name in
//! `sessionDefaults` (`sameSite`), values and messages, precedence, what is refused for a header, and the annotation
//! that a problem of the filter's own check is reported on.
//!
//! A field that is more than a word is the filter's own, in YAML.

mod cookie_path;
mod sharing;
mod values;

use serde::{Deserialize, Serialize};

use limpet_core::config::schema::{
    BeginConfig, CacheControlConfig, CookieConfig, CookieModeConfig, EndConfig, FurtherConfig, LifetimeTypeConfig,
    MoveConfig, PolicyConfig, QueryConfig, SameSiteConfig, SecureConfig, SourceConfig, TellConfig, TokenConfig,
};
use limpet_core::time::GatewayDuration;

pub use cookie_path::CookiePath;
use cookie_path::PATHS;
pub(crate) use sharing::scope;
pub use sharing::{ScopeName, SessionScope, SessionSplit};
pub(crate) use values::FieldValues;
pub use values::ValueOrNone;
use values::{DURATION, FLAG, ValueError, non_empty, or_none, status, word, yaml, yaml_or_none};

macro_rules! session_fields {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty {
        values: $values:expr,
        read: $read:expr,
        of: $of:ident,
        config: [$($config:literal),*],
        set: $set:expr,
    })+) => {
        /// Fields of sessions. `sessionPersistence` overrides a route's annotations, these a policy's, and these the
        /// controller's `sessionDefaults`.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct SessionFields {
            $($(#[doc = $doc])+ pub $field: Option<$type>,)+
        }

        impl SessionField {
            pub(crate) const ALL: &'static [Self] = &[$(Self {
                name: stringify!($field),
                values: $values,
                of: FieldTarget::$of,
                config: &[$($config),*],
                read: |fields, text| {
                    let read: fn(&str) -> Result<$type, ValueError> = $read;
                    fields.$field = Some(read(text)?);
                    Ok(())
                },
                is_set: |fields| fields.$field.is_some(),
                contradicts: |above, below| below.$field.is_some() && above.$field != below.$field,
                fill: |fields, below| {
                    if fields.$field.is_none() {
                        fields.$field.clone_from(&below.$field);
                    }
                },
                clear: |fields| fields.$field = None,
                apply: |fields, policy| {
                    let set: fn(&mut PolicyConfig, $type) = $set;
                    if let Some(value) = fields.$field.clone() {
                        set(policy, value);
                    }
                },
            },)+];
        }
    };
}

session_fields! {
    /// Whether a request fails if the backend of its session is gone.
    strict: bool {
        values: FLAG,
        read: word,
        of: Policy,
        config: ["strict"],
        set: |policy, strict| policy.strict = strict,
    }
    /// The status of a request that `strict` fails.
    strict_status: u16 {
        values: FieldValues::Like("a status from 400 to 599", &["400", "599"]),
        read: status,
        of: Policy,
        config: ["strictStatus"],
        set: |policy, status| policy.strict_status = status,
    }
    /// The cookie's `SameSite`.
    same_site: SameSiteConfig {
        values: FieldValues::Words(&["Strict", "Lax", "None"]),
        read: word,
        of: Cookie,
        config: ["cookie.sameSite"],
        set: |policy, same_site| cookie(policy, |cookie| cookie.same_site = same_site),
    }
    /// Whether the cookie is Secure.
    secure: SecureConfig {
        values: FieldValues::Words(&["auto", "always", "never"]),
        read: word,
        of: Cookie,
        config: ["cookie.secure"],
        set: |policy, secure| cookie(policy, |cookie| cookie.secure = secure),
    }
    /// The cookie's `Domain`.
    domain: String {
        values: FieldValues::Like("a domain name like example.com", &["example.com", "example.org"]),
        read: non_empty,
        of: Cookie,
        config: ["cookie.domain"],
        set: |policy, domain| cookie(policy, |cookie| cookie.domain = Some(domain)),
    }
    /// Whether scripts can read the cookie.
    script_access: bool {
        values: FLAG,
        read: word,
        of: Cookie,
        config: ["cookie.httpOnly"],
        set: |policy, access| cookie(policy, |cookie| cookie.http_only = !access),
    }
    /// Whether browsers keep a cookie for each top-level site.
    partitioned: bool {
        values: FLAG,
        read: word,
        of: Cookie,
        config: ["cookie.partitioned"],
        set: |policy, partitioned| cookie(policy, |cookie| cookie.partitioned = partitioned),
    }
    /// The cookie's `Path`.
    path: CookiePath {
        values: FieldValues::Like(PATHS, &["/shop", "root", "route"]),
        read: word,
        of: Cookie,
        config: ["cookie.path"],
        set: |policy, path| {
            // The path of the rule's matches is there already (`sessions/rules.rs`).
            if let CookiePath::At(path) = path {
                cookie(policy, |cookie| cookie.path = path);
            }
        },
    }
    /// Whether the cookie ends with the browser.
    lifetime_type: LifetimeTypeConfig {
        values: FieldValues::Words(&["Session", "Permanent"]),
        read: word,
        of: Cookie,
        config: ["cookie.lifetimeType"],
        set: |policy, lifetime| cookie(policy, |cookie| cookie.lifetime_type = lifetime),
    }
    /// How long a session lasts.
    absolute_timeout: GatewayDuration {
        values: DURATION,
        read: word,
        of: Policy,
        config: ["absoluteTimeout"],
        set: |policy, timeout| policy.absolute_timeout = Some(timeout),
    }
    /// How long a session may stay unused.
    idle_timeout: GatewayDuration {
        values: DURATION,
        read: word,
        of: Carrier,
        config: ["idleTimeout"],
        set: |policy, timeout| policy.idle_timeout = Some(timeout),
    }
    /// Whether the content of tokens is hidden from clients.
    token: TokenConfig {
        values: FieldValues::Words(&["sealed", "signed"]),
        read: word,
        of: Token,
        config: ["token"],
        set: |policy, token| policy.token = token,
    }
    /// How the cookie or header is set. For headers, `rewrite` is refused.
    mode: CookieModeConfig {
        values: FieldValues::Words(&["insert", "prefix", "rewrite"]),
        read: word,
        of: Policy,
        config: [],
        // A header's mode is another type (`sessions/policy.rs`).
        set: |policy, mode| cookie(policy, |cookie| cookie.mode = mode),
    }
    /// Which rules share a session.
    scope: SessionScope {
        values: FieldValues::Like(SCOPES, &["service", "rule", "{name: basket}"]),
        read: scope,
        of: Rules,
        config: [],
        // Used by `sessions/scopes.rs`.
        set: |_, _| (),
    }
    /// What becomes of a session where its rule leads to several backends.
    split: SessionSplit {
        values: FieldValues::Words(&["keep", "choose"]),
        read: word,
        of: Rules,
        config: [],
        // Used by `sessions/scopes.rs`.
        set: |_, _| (),
    }
    /// When a session begins.
    begin: BeginConfig {
        values: FieldValues::Yaml("always", &["{cookie: SID, methods: [POST]}", "always"]),
        read: yaml,
        of: Own,
        config: ["begin"],
        set: |policy, begin| policy.begin = begin,
    }
    /// When the application ends the session.
    end: ValueOrNone<EndConfig> {
        values: or_none(&["{cookie: SID}", "{header: Clear-Site-Data}", "none"]),
        read: yaml_or_none,
        of: Deletable,
        config: ["end"],
        set: |policy, end| policy.end = end.0,
    }
    /// How the application moves a session.
    r#move: ValueOrNone<MoveConfig> {
        values: or_none(&["{header: x-move-session}", "none"]),
        read: yaml_or_none,
        of: Own,
        config: ["move"],
        set: |policy, moves| policy.r#move = moves.0,
    }
    /// How long a session was unused that may restart on a backend with fewer sessions.
    rebalance: ValueOrNone<GatewayDuration> {
        values: or_none(&["5m", "none"]),
        read: yaml_or_none,
        of: Carrier,
        config: ["rebalance"],
        set: |policy, rebalance| policy.rebalance = rebalance.0,
    }
    /// The token travels in the query of URLs, in place of the cookie.
    query: ValueOrNone<QueryConfig> {
        values: or_none(&["{name: session, redirects: true}", "none"]),
        read: yaml_or_none,
        of: InPlaceOfCookie,
        config: ["query"],
        set: |policy, query| policy.query = query.0,
    }
    /// The client's address holds the session, without a token, in place of the cookie.
    source: ValueOrNone<SourceConfig> {
        values: or_none(&["{timeout: 1h}", "none"]),
        read: yaml_or_none,
        of: InPlaceOfCookie,
        config: ["source"],
        set: |policy, source| policy.source = source.0,
    }
    /// Whether the backend sees the cookie, header or parameter.
    forward: bool {
        values: FLAG,
        read: word,
        of: Carrier,
        config: ["cookie.forward", "header.forward", "query.forward"],
        set: |policy, forward| {
            cookie(policy, |cookie| cookie.forward = forward);
            if let Some(header) = &mut policy.header {
                header.forward = forward;
            }
            if let Some(query) = &mut policy.query {
                query.forward |= forward;
            }
        },
    }
    /// What happens to the caching of a response that carries a token.
    cache_control: CacheControlConfig {
        values: FieldValues::Words(&["private", "keep"]),
        read: word,
        of: Token,
        config: ["cacheControl"],
        set: |policy, cache_control| policy.cache_control = cache_control,
    }
    /// Where a token is also accepted.
    also: Vec<FurtherConfig> {
        values: FieldValues::Yaml("[]", &["[{header: {name: x-session}}, {query: {name: session}}]", "[]"]),
        read: yaml,
        of: Token,
        config: ["also"],
        set: |policy, also| policy.also = also,
    }
    /// Where responses have every token, besides the policy's own carrier.
    tell: ValueOrNone<TellConfig> {
        values: or_none(&["{header: {name: x-session}}", "none"]),
        read: yaml_or_none,
        of: Token,
        config: ["tell"],
        set: |policy, tell| policy.tell = tell.0,
    }
}

const SCOPES: &str = "rule, service, or YAML like {name: basket}";

/// What holds a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionCarrier {
    /// A cookie of the filter's own.
    OwnCookie,
    /// A header of the filter's own.
    OwnHeader,
    /// The application's cookie or header.
    Applications,
    /// The query of URLs.
    Query,
    /// The client's address.
    Source,
}

/// The sessions that a field applies to. For others, annotations are refused and defaults do not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldTarget {
    Policy,
    /// Sessions of rules. Others belong to one backend.
    Rules,
    Token,
    /// Sessions that are not in the application's cookie or header.
    Own,
    Carrier,
    /// Sessions that can be taken from a client.
    Deletable,
    Cookie,
    /// Sessions whose type is Cookie. Only one of these fields counts.
    InPlaceOfCookie,
}

impl FieldTarget {
    pub(crate) fn is_for_cookies(self) -> bool {
        matches!(self, Self::Cookie | Self::Deletable | Self::InPlaceOfCookie)
    }

    pub(crate) fn applies_to(self, holder: SessionCarrier) -> bool {
        match self {
            Self::Policy | Self::Rules => true,
            Self::Token => holder != SessionCarrier::Source,
            Self::Own => holder != SessionCarrier::Applications,
            Self::Carrier => !matches!(holder, SessionCarrier::Applications | SessionCarrier::Source),
            Self::Deletable => matches!(holder, SessionCarrier::OwnCookie | SessionCarrier::Source),
            Self::Cookie => holder == SessionCarrier::OwnCookie,
            Self::InPlaceOfCookie => matches!(holder, SessionCarrier::Query | SessionCarrier::Source),
        }
    }
}

#[derive(Debug)]
pub(crate) struct SessionField {
    /// The name in Rust.
    name: &'static str,
    pub(crate) values: FieldValues,
    pub(crate) of: FieldTarget,
    pub(crate) config: &'static [&'static str],
    read: fn(&mut SessionFields, &str) -> Result<(), ValueError>,
    is_set: fn(&SessionFields) -> bool,
    contradicts: fn(&SessionFields, &SessionFields) -> bool,
    fill: fn(&mut SessionFields, &SessionFields),
    clear: fn(&mut SessionFields),
    apply: fn(&SessionFields, &mut PolicyConfig),
}

impl SessionField {
    /// The entry for a field of the filter's policy, and the rest of the field's path.
    pub(crate) fn of_config(field: &str) -> Option<(&'static Self, &str)> {
        let below = |config: &&str| {
            let rest = field.strip_prefix(*config)?;
            let is_below = rest.is_empty() || rest.starts_with(['.', '[']);
            is_below.then(|| rest.trim_start_matches('.'))
        };
        Self::ALL
            .iter()
            .find_map(|entry| Some((entry, entry.config.iter().find_map(below)?)))
    }

    pub(crate) fn is_set_in(&self, fields: &SessionFields) -> bool {
        (self.is_set)(fields)
    }

    /// `name` is without the prefix.
    pub(crate) fn of_annotation(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|entry| entry.annotation() == name)
    }

    /// The name without the prefix.
    pub(crate) fn annotation(&self) -> String {
        self.name.trim_start_matches("r#").replace('_', "-")
    }

    /// The names of all annotations, sorted.
    pub(crate) fn annotations() -> Vec<String> {
        let mut names: Vec<String> = Self::ALL.iter().map(Self::annotation).collect();
        names.sort();
        names
    }

    /// Sets the field.
    ///
    /// # Errors
    /// What was expected, and what was found.
    pub(crate) fn read(&self, fields: &mut SessionFields, text: &str) -> Result<(), String> {
        let read = if self.values.may_be(text) {
            (self.read)(fields, text)
        } else {
            Err(None)
        };
        read.map_err(|why| {
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("expected {}, found {}{why}", self.values.expected(), quoted(text))
        })
    }
}

/// As much of a text as a message has room for.
pub(crate) fn quoted(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{:?}…", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

impl SessionFields {
    /// Whether no field is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn sets(&self, field: &SessionField) -> bool {
        (field.is_set)(self)
    }

    pub(crate) fn has(&self, annotation: &str) -> bool {
        SessionField::of_annotation(annotation).is_some_and(|entry| (entry.is_set)(self))
    }

    pub(crate) fn contradicted<'f>(&'f self, below: &'f Self) -> impl Iterator<Item = &'static SessionField> + 'f {
        let both = |entry: &&SessionField| (entry.is_set)(self) && (entry.contradicts)(self, below);
        SessionField::ALL.iter().filter(both)
    }

    pub(crate) fn in_place_of_cookie(&self) -> Option<SessionCarrier> {
        match (&self.query, &self.source) {
            (Some(ValueOrNone(Some(_))), _) => Some(SessionCarrier::Query),
            (_, Some(ValueOrNone(Some(_)))) => Some(SessionCarrier::Source),
            _ => None,
        }
    }

    pub(crate) fn set_of(&self, is_meant: impl Fn(FieldTarget) -> bool) -> impl Iterator<Item = &'static SessionField> {
        let entries = SessionField::ALL.iter().filter(move |entry| is_meant(entry.of));
        entries.filter(|entry| (entry.is_set)(self))
    }

    pub(crate) fn only(&self, is_kept: impl Fn(FieldTarget) -> bool) -> Self {
        let mut fields = self.clone();
        for entry in SessionField::ALL.iter().filter(|entry| !is_kept(entry.of)) {
            (entry.clear)(&mut fields);
        }
        fields
    }

    /// These fields, from `below` where they are not set.
    pub(crate) fn merged_over(&self, below: &Self) -> Self {
        let mut fields = self.clone();
        let has_place = self.in_place_of_cookie().is_some();
        let filled = |entry: &&SessionField| !has_place || entry.of != FieldTarget::InPlaceOfCookie;
        for entry in SessionField::ALL.iter().filter(filled) {
            (entry.fill)(&mut fields, below);
        }
        fields
    }

    pub(crate) fn apply(&self, policy: &mut PolicyConfig) {
        for entry in SessionField::ALL {
            (entry.apply)(self, policy);
        }
    }
}

fn cookie(policy: &mut PolicyConfig, set: impl FnOnce(&mut CookieConfig)) {
    if let Some(cookie) = &mut policy.cookie {
        set(cookie);
    }
}
