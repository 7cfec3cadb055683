//! A request with a live session.

use std::net::SocketAddr;

use limpet_core::Filter;
use limpet_core::fakes::FakeRequest;
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm};

const CONFIG: &str = r#"{
    "keys": [{ "id": 1, "inline": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" }],
    "policies": { "shop": { "cookie": { "name": "session" }, "idleTimeout": "30m" } }
}"#;

pub(crate) fn filter() -> Filter {
    let (filter, _) = Filter::from_json(CONFIG.as_bytes(), &|_| None).expect("a valid configuration");
    filter
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000)
}

pub(crate) fn realm(scope: &str) -> Realm {
    let secret = Secret::new(std::array::from_fn(|i| u8::try_from(i).unwrap_or(0)));
    let keyring = Keyring::new(vec![Key::new(KeyId(1), KeyState::Signing, &secret)]).expect("one key signs");
    Realm::new(&keyring, scope.as_bytes(), CarrierMode::Cookie, "session")
}

pub(crate) fn claims() -> Claims {
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: DestinationId::of_cluster(b"backends"),
        issued_at: now(),
        last_seen: now(),
    }
}

/// A request with a live session in this scope.
pub(crate) fn request(scope: &str) -> FakeRequest {
    let token = realm(scope).seal(PayloadForm::Sealed, &claims(), [1, 2, 3, 4]);
    let cookies = format!("theme=dark; session={token}; _ga=GA1.1.1234567890.1700000000");
    FakeRequest::new()
        .session(format!("shop/{scope}"))
        .cookie(&cookies)
        .unrecorded()
}
