use limpet_core::config::KeyringDocument;
use limpet_core::keyring::Keyring;

/// Takes the bytes as a keyring document.
///
/// # Panics
/// If a refusal has no message, or a document changes when it is written and read again, or shows a secret.
pub fn keyring_document(data: &[u8]) {
    let parsed = match KeyringDocument::parse(data) {
        Ok(parsed) => parsed,
        Err(error) => return crate::configuration::says_something(&error),
    };
    let value: Result<serde_json::Value, _> = serde_json::from_slice(data);
    assert!(value.is_ok(), "what is no JSON document is taken");
    let written = serde_json::to_vec(&parsed).expect("a keyring can be written");
    assert_eq!(
        KeyringDocument::parse(&written).as_ref(),
        Ok(&parsed),
        "written and read again"
    );
    let entries = parsed.entries();
    assert!(Keyring::from_entries(&entries).is_ok(), "it is a keyring");
    let shown = format!("{parsed:?} {entries:?}");
    for secret in entries.iter().filter_map(|entry| entry.secret.as_ref()) {
        assert!(!shown.contains(secret.to_base64().as_str()), "a secret is shown");
    }
}
