//! Cookies and headers of an application, on their way to the client and back.

use std::collections::HashMap;

use limpet_core::carrier::set_cookie::{is_deletion, value_of};
use limpet_core::fakes::CLUSTER;
use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm, is_token};
use limpet_core::{Filter, HeaderEdit, RequestSession};

use crate::begins_and_ends::begins_and_ends;
use crate::proxy::{HOST, NONCE, request, response};

const NAME: &str = "session";
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

struct Site {
    filter: Filter,
    header: &'static str,
    token: String,
}

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000)
}

impl Site {
    fn new(mode: CarrierMode) -> Self {
        let (carrier, how) = mode.name().split_once('-').expect("a mode of the application's");
        let config = serde_json::json!({
            "keys": [{"id": 1, "inline": KEY}],
            "policies": {"web": {carrier: {"name": NAME, "mode": how}}},
            "default": {"policy": "web", "scope": "scope"},
        });
        let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).expect("a good configuration");
        let key = Key::new(KeyId(1), KeyState::Signing, &Secret::new([1; 32]));
        let keyring = Keyring::new(vec![key]).expect("a key that signs");
        let claims = Claims {
            host: HOST.parse().expect("an address"),
            destination: DestinationId::of_cluster(CLUSTER.as_bytes()),
            issued_at: now(),
            last_seen: now(),
        };
        Self {
            filter,
            header: if carrier == "cookie" { "set-cookie" } else { NAME },
            token: Realm::new(&keyring, b"scope", mode, NAME).seal(PayloadForm::Sealed, &claims, NONCE),
        }
    }

    fn session(&self) -> RequestSession {
        let session = self.filter.session(&request()).expect("every answer is there");
        session.expect("a default")
    }

    /// The fields of a response after the filter; `None` if it gets no token.
    fn answered(&self, fields: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let mut session = self.session();
        session
            .on_request(&mut request(), now())
            .expect("every answer is there");
        let plan = session
            .on_response(&response(self.header, fields), || Ok(now()))
            .expect("every answer is there");
        let mut rewritten = Vec::new();
        for edit in plan.edits {
            match edit {
                HeaderEdit::Set(name, value) if name == self.header => {
                    assert!(rewritten.is_empty(), "set once, and first");
                    rewritten.push(value);
                }
                HeaderEdit::Add(name, value) if name == self.header => {
                    assert!(!rewritten.is_empty(), "set before");
                    rewritten.push(value);
                }
                HeaderEdit::Set(name, _) => assert_eq!(name, "cache-control"),
                edit => panic!("{edit:?}"),
            }
        }
        assert!(
            rewritten.iter().all(|field| !field.is_empty()),
            "no adapter can set an empty one"
        );
        assert_eq!(plan.outcome == ResponseOutcome::Issued, !rewritten.is_empty());
        (!rewritten.is_empty()).then_some(rewritten)
    }

    fn asked(&self, name: &str, field: &[u8]) -> (Vec<u8>, Option<RequestOutcome>) {
        let mut session = self.session();
        let plan = session
            .on_request(&mut request().header(name, field), now())
            .expect("every answer is there");
        let seen = match plan.edit {
            None => field.to_vec(),
            Some(HeaderEdit::Set(edited, seen)) => {
                assert!(edited == name && !seen.is_empty());
                seen
            }
            Some(HeaderEdit::Remove(edited)) => {
                assert_eq!(edited, name);
                Vec::new()
            }
            Some(edit) => panic!("{edit:?}"),
        };
        (seen, plan.outcome)
    }
}

thread_local! {
    static SITES: HashMap<&'static str, Site> = {
        use CarrierMode::{CookiePrefix, CookieRewrite, HeaderPrefix};
        [CookiePrefix, CookieRewrite, HeaderPrefix].map(|mode| (mode.name(), Site::new(mode))).into()
    };
}

/// Takes each line as a field of a response, which the client returns.
///
/// # Panics
/// If the application gets another value back, a token is in the wrong place, or a session begins or ends with anything
/// else than the application's cookie.
pub fn application(data: &[u8]) {
    let fields: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    SITES.with(|sites| {
        cookie(&sites["cookie-prefix"], &fields, false);
        cookie(&sites["cookie-rewrite"], &fields, true);
        header(&sites["header-prefix"], &fields);
    });
    begins_and_ends(&fields);
}

/// Whether the lines start a session as cookies, and as header fields.
#[must_use]
pub fn starts_sessions(data: &[u8]) -> [bool; 2] {
    let fields: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    SITES.with(|sites| ["cookie-prefix", "header-prefix"].map(|mode| sites[mode].answered(&fields).is_some()))
}

