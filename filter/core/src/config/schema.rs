//! The configuration as it is written. JSON names are in camel case; a field that is not listed is refused.

mod keys;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

pub use keys::{InlineKey, KeyConfig, KeyEncryptionKeyConfig, KeyStateConfig, SdsKeysConfig, WrappedKeysConfig};

use crate::time::GatewayDuration;
use crate::token::CarrierMode;

#[cfg(feature = "schema")]
use constraints::{
    DOMAIN, POLICY_NAME, TOKEN, exactly_one, needs_secure, no_forward_in_other_modes, no_idle_timeout_in_other_modes,
    nothing_else_in_other_modes, one_signs, pattern, permanent_needs_a_timeout,
};

/// Configuration of the Limpet filter, the same for every build of it. Exactly one of `keys`, `wrappedKeys` and `sdsKeys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["keys", "wrappedKeys", "sdsKeys"]))))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterConfig {
    /// The keyring. Exactly one key signs; every key verifies its own tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("contains" = one_signs(), "minContains" = 1, "maxContains" = 1)))]
    pub keys: Option<Vec<KeyConfig>>,
    /// The keyring, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrapped_keys: Option<WrappedKeysConfig>,
    /// The keyring in a secret that Envoy discovers. For the dynamic module, from Envoy 1.40 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sds_keys: Option<SdsKeysConfig>,
    /// Session policies by name. A name has letters, digits, `.`, `_` and `-`.
    #[cfg_attr(feature = "schema", schemars(extend("propertyNames" = pattern(POLICY_NAME))))]
    #[serde(deserialize_with = "each_once")]
    pub policies: BTreeMap<String, PolicyConfig>,
    /// Which policy applies to which route, for route tables that belong to somebody else. Route metadata, where there is any, wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteConfig>,
    /// The policy of routes that neither metadata nor `routes` names one for. Without it such routes are untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultConfig>,
    /// Whether what happened to each request's session is left for access logs, in the filter state `limpet.session`. It costs one host call per request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub access_log: bool,
    /// The idle bound of sessions whose policy has neither `idleTimeout` nor `absoluteTimeout`.
    #[serde(default = "seven_days")]
    pub max_idle: GatewayDuration,
    /// How far ahead of this clock a token's times may be, for Envoys whose clocks differ.
    #[serde(default = "one_minute")]
    pub clock_skew: GatewayDuration,
    /// Addresses that changed their owner: a token for one that was issued before is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fences: Vec<FenceConfig>,
}

impl FilterConfig {
    /// These policies, no keys yet, and everything else as it is by default.
    #[must_use]
    pub fn without_keys(policies: BTreeMap<String, PolicyConfig>) -> Self {
        Self {
            keys: None,
            wrapped_keys: None,
            sds_keys: None,
            policies,
            routes: Vec::new(),
            default: None,
            access_log: false,
            max_idle: seven_days(),
            clock_skew: one_minute(),
            fences: Vec::new(),
        }
    }
}

/// How sessions of this policy are kept. Exactly one of `cookie` and `header`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["cookie", "header"]), "allOf" = [permanent_needs_a_timeout(), no_idle_timeout_in_other_modes()])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyConfig {
    /// The token travels in a cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<CookieConfig>,
    /// The token travels in a header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderConfig>,
    /// Whether a request fails when its session's backend is gone or unhealthy. `false`: it is load-balanced and gets a new token.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub strict: bool,
    /// The status of a request that `strict` fails, 400 to 599.
    #[serde(default = "service_unavailable", skip_serializing_if = "is_service_unavailable")]
    #[cfg_attr(feature = "schema", schemars(range(min = 400, max = 599), extend("default" = SERVICE_UNAVAILABLE)))]
    pub strict_status: u16,
    /// How long a session on one backend lasts, counted from its first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<GatewayDuration>,
    /// How long a session survives unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<GatewayDuration>,
    /// Whether a token's content is hidden from the client.
    #[serde(default)]
    pub token: TokenConfig,
    /// What happens to the caching of a response that carries a token.
    #[serde(default)]
    pub cache_control: CacheControlConfig,
}

impl PolicyConfig {
    /// How this policy's tokens travel, and the session's name; `None` where that is not said, or said twice.
    #[must_use]
    pub fn carrier(&self) -> Option<(CarrierMode, &str)> {
        match (&self.cookie, &self.header) {
            (Some(CookieConfig { name, mode, .. }), None) => Some((
                match mode {
                    CookieModeConfig::Insert => CarrierMode::Cookie,
                    CookieModeConfig::Prefix => CarrierMode::CookiePrefix,
                    CookieModeConfig::Rewrite => CarrierMode::CookieRewrite,
                },
                name,
            )),
            (None, Some(HeaderConfig { name, mode, .. })) => Some((
                match mode {
                    HeaderModeConfig::Insert => CarrierMode::Header,
                    HeaderModeConfig::Prefix => CarrierMode::HeaderPrefix,
                },
                name,
            )),
            _ => None,
        }
    }
}

