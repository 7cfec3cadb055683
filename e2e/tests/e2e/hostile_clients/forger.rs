//! Forged tokens: with the right key for another place or time, or without the key.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm, TokenRefusal};
use limpet_e2e::{Answer, Envoy, OTHER_KEY, Request, TEST_KEY};

use limpet_fuzz::Random;

/// Belongs to another backend by now.
pub(crate) const FENCED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Tells the tokens that travel in the query.
pub(crate) const TELL: &str = "x-told";

/// A policy, whose name is also its only route's and scope's, and its carrier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Session {
    pub(crate) policy: &'static str,
    pub(crate) mode: CarrierMode,
    pub(crate) name: &'static str,
}

pub(crate) const SESSIONS: [Session; 3] = [
    Session {
        policy: "web",
        mode: CarrierMode::Cookie,
        name: "limpet-session",
    },
    Session {
        policy: "api",
        mode: CarrierMode::Header,
        name: "x-session",
    },
    Session {
        policy: "url",
        mode: CarrierMode::Query,
        name: "s",
    },
];

impl Session {
    fn other(self) -> Self {
        let at = SESSIONS.iter().position(|session| *session == self);
        SESSIONS[(at.unwrap_or_default() + 1) % SESSIONS.len()]
    }

    pub(crate) fn bring(self, token: &[u8], envoy: &Envoy) -> Request {
        let path = format!("/{}", self.policy);
        match self.mode {
            CarrierMode::Query => envoy.get(&format!("{path}?{}={}", self.name, escaped(token))),
            CarrierMode::Header => envoy.get(&path).header(self.name, token),
            _ => envoy.get(&path).cookie([self.name.as_bytes(), b"=", token].concat()),
        }
    }

    pub(crate) fn token(self, answer: &Answer) -> Option<String> {
        match self.mode {
            CarrierMode::Query => answer.header(TELL).map(str::to_owned),
            CarrierMode::Header => answer.header(self.name).map(str::to_owned),
            _ => answer.set_cookie(self.name).map(|cookie| cookie.value),
        }
    }

    /// The realm in which this session's tokens under this key are good.
    fn realm(self, id: u8, key: &str) -> Result<Realm> {
        let secret = Secret::from_base64(key).context("expected a key")?;
        let keyring = Keyring::new(vec![Key::new(KeyId(id), KeyState::Signing, &secret)])?;
        Ok(Realm::new(&keyring, self.policy.as_bytes(), self.mode, self.name))
    }
}

fn escaped(token: &[u8]) -> String {
    let byte = |byte: &u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    token.iter().map(byte).collect()
}

/// Random parts are the same in every run.
pub(crate) struct Forger {
    own: Realm,
    /// Of another rule, another mode, another name, and all of these.
    moved: [Realm; 4],
    /// With the forger's own key: under another id, and under the good key's id.
    stranger: Realm,
    impostor: Realm,
    host: SocketAddr,
    now: Duration,
    random: Random,
}

impl Forger {
    pub(crate) fn new(session: Session, host: SocketAddr, now: Duration) -> Result<Self> {
        let other = session.other();
        let (policy, mode, name) = (other.policy, other.mode, other.name);
        Ok(Self {
            own: session.realm(1, TEST_KEY)?,
            moved: [
                Session { policy, ..session }.realm(1, TEST_KEY)?,
                Session { mode, ..session }.realm(1, TEST_KEY)?,
                Session { name, ..session }.realm(1, TEST_KEY)?,
                other.realm(1, TEST_KEY)?,
            ],
            stranger: session.realm(2, OTHER_KEY)?,
            impostor: session.realm(1, OTHER_KEY)?,
            host,
            now,
            random: Random::new(session.name.as_bytes()[0].into()),
        })
    }

    fn random_bytes<const N: usize>(&mut self) -> [u8; N] {
        [(); N].map(|()| self.random.byte())
    }

    /// A session at this host that began, and was last seen, this long ago.
    fn claims(&self, host: SocketAddr, began: Duration, seen: Duration) -> Claims {
        let at = |ago: Duration| Timestamp::from_unix(self.now.saturating_sub(ago));
        Claims {
            host,
            destination: DestinationId::of_cluster(b"backends"),
            issued_at: at(began),
            last_seen: at(seen),
        }
    }

    fn fresh(&self) -> Claims {
        self.claims(self.host, MINUTE, Duration::ZERO)
    }

