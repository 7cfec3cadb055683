//! A site behind the filter, and its clients.

mod visit;

use std::cell::RefCell;
use std::time::Duration;

use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm, TokenRefusal};
use limpet_core::{Filter, SessionError};
use serde_json::{Value, json};

pub(crate) use limpet_core::fakes::{CLUSTER, FakeRequest, FakeResponse, SESSION};
pub(crate) use visit::{Edit, Visit};

pub(crate) const A: &str = "10.0.0.1:8080";
pub(crate) const B: &str = "10.0.0.2:8080";

pub(crate) const COOKIE: &str = "session";
pub(crate) const HEADER: &str = "x-session";

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000 + seconds)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A key whose 32 bytes are all its id.
pub(crate) fn key(id: u8, state: &str) -> Value {
    json!({ "id": id, "state": state, "inline": inline(id) })
}

fn inline(id: u8) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode([id; 32])
}

pub(crate) fn cookie_policy(fields: Value) -> Value {
    with(json!({ "cookie": { "name": COOKIE } }), fields)
}

pub(crate) fn header_policy(fields: Value) -> Value {
    with(json!({ "header": { "name": HEADER } }), fields)
}

pub(crate) fn with(mut base: Value, fields: Value) -> Value {
    match (&mut base, fields) {
        (Value::Object(base), Value::Object(fields)) => {
            for (name, field) in fields {
                let slot = base.entry(name).or_insert(Value::Null);
                *slot = with(slot.take(), field);
            }
        }
        (base, field) => *base = field,
    }
    base
}

pub(crate) struct Site {
    pub(crate) filter: Filter,
}

impl Site {
    /// One policy, `shop`, under one key.
    pub(crate) fn new(policy: Value) -> Self {
        Self::configured(policy, json!({}))
    }

    /// The same with other fields of the configuration.
    pub(crate) fn configured(policy: Value, fields: Value) -> Self {
        let base = json!({ "keys": [key(1, "signing")], "policies": { "shop": policy } });
        Self::of(&with(base, fields))
    }

    pub(crate) fn of(config: &Value) -> Self {
        let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None)
            .unwrap_or_else(|error| panic!("{error} in {config}"));
        Self { filter }
    }

    /// A request and its response at the same time. The route must have a session.
    pub(crate) fn visit(&self, request: &FakeRequest, response: &FakeResponse, now: Timestamp) -> Visit {
        self.visit_lasting(request, response, now, now)
    }

    /// A request and a response that comes later.
    pub(crate) fn visit_lasting(
        &self,
        request: &FakeRequest,
        response: &FakeResponse,
        asked: Timestamp,
        answered: Timestamp,
    ) -> Visit {
        let mut session = self.filter.session(request).unwrap().expect("the route has a session");
        let plan = session.on_request(&mut request.clone(), asked).unwrap();
        response.answer(request);
        let visit = Visit::requested(plan);
        visit.answered(session.on_response(response, || Ok(answered)).unwrap())
    }

    pub(crate) fn policy_of(&self, request: &FakeRequest) -> Result<Option<String>, SessionError> {
        let session = self.filter.session(request)?;
        Ok(session.map(|session| session.policy().to_owned()))
    }

    pub(crate) fn session(&self, request: &FakeRequest) -> limpet_core::RequestSession {
        self.filter.session(request).unwrap().expect("the route has a session")
    }

    pub(crate) fn client(&self) -> Client<'_> {
        Client {
            site: self,
            token: RefCell::default(),
        }
    }
}

/// A client that sends its token with every request, in a cookie and in a header.
pub(crate) struct Client<'a> {
    site: &'a Site,
    token: RefCell<Option<String>>,
}

impl Client<'_> {
    pub(crate) fn visit(&self, host: &str, now: Timestamp) -> Visit {
        self.visit_by(FakeRequest::new(), &FakeResponse::by(host), now)
    }

    pub(crate) fn visit_by(&self, request: FakeRequest, response: &FakeResponse, now: Timestamp) -> Visit {
        let request = match &*self.token.borrow() {
            None => request,
            Some(token) => request.cookie(&format!("{COOKIE}={token}")).header(HEADER, token),
        };
        let visit = self.site.visit(&request, response, now);
        if let Some(token) = visit.token() {
            self.token.replace(Some(token));
        }
        visit
    }

    /// The claims of the client's token, which key 1 made.
    pub(crate) fn claims(&self) -> Claims {
        let token = self.token.borrow().clone().expect("the client has a token");
        let modes = [(CarrierMode::Cookie, COOKIE), (CarrierMode::Header, HEADER)];
        let realms = modes.map(|(mode, name)| realm(1, "cart", mode, name));
        let opened = realms.iter().find_map(|realm| realm.open(token.as_bytes()).ok());
        opened.expect("a token of key 1, scope cart").claims
    }
}

pub(crate) fn realm(key: u8, scope: &str, mode: CarrierMode, name: &str) -> Realm {
    let key = Key::new(KeyId(key), KeyState::Signing, &Secret::new([key; 32]));
    Realm::new(&Keyring::new(vec![key]).unwrap(), scope.as_bytes(), mode, name)
}

pub(crate) fn claims(host: &str, issued_at: Timestamp, last_seen: Timestamp) -> Claims {
    Claims {
        host: host.parse().unwrap(),
        destination: DestinationId::of_cluster(CLUSTER.as_bytes()),
        issued_at,
        last_seen,
    }
}

/// A token of this scope for the cookie of the tests, made with key 1.
pub(crate) fn cookie_token(scope: &str, claims: &Claims) -> String {
    realm(1, scope, CarrierMode::Cookie, COOKIE).seal(PayloadForm::Sealed, claims, [7; 4])
}

pub(crate) fn bringing(claims: &Claims) -> FakeRequest {
    FakeRequest::new().cookie(&format!("{COOKIE}={}", cookie_token("cart", claims)))
}

pub(crate) const STEERED: RequestOutcome = RequestOutcome::Steered;
pub(crate) const REBALANCED: RequestOutcome = RequestOutcome::Rebalanced;
pub(crate) const NO_TOKEN: RequestOutcome = RequestOutcome::NoToken;
pub(crate) const UNCHANGED: ResponseOutcome = ResponseOutcome::Unchanged;
pub(crate) const ISSUED: ResponseOutcome = ResponseOutcome::Issued;
pub(crate) const REISSUED: ResponseOutcome = ResponseOutcome::Reissued;
pub(crate) const RENEWED: ResponseOutcome = ResponseOutcome::Renewed;
pub(crate) const MOVED: ResponseOutcome = ResponseOutcome::Moved;
pub(crate) const UNADDRESSABLE: ResponseOutcome = ResponseOutcome::Unaddressable;
pub(crate) const TOO_LARGE: ResponseOutcome = ResponseOutcome::TooLarge;

pub(crate) fn refused(refusal: TokenRefusal) -> RequestOutcome {
    RequestOutcome::Refused(refusal)
}
