//! A table of requests and responses, with what is done for them.
//!
//! The core writes it (`tests/exchanges.rs`), and each adapter's tests walk through it with a fake host.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CLUSTER, FakeRequest, FakeResponse};
use crate::census::report::{ReportResponse, ShedBudget, ShedHost};
use crate::envoy::DESTINATION_HEADER;
use crate::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use crate::time::Timestamp;
use crate::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm, UnverifiedToken, is_token};
use crate::view;

const TABLE: &str = include_str!("../../tests/golden/exchanges.json");

/// The honoured keys. All bytes of a key are its id.
const KEYS: [u8; 2] = [1, 2];
/// Where to look for new tokens.
const NAMES: [&str; 4] = ["session", "x-session", "JSESSIONID", "s"];

/// The time of all exchanges.
#[must_use]
pub fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchanges {
    pub about: String,
    /// For all exchanges, in order.
    pub config: Value,
    /// Backends in the census in the end.
    pub told: usize,
    pub exchanges: Vec<Exchange>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub why: String,
    pub given: ExchangeInput,
    #[serde(default)]
    pub done: ExchangeOutput,
}

/// A header field is `name: value`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExchangeInput {
    pub session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route: String,
    /// [`CLUSTER`] if empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destinations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_session: Option<String>,
    /// By their names in the fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<String, ClientToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The controller lets one session move between these hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<[SocketAddr; 2]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<String>,
    pub by: String,
    /// Details of the proxy's own reply, with the address of the host that it tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response: Vec<String>,
}

/// A token that a client brings. Times are seconds before [`now`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientToken {
    pub host: String,
    #[serde(default)]
    pub began: i64,
    #[serde(default)]
    pub seen: i64,
    #[serde(default = "first_key", skip_serializing_if = "is_first_key")]
    pub key: u8,
    #[serde(default = "cookie", skip_serializing_if = "is_cookie")]
    pub mode: String,
    #[serde(default = "session", skip_serializing_if = "is_session")]
    pub name: String,
    #[serde(default = "shop", skip_serializing_if = "is_shop")]
    pub scope: String,
    #[serde(default = "cluster", skip_serializing_if = "is_cluster")]
    pub cluster: String,
}

macro_rules! default {
    ($name:ident, $is:ident, $value:expr) => {
        fn $name() -> String {
            $value.to_owned()
        }
        fn $is(value: &str) -> bool {
            value == $value
        }
    };
}

default!(cookie, is_cookie, "cookie");
default!(session, is_session, "session");
default!(shop, is_shop, "shop");
default!(cluster, is_cluster, CLUSTER);

fn first_key() -> u8 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_first_key(key: &u8) -> bool {
    *key == 1
}

/// What is done for an exchange, in order. A change of a header is `set name: value`, `add name: value` or `remove
/// name`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExchangeOutput {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub led: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steered: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub strict: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub response: Vec<String>,
    /// The content of the response's token `NEW`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logged: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warned: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Exchanges {
    /// Reads the table.
    ///
    /// # Errors
    /// If it is not written as it is read.
    pub fn read() -> serde_json::Result<Self> {
        serde_json::from_str(TABLE)
    }

    /// The table's text: an exchange in three lines.
    ///
    /// # Errors
    /// Never.
    pub fn text(&self) -> serde_json::Result<String> {
        let exchanges = self.exchanges.iter().map(|exchange| {
            Ok(format!(
                "{{\"why\": {},\n \"given\": {},\n \"done\": {}}}",
                serde_json::to_string(&exchange.why)?,
                serde_json::to_string(&exchange.given)?,
                serde_json::to_string(&exchange.done)?
            ))
        });
        let exchanges = exchanges.collect::<serde_json::Result<Vec<_>>>()?.join(",\n");
        Ok(format!(
            "{{\n\"about\": {},\n\"config\": {},\n\"told\": {},\n\"exchanges\": [\n{exchanges}\n]\n}}\n",
            serde_json::to_string(&self.about)?,
            serde_json::to_string_pretty(&self.config)?,
            self.told
        ))
    }
}

