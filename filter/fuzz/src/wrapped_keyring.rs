use limpet_core::keyring::wrapped::{MAX_TEXT_LEN, UnwrapError, WrappedKeyring, wrap};
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Keyring, Secret};

/// The key-encryption key of the corpus.
#[must_use]
pub fn key_encryption_key() -> Secret {
    Secret::new(std::array::from_fn(|i| 0x40 + u8::try_from(i).expect("32 bytes")))
}

/// Takes the bytes as a wrapped keyring, and as entries for one.
///
/// # Panics
/// If a property of wrapped keyrings does not hold.
pub fn wrapped_keyring(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        as_text(text);
    }
    as_entries(data);
}

fn opened(text: &str) -> Result<Vec<KeyEntry>, UnwrapError> {
    WrappedKeyring::parse(text)?.open(&key_encryption_key())
}

fn as_text(text: &str) {
    let Ok(entries) = opened(text) else {
        return;
    };
    assert!(
        (70..=MAX_TEXT_LEN).contains(&text.len()),
        "the length of a wrapped keyring"
    );
    let id = WrappedKeyring::parse(text)
        .expect("what opens can be parsed")
        .key_encryption_key();
    match wrap(&entries, id, &key_encryption_key()) {
        Ok(again) => assert_eq!(again, text, "one keyring has one text"),
        Err(_) => assert!(!is_keyring(&entries)),
    }
    let other = WrappedKeyring::parse(text).and_then(|wrapped| wrapped.open(&Secret::new([0; 32])));
    assert_eq!(other, Err(UnwrapError::BadSignature), "another key opens it");
    // Every position would take seconds.
    for at in (0..text.len()).step_by(text.len() / 70) {
        let mut changed = text.as_bytes().to_vec();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("what opens is ASCII");
        assert!(opened(&changed).is_err(), "changed at {at} it still opens");
    }
}

fn as_entries(data: &[u8]) {
    let entries: Vec<KeyEntry> = data
        .chunks_exact(3)
        .map(|bytes| {
            let state = KeyState::ALL[usize::from(bytes[1] % 4)];
            let has_secret = (state == KeyState::Revoked) == (bytes[1] >= 0xF0);
            KeyEntry {
                id: KeyId(bytes[0]),
                state,
                secret: has_secret.then(|| Secret::new([bytes[2]; 32])),
            }
        })
        .collect();
    let id = KeyId(data.len().to_le_bytes()[0]);
    let Ok(text) = wrap(&entries, id, &key_encryption_key()) else {
        return assert!(!is_keyring(&entries), "a keyring is not wrapped");
    };
    assert!(is_keyring(&entries), "what is no keyring is wrapped");
    let mut sorted = entries;
    sorted.sort_by_key(|entry| entry.id);
    let wrapped = WrappedKeyring::parse(&text).expect("our own text");
    assert_eq!(wrapped.key_encryption_key(), id);
    assert_eq!(opened(&text).as_ref(), Ok(&sorted), "it holds what was put into it");
}

fn is_keyring(entries: &[KeyEntry]) -> bool {
    Keyring::from_entries(entries).is_ok()
}
