//! Checks the frozen vectors; `verify_vectors.py` is a second implementation.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::HashSet;
use std::time::Duration;

use limpet_core::fakes::{FakeRequest, FakeResponse};
use limpet_core::keyring::wrapped::{UnwrapError, WrappedKeyring, wrap};
use limpet_core::keyring::{Key, KeyEntry, KeyId, KeyState, Keyring, Secret};
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm, TokenRefusal, UnverifiedToken};
use limpet_core::{Filter, HeaderEdit};
use serde_json::{Value, json};

const TOKENS: &str = include_str!("vectors/token-v1.json");
const MODES: &str = include_str!("vectors/token-v1-modes.json");
const KEYRINGS: &str = include_str!("vectors/keyring-v1.json");
const TIMES: &str = include_str!("vectors/times-v1.json");

fn entries(file: &str, group: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    let entries = file[group].as_array().unwrap().clone();
    assert!(!entries.is_empty(), "no {group} entries");
    entries
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry[field]
        .as_str()
        .unwrap_or_else(|| panic!("no text {field} in {entry}"))
}

fn number(entry: &Value, field: &str) -> u64 {
    entry[field]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {field} in {entry}"))
}

fn time(entry: &Value, field: &str) -> Timestamp {
    Timestamp::from_unix_millis(number(entry, field))
}

fn bytes<const N: usize>(entry: &Value, field: &str) -> [u8; N] {
    let hex = text(entry, field);
    assert_eq!(hex.len(), 2 * N, "{field}");
    std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
}

fn key_id(entry: &Value) -> KeyId {
    KeyId(u8::try_from(number(entry, "keyId")).unwrap())
}

fn realm(entry: &Value) -> Realm {
    let mode = CarrierMode::ALL
        .into_iter()
        .find(|mode| mode.name() == text(entry, "mode"));
    let key = Key::new(key_id(entry), KeyState::Signing, &Secret::new(bytes(entry, "secret")));
    let keyring = Keyring::new(vec![key]).unwrap();
    Realm::new(
        &keyring,
        text(entry, "scope").as_bytes(),
        mode.unwrap(),
        text(entry, "sessionName"),
    )
}

fn word(refusal: TokenRefusal) -> &'static str {
    RequestOutcome::Refused(refusal)
        .as_str()
        .strip_prefix("refused.")
        .unwrap()
}

#[test]
fn every_valid_token_opens_and_seals() {
    let mut modes = HashSet::new();
    for entry in entries(TOKENS, "valid").into_iter().chain(entries(MODES, "valid")) {
        modes.insert(text(&entry, "mode").to_owned());
        let token = text(&entry, "token");
        let form = [PayloadForm::Sealed, PayloadForm::Signed]
            .into_iter()
            .find(|form| form.name() == text(&entry, "form"));
        let claims = Claims {
            host: text(&entry, "host").parse().unwrap(),
            destination: DestinationId::of_cluster(text(&entry, "cluster").as_bytes()),
            issued_at: time(&entry, "issuedAt"),
            last_seen: time(&entry, "lastSeen"),
        };
        assert_eq!(claims.destination.to_string(), text(&entry, "destination"), "{entry}");
        let opened = realm(&entry).open(token.as_bytes()).unwrap();
        assert_eq!(
            (opened.claims, opened.nonce),
            (claims, bytes(&entry, "nonce")),
            "{entry}"
        );
        assert_eq!(
            realm(&entry).seal(form.unwrap(), &claims, bytes(&entry, "nonce")),
            token,
            "{entry}"
        );

        let unverified = UnverifiedToken::parse(token.as_bytes()).unwrap();
        assert_eq!(
            (Some(unverified.form), unverified.key_id),
            (form, key_id(&entry)),
            "{entry}"
        );
        assert_eq!(
            unverified.claims,
            (form == Some(PayloadForm::Signed)).then_some(claims),
            "{entry}"
        );
    }
    assert_eq!(modes.len(), CarrierMode::ALL.len(), "each mode has a vector");
}

#[test]
fn every_refused_token_is_refused_for_its_reason() {
    let mut reasons = HashSet::new();
    for entry in entries(TOKENS, "refused") {
        let refusal = realm(&entry).open(text(&entry, "token").as_bytes()).unwrap_err();
        assert_eq!(word(refusal), text(&entry, "refusal"), "{entry}");
        reasons.insert(refusal);
    }
    let all = [
        TokenRefusal::Malformed,
        TokenRefusal::UnknownKey,
        TokenRefusal::BadSignature,
    ];
    assert_eq!(reasons, HashSet::from(all), "each reason has a vector");
}

fn state(entry: &Value) -> KeyState {
    match text(entry, "state") {
        "signing" => KeyState::Signing,
        "verifying" => KeyState::Verifying,
        "retiring" => KeyState::Retiring,
        "revoked" => KeyState::Revoked,
        other => panic!("{other} in {entry}"),
    }
}

fn kept(entry: &Value) -> Vec<KeyEntry> {
    let keys = entry["keys"].as_array().unwrap().iter();
    let kept = |key| KeyEntry {
        id: KeyId(u8::try_from(number(key, "id")).unwrap()),
        state: state(key),
        secret: key.get("secret").map(|_| Secret::new(bytes(key, "secret"))),
    };
    keys.map(kept).collect()
}

