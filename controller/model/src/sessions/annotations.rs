//! Reads annotations, for what GEP-1619 has no field for.

use std::collections::BTreeMap;

use super::field_error::SessionFieldError;
use crate::remembered_sessions::session_annotations;
use crate::session_fields::{FieldTarget, SessionField, SessionFields, quoted};

/// Ignores annotations without our prefix.
///
/// # Errors
/// Each annotation that is unknown or has an invalid value.
pub(super) fn read(annotations: &BTreeMap<String, String>) -> Result<SessionFields, Vec<SessionFieldError>> {
    read_except(annotations, |_| false)
}

/// Reads for an object whose sessions are of no rule. `message`: what to write instead of a field of rules.
pub(super) fn read_without_rules(
    annotations: &BTreeMap<String, String>,
    message: &str,
) -> Result<SessionFields, Vec<SessionFieldError>> {
    let fields = read(annotations)?;
    let of_rules = fields.set_of(|of| of == FieldTarget::Rules);
    let faults: Vec<SessionFieldError> = of_rules
        .map(|field| SessionFieldError::annotation(&field.annotation(), message))
        .collect();
    if faults.is_empty() { Ok(fields) } else { Err(faults) }
}

/// As [`read`], without those that others read.
pub(super) fn read_except(
    annotations: &BTreeMap<String, String>,
    is_read: impl Fn(&str) -> bool,
) -> Result<SessionFields, Vec<SessionFieldError>> {
    let mut fields = SessionFields::default();
    let mut faults = Vec::new();
    let ours = session_annotations(annotations).filter(|(name, _)| !is_read(name));
    for (name, value) in ours {
        let unknown = || {
            let names = SessionField::annotations().join(", ");
            let found = quoted(value);
            format!("expected no annotation of this name, but one of {names}, found {found}")
        };
        let field = SessionField::of_annotation(name).ok_or_else(unknown);
        let read = field.and_then(|field| field.read(&mut fields, value));
        faults.extend(read.err().map(|message| SessionFieldError::annotation(name, message)));
    }
    if faults.is_empty() { Ok(fields) } else { Err(faults) }
}

