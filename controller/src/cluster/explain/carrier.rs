//! What a client gets to see of a session.

use serde_json::{Value, json};

use limpet_core::carrier::cookie_name::CookieNames;
use limpet_core::config::schema::{CookieModeConfig, PolicyConfig, SecureConfig};
use limpet_core::config::session_cookie;
use limpet_core::time::Timestamp;
use limpet_core::token::CarrierMode;

/// In the place of a token.
const TOKEN: &str = "<token>";

/// The name under which a client has the token.
pub(super) fn name(config: &PolicyConfig, scope: &str) -> Option<String> {
    let (_, name) = config.carrier()?;
    Some(match &config.cookie {
        Some(cookie) if cookie.mode == CookieModeConfig::Insert => {
            let names = CookieNames::new(name, scope.as_bytes(), cookie.per_scope);
            names.current().to_owned()
        }
        _ => name.to_owned(),
    })
}

/// The lines of a response that give a client its session, each with when it is sent so.
pub(super) fn lines(config: &PolicyConfig, scope: &str, now: Timestamp) -> Vec<(&'static str, String)> {
    let (Some((mode, plain)), Some(name)) = (config.carrier(), name(config, scope)) else {
        return Vec::new();
    };
    match (mode, &config.cookie) {
        (CarrierMode::Cookie, Some(cookie)) => {
            let attributes = session_cookie(cookie, config.absolute_timeout);
            let line = |https| {
                let cookie = attributes.set_cookie(&name, TOKEN, now, now, https);
                format!("Set-Cookie: {cookie}")
            };
            match cookie.secure {
                SecureConfig::Auto => vec![("over HTTPS", line(true)), ("over HTTP", line(false))],
                SecureConfig::Always | SecureConfig::Never => vec![("", line(true))],
            }
        }
        (CarrierMode::CookiePrefix, _) => vec![(OF_APPLICATION, format!("Set-Cookie: {plain}={TOKEN}~<its value>"))],
        (CarrierMode::CookieRewrite, _) => vec![(OF_APPLICATION, format!("Set-Cookie: {plain}={TOKEN}"))],
        (CarrierMode::HeaderPrefix, _) => vec![(OF_APPLICATION, format!("{plain}: {TOKEN}~<its value>"))],
        (CarrierMode::Header, _) => vec![("", format!("{plain}: {TOKEN}"))],
        (CarrierMode::Query, _) => vec![("in URLs", format!("?{plain}={TOKEN}"))],
        (CarrierMode::Cookie, None) => Vec::new(),
    }
}

const OF_APPLICATION: &str = "where the application sets it, with its attributes";

/// What holds the session, in a word.
pub(super) fn kind(config: &PolicyConfig) -> &'static str {
    config.carrier().map_or("address", |(mode, _)| match mode {
        CarrierMode::Cookie | CarrierMode::CookiePrefix | CarrierMode::CookieRewrite => "cookie",
        CarrierMode::Header | CarrierMode::HeaderPrefix => "header",
        CarrierMode::Query => "query",
    })
}

/// Adds it to each session of an explanation in JSON.
pub(super) fn add(value: &mut Value, now: Timestamp) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add(item, now)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| add(field, now));
            let config = fields
                .get("config")
                .cloned()
                .map(serde_json::from_value::<PolicyConfig>);
            let scope = fields.get("scope").and_then(Value::as_str).map(str::to_owned);
            if let (Some(Ok(config)), Some(scope)) = (config, scope) {
                let lines = lines(&config, &scope, now);
                let lines = lines
                    .into_iter()
                    .map(|(when, line)| json!({"when": when, "line": line}));
                let carrier = json!({
                    "kind": kind(&config),
                    "name": name(&config, &scope),
                    "lines": lines.collect::<Vec<_>>(),
                });
                fields.insert("carrier".to_owned(), carrier);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: Value) -> PolicyConfig {
        serde_json::from_value(json).unwrap()
    }

    fn lines(config: Value) -> Vec<(&'static str, String)> {
        super::lines(
            &policy(config),
            "httproute/shop/shop/all",
            Timestamp::from_unix_seconds(0),
        )
    }

    #[test]
    fn a_cookie_has_all_its_attributes() {
        assert_eq!(
            lines(json!({"cookie": {"name": "s", "sameSite": "Lax", "domain": "example.com", "secure": "always"}})),
            [(
                "",
                "Set-Cookie: s=<token>; HttpOnly; SameSite=Lax; Secure; Path=/; Domain=example.com".to_owned()
            )]
        );
        let lasting = json!({"cookie": {"name": "s", "lifetimeType": "Permanent"}, "absoluteTimeout": "1h"});
        let lines = lines(lasting);
        assert_eq!(
            lines.iter().map(|(when, _)| *when).collect::<Vec<_>>(),
            ["over HTTPS", "over HTTP"]
        );
        assert!(
            lines[0].1.contains("; Secure") && lines[0].1.contains("Max-Age=3600"),
            "{lines:?}"
        );
        assert!(!lines[1].1.contains("; Secure"), "{lines:?}");
    }

    #[test]
    fn other_carriers_are_shown_as_clients_get_them() {
        for (config, line) in [
            (json!({"header": {"name": "x-s"}}), "x-s: <token>"),
            (
                json!({"header": {"name": "x-s", "mode": "prefix"}}),
                "x-s: <token>~<its value>",
            ),
            (
                json!({"cookie": {"name": "s", "mode": "rewrite"}}),
                "Set-Cookie: s=<token>",
            ),
            (json!({"query": {"name": "s", "redirects": true}}), "?s=<token>"),
        ] {
            assert_eq!(lines(config)[0].1, line);
        }
        assert!(lines(json!({"source": {}})).is_empty());
    }

    #[test]
    fn the_name_has_the_scope_where_the_policy_says_so() {
        let config = policy(json!({"cookie": {"name": "s", "perScope": true}}));
        let name = name(&config, "httproute/shop/shop/all").unwrap();
        assert!(name.starts_with("s~") && name.len() == 10, "{name}");
    }
}
