//! What GEP-1619 has no field for, as annotations of the object that the sessions come from.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::fault::{Fault, PREFIX};
use crate::CookiePath;
use limpet_core::config::schema::{CacheControlConfig, CookieModeConfig, SameSiteConfig, SecureConfig, TokenConfig};

const FLAG: &str = "expected true or false";

/// Their names, and what is expected of each.
const EXPECTED: [(&str, &str); 12] = [
    ("cache-control", "expected private or keep"),
    ("domain", "expected a domain name like example.com"),
    ("forward", FLAG),
    ("mode", "expected insert, prefix or rewrite"),
    ("partitioned", FLAG),
    ("path", "expected root or route"),
    ("same-site", "expected Strict, Lax or None"),
    ("script-access", FLAG),
    ("secure", "expected auto, always or never"),
    ("strict", FLAG),
    ("strict-status", "expected a status from 400 to 599"),
    ("token", "expected sealed or signed"),
];

/// What annotations say in place of the defaults, field by field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Overrides {
    pub(super) strict: Option<bool>,
    pub(super) strict_status: Option<u16>,
    pub(super) same_site: Option<SameSiteConfig>,
    pub(super) secure: Option<SecureConfig>,
    pub(super) domain: Option<String>,
    pub(super) script_access: Option<bool>,
    pub(super) partitioned: Option<bool>,
    pub(super) path: Option<CookiePath>,
    pub(super) token: Option<TokenConfig>,
    pub(super) mode: Option<CookieModeConfig>,
    pub(super) forward: Option<bool>,
    pub(super) cache_control: Option<CacheControlConfig>,
}

/// Reads the annotations of ours; all others are other people's.
///
/// # Errors
/// Each that is not known, or has another value than those expected.
pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<Overrides, Vec<Fault>> {
    let mut read = Overrides::default();
    let mut faults = Vec::new();
    let ours = annotations
        .range(PREFIX.to_owned()..)
        .map_while(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())));
    for (name, value) in ours {
        if !read.set(name, value) {
            let known = EXPECTED.iter().find(|(known, _)| *known == name);
            let expected = known.map_or_else(unknown, |(_, expected)| (*expected).to_owned());
            faults.push(Fault::annotation(name, format!("{expected}, found {value:?}")));
        }
    }
    if faults.is_empty() { Ok(read) } else { Err(faults) }
}

fn unknown() -> String {
    let names: Vec<&str> = EXPECTED.iter().map(|(name, _)| *name).collect();
    format!("expected no annotation of this name, but one of {}", names.join(", "))
}

impl Overrides {
    /// Whether the annotation is known, and its value one of its own.
    fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            "strict" => put(&mut self.strict, flag(value)),
            "strict-status" => put(&mut self.strict_status, status(value)),
            "same-site" => put(&mut self.same_site, word(value)),
            "secure" => put(&mut self.secure, word(value)),
            "domain" => put(&mut self.domain, (!value.is_empty()).then(|| value.to_owned())),
            "script-access" => put(&mut self.script_access, flag(value)),
            "partitioned" => put(&mut self.partitioned, flag(value)),
            "path" => put(&mut self.path, word(value)),
            "token" => put(&mut self.token, word(value)),
            "mode" => put(&mut self.mode, word(value)),
            "forward" => put(&mut self.forward, flag(value)),
            "cache-control" => put(&mut self.cache_control, word(value)),
            _ => false,
        }
    }

    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the annotation is there.
    pub(super) fn has(&self, name: &str) -> bool {
        match name {
            "strict" => self.strict.is_some(),
            "strict-status" => self.strict_status.is_some(),
            "token" => self.token.is_some(),
            "mode" => self.mode.is_some(),
            "forward" => self.forward.is_some(),
            "cache-control" => self.cache_control.is_some(),
            name => self.of_cookies().contains(&name),
        }
    }

    /// Those that are there and mean nothing to a header.
    pub(super) fn of_cookies(&self) -> Vec<&'static str> {
        [
            ("domain", self.domain.is_some()),
            ("partitioned", self.partitioned.is_some()),
            ("path", self.path.is_some()),
            ("same-site", self.same_site.is_some()),
            ("script-access", self.script_access.is_some()),
            ("secure", self.secure.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, is_there)| is_there.then_some(name))
        .collect()
    }

    /// The same without what means nothing to a header.
    pub(super) fn for_header(&self) -> Self {
        Self {
            strict: self.strict,
            strict_status: self.strict_status,
            token: self.token,
            mode: self.mode,
            forward: self.forward,
            cache_control: self.cache_control,
            ..Self::default()
        }
    }

    /// These, and what `below` says where they say nothing.
    pub(super) fn over(&self, below: &Self) -> Self {
        Self {
            strict: self.strict.or(below.strict),
            strict_status: self.strict_status.or(below.strict_status),
            same_site: self.same_site.or(below.same_site),
            secure: self.secure.or(below.secure),
            domain: self.domain.clone().or_else(|| below.domain.clone()),
            script_access: self.script_access.or(below.script_access),
            partitioned: self.partitioned.or(below.partitioned),
            path: self.path.or(below.path),
            token: self.token.or(below.token),
            mode: self.mode.or(below.mode),
            forward: self.forward.or(below.forward),
            cache_control: self.cache_control.or(below.cache_control),
        }
    }
}

