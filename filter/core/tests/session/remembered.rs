//! A filter that remembers verified tokens does what one does that verifies each of them.

use limpet_core::Filter;
use limpet_core::keyring::{KeyEntry, KeyId, KeyState, Keyring, Secret};
use limpet_core::token::{CarrierMode, PayloadForm};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::*;

/// A token, which may be changed, of another scope or mode, or of an unknown or revoked key.
#[derive(Debug, Clone, Copy)]
struct Token {
    key: u8,
    scope: &'static str,
    mode: CarrierMode,
    form: PayloadForm,
    host: &'static str,
    issued_at: u64,
    last_seen: u64,
    changed: Option<usize>,
}

impl Token {
    fn text(self) -> String {
        let name = if self.mode == CarrierMode::Header {
            HEADER
        } else {
            COOKIE
        };
        let claims = claims(self.host, at(self.issued_at), at(self.last_seen));
        let mut text = realm(self.key, self.scope, self.mode, name).seal(self.form, &claims, [7; 4]);
        if let Some(place) = self.changed {
            let place = place % text.len();
            text.replace_range(place..=place, if text.as_bytes()[place] == b'A' { "B" } else { "A" });
        }
        text
    }
}

fn token() -> impl Strategy<Value = Token> {
    let scope = prop_oneof![4 => Just("cart"), 1 => Just("other")];
    let mode = prop_oneof![4 => Just(CarrierMode::Cookie), 1 => Just(CarrierMode::Header)];
    let form = prop_oneof![Just(PayloadForm::Sealed), Just(PayloadForm::Signed)];
    let host = prop_oneof![Just(A), Just(B), Just("[2001:db8::1]:80")];
    let times = (0..60_u64, 0..60_u64);
    let changed = prop_oneof![4 => Just(None), 1 => any::<usize>().prop_map(Some)];
    (1..4_u8, scope, mode, form, host, times, changed).prop_map(
        |(key, scope, mode, form, host, (issued_at, last_seen), changed)| Token {
            key,
            scope,
            mode,
            form,
            host,
            issued_at,
            last_seen,
            changed,
        },
    )
}

/// What happens, at a second that may be before the last one.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request with two of the tokens.
    Visit {
        tokens: (usize, usize),
        scope: &'static str,
    },
    /// The states of the keys; the first one signs.
    Keys([KeyState; 2]),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let state = || {
        prop_oneof![
            Just(KeyState::Verifying),
            Just(KeyState::Retiring),
            Just(KeyState::Revoked)
        ]
    };
    let scope = prop_oneof![4 => Just("shop/cart"), 1 => Just("shop/other")];
    let step = prop_oneof![
        8 => ((0..4_usize, 0..4_usize), scope).prop_map(|(tokens, scope)| Step::Visit { tokens, scope }),
        1 => (state(), state()).prop_map(|(second, third)| Step::Keys([second, third])),
    ];
    prop::collection::vec((0..70_u64, step), 0..60)
}

fn keyring(states: [KeyState; 2]) -> Keyring {
    let states = std::iter::once(KeyState::Signing).chain(states);
    let entries = std::iter::zip(1.., states).map(|(id, state)| KeyEntry {
        id: KeyId(id),
        state,
        secret: (state != KeyState::Revoked).then(|| Secret::new([id; 32])),
    });
    Keyring::from_entries(&entries.collect::<Vec<_>>()).unwrap()
}

fn filter(policy: &Value) -> Filter {
    let fences = json!([{ "address": "10.0.0.2", "notBefore": at(20).unix_seconds() }]);
    Site::configured(policy.clone(), json!({ "fences": fences })).filter
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn plans_are_the_same_with_and_without_memory(
        tokens in prop::collection::vec(token(), 4),
        steps in steps(),
        strict: bool,
    ) {
        let policy = cookie_policy(json!({
            "idleTimeout": "20s", "absoluteTimeout": "50s", "strict": strict, "also": [{"header": {"name": HEADER}}],
        }));
        let states = [KeyState::Verifying, KeyState::Retiring];
        let site = || Site { filter: filter(&policy).with_keys(keyring(states)) };
        let mut sites = [site(), site()];
        sites[1].filter.remember_tokens();
        let texts: Vec<String> = tokens.iter().map(|token| token.text()).collect();
        for (second, step) in steps {
            match step {
                Step::Visit { tokens: (one, other), scope } => {
                    let cookie = format!("{COOKIE}={}; {COOKIE}={}", texts[one], texts[other]);
                    let request = || FakeRequest::new().session(scope).cookie(&cookie).header(HEADER, &texts[other]);
                    let [verified, remembered] =
                        sites.each_ref().map(|site| site.visit(&request(), &FakeResponse::by(A), at(second)));
                    prop_assert_eq!(verified, remembered);
                }
                Step::Keys(states) => {
                    for site in &mut sites {
                        site.filter = site.filter.with_keys(keyring(states));
                    }
                }
            }
        }
    }
}
