//! A request with a live session, and the response of its backend.

use std::borrow::Cow;
use std::net::SocketAddr;

use limpet_core::Filter;
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, Destination, Form, Realm};
use limpet_core::view::{Answer, RequestView, ResponseView, ViewError};

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
        destination: Destination::of_cluster(b"backends"),
        issued_at: now(),
        last_seen: now(),
    }
}

#[derive(Clone)]
pub(crate) struct Exchange {
    session: Vec<u8>,
    cookie: Vec<u8>,
}

impl Exchange {
    pub(crate) fn new(scope: &str) -> Self {
        let token = realm(scope).seal(Form::Sealed, &claims(), [1, 2, 3, 4]);
        Self {
            session: format!("shop/{scope}").into_bytes(),
            cookie: format!("theme=dark; session={token}; _ga=GA1.1.1234567890.1700000000").into_bytes(),
        }
    }
}

impl RequestView for Exchange {
    fn route_session(&self) -> Answer<'_> {
        Ok(Some(Cow::Borrowed(&self.session)))
    }
    fn client_address(&self) -> Answer<'_> {
        Ok(None)
    }
    fn route_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn virtual_host(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }
    fn reroute(&mut self, _: Destination) -> Answer<'_> {
        Ok(None)
    }
    fn header(&self, name: &str) -> Answer<'_> {
        Ok((name == "cookie").then_some(Cow::Borrowed(self.cookie.as_slice())))
    }
}

impl ResponseView for Exchange {
    fn maybe_other_host(&self, _: bool) -> Result<bool, ViewError> {
        Ok(false)
    }
    fn code_details(&self) -> Answer<'_> {
        Ok(None)
    }
    fn upstream_address(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_name(&self) -> Answer<'_> {
        Ok(None)
    }
    fn cluster_session(&self) -> Answer<'_> {
        Ok(None)
    }
    fn fields(&self, _: &str) -> Result<Vec<Cow<'_, [u8]>>, ViewError> {
        Ok(Vec::new())
    }
    fn is_https(&self) -> Result<bool, ViewError> {
        Ok(false)
    }
    fn nonce(&self) -> Result<[u8; 4], ViewError> {
        Ok([0; 4])
    }
}
