use limpet_core::Filter;
use limpet_core::config::{self, ConfigError};

/// Takes the bytes as a configuration.
///
/// # Panics
/// If a refusal has no message, or a configuration changes when it is written and read again.
pub fn configuration(data: &[u8]) {
    let parsed = match config::parse(data) {
        Ok(parsed) => parsed,
        Err(error) => return says_something(&error),
    };
    let value: Result<serde_json::Value, _> = serde_json::from_slice(data);
    assert!(value.is_ok(), "what is no JSON document is taken");
    let written = serde_json::to_vec(&parsed).expect("a configuration can be written");
    assert_eq!(config::parse(&written).as_ref(), Ok(&parsed), "written and read again");
    match Filter::new(&parsed, &|_| None) {
        Err(error) => says_something(&error),
        Ok((filter, warnings)) => {
            assert!(filter.policies().eq(parsed.policies.keys()), "every policy is in force");
            let keys = parsed
                .keys
                .as_ref()
                .expect("there is no environment, so none is wrapped");
            assert_eq!(
                warnings.len(),
                keys.len(),
                "there is no environment, so every key is inline"
            );
            for key in keys.iter().filter_map(|key| key.inline.as_ref()) {
                let shown = format!("{filter:?} {parsed:?} {warnings:?}");
                assert!(!shown.contains(key.0.trim()), "a key is shown");
            }
        }
    }
}

pub(crate) fn says_something(error: &ConfigError) {
    assert!(!error.problems.is_empty(), "refused for nothing");
    assert!(
        error.problems.iter().all(|problem| !problem.message.is_empty()),
        "{error:?}"
    );
}
