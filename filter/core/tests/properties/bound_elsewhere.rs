//! A token is valid for one scope, mode, name and key, even if the same bytes are divided differently.

use limpet_core::keyring::KeyId;
use limpet_core::token::{CarrierMode, PayloadForm, TokenRefusal};
use proptest::prelude::*;

use crate::token::{SECRET, claims, example, form, realm_of};

fn mode() -> impl Strategy<Value = CarrierMode> {
    prop_oneof![Just(CarrierMode::Cookie), Just(CarrierMode::Header)]
}

/// Few letters, so that two are often equal or nearly so.
fn scope() -> impl Strategy<Value = String> {
    "[ab]{0,1}|[a-z/é]{0,30}"
}

fn name() -> impl Strategy<Value = String> {
    "[abAB]{1,2}|[a-zA-Z_-]{1,30}"
}

#[test]
fn header_names_are_bound_in_lower_case_and_cookie_names_as_is() {
    for mode in CarrierMode::ALL {
        let realm = |name| realm_of(KeyId(5), SECRET, b"scope", mode, name);
        let token = realm("X-Session").seal(PayloadForm::Sealed, &example(), [0; 4]);
        let opens = realm("x-session").open(token.as_bytes()).is_ok();
        assert_eq!(opens, mode.name().starts_with("header"), "{mode:?}");
    }
}

proptest! {
    #[test]
    fn it_opens_only_where_it_is_bound(
        form in form(),
        claims in claims(),
        here in (scope(), mode(), name()),
        there in (scope(), mode(), name()),
    ) {
        let realm = |(scope, mode, name): &(String, CarrierMode, String)| {
            realm_of(KeyId(5), SECRET, scope.as_bytes(), *mode, name)
        };
        let bound = |(scope, mode, name): &(String, CarrierMode, String)| {
            let name = if *mode == CarrierMode::Header { name.to_ascii_lowercase() } else { name.clone() };
            (scope.clone(), *mode, name)
        };
        let opened = realm(&there).open(realm(&here).seal(form, &claims, [0; 4]).as_bytes());
        if bound(&here) == bound(&there) {
            prop_assert_eq!(opened.unwrap().claims, claims);
        } else {
            prop_assert_eq!(opened.unwrap_err(), TokenRefusal::BadSignature);
        }
    }

    #[test]
    fn bytes_do_not_move_between_scope_and_name(
        claims in claims(),
        text in "[a-z]{2,20}",
        a in 1..20usize,
        b in 1..20usize,
    ) {
        let (a, b) = (a.min(text.len() - 1), b.min(text.len() - 1));
        let realm = |at: usize| realm_of(KeyId(5), SECRET, &text.as_bytes()[..at], CarrierMode::Cookie, &text[at..]);
        let opened = realm(b).open(realm(a).seal(PayloadForm::Sealed, &claims, [0; 4]).as_bytes());
        prop_assert_eq!(opened.is_ok(), a == b);
    }

    #[test]
    fn a_token_opens_only_with_its_key(
        form in form(),
        claims in claims(),
        ids: (u8, u8),
        secrets: ([u8; 32], [u8; 32]),
        same: bool,
    ) {
        let secrets = if same { (secrets.0, secrets.0) } else { secrets };
        let realm = |id, secret| realm_of(KeyId(id), secret, b"scope", CarrierMode::Cookie, "session");
        let opened = realm(ids.1, secrets.1).open(realm(ids.0, secrets.0).seal(form, &claims, [0; 4]).as_bytes());
        let refusal = opened.map(|_| ()).err();
        let expected = match (ids.0 == ids.1, secrets.0 == secrets.1) {
            (false, _) => Some(TokenRefusal::UnknownKey),
            (true, false) => Some(TokenRefusal::BadSignature),
            (true, true) => None,
        };
        prop_assert_eq!(refusal, expected);
    }
}