impl ExchangeOutput {
    /// Moves the destination from the header's change to `led`.
    pub fn extract_destination(&mut self) -> String {
        let mut changes = self.request.iter();
        let prefix = format!("set {DESTINATION_HEADER}: ");
        let at = changes.position(|change| change.starts_with(&prefix));
        let change = at.map(|at| self.request.remove(at)).unwrap_or_default();
        let led = change.strip_prefix(&prefix).unwrap_or_default().to_owned();
        self.led = Some(led.clone());
        led
    }
}

impl ExchangeInput {
    #[must_use]
    pub fn request_fields(&self) -> Vec<(String, String)> {
        self.fields(&[":method: GET", ":path: /", ":scheme: http"], &self.request)
    }

    #[must_use]
    pub fn response_fields(&self) -> Vec<(String, String)> {
        self.fields(&[":status: 200"], &self.response)
    }

    /// These fields with tokens for their names, behind the missing `defaults`.
    fn fields(&self, defaults: &[&str], fields: &[String]) -> Vec<(String, String)> {
        let own: Vec<_> = fields.iter().map(|field| self.field(field)).collect();
        let defaults = defaults.iter().map(|field| self.field(field));
        let missing = defaults.filter(|(name, _)| own.iter().all(|(other, _)| other != name));
        missing.chain(own.iter().cloned()).collect()
    }

    fn field(&self, field: &str) -> (String, String) {
        let (name, value) = field.split_once(": ").unwrap_or((field, ""));
        let mut value = value.to_owned();
        for (name, token) in &self.tokens {
            value = value.replace(name, &token.text());
        }
        (name.to_owned(), value)
    }

    fn scope(&self) -> &str {
        self.session.rsplit_once('/').map_or("shop", |(_, scope)| scope)
    }

    #[must_use]
    pub fn cluster(&self) -> &str {
        if self.cluster.is_empty() {
            CLUSTER
        } else {
            &self.cluster
        }
    }

    /// The cluster of a session of this [`DestinationId`]; the route's if there is none.
    #[must_use]
    pub fn led_to(&self, destination: &str) -> &str {
        let mut all = self.destinations.iter().map(String::as_str);
        let led = all.find(|name| DestinationId::of_cluster(name.as_bytes()).to_string() == destination);
        led.unwrap_or(self.cluster())
    }

    #[must_use]
    pub fn answer(&self) -> ReportResponse {
        let of_cluster = |[from, to]: &[SocketAddr; 2]| ShedBudget {
            destination: u32::from_be_bytes(DestinationId::of_cluster(self.cluster().as_bytes()).0),
            sessions: 1,
            hosts: vec![ShedHost::new(*from, 1)],
            targets: vec![ShedHost::new(*to, 1)],
        };
        ReportResponse {
            sheds: self.moves.iter().map(of_cluster).collect(),
            ..ReportResponse::default()
        }
    }

    pub fn request(&self) -> FakeRequest {
        let mut request = match self.session.as_str() {
            "" => FakeRequest::on_route(&self.route),
            session => FakeRequest::new().session(session),
        };
        let destinations: Vec<_> = self.destinations.iter().map(String::as_str).collect();
        request = request.cluster(self.cluster()).destinations(&destinations);
        if let Some([_, to]) = self.moves {
            request = request.may_leave(move |_, _| Some(to));
        }
        if let Some(session) = &self.cluster_session {
            request = request.cluster_session(session);
        }
        if let Some(client) = &self.client {
            request = request.client(client);
        }
        let fields = self.request_fields();
        for (name, _) in &fields {
            let of_name = fields.iter().filter(|(other, _)| other == name);
            let joined = view::joined(name, of_name.map(|(_, value)| value.as_bytes()));
            request = request.header(name, &joined.unwrap_or_default());
        }
        request
    }

