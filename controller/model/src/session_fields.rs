//! The table of session fields that objects have no field for, or not in every release. Annotations and the
//! controller's `sessionDefaults` set them.
//!
//! Each field has one entry. Everything else follows from it: the name of the annotation (`same-site` for `same_site`),
//! the name in `sessionDefaults` (`sameSite`), the accepted values and the message for others, precedence, what is
//! refused for a header, and which annotation a problem of the filter's own check is reported on. The tests go through
//! the table and fail for a field that they do not cover.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use limpet_core::config::schema::{
    CacheControlConfig, CookieConfig, CookieModeConfig, LifetimeTypeConfig, PolicyConfig, SameSiteConfig, SecureConfig,
    TokenConfig,
};
use limpet_core::time::GatewayDuration;

/// What a cookie's path is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum CookiePath {
    /// `/`, as current releases of the GEP require.
    #[default]
    Root,
    /// Derived from the matches of a rule with `sessionPersistence`, as older releases of the GEP require.
    Route,
    /// This one.
    At(String),
}

const PATHS: &str = "root, route or a path like /shop";

impl From<CookiePath> for String {
    fn from(path: CookiePath) -> Self {
        match path {
            CookiePath::Root => "root".to_owned(),
            CookiePath::Route => "route".to_owned(),
            CookiePath::At(path) => path,
        }
    }
}

impl TryFrom<String> for CookiePath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "route" => Ok(Self::Route),
            "root" => Ok(Self::Root),
            path if path.starts_with('/') => Ok(Self::literal(path)),
            _ => Err(format!("expected {PATHS}, found {text:?}")),
        }
    }
}

impl CookiePath {
    /// The path itself, valid or not.
    pub(crate) fn literal(path: &str) -> Self {
        if path == "/" {
            Self::Root
        } else {
            Self::At(path.to_owned())
        }
    }
}

macro_rules! session_fields {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty {
        values: $values:expr,
        read: $read:expr,
        of: $of:ident,
        config: [$($config:literal),*],
        set: $set:expr,
    })+) => {
        /// Field by field, what `sessionPersistence` says takes precedence over a route's annotations, these over a
        /// policy's, and these over the controller's `sessionDefaults`.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct SessionFields {
            $($(#[doc = $doc])+ pub $field: Option<$type>,)+
        }

        impl SessionField {
            /// The table.
            pub(crate) const ALL: &'static [Self] = &[$(Self {
                name: stringify!($field),
                values: $values,
                of: Of::$of,
                config: &[$($config),*],
                read: |fields, text| {
                    let read: fn(&str) -> Option<$type> = $read;
                    fields.$field = read(text);
                    fields.$field.is_some()
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
        values: Values::Like("a status from 400 to 599", &["400", "599"]),
        read: status,
        of: Policy,
        config: ["strictStatus"],
        set: |policy, status| policy.strict_status = status,
    }
    /// The cookie's `SameSite`.
    same_site: SameSiteConfig {
        values: Values::Words(&["Strict", "Lax", "None"]),
        read: word,
        of: Cookie,
        config: ["cookie.sameSite"],
        set: |policy, same_site| cookie(policy, |cookie| cookie.same_site = same_site),
    }
    /// Whether the cookie is Secure.
    secure: SecureConfig {
        values: Values::Words(&["auto", "always", "never"]),
        read: word,
        of: Cookie,
        config: ["cookie.secure"],
        set: |policy, secure| cookie(policy, |cookie| cookie.secure = secure),
    }
    /// The cookie's `Domain`.
    domain: String {
        values: Values::Like("a domain name like example.com", &["example.com", "example.org"]),
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
        values: Values::Like(PATHS, &["/shop", "root", "route"]),
        read: word,
        of: Cookie,
        config: ["cookie.path"],
        set: |policy, path| {
            // What is derived from the rule's matches is there already (`sessions/rules.rs`).
            if let CookiePath::At(path) = path {
                cookie(policy, |cookie| cookie.path = path);
            }
        },
    }
    /// Whether the cookie ends with the browser.
    lifetime_type: LifetimeTypeConfig {
        values: Values::Words(&["Session", "Permanent"]),
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
        values: Values::Words(&["sealed", "signed"]),
        read: word,
        of: Policy,
        config: ["token"],
        set: |policy, token| policy.token = token,
    }
    /// Who sets the cookie or header. For headers, `rewrite` is refused.
    mode: CookieModeConfig {
        values: Values::Words(&["insert", "prefix", "rewrite"]),
        read: word,
        of: Policy,
        config: [],
        // A header's mode is another type (`sessions/policy.rs`).
        set: |policy, mode| cookie(policy, |cookie| cookie.mode = mode),
    }
    /// Whether the backend sees the cookie or header.
    forward: bool {
        values: FLAG,
        read: word,
        of: Carrier,
        config: ["cookie.forward", "header.forward"],
        set: |policy, forward| {
            cookie(policy, |cookie| cookie.forward = forward);
            if let Some(header) = &mut policy.header {
                header.forward = forward;
            }
        },
    }
    /// What happens to the caching of a response that carries a token.
    cache_control: CacheControlConfig {
        values: Values::Words(&["private", "keep"]),
        read: word,
        of: Policy,
        config: ["cacheControl"],
        set: |policy, cache_control| policy.cache_control = cache_control,
    }
}

const DURATION: Values = Values::Like("a duration like 30m, 1h30m or 500ms", &["1h30m", "2s"]);
const FLAG: Values = Values::Words(&["true", "false"]);

/// Which sessions a field applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// All sessions.
    Policy,
    /// Sessions in the filter's own cookie or header. For the application's, defaults do not apply, and the filter's
    /// check refuses annotations.
    Carrier,
    /// Sessions in the filter's own cookie. Annotations are refused for a header.
    Cookie,
}

/// The values of an annotation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values {
    /// One of these words.
    Words(&'static [&'static str]),
    /// Values that the text describes, with at least two valid examples for the tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing but tests needs examples"))]
    Like(&'static str, &'static [&'static str]),
}

/// An entry of the table.
#[derive(Debug)]
pub(crate) struct SessionField {
    /// The field's name in Rust.
    name: &'static str,
    pub(crate) values: Values,
    pub(crate) of: Of,
    /// The fields of the filter's policy that it sets, as problems name them.
    pub(crate) config: &'static [&'static str],
    read: fn(&mut SessionFields, &str) -> bool,
    is_set: fn(&SessionFields) -> bool,
    contradicts: fn(&SessionFields, &SessionFields) -> bool,
    fill: fn(&mut SessionFields, &SessionFields),
    clear: fn(&mut SessionFields),
    apply: fn(&SessionFields, &mut PolicyConfig),
}