/// The session cookie.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a field of its own in the configuration"
)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("allOf" = [needs_secure("sameSite", &serde_json::json!("None")), needs_secure("partitioned", &serde_json::json!(true)), nothing_else_in_other_modes()])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CookieConfig {
    /// Its name (RFC 6265 token). The rules of the prefixes `__Secure-` and `__Host-` are checked.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
    /// Whose the cookie is. In modes other than `insert` it is the application's, and the fields below must be left out.
    #[serde(default)]
    pub mode: CookieModeConfig,
    /// Its Path, at most 1,024 characters.
    #[serde(default = "root")]
    #[cfg_attr(
        feature = "schema",
        schemars(length(max = 1024), regex(pattern = "^/[!-+\\--:<-~]*$"))
    )]
    pub path: String,
    /// Its Domain. Without one the cookie belongs to the request's host alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 253), regex(pattern = DOMAIN)))]
    pub domain: Option<String>,
    /// Whether it is Secure.
    #[serde(default)]
    pub secure: SecureConfig,
    /// Whether scripts cannot read it.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    pub http_only: bool,
    /// Whether it comes along from other sites.
    #[serde(default)]
    pub same_site: SameSiteConfig,
    /// Whether it is kept apart per top-level site (CHIPS). Requires `secure: always`.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub partitioned: bool,
    /// How long a browser keeps it.
    #[serde(default)]
    pub lifetime_type: LifetimeTypeConfig,
    /// Whether the cookie's name has eight characters of its scope's behind it, as `session~k3rp2x7a`: for a policy of several rules whose
    /// cookies have one path, so that a client keeps one for each.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub per_scope: bool,
    /// Whether the backend sees the cookie.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

impl CookieConfig {
    /// The cookie of this name, everything else being as it is by default.
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

/// Whose the cookie is, and where the token goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CookieModeConfig {
    /// A cookie of the filter's own, which the application does not see.
    #[default]
    Insert,
    /// The application's cookie: the token goes in front of its value, as `<token>~<value>`, and comes off again.
    Prefix,
    /// The application's cookie: the token takes the place of its value.
    Rewrite,
}

/// Whether the cookie is Secure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum SecureConfig {
    /// Where the request's scheme is https.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The cookie's `SameSite`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SameSiteConfig {
    /// Only with requests from the same site.
    #[default]
    Strict,
    /// Also with links and redirects that lead here from other sites.
    Lax,
    /// With every request. Requires `secure: always`.
    None,
}

/// How long a browser keeps the cookie (GEP-1619).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LifetimeTypeConfig {
    /// Until the browser ends its session: no Expires, no Max-Age.
    #[default]
    Session,
    /// For what is left of `absoluteTimeout`, which is then required.
    Permanent,
}

/// The session header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("allOf" = [no_forward_in_other_modes()])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderConfig {
    /// Its name, in any case.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub name: String,
    /// Whose the header is.
    #[serde(default)]
    pub mode: HeaderModeConfig,
    /// Whether the backend sees the header. In mode `prefix` it sees its own.
    #[serde(default, skip_serializing_if = "is_false")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    pub forward: bool,
}

/// Whose the header is, and where the token goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum HeaderModeConfig {
    /// A header of the filter's own, which the application does not see.
    #[default]
    Insert,
    /// The application's header: the token goes in front of its value, as `<token>~<value>`, and comes off again.
    Prefix,
}

/// Whether a token's content is hidden from the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum TokenConfig {
    /// Nothing is readable.
    #[default]
    Sealed,
    /// Address and times are readable, for debugging.
    Signed,
}

/// What happens to the caching of a response that carries a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum CacheControlConfig {
    /// A response that a shared cache could store becomes `Cache-Control: private`.
    #[default]
    Private,
    /// Cache-Control stays as the backend sent it.
    Keep,
}

/// The policy of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RouteConfig {
    /// The route's name in Envoy's route configuration.
    pub route: String,
    /// The virtual host's name, where the route's alone does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<String>,
    /// A name from `policies`.
    pub policy: String,
    /// The scope of its sessions; the route's name where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
}

