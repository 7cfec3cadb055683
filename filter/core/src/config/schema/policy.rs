//! `policies.<name>`
//!
//! **A field that is not set must not be written**, because the controller names a policy by a hash of its JSON: a new
//! field written with its default would rename every policy and its metrics. So a new field has
//!
//! - `#[serde(default, skip_serializing_if = "...")]`, where the function is true for the default;
//! - `schemars(extend("default" = ...))` unless it is an `Option`: schemars omits a default that serde skips.
//!
//! Fields without `skip_serializing_if` are older and stay, as does the order of fields
//! (`tests/configuration/policy_json.rs`, `tests/schema.rs`).

use serde::{Deserialize, Serialize};

use super::begin::{BeginConfig, EndConfig};
use super::moving::MoveConfig;
use super::source::SourceConfig;
use super::{FormerLagConfig, FurtherConfig, QueryConfig, TellConfig, is_false, word};
use crate::time::GatewayDuration;
use crate::token::CarrierMode;

#[cfg(feature = "schema")]
use super::constraints::{
    DOMAIN, TOKEN, a_query_is_told_or_redirected, an_end_needs_a_cookie_or_source, exactly_one, needs_secure,
    no_begin_in_other_modes, nothing_of_tokens_with_source, only_defaults_in_other_modes,
    only_what_needs_no_renewal_in_other_modes, permanent_needs_a_timeout,
};

/// How sessions of this policy persist. Exactly one of `cookie`, `header`, `query` and `source`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(extend(
        "oneOf" = exactly_one(&["cookie", "header", "query", "source"]),
        "allOf" = [
            permanent_needs_a_timeout(),
            only_what_needs_no_renewal_in_other_modes(),
            a_query_is_told_or_redirected(),
            nothing_of_tokens_with_source(),
            no_begin_in_other_modes(),
            an_end_needs_a_cookie_or_source(),
        ],
    ))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyConfig {
    /// The token travels in a cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<CookieConfig>,
    /// The token travels in a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderConfig>,
    /// The token travels in the query of URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryConfig>,
    /// Where a token is accepted, too, in this order, if the policy's own carrier brings none that counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = [], "maxItems" = crate::config::further_rules::MAX_ALSO)))]
    pub also: Vec<FurtherConfig>,
    /// Where responses have every token that they issue, besides the policy's own carrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tell: Option<TellConfig>,
    /// The client's address holds the session, without a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceConfig>,
    /// When a session begins: which response a client without a session gets its first token with.
    #[serde(default, skip_serializing_if = "BeginConfig::is_always")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "always")))]
    pub begin: BeginConfig,
    /// When the application ends the session. The client's session cookie is deleted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndConfig>,
    /// Whether the application moves sessions to other backends, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#move: Option<MoveConfig>,
    /// How long a session was unused that may restart on another backend, if its own has more than its share of the
    /// sessions. The controller says how many may (`reportSessions`). Without it, none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<GatewayDuration>,
    /// Whether a request fails if the backend of its session is gone or unhealthy. If `false`, the request is
    /// load-balanced and the client gets a new token.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub strict: bool,
    /// The status of requests that fail because of `strict`, 400 to 599.
    #[serde(default = "service_unavailable", skip_serializing_if = "is_service_unavailable")]
    #[cfg_attr(feature = "schema", schemars(range(min = 400, max = 599), extend("default" = SERVICE_UNAVAILABLE)))]
    pub strict_status: u16,
    /// How long a session on one backend lasts, counted from its first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<GatewayDuration>,
    /// How long a session may stay unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<GatewayDuration>,
    /// How old tokens may be that were issued under a longer idle timeout, so that a shorter one ends no session that
    /// is in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = [])))]
    pub former_lags: Vec<FormerLagConfig>,
    /// Whether the content of tokens is hidden from clients.
    #[serde(default, deserialize_with = "word")]
    pub token: TokenConfig,
    /// What happens to the caching of a response that carries a token.
    #[serde(default, deserialize_with = "word")]
    pub cache_control: CacheControlConfig,
}

/// A policy without a carrier, otherwise with defaults.
impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            cookie: None,
            header: None,
            query: None,
            also: Vec::new(),
            tell: None,
            source: None,
            begin: BeginConfig::default(),
            end: None,
            r#move: None,
            rebalance: None,
            strict: false,
            strict_status: SERVICE_UNAVAILABLE,
            absolute_timeout: None,
            idle_timeout: None,
            former_lags: Vec::new(),
            token: TokenConfig::default(),
            cache_control: CacheControlConfig::default(),
        }
    }
}

impl PolicyConfig {
    /// The carrier mode and the name of the session; `None` without tokens.
    #[must_use]
    pub fn carrier(&self) -> Option<(CarrierMode, &str)> {
        match (&self.cookie, &self.header, &self.query) {
            (Some(CookieConfig { name, mode, .. }), None, None) => Some((
                match mode {
                    CookieModeConfig::Insert => CarrierMode::Cookie,
                    CookieModeConfig::Prefix => CarrierMode::CookiePrefix,
                    CookieModeConfig::Rewrite => CarrierMode::CookieRewrite,
                },
                name,
            )),
            (None, Some(HeaderConfig { name, mode, .. }), None) => Some((
                match mode {
                    HeaderModeConfig::Insert => CarrierMode::Header,
                    HeaderModeConfig::Prefix => CarrierMode::HeaderPrefix,
                },
                name,
            )),
            (None, None, Some(QueryConfig { name, .. })) => Some((CarrierMode::Query, name)),
            _ => None,
        }
    }

