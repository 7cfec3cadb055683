#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test"
)]

use limpet_core::fakes::{FakeRequest, FakeResponse};
use limpet_core::token::UnverifiedToken;
use limpet_core::{HeaderEdit, config};

use super::*;

fn keyless() -> Filter {
    let config = br#"{
        "sdsKeys": {"name": "limpet"},
        "policies": {"web": {"header": {"name": "x-session"}}},
        "default": {"policy": "web", "scope": "default"}
    }"#;
    Filter::without_keys(&config::parse(config).unwrap()).unwrap()
}

fn discovered() -> DiscoveredFilter {
    DiscoveredFilter::new(crate::abi::SecretId::default())
}

fn secret(id: u8) -> Vec<u8> {
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    format!(r#"{{"keys": [{{"id": {id}, "state": "signing", "secret": "{key}"}}]}}"#).into_bytes()
}

#[track_caller]
fn signs_with(filter: Option<&Arc<Filter>>) -> u8 {
    let (mut request, response) = (FakeRequest::on_nameless_route(), FakeResponse::by("10.0.0.7:80"));
    let mut session = filter.expect("no keyring").session(&request).unwrap().unwrap();
    let now = limpet_core::time::Timestamp::from_unix_seconds(1_790_000_000);
    session.on_request(&mut request, now).unwrap();
    let plan = session.on_response(&response, || Ok(now)).unwrap();
    let token = plan.edits.into_iter().find_map(|edit| match edit {
        HeaderEdit::Set("x-session", token) => Some(token),
        _ => None,
    });
    UnverifiedToken::parse(&token.expect("no token")).unwrap().key_id.0
}

#[test]
fn there_is_no_keyring_until_the_secret_arrives() {
    let (discovered, keyless) = (discovered(), keyless());
    for nothing in [None, Some([].as_slice())] {
        assert!(discovered.filter(nothing, &keyless).unwrap().is_none());
    }
    let filter = discovered.filter(Some(&secret(1)), &keyless).unwrap();
    assert_eq!(signs_with(filter.as_ref()), 1);
    assert_eq!(signs_with(discovered.filter(None, &keyless).unwrap().as_ref()), 1);
}

#[test]
fn a_secret_is_parsed_once_and_a_new_one_replaces_it() {
    let (discovered, keyless) = (discovered(), keyless());
    let first = discovered.filter(Some(&secret(1)), &keyless).unwrap().unwrap();
    let again = discovered.filter(Some(&secret(1)), &keyless).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    let new = discovered.filter(Some(&secret(2)), &keyless).unwrap();
    assert_eq!(signs_with(new.as_ref()), 2);
}

#[test]
fn a_worker_with_the_old_secret_keeps_its_filter() {
    let (discovered, keyless) = (discovered(), keyless());
    let old = discovered.filter(Some(&secret(1)), &keyless).unwrap().unwrap();
    let new = discovered.filter(Some(&secret(2)), &keyless).unwrap().unwrap();
    for _ in 0..3 {
        assert!(Arc::ptr_eq(
            &old,
            &discovered.filter(Some(&secret(1)), &keyless).unwrap().unwrap()
        ));
        assert!(Arc::ptr_eq(
            &new,
            &discovered.filter(Some(&secret(2)), &keyless).unwrap().unwrap()
        ));
    }
}

#[test]
fn a_bad_secret_is_refused_once_and_the_old_keyring_stays() {
    let (discovered, keyless) = (discovered(), keyless());
    assert!(discovered.filter(Some(b"nonsense"), &keyless).is_err());
    assert!(discovered.filter(Some(b"nonsense"), &keyless).unwrap().is_none());
    discovered.filter(Some(&secret(1)), &keyless).unwrap();
    for i in 0..20 {
        let bad = format!("{{\"keys\": [{i}]}}");
        let error = discovered.filter(Some(bad.as_bytes()), &keyless).unwrap_err();
        assert_eq!(error.problems[0].field, "keys[0]", "{error}");
        for _ in 0..2 {
            let filter = discovered.filter(Some(bad.as_bytes()), &keyless).unwrap();
            assert_eq!(signs_with(filter.as_ref()), 1);
        }
        assert_eq!(signs_with(discovered.newest().as_ref()), 1);
    }
    assert_eq!(
        signs_with(discovered.filter(Some(&secret(2)), &keyless).unwrap().as_ref()),
        2
    );
}

#[test]
fn few_versions_are_kept() {
    let (discovered, keyless) = (discovered(), keyless());
    for id in 0..50 {
        discovered.filter(Some(&secret(id)), &keyless).unwrap();
        assert!(discovered.filter(Some(&[id]), &keyless).is_err());
    }
    assert_eq!(discovered.versions.read().unwrap().len(), 3);
}

#[test]
fn no_secret_is_shown() {
    let (discovered, keyless) = (discovered(), keyless());
    discovered.filter(Some(&secret(1)), &keyless).unwrap();
    let shown = format!("{discovered:?}");
    assert!(
        shown.contains("Version") && !shown.contains("MDEy") && !shown.contains("77, 68, 69"),
        "{shown}"
    );
}
