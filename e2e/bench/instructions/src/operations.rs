//! Operations of the core as loops; what comes before a loop is not measured.

use std::hint::black_box;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use limpet_core::Filter;
use limpet_core::carrier::cookie_field::{self, CookieEdit};
use limpet_core::census::{Backend, Census, ObservedSession, SessionIdentity};
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::outcome::ResponseOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm};

use crate::exchange::Exchange;

type Operation = fn(usize) -> Result<()>;

/// Each by its name in the file of figures.
pub(crate) const ALL: [(&str, Operation); 9] = [
    ("core: verify a sealed token", |count| {
        verify(PayloadForm::Sealed, count)
    }),
    ("core: verify a signed token", |count| {
        verify(PayloadForm::Signed, count)
    }),
    ("core: seal a token", |count| seal(PayloadForm::Sealed, count)),
    ("core: sign a token", |count| seal(PayloadForm::Signed, count)),
    ("core: edit a Cookie field", edit_cookies),
    ("core: request in the steady state", |count| serve(Cookie::Good, count)),
    ("core: first request", |count| serve(Cookie::None, count)),
    ("core: request with a refused token", |count| {
        serve(Cookie::Forged, count)
    }),
    ("core: count a session", count_sessions),
];

const NOW: u64 = 1_763_718_000;

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(NOW)
}

fn claims() -> Claims {
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: DestinationId::of_cluster(b"backends"),
        issued_at: now(),
        last_seen: now(),
    }
}

fn realm() -> Result<Realm> {
    let secret = Secret::new(std::array::from_fn(|i| u8::try_from(i).unwrap_or(0)));
    let keyring = Keyring::new(vec![Key::new(KeyId(1), KeyState::Signing, &secret)])?;
    Ok(Realm::new(
        &keyring,
        b"HTTPRoute/shop/web/all",
        CarrierMode::Cookie,
        "limpet-session",
    ))
}

fn verify(form: PayloadForm, count: usize) -> Result<()> {
    let realm = realm()?;
    let token = realm.seal(form, &claims(), [1, 2, 3, 4]);
    for _ in 0..count {
        ensure!(realm.open(black_box(token.as_bytes())).is_ok(), "the token is refused");
    }
    Ok(())
}

fn seal(form: PayloadForm, count: usize) -> Result<()> {
    let (realm, claims) = (realm()?, claims());
    for _ in 0..count {
        black_box(realm.seal(form, black_box(&claims), black_box([1, 2, 3, 4])));
    }
    Ok(())
}

/// A browser's Cookie field with this token.
fn cookies(token: &str) -> Vec<u8> {
    format!("theme=dark; limpet-session={token}; _ga=GA1.1.1234567890.1700000000").into_bytes()
}

fn edit_cookies(count: usize) -> Result<()> {
    let field = cookies(&"x".repeat(60));
    for _ in 0..count {
        let edited = cookie_field::edit(black_box(&field), |name, _| {
            if name == b"limpet-session" {
                CookieEdit::Remove
            } else {
                CookieEdit::Keep
            }
        });
        ensure!(black_box(edited).is_some(), "the field is as it was");
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Cookie {
    Good,
    None,
    Forged,
}

fn serve(cookie: Cookie, count: usize) -> Result<()> {
    const CONFIG: &[u8] = br#"{
        "keys": [{ "id": 1, "inline": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" }],
        "policies": { "shop": { "cookie": { "name": "limpet-session" } } }
    }"#;
    let (filter, _) = Filter::from_json(CONFIG, &|_| None)?;
    let token = realm()?.seal(PayloadForm::Sealed, &claims(), [1, 2, 3, 4]);
    let (cookie, expected) = match cookie {
        Cookie::Good => (Some(cookies(&token)), ResponseOutcome::Unchanged),
        Cookie::None => (None, ResponseOutcome::Issued),
        Cookie::Forged => (Some(cookies(&forged(&token)?)), ResponseOutcome::Issued),
    };
    let mut exchange = Exchange {
        cookie,
        other_host: expected != ResponseOutcome::Unchanged,
    };
    for _ in 0..count {
        let mut session = filter.session(&exchange)?.context("the route has no session")?;
        black_box(session.on_request(&mut exchange, now())?);
        let plan = session.on_response(&exchange, || Ok(now()))?;
        ensure!(
            plan.outcome == expected,
            "expected {expected:?}, found {:?}",
            plan.outcome
        );
        black_box(plan);
    }
    Ok(())
}

/// The token with another letter near its end, where all bits of a letter count.
fn forged(token: &str) -> Result<String> {
    let at = token.len().checked_sub(2).context("a token")?;
    let other = if token.get(at..=at) == Some("A") { "B" } else { "A" };
    let (start, end) = (token.get(..at), token.get(at + 1..));
    Ok([start.context("ASCII")?, other, end.context("ASCII")?].concat())
}

/// 10,000 known sessions of 100 backends in turn, as in the steady state.
#[expect(clippy::unnecessary_wraps, reason = "an operation like the others")]
fn count_sessions(count: usize) -> Result<()> {
    let census = Census::new([7; 16], 2000);
    let sessions: Vec<_> = (0..10_000).map(seen).collect();
    for seen in &sessions {
        census.record(seen);
    }
    for seen in sessions.iter().cycle().take(count) {
        census.record(black_box(seen));
    }
    Ok(())
}

fn seen(number: u32) -> ObservedSession {
    let [.., last] = (number % 100).to_be_bytes();
    ObservedSession {
        backend: Backend {
            destination: DestinationId([1, 2, 3, 4]),
            host: SocketAddr::from(([10, 0, 0, last], 8080)),
            live_for: 1200,
        },
        session: SessionIdentity::Token(number.wrapping_mul(0x9e37_79b9).to_be_bytes()),
        began: now(),
        at: now(),
    }
}