impl SessionField {
    /// The entry for a field of the filter's policy.
    pub(crate) fn of_config(field: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|entry| entry.config.contains(&field))
    }

    /// The entry for an annotation, named without the prefix.
    pub(crate) fn of_annotation(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|entry| entry.annotation() == name)
    }

    /// The annotation's name without the prefix.
    pub(crate) fn annotation(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The names of all annotations, sorted.
    pub(crate) fn annotations() -> Vec<String> {
        let mut names: Vec<String> = Self::ALL.iter().map(Self::annotation).collect();
        names.sort();
        names
    }

    /// Its values, for messages.
    pub(crate) fn expected(&self) -> String {
        match self.values {
            Values::Like(text, _) => text.to_owned(),
            Values::Words(words) => match words {
                [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                words => words.concat(),
            },
        }
    }

    /// Sets the field. Returns `false` if the text is not a valid value.
    pub(crate) fn read(&self, fields: &mut SessionFields, text: &str) -> bool {
        let is_known = match self.values {
            Values::Words(words) => words.contains(&text),
            Values::Like(..) => true,
        };
        is_known && (self.read)(fields, text)
    }

    /// Valid values that differ. For words, all of them.
    #[cfg(test)]
    pub(crate) fn examples(&self) -> &'static [&'static str] {
        match self.values {
            Values::Words(examples) | Values::Like(_, examples) => examples,
        }
    }
}

impl SessionFields {
    /// Whether no field is set.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the field is set.
    pub(crate) fn sets(&self, field: &SessionField) -> bool {
        (field.is_set)(self)
    }

    /// Whether the field of this annotation is set.
    pub(crate) fn has(&self, annotation: &str) -> bool {
        SessionField::of_annotation(annotation).is_some_and(|entry| (entry.is_set)(self))
    }

    /// The fields that are set here and below, and differ.
    pub(crate) fn contradicted<'f>(&'f self, below: &'f Self) -> impl Iterator<Item = &'static SessionField> + 'f {
        let both = |entry: &&SessionField| (entry.is_set)(self) && (entry.contradicts)(self, below);
        SessionField::ALL.iter().filter(both)
    }

    /// The fields that are set and are for cookies only.
    pub(crate) fn of_cookies(&self) -> impl Iterator<Item = &'static SessionField> {
        let entries = SessionField::ALL.iter().filter(|entry| entry.of == Of::Cookie);
        entries.filter(|entry| (entry.is_set)(self))
    }

    /// The same without the fields for cookies only.
    pub(crate) fn for_header(&self) -> Self {
        self.only(|of| of != Of::Cookie)
    }

    /// The defaults that apply to the application's cookie or header.
    pub(crate) fn for_applications_carrier(&self) -> Self {
        self.only(|of| of == Of::Policy)
    }

    fn only(&self, is_kept: impl Fn(Of) -> bool) -> Self {
        let mut fields = self.clone();
        for entry in SessionField::ALL.iter().filter(|entry| !is_kept(entry.of)) {
            (entry.clear)(&mut fields);
        }
        fields
    }

    /// These fields, with those of `below` where they are not set.
    pub(crate) fn over(&self, below: &Self) -> Self {
        let mut fields = self.clone();
        for entry in SessionField::ALL {
            (entry.fill)(&mut fields, below);
        }
        fields
    }

    /// Changes the policy by the fields that are set.
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

fn status(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let status = text.parse().ok().filter(|_| is_number)?;
    (400..=599).contains(&status).then_some(status)
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a word or flag as the filter's configuration does.
fn word<T: DeserializeOwned>(text: &str) -> Option<T> {
    let flag = text.parse().map(serde_json::Value::Bool);
    let value = flag.unwrap_or_else(|_| serde_json::Value::String(text.to_owned()));
    serde_json::from_value(value).ok()
}
