//! The labels of an `XBackend`'s pods, which are the selector of a Service.

use std::collections::BTreeMap;

use limpet_api::XBackendSpec;

const FIELD: &str = "spec.endpointSelector.matchLabels";

/// The labels by which an `XBackend` selects its pods.
///
/// # Errors
/// If there are none, because a Service without a selector has no endpoints, or if the API server would refuse them in
/// a Service: the field, and what was expected.
pub fn pod_labels(spec: &XBackendSpec) -> Result<&BTreeMap<String, String>, String> {
    let labels = spec.endpoint_selector.as_ref().map(|selector| &selector.match_labels);
    let labels = labels.filter(|labels| !labels.is_empty());
    let labels = labels.ok_or_else(|| format!("{FIELD}: expected a label"))?;
    for (key, value) in labels {
        if !is_key(key) {
            return Err(format!(
                "{FIELD}: expected as the name of a label 1 to 63 letters, digits, '-', '_' and '.', with a letter or \
                 digit at both ends, and before it a DNS name and a slash or nothing, found {}",
                shown(key)
            ));
        }
        if !value.is_empty() && !is_name(value) {
            return Err(format!(
                "{FIELD}[{key}]: expected at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both \
                 ends, found {}",
                shown(value)
            ));
        }
    }
    Ok(labels)
}

/// As much of it as a status has room for.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    let rest = if start.len() < text.len() { "..." } else { "" };
    format!("{start:?}{rest}")
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    name.len() <= 63 && name.bytes().all(is_inner) && is_end(bytes.first()) && is_end(bytes.last())
}

/// A name of DNS in lower case (RFC 1123).
fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use limpet_api::EndpointSelector;

    use super::*;

    fn error(key: &str, value: &str) -> Option<String> {
        let spec = XBackendSpec {
            endpoint_selector: Some(EndpointSelector {
                match_labels: [(key.to_owned(), value.to_owned())].into(),
            }),
            ..XBackendSpec::default()
        };
        pod_labels(&spec).err()
    }

    #[test]
    fn labels_that_the_api_server_takes_are_taken() {
        let long = "a".repeat(63);
        for (key, value) in [
            ("app", "blue"),
            ("app", ""),
            ("A_b.c-9", "V1.2_x-3"),
            ("app.kubernetes.io/name", "shop"),
            (long.as_str(), long.as_str()),
            (&format!("{}/a", "a".repeat(253)), "1"),
        ] {
            assert_eq!(error(key, value), None, "{key} {value}");
        }
    }

    #[test]
    fn labels_that_the_api_server_refuses_were_asked_for_again_and_again() {
        let long = "a".repeat(64);
        for value in ["not valid!", "-a", "a-", ".", "\u{e9}", &long] {
            let error = error("app", value).unwrap();
            assert!(
                error.starts_with("spec.endpointSelector.matchLabels[app]: expected at most 63"),
                "{error}"
            );
        }
        for key in [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "A.b/c",
            "-a/b",
            "a..b/c",
            "a b",
            &long,
            &format!("{}/a", "a".repeat(254)),
        ] {
            let error = error(key, "1").unwrap();
            assert!(
                error.starts_with("spec.endpointSelector.matchLabels: expected as the name"),
                "{error}"
            );
        }
        assert!(error("app", &"a".repeat(10_000)).unwrap().len() < 400);
    }
}