fn put<T>(slot: &mut Option<T>, value: Option<T>) -> bool {
    *slot = value;
    slot.is_some()
}

fn flag(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn status(value: &str) -> Option<u16> {
    let is_number = value.bytes().all(|b| b.is_ascii_digit());
    let status = value.parse().ok().filter(|_| is_number)?;
    (400..=599).contains(&status).then_some(status)
}

/// One of the words that the filter's configuration has.
fn word<T: DeserializeOwned>(value: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(value.to_owned())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_annotation_is_read_and_others_are_left_alone() {
        let all = of(&[
            ("session.limpet.dev", "no"),
            ("session.limpet.devil/strict", "no"),
            ("session.limpet.dev/cache-control", "keep"),
            ("session.limpet.dev/domain", "example.com"),
            ("session.limpet.dev/forward", "true"),
            ("session.limpet.dev/mode", "prefix"),
            ("session.limpet.dev/partitioned", "true"),
            ("session.limpet.dev/path", "route"),
            ("session.limpet.dev/same-site", "Lax"),
            ("session.limpet.dev/script-access", "true"),
            ("session.limpet.dev/secure", "always"),
            ("session.limpet.dev/strict", "false"),
            ("session.limpet.dev/strict-status", "599"),
            ("session.limpet.dev/token", "signed"),
            ("kubectl.kubernetes.io/restartedAt", "today"),
        ]);
        let expected = Overrides {
            strict: Some(false),
            strict_status: Some(599),
            same_site: Some(SameSiteConfig::Lax),
            secure: Some(SecureConfig::Always),
            domain: Some("example.com".to_owned()),
            script_access: Some(true),
            partitioned: Some(true),
            path: Some(CookiePath::Route),
            token: Some(TokenConfig::Signed),
            mode: Some(CookieModeConfig::Prefix),
            forward: Some(true),
            cache_control: Some(CacheControlConfig::Keep),
        };
        assert_eq!(read(&all), Ok(expected.clone()));
        for (name, _) in EXPECTED {
            assert!(expected.has(name), "{name}");
            assert!(!Overrides::default().has(name), "{name}");
        }
        assert!(Overrides::default().is_empty() && !expected.is_empty());
    }

    #[test]
    fn a_bad_annotation_is_named_with_what_was_expected() {
        for (name, value, message) in [
            ("strict", "yes", "expected true or false, found \"yes\""),
            ("strict", "True", "expected true or false, found \"True\""),
            (
                "strict-status",
                "399",
                "expected a status from 400 to 599, found \"399\"",
            ),
            (
                "strict-status",
                "+503",
                "expected a status from 400 to 599, found \"+503\"",
            ),
            ("strict-status", "", "expected a status from 400 to 599, found \"\""),
            ("same-site", "lax", "expected Strict, Lax or None, found \"lax\""),
            ("secure", "true", "expected auto, always or never, found \"true\""),
            ("domain", "", "expected a domain name like example.com, found \"\""),
            ("script-access", "1", "expected true or false, found \"1\""),
            ("partitioned", " true", "expected true or false, found \" true\""),
            ("path", "/shop", "expected root or route, found \"/shop\""),
            ("token", "plain", "expected sealed or signed, found \"plain\""),
            ("mode", "Insert", "expected insert, prefix or rewrite, found \"Insert\""),
            ("forward", "no", "expected true or false, found \"no\""),
            ("cache-control", "public", "expected private or keep, found \"public\""),
            (
                "sameSite",
                "Lax",
                "expected no annotation of this name, but one of cache-control, domain, forward, mode, partitioned, path, same-site, script-access, secure, strict, strict-status, token, found \"Lax\"",
            ),
        ] {
            let faults = read(&of(&[(&format!("{PREFIX}{name}"), value)]));
            assert_eq!(faults, Err(vec![Fault::annotation(name, message)]), "{name}: {value}");
        }
    }

    #[test]
    fn the_one_above_counts_field_by_field() {
        let below = read(&of(&[
            ("session.limpet.dev/strict", "true"),
            ("session.limpet.dev/domain", "example.com"),
        ]))
        .unwrap();
        let above = read(&of(&[("session.limpet.dev/strict", "false")])).unwrap();
        let both = above.over(&below);
        assert_eq!(both.strict, Some(false));
        assert_eq!(both.domain.as_deref(), Some("example.com"));
        assert_eq!(both.for_header(), above);
    }
}