/// The policy of all other routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DefaultConfig {
    /// A name from `policies`.
    pub policy: String,
    /// One scope for all these routes, so that they share sessions; without it each route has its own, by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 1024)))]
    pub scope: Option<String>,
}

/// An address that changed its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FenceConfig {
    /// An IP address, for all its ports, or `ip:port`, `[ip]:port`.
    pub address: String,
    /// Unix seconds: tokens for the address that were issued before are refused.
    pub not_before: u64,
}

/// A map whose names come once each. JSON leaves open which of two values counts; serde would take the last.
fn each_once<'de, D: serde::Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, V>, D::Error> {
    struct EachOnce<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> serde::de::Visitor<'de> for EachOnce<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, value)) = entries.next_entry::<String, V>()? {
                if map.contains_key(&name) {
                    let message = format!("expected each name once, found {name:?} again");
                    return Err(serde::de::Error::custom(message));
                }
                map.insert(name, value);
            }
            Ok(map)
        }
    }

    deserializer.deserialize_map(EachOnce(PhantomData))
}

fn yes() -> bool {
    true
}

// serde hands these the field by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_true(flag: &bool) -> bool {
    *flag
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
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

fn seven_days() -> GatewayDuration {
    std::time::Duration::from_secs(7 * 24 * 3600).into()
}

fn one_minute() -> GatewayDuration {
    std::time::Duration::from_secs(60).into()
}

impl Serialize for GatewayDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GatewayDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for GatewayDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$",
            "description": "A duration as the Gateway API writes it (GEP-2257), like 30m, 1h30m or 500ms."
        })
    }
}

/// What the types alone do not say, for the schema. `compile` has the last word; the schema's test compares the two.
#[cfg(feature = "schema")]
mod constraints {
    use serde_json::{Value, json};

    pub(super) const POLICY_NAME: &str = "^[A-Za-z0-9._-]{1,128}$";
    /// RFC 9110's `token`.
    pub(super) const TOKEN: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$";
    pub(super) const DOMAIN: &str =
        "^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";

    pub(super) fn pattern(pattern: &str) -> Value {
        json!({"pattern": pattern})
    }

    pub(super) fn exactly_one(fields: &[&str]) -> Value {
        fields.iter().map(|field| json!({"required": [field]})).collect()
    }

    /// A key without a state signs.
    pub(super) fn one_signs() -> Value {
        json!({"properties": {"state": {"const": "signing"}}})
    }

    pub(super) fn permanent_needs_a_timeout() -> Value {
        let permanent = json!({"properties": {"lifetimeType": {"const": "Permanent"}}, "required": ["lifetimeType"]});
        json!({
            "if": {"properties": {"cookie": permanent}, "required": ["cookie"]},
            "then": {"required": ["absoluteTimeout"]},
        })
    }

    pub(super) fn needs_secure(field: &str, value: &Value) -> Value {
        json!({
            "if": {"properties": {field: {"const": value}}, "required": [field]},
            "then": {"properties": {"secure": {"const": "always"}}, "required": ["secure"]},
        })
    }

    /// A mode in which cookie or header are the application's.
    fn other_mode() -> Value {
        json!({"properties": {"mode": {"enum": ["prefix", "rewrite"]}}, "required": ["mode"]})
    }

    pub(super) fn nothing_else_in_other_modes() -> Value {
        let bare = serde_json::to_value(super::CookieConfig::named("")).unwrap_or_default();
        // Written or left out as they are by default; what the default leaves out is `false`, or nothing at all.
        let mut constants: serde_json::Map<String, Value> = ["path", "secure", "sameSite", "lifetimeType"]
            .into_iter()
            .map(|field| (field.to_owned(), json!({"const": bare.get(field)})))
            .collect();
        for field in ["partitioned", "perScope", "forward"] {
            constants.insert(field.to_owned(), json!({"const": false}));
        }
        constants.insert("httpOnly".to_owned(), json!({"const": true}));
        constants.insert("domain".to_owned(), json!({"type": "null"}));
        json!({"if": other_mode(), "then": {"properties": constants}})
    }

    pub(super) fn no_forward_in_other_modes() -> Value {
        json!({"if": other_mode(), "then": {"properties": {"forward": {"const": false}}}})
    }

    pub(super) fn no_idle_timeout_in_other_modes() -> Value {
        let in_mode = |carrier: &str| json!({"properties": {carrier: other_mode()}, "required": [carrier]});
        json!({
            "if": {"anyOf": [in_mode("cookie"), in_mode("header")]},
            "then": {"properties": {"idleTimeout": {"type": "null"}}},
        })
    }
}