fn cookie(site: &Site, fields: &[&[u8]], rewrite: bool) {
    let token = site.token.as_bytes();
    let mut pairs = Vec::new();
    let expected: Vec<Vec<u8>> = fields
        .iter()
        .map(|field| {
            let is_set = |value: &[u8]| rewrite || !matches!(value, b"" | b"\"\"");
            let value =
                value_of(field, NAME).filter(|value| is_set(&field[value.clone()]) && !is_deletion(field, now()));
            let Some(value) = value else { return field.to_vec() };
            let own = &field[value.clone()];
            let with_token = match own {
                _ if rewrite => token.to_vec(),
                [b'"', inner @ .., b'"'] => [b"\"", token, b"~", inner, b"\""].concat(),
                own => [token, b"~", own].concat(),
            };
            pairs.push(([NAME.as_bytes(), b"=", &with_token].concat(), own));
            [&field[..value.start], &with_token, &field[value.end..]].concat()
        })
        .filter(|field| !field.is_empty())
        .collect();
    let answered = site.answered(fields);
    assert_eq!(
        answered,
        (!pairs.is_empty()).then_some(expected),
        "the token where the value is, and nothing else"
    );
    if pairs.is_empty() {
        return;
    }
    let sent: Vec<&[u8]> = pairs.iter().map(|(pair, _)| pair.as_slice()).collect();
    let own: Vec<Vec<u8>> = pairs
        .iter()
        .map(|(_, own)| [NAME.as_bytes(), b"=", own].concat())
        .collect();
    let sent = sent.join(&b"; "[..]);
    let seen = if rewrite { sent.clone() } else { own.join(&b"; "[..]) };
    assert_eq!(
        site.asked("cookie", &sent),
        (seen, Some(RequestOutcome::Steered)),
        "it comes back as it was"
    );
}

fn header(site: &Site, fields: &[&[u8]]) {
    let answered = site.answered(fields);
    let set: Vec<&[u8]> = fields
        .iter()
        .copied()
        .filter(|field| !matches!(*field, b"" | b"\"\""))
        .collect();
    assert_eq!(
        answered.is_some(),
        !set.is_empty(),
        "an application that sets none gets none"
    );
    let Some(answered) = answered else { return };
    // The field `""` gets no token and is not part of the session.
    let sent: Vec<Vec<u8>> = answered.into_iter().filter(|field| field != b"\"\"").collect();
    // A field with a token in front of its second value is not only an application's.
    let has_inner = |field: &&&[u8]| {
        let mut elements = field.split(|byte| *byte == b',').skip(1).map(<[u8]>::trim_ascii_start);
        elements.any(starts_with_token)
    };
    if set.iter().any(|field| has_inner(&field)) {
        return;
    }
    let seen = site.asked(NAME, &sent.join(&b","[..]));
    assert_eq!(
        seen,
        (set.join(&b","[..]), Some(RequestOutcome::Steered)),
        "it comes back as it was"
    );
}

fn starts_with_token(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let end = value.iter().position(|byte| *byte == b'~');
    end.is_some_and(|end| is_token(&value[..end]))
}

/// Takes the bytes as a Cookie field and as a header of a hostile client.
///
/// # Panics
/// If anything is removed but a token in front of a value.
pub fn prefixed_request(field: &[u8]) {
    SITES.with(|sites| {
        let parts = field.split(|byte| *byte == b';');
        let expected: Vec<Vec<u8>> = parts.map(cookie_without).collect();
        let (seen, _) = sites["cookie-prefix"].asked("cookie", field);
        assert_eq!(seen, expected.join(&b';'), "nothing but prefixes goes");
        let (seen, _) = sites["cookie-rewrite"].asked("cookie", field);
        assert_eq!(seen, field, "the application sees what the client sends");
        let elements = field.split(|byte| *byte == b',');
        let expected: Vec<Vec<u8>> = elements
            .map(|element| value_without(element, element.trim_ascii_start()))
            .collect();
        let (seen, _) = sites["header-prefix"].asked(NAME, field);
        assert_eq!(seen, expected.join(&b','), "nothing but prefixes goes");
    });
}

/// Whether the bytes have a prefix as a Cookie field, and as a header.
#[must_use]
pub fn has_prefix(field: &[u8]) -> [bool; 2] {
    let asked = |mode: &str, name| SITES.with(|sites| sites[mode].asked(name, field).0 != field);
    [asked("cookie-prefix", "cookie"), asked("header-prefix", NAME)]
}

fn cookie_without(segment: &[u8]) -> Vec<u8> {
    let Some(equals) = segment.iter().position(|byte| *byte == b'=') else {
        return segment.to_vec();
    };
    if segment[..equals].trim_ascii() != NAME.as_bytes() {
        return segment.to_vec();
    }
    value_without(segment, segment[equals + 1..].trim_ascii_start())
}

/// `whole` without the token and `~` in front of the value at its end. A quote before them stays.
fn value_without(whole: &[u8], value: &[u8]) -> Vec<u8> {
    if !starts_with_token(value) {
        return whole.to_vec();
    }
    let quote = usize::from(value.first() == Some(&b'"'));
    let before = &whole[..whole.len() - value.len() + quote];
    let tilde = value.iter().position(|byte| *byte == b'~').expect("a token in front");
    [before, &value[tilde + 1..]].concat()
}
