//! Addresses of clients as a proxy writes them, and a table of them.

use std::net::IpAddr;

use limpet_core::Filter;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;

use crate::proxy::{HOST, request, response};

const CONFIG: &[u8] = br#"{
    "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
    "policies": {"web": {"source": {"prefixV4": 24, "prefixV6": 48, "entries": 5, "timeout": "1m"}}},
    "default": {"policy": "web", "scope": "default"}
}"#;

/// Takes each line as the address of the next client, a second later, answered by one backend.
///
/// # Panics
/// If a client is steered that was not there, or to another backend.
pub fn clients(data: &[u8]) {
    let (filter, _) = Filter::from_json(CONFIG, &|_| None).expect("a valid configuration");
    let host = HOST.parse().expect("an address");
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (second, address) in (0..).zip(data.split(|byte| *byte == b'\n').take(64)) {
        let now = Timestamp::from_unix_seconds(1_763_718_000 + second);
        let mut request = request().client(address);
        let mut session = filter.session(&request).ok().flatten().expect("a session by default");
        let plan = session.on_request(&mut request, now).expect("the view answers");
        let is_ip = ip(address).is_some();
        match plan.outcome {
            Some(RequestOutcome::Steered) => {
                assert_eq!(plan.steering.map(|steering| steering.host), Some(host));
                assert!(is_ip && !seen.is_empty(), "{}", address.escape_ascii());
            }
            _ => assert_eq!(plan.steering, None),
        }
        assert!(plan.edit.is_none() && (is_ip || plan.hash.is_none()));
        // The same client again, while it cannot have lost its place.
        if seen.last().is_some_and(|last| last == address) && is_ip {
            assert_eq!(
                plan.outcome,
                Some(RequestOutcome::Steered),
                "{}",
                address.escape_ascii()
            );
        }
        let plan = session
            .on_response(&response("", &[]), || Ok(now))
            .expect("the view answers");
        assert!(plan.edits.is_empty() && plan.status.is_none());
        seen.push(address.to_vec());
    }
}

fn ip(address: &[u8]) -> Option<IpAddr> {
    let address = std::str::from_utf8(address).ok()?;
    address.parse().ok().map(|address: std::net::SocketAddr| address.ip())
}

/// Whether a client comes back, and another one comes.
#[must_use]
pub fn has_clients(data: &[u8]) -> bool {
    let lines: Vec<_> = data
        .split(|byte| *byte == b'\n')
        .filter(|line| ip(line).is_some())
        .collect();
    lines.iter().any(|line| *line != lines[0])
}