    fn seal(&mut self, realm: fn(&Self) -> &Realm, claims: Claims) -> String {
        let form = if self.random.number().is_multiple_of(2) {
            PayloadForm::Sealed
        } else {
            PayloadForm::Signed
        };
        let nonce = self.random_bytes();
        realm(self).seal(form, &claims, nonce)
    }

    pub(crate) fn honest(&mut self) -> String {
        let fresh = self.fresh();
        self.seal(|forger| &forger.own, fresh)
    }

    pub(crate) fn forge(&mut self, kind: Forgery, number: usize) -> Result<(Vec<u8>, TokenRefusal)> {
        let fresh = self.fresh();
        let moment = Duration::from_millis(number as u64);
        let own: fn(&Self) -> &Realm = |forger| &forger.own;
        let (text, refusal) = match kind {
            Forgery::Noise => {
                let bytes: [u8; 60] = self.random_bytes();
                return Ok((bytes.map(|byte| byte | 0x80).to_vec(), TokenRefusal::Malformed));
            }
            Forgery::MadeUp => {
                let mut bytes: [u8; 45] = self.random_bytes();
                (bytes[0], bytes[1]) = (0x10, 1);
                (BASE64_URL_SAFE_NO_PAD.encode(bytes), TokenRefusal::BadSignature)
            }
            Forgery::BitFlipped => {
                let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(self.seal(own, fresh))?;
                let bit = number % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                let refusal = match bit {
                    1..8 => TokenRefusal::Malformed,
                    8..16 => TokenRefusal::UnknownKey,
                    // Bit 0 of a token: sealed or signed.
                    _ => TokenRefusal::BadSignature,
                };
                (BASE64_URL_SAFE_NO_PAD.encode(bytes), refusal)
            }
            Forgery::Cut => {
                let mut token = self.seal(own, fresh);
                token.truncate(20 + number % (token.len() - 20));
                (token, TokenRefusal::Malformed)
            }
            Forgery::CutToMeasure => {
                let ipv6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 80));
                let mut token = self.seal(own, Claims { host: ipv6, ..fresh });
                token.truncate(60);
                (token, TokenRefusal::BadSignature)
            }
            Forgery::Lengthened => (format!("{}{number:04}", self.seal(own, fresh)), TokenRefusal::Malformed),
            Forgery::Moved => {
                let from: [fn(&Self) -> &Realm; 4] = [
                    |forger| &forger.moved[0],
                    |forger| &forger.moved[1],
                    |forger| &forger.moved[2],
                    |forger| &forger.moved[3],
                ];
                (self.seal(from[number % 4], fresh), TokenRefusal::BadSignature)
            }
            Forgery::UnknownKey => (self.seal(|forger| &forger.stranger, fresh), TokenRefusal::UnknownKey),
            Forgery::OtherKey => (self.seal(|forger| &forger.impostor, fresh), TokenRefusal::BadSignature),
            Forgery::Expired => {
                let claims = self.claims(self.host, HOUR + MINUTE + moment, MINUTE);
                (self.seal(own, claims), TokenRefusal::Expired)
            }
            Forgery::Idle => {
                let claims = self.claims(self.host, HOUR / 2, MINUTE * 12 + moment);
                (self.seal(own, claims), TokenRefusal::Idle)
            }
            Forgery::Fenced => {
                let host = SocketAddr::new(FENCED, self.host.port());
                (self.seal(own, Claims { host, ..fresh }), TokenRefusal::Fenced)
            }
            Forgery::FromTheFuture => {
                let soon = Timestamp::from_unix(self.now + HOUR + moment);
                let claims = Claims {
                    issued_at: soon,
                    last_seen: soon,
                    ..fresh
                };
                (self.seal(own, claims), TokenRefusal::FromTheFuture)
            }
        };
        Ok((text.into_bytes(), refusal))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Forgery {
    Noise,
    MadeUp,
    BitFlipped,
    Cut,
    /// A token for an IPv6 address, cut to the length of a token for an IPv4 address.
    CutToMeasure,
    Lengthened,
    /// A token of another rule, another mode, another name, or all of these.
    Moved,
    UnknownKey,
    /// A token of another key, under the good key's id.
    OtherKey,
    Expired,
    Idle,
    Fenced,
    FromTheFuture,
}

impl Forgery {
    pub(crate) const ALL: [Self; 13] = [
        Self::Noise,
        Self::MadeUp,
        Self::BitFlipped,
        Self::Cut,
        Self::CutToMeasure,
        Self::Lengthened,
        Self::Moved,
        Self::UnknownKey,
        Self::OtherKey,
        Self::Expired,
        Self::Idle,
        Self::Fenced,
        Self::FromTheFuture,
    ];
}