    /// The same with the former ones, before renamings.
    pub fn carriers(&self) -> impl Iterator<Item = (CarrierMode, &str)> {
        let former = self.also.iter().filter(|further| further.former);
        let former = former.filter_map(|further| match (&further.cookie, &further.header, &further.query) {
            (Some(cookie), ..) => Some((CarrierMode::Cookie, &*cookie.name)),
            (_, Some(header), _) => Some((CarrierMode::Header, &*header.name)),
            (.., query) => Some((CarrierMode::Query, &*query.as_ref()?.name)),
        });
        self.carrier().into_iter().chain(former)
    }

    /// Whether requests may be steered strictly, or otherwise. Moving sessions never are.
    #[must_use]
    pub fn may_steer(&self, strict: bool) -> bool {
        self.strict == strict || !strict && self.r#move.is_some()
    }

    /// The `Domain` of the filter's own cookie.
    #[must_use]
    pub fn domain(&self) -> Option<&str> {
        self.cookie.as_ref()?.domain.as_deref()
    }
}

/// The session cookie.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own in the configuration"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(
        extend("allOf" = [
            needs_secure("sameSite", &serde_json::json!("None")),
            needs_secure("partitioned", &serde_json::json!(true)),
        ]),
        transform = only_defaults_in_other_modes,
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CookieConfig {
    /// The name of the cookie (RFC 6265 token). The rules of the prefixes `__Secure-` and `__Host-` are checked.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
    /// How it is set. In modes other than `insert` the application sets it, and only `name` and `mode` may be set.
    #[serde(default, deserialize_with = "word")]
    pub mode: CookieModeConfig,
    /// The Path attribute, at most 1,024 characters.
    #[serde(default = "root")]
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 1024), regex(pattern = "^/[!-+\\--:<-~]*$"))
    )]
    pub path: String,
    /// The Domain attribute. Without it, the cookie belongs to the host of the request only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = DOMAIN)))]
    pub domain: Option<String>,
    /// Whether the cookie is Secure.
    #[serde(default, deserialize_with = "word")]
    pub secure: SecureConfig,
    /// Whether the cookie is hidden from scripts.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub http_only: bool,
    /// Whether browsers send the cookie with requests from other sites.
    #[serde(default, deserialize_with = "word")]
    pub same_site: SameSiteConfig,
    /// Whether browsers keep a cookie for each top-level site (CHIPS). Requires `secure: always`.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub partitioned: bool,
    /// How long a browser keeps the cookie.
    #[serde(default, deserialize_with = "word")]
    pub lifetime_type: LifetimeTypeConfig,
    /// Whether the name of the cookie ends in eight characters for its scope, as in `limpet-session~k3rp2x7a`. For a
    /// policy of several rules whose cookies have the same path, so that a client keeps one for each rule.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub per_scope: bool,
    /// Whether the backend sees the cookie.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

impl CookieConfig {
    /// A cookie of this name, otherwise with defaults.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            mode: CookieModeConfig::default(),
            path: root(),
            domain: None,
            secure: SecureConfig::default(),
            http_only: yes(),
            same_site: SameSiteConfig::default(),
            partitioned: false,
            lifetime_type: LifetimeTypeConfig::default(),
            per_scope: false,
            forward: false,
        }
    }
}

/// How the cookie is set, and where the token goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CookieModeConfig {
    /// The filter's own cookie, which the application does not see.
    #[default]
    Insert,
    /// The application's cookie. The token is put in front of its value, as `<token>~<value>`, and removed on requests.
    Prefix,
    /// The application's cookie. The token replaces its value.
    Rewrite,
}

/// Whether the cookie is Secure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SecureConfig {
    /// If the scheme of the request is https.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The `SameSite` attribute of the cookie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SameSiteConfig {
    /// Only with requests from the same site.
    #[default]
    Strict,
    /// Also with links and redirects from other sites.
    Lax,
    /// With every request. Requires `secure: always`.
    None,
}

/// How long a browser keeps the cookie (GEP-1619).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LifetimeTypeConfig {
    /// Until the browser's session ends: neither Expires nor Max-Age.
    #[default]
    Session,
    /// For the rest of `absoluteTimeout`, which is then required.
    Permanent,
}

/// The session header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(transform = only_defaults_in_other_modes))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderConfig {
    /// The name of the header. Case does not matter.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
    /// How the header is set.
    #[serde(default, deserialize_with = "word")]
    pub mode: HeaderModeConfig,
    /// Whether the backend sees the header. In mode `prefix` it sees its own value.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

/// How the header is set, and where the token goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum HeaderModeConfig {
    /// The filter's own header, which the application does not see.
    #[default]
    Insert,
    /// The application's header. The token is put in front of its value, as `<token>~<value>`, and removed on requests.
    Prefix,
}

/// Whether the content of tokens is hidden from clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TokenConfig {
    /// Nothing is readable.
    #[default]
    Sealed,
    /// Clients can read address and times. For debugging.
    Signed,
}

/// What happens to the caching of a response that carries a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CacheControlConfig {
    /// Every response that carries a token becomes `Cache-Control: private`.
    #[default]
    Private,
    /// Cache-Control stays as the backend sent it.
    Keep,
}

fn yes() -> bool {
    true
}

// serde passes the field by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_true(flag: &bool) -> bool {
    *flag
}

const SERVICE_UNAVAILABLE: u16 = 503;

fn service_unavailable() -> u16 {
    SERVICE_UNAVAILABLE
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_service_unavailable(status: &u16) -> bool {
    *status == SERVICE_UNAVAILABLE
}

fn root() -> String {
    "/".to_owned()
}