/// The name in `sessionDefaults`: `sameSite` for `same-site`.
pub(super) fn camel_case(annotation: &str) -> String {
    let mut words = annotation.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut field, word| {
        let mut letters = word.chars();
        field.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        field.push_str(letters.as_str());
        field
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::sessions::field_error::PREFIX;
    use limpet_core::config::schema::PolicyConfig;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_annotation_is_read_and_others_are_left_alone() {
        let mut all = of(&[
            ("session.limpet.dev", "no"),
            ("session.limpet.devil/strict", "no"),
            ("kubectl.kubernetes.io/restartedAt", "today"),
        ]);
        assert_eq!(read(&all), Ok(SessionFields::default()));
        for field in SessionField::ALL {
            let name = field.annotation();
            for example in field.values.examples() {
                let read = read(&of(&[(&format!("{PREFIX}{name}"), example)])).unwrap();
                assert!(read.has(&name) && !read.is_empty(), "{name}: {example}");
                assert!(!SessionFields::default().has(&name), "{name}");
            }
            all.insert(format!("{PREFIX}{name}"), field.values.examples()[0].to_owned());
        }
        let read = read(&all).unwrap();
        let is_set = |field: &SessionField| read.has(&field.annotation());
        assert!(SessionField::ALL.iter().all(is_set), "{read:?}");
    }

    /// `mode` has its own code. `scope` and `split` say how a policy is used.
    #[test]
    fn a_field_sets_what_it_names_and_nothing_else() {
        let plain: PolicyConfig = serde_json::from_value(serde_json::json!({
            "cookie": {"name": "s", "path": "/"}, "header": {"name": "s"}, "query": {"name": "s"},
            "tell": {"header": {"name": "s"}}, "also": [{"cookie": {"name": "s"}}],
        }))
        .unwrap();
        for field in SessionField::ALL {
            let name = field.annotation();
            let mut set = BTreeSet::new();
            for example in field.values.examples() {
                let mut policy = plain.clone();
                let fields = read(&of(&[(&format!("{PREFIX}{name}"), example)])).unwrap();
                fields.apply(&mut policy);
                set.extend(differences(&policy, &plain));
            }
            match name.as_str() {
                "scope" | "split" => assert_eq!(set, BTreeSet::new(), "{name}"),
                "mode" => assert_eq!(set, BTreeSet::from(["cookie.mode".to_owned()])),
                name => {
                    assert!(
                        !set.is_empty(),
                        "{name}: an example must differ from what is there without it"
                    );
                    let is_named = |set: &String, config: &str| {
                        let below = set.strip_prefix(config);
                        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
                    };
                    let names = |set| field.config.iter().any(|config| is_named(set, config));
                    assert!(set.iter().all(names), "{name}: {set:?}");
                    let is_set = |config: &&str| set.iter().any(|set| is_named(set, config));
                    assert!(field.config.iter().all(is_set), "{name}: {set:?}");
                    let of_cookies = set.iter().all(|set| set.starts_with("cookie."));
                    assert_eq!(field.of == FieldTarget::Cookie, of_cookies, "{name}: {set:?}");
                }
            }
        }
    }

    /// The fields of the policies that differ, like `cookie.sameSite`.
    fn differences(one: &PolicyConfig, other: &PolicyConfig) -> BTreeSet<String> {
        fn flat(prefix: &str, value: &Value, into: &mut BTreeSet<(String, String)>) {
            match value {
                Value::Object(fields) => {
                    for (name, value) in fields {
                        flat(&format!("{prefix}{name}."), value, into);
                    }
                }
                value => {
                    into.insert((prefix.trim_end_matches('.').to_owned(), value.to_string()));
                }
            }
        }
        let [one, other] = [one, other].map(|policy| {
            let mut fields = BTreeSet::new();
            flat("", &serde_json::to_value(policy).unwrap(), &mut fields);
            fields
        });
        one.symmetric_difference(&other).map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn a_bad_annotation_is_named_with_what_was_expected() {
        let names = SessionField::annotations().join(", ");
        let unknown = format!("expected no annotation of this name, but one of {names}");
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
            (
                "path",
                "shop",
                "expected root, route or a path like /shop, found \"shop\"",
            ),
            ("path", "", "expected root, route or a path like /shop, found \"\""),
            (
                "lifetime-type",
                "permanent",
                "expected Session or Permanent, found \"permanent\"",
            ),
            (
                "idle-timeout",
                "1d",
                "expected a duration like 30m, 1h30m or 500ms, found \"1d\"",
            ),
            (
                "absolute-timeout",
                "",
                "expected a duration like 30m, 1h30m or 500ms, found \"\"",
            ),
            ("token", "plain", "expected sealed or signed, found \"plain\""),
            ("mode", "Insert", "expected insert, prefix or rewrite, found \"Insert\""),
            ("forward", "no", "expected true or false, found \"no\""),
            ("cache-control", "public", "expected private or keep, found \"public\""),
            (
                "tell",
                "{header: {nme: x-session}}",
                "expected none, or YAML like {header: {name: x-session}}, found \"{header: {nme: x-session}}\" \
                 (header.nme: unknown field `nme`, expected `name`)",
            ),
            (
                "tell",
                "x-session",
                "expected none, or YAML like {header: {name: x-session}}, found \"x-session\" (expected an \
                 object)",
            ),
            (
                "query",
                "{forward: true}",
                "expected none, or YAML like {name: session, redirects: true}, found \"{forward: true}\" \
                 (missing field `name`)",
            ),
            (
                "source",
                "{timeout: 0, entries: many}",
                "expected none, or YAML like {timeout: 1h}, found \"{timeout: 0, entries: many}\" (entries: invalid \
                 type: string \"many\", expected a whole number from 0 to 4294967295; timeout: invalid type: integer \
                 `0`, expected a string)",
            ),
            (
                "scope",
                "basket",
                "expected rule, service, or YAML like {name: basket}, found \"basket\" (expected an object)",
            ),
            (
                "scope",
                "{name: a/b}",
                "expected rule, service, or YAML like {name: basket}, found \"{name: a/b}\" (name: expected 1 to 63 \
                 letters, digits, -, _ and .)",
            ),
            ("split", "no", "expected keep or choose, found \"no\""),
            ("sameSite", "Lax", &format!("{unknown}, found \"Lax\"")),
        ] {
            let faults = read(&of(&[(&format!("{PREFIX}{name}"), value)]));
            assert_eq!(
                faults,
                Err(vec![SessionFieldError::annotation(name, message)]),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_long_text_is_refused_unread_and_quoted_in_part() {
        let text = format!("[{}]", "{header: {name: x}},".repeat(500));
        let faults = read(&of(&[(&format!("{PREFIX}also"), &text)])).unwrap_err();
        let message = &faults[0].message;
        assert!(message.ends_with("… (10002 bytes, expected at most 4096)"), "{message}");
        assert!(message.len() < 500, "{message}");
    }

    /// Within the limit of bytes, aliases make a million values of 250 bytes, for each build and each annotation.
    #[test]
    fn an_alias_is_refused_whatever_it_stands_for() {
        for text in [
            "[&a {header: {name: x}}, {query: {name: x}}]",
            "- &a {header: {name: x}}\n- *a",
            "- {header: &a {name: x}}\n- {query: *a}",
        ] {
            let faults = read(&of(&[(&format!("{PREFIX}also"), text)])).unwrap_err();
            let message = &faults[0].message;
            assert!(
                message.contains("(no anchors and aliases expected)"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn the_one_above_counts_field_by_field() {
        for field in SessionField::ALL {
            let name = field.annotation();
            let [one, other, ..] = field.values.examples() else {
                panic!("{name}: two examples, so that one can count over the other");
            };
            let [one, other] = [one, other].map(|value| read(&of(&[(&format!("{PREFIX}{name}"), value)])).unwrap());
            assert_ne!(one, other, "{name}");
            assert_eq!(one.merged_over(&other), one, "{name}");
            assert_eq!(SessionFields::default().merged_over(&other), other, "{name}");
            assert_eq!(one.merged_over(&SessionFields::default()), one, "{name}");
        }
    }

    #[test]
    fn the_field_of_the_defaults_is_named_like_the_annotation() {
        let Value::Object(fields) = serde_json::to_value(SessionFields::default()).unwrap() else {
            panic!("an object");
        };
        let names: Vec<String> = SessionField::annotations()
            .iter()
            .map(|name| camel_case(name))
            .collect();
        assert_eq!(fields.keys().cloned().collect::<Vec<_>>(), names);
    }
}