#[test]
fn every_valid_wrapped_keyring_opens_and_wraps() {
    for entry in entries(KEYRINGS, "valid") {
        let (id, secret) = (key_id(&entry), Secret::new(bytes(&entry, "secret")));
        let mut keys = kept(&entry);
        assert_eq!(wrap(&keys, id, &secret).unwrap(), text(&entry, "text"), "{entry}");
        let wrapped = WrappedKeyring::parse(text(&entry, "text")).unwrap();
        assert_eq!(wrapped.key_encryption_key(), id, "{entry}");
        keys.sort_by_key(|key| key.id);
        assert_eq!(wrapped.open(&secret).unwrap(), keys, "{entry}");
    }
}

#[test]
fn every_refused_wrapped_keyring_is_refused_for_its_reason() {
    let mut reasons = HashSet::new();
    for entry in entries(KEYRINGS, "refused") {
        let secret = Secret::new(bytes(&entry, "secret"));
        let outcome = match WrappedKeyring::parse(text(&entry, "text")) {
            Ok(wrapped) if wrapped.key_encryption_key() != key_id(&entry) => "unknown_key",
            parsed => match parsed.and_then(|wrapped| wrapped.open(&secret)).unwrap_err() {
                UnwrapError::Malformed => "malformed",
                UnwrapError::BadSignature => "bad_signature",
                UnwrapError::UnknownEntries => "unknown_entries",
                other => panic!("{other} for {entry}"),
            },
        };
        assert_eq!(outcome, text(&entry, "refusal"), "{entry}");
        reasons.insert(outcome);
    }
    assert_eq!(reasons.len(), 4, "each reason has a vector");
}

const HOST: &str = "192.0.2.1:80";
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn with_token(token: &str) -> FakeRequest {
    FakeRequest::new()
        .session("p/scope")
        .cluster("c")
        .header("x-session", token)
}

fn response() -> FakeResponse {
    FakeResponse::by(HOST).surely_as_asked().cluster("c").nonce([0x11; 4])
}

fn duration(entry: &Value, field: &str) -> Option<String> {
    let millis = entry.get(field)?.as_u64().unwrap();
    Some(GatewayDuration::from(Duration::from_millis(millis)).to_string())
}

fn filter(entry: &Value) -> Filter {
    let mut policy = json!({ "header": { "name": "x-session" } });
    for field in ["absoluteTimeout", "idleTimeout"] {
        if let Some(timeout) = duration(entry, field) {
            policy[field] = timeout.into();
        }
    }
    let fences = entry.get("notBefore").map(|not_before| {
        let millis = not_before.as_u64().unwrap();
        assert_eq!(millis % 1000, 0, "fences are written in seconds");
        json!({ "address": HOST, "notBefore": millis / 1000 })
    });
    let config = json!({
        "keys": [{ "id": 1, "inline": SECRET }],
        "policies": { "p": policy },
        "maxIdle": duration(entry, "maxIdle"),
        "clockSkew": duration(entry, "clockSkew"),
        "fences": fences.into_iter().collect::<Vec<_>>(),
    });
    Filter::from_json(config.to_string().as_bytes(), &|_| None).unwrap().0
}

fn what_happens(entry: &Value) -> &'static str {
    let secret = Secret::new(std::array::from_fn(|i| u8::try_from(i).unwrap()));
    let keyring = Keyring::new(vec![Key::new(KeyId(1), KeyState::Signing, &secret)]).unwrap();
    let claims = Claims {
        host: HOST.parse().unwrap(),
        destination: DestinationId::of_cluster(b"c"),
        issued_at: time(entry, "issuedAt"),
        last_seen: time(entry, "lastSeen"),
    };
    let token =
        Realm::new(&keyring, b"scope", CarrierMode::Header, "x-session").seal(PayloadForm::Sealed, &claims, [0; 4]);
    let (mut request, now) = (with_token(&token), time(entry, "now"));
    let mut session = filter(entry).session(&request).unwrap().unwrap();
    if let Some(RequestOutcome::Refused(refusal)) = session.on_request(&mut request, now).unwrap().outcome {
        return word(refusal);
    }
    let response = response();
    let plan = session.on_response(&response, || Ok(now)).unwrap();
    let tokens = plan
        .edits
        .iter()
        .filter(|edit| matches!(edit, HeaderEdit::Set("x-session", _)));
    match (plan.outcome, tokens.count()) {
        (ResponseOutcome::Unchanged, 0) => "ok",
        (ResponseOutcome::Renewed, 1) => "renewed",
        other => panic!("{other:?} for {entry}"),
    }
}

#[test]
fn the_rules_about_time_hold_to_the_millisecond() {
    for entry in entries(TIMES, "cases") {
        assert_eq!(what_happens(&entry), text(&entry, "outcome"), "{entry}");
    }
}

#[test]
fn a_renewed_token_is_of_the_same_session() {
    for entry in entries(TIMES, "renewals") {
        let (mut request, now) = (with_token(text(&entry, "token")), time(&entry, "now"));
        let mut session = filter(&entry).session(&request).unwrap().unwrap();
        let outcome = session.on_request(&mut request, now).unwrap().outcome;
        assert_eq!(outcome, Some(RequestOutcome::Steered), "{entry}");
        let response = response();
        let plan = session.on_response(&response, || Ok(now)).unwrap();
        let renewed = plan.edits.iter().find_map(|edit| match edit {
            HeaderEdit::Set("x-session", token) => Some(token.as_slice()),
            _ => None,
        });
        assert_eq!(renewed, Some(text(&entry, "renewed").as_bytes()), "{entry}");
    }
}