    pub fn response(&self, cluster: &str, asked: Option<SocketAddr>) -> FakeResponse {
        let mut response = match &self.reply {
            Some(details) => FakeResponse::local(200, details, &self.by),
            None => FakeResponse::by(&self.by),
        };
        response = response.cluster(cluster);
        if asked.is_none_or(|host| host.to_string() == self.by) {
            response = response.surely_as_asked();
        }
        if let Some(session) = &self.cluster_session {
            response = response.cluster_session(session);
        }
        for (name, value) in self.response_fields() {
            response = match (name.as_str(), value.parse()) {
                (":status", Ok(status)) => response.status(status),
                _ => response.header(&name, &value),
            };
        }
        response
    }
}

impl ClientToken {
    fn text(&self) -> String {
        let mode = CarrierMode::ALL.into_iter().find(|mode| mode.name() == self.mode);
        let realm = mode.and_then(|mode| realm(self.key, &self.scope, mode, &self.name));
        let before = |seconds: i64| {
            let millis = now().unix_millis().saturating_add_signed(-seconds * 1000);
            Timestamp::from_unix_millis(millis)
        };
        let text = realm.zip(self.host.parse().ok()).map(|(realm, host)| {
            let claims = Claims {
                host,
                destination: DestinationId::of_cluster(self.cluster.as_bytes()),
                issued_at: before(self.began),
                last_seen: before(self.seen),
            };
            realm.seal(PayloadForm::Sealed, &claims, [7; 4])
        });
        text.unwrap_or_default()
    }
}

fn realm(key: u8, scope: &str, mode: CarrierMode, name: &str) -> Option<Realm> {
    let key = Key::new(KeyId(key), KeyState::Signing, &Secret::new([key; 32]));
    let keyring = Keyring::new(vec![key]).ok()?;
    Some(Realm::new(&keyring, scope.as_bytes(), mode, name))
}

impl Exchange {
    /// What was done, with names for tokens, whose random bytes differ each time.
    #[must_use]
    pub fn shown(&self, mut done: ExchangeOutput) -> ExchangeOutput {
        let known: Vec<_> = self
            .given
            .tokens
            .iter()
            .map(|(name, token)| (name, token.text()))
            .collect();
        let mut new = None;
        let mut named = |word: &str| {
            if let Some((name, _)) = known.iter().find(|(_, token)| token == word) {
                (*name).clone()
            } else if is_token(word.as_bytes()) {
                new = Some(self.says(word));
                "NEW".to_owned()
            } else {
                word.to_owned()
            }
        };
        for line in done.request.iter_mut().chain(&mut done.response) {
            let is_outside = |character: char| !character.is_ascii_alphanumeric() && !"-_".contains(character);
            *line = line
                .split_inclusive(is_outside)
                .map(|part| {
                    let word = part.trim_end_matches(is_outside);
                    named(word) + part.strip_prefix(word).unwrap_or_default()
                })
                .collect();
        }
        done.token = new;
        done.led = done.led.map(|led| self.given.led_to(&led).to_owned());
        done
    }

    /// Where a new token counts, and its content.
    fn says(&self, token: &str) -> String {
        let places = CarrierMode::ALL
            .into_iter()
            .flat_map(|mode| NAMES.map(|name| (mode, name)));
        let opened = places
            .flat_map(|place| KEYS.map(|key| (place, key)))
            .find_map(|((mode, name), key)| {
                let opened = realm(key, self.given.scope(), mode, name)?
                    .open(token.as_bytes())
                    .ok()?;
                let form = UnverifiedToken::parse(token.as_bytes()).ok()?.form;
                let (place, form, claims) = (mode.name(), form.name(), opened.claims);
                let ago = |time| now().since(time).as_secs();
                let [began, seen] = [ago(claims.issued_at), ago(claims.last_seen)];
                let is_here = claims.destination == DestinationId::of_cluster(CLUSTER.as_bytes());
                let elsewhere = if is_here { "" } else { " elsewhere" };
                Some(format!(
                    "{place} {name}, key {key}, {form}: {}{elsewhere}, began {began} s ago, seen {seen} s ago",
                    claims.host
                ))
            });
        opened.unwrap_or_else(|| "no token of this place".to_owned())
    }
}
