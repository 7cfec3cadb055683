use std::net::SocketAddr;

use limpet_core::fakes::CLUSTER;
use limpet_core::outcome::ResponseOutcome;
use limpet_core::time::Timestamp;
use limpet_core::{Filter, HeaderEdit};

use crate::proxy::{HOST, request, response};

const MOVE: &str = "x-move";
const CARRIER: &str = "x-session";
const POD: &str = "web-1";
const POD_HOST: &str = "10.0.0.2:8080";

fn filter(lists_hosts: bool) -> Filter {
    let hosts = if lists_hosts {
        serde_json::json!({ CLUSTER: { HOST: "web-0", POD_HOST: POD } })
    } else {
        serde_json::json!({})
    };
    let config = serde_json::json!({
        "keys": [{"id": 1, "inline": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}],
        "policies": {"web": {"header": {"name": CARRIER}, "move": {"header": MOVE}, "strict": true}},
        "default": {"policy": "web", "scope": "default"},
        "hosts": hosts,
    });
    let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).expect("a valid configuration");
    filter
}

/// Takes each line as a field of the header.
///
/// # Panics
/// If the header stays, a session moves to what no single field names, or a move is neither accepted nor refused.
pub fn moves(data: &[u8]) {
    let fields: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(4).collect();
    for lists_hosts in [false, true] {
        let named = named(&fields, lists_hosts);
        let went = goes(&filter(lists_hosts), &fields);
        assert_eq!(went, named.filter(|host| host.to_string() != HOST), "{lists_hosts}");
    }
}

/// Whether the fields move a session to another backend.
#[must_use]
pub fn names_a_backend(data: &[u8]) -> bool {
    let fields: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(4).collect();
    named(&fields, true).is_some()
}

/// What the fields name, found in another way than the filter's.
fn named(fields: &[&[u8]], lists_hosts: bool) -> Option<SocketAddr> {
    let [field] = fields else { return None };
    let text = String::from_utf8(field.to_vec()).ok()?;
    if lists_hosts && text == POD {
        return POD_HOST.parse().ok();
    }
    let host: SocketAddr = text.parse().ok()?;
    if matches!(host, SocketAddr::V6(v6) if v6.scope_id() != 0) {
        return None;
    }
    let is_host = [HOST, POD_HOST].contains(&host.to_string().as_str());
    let may_be = host.port() > 0 && !["0.0.0.0", "::"].contains(&host.ip().to_string().as_str());
    (if lists_hosts { is_host } else { may_be }).then_some(host)
}

fn goes(filter: &Filter, fields: &[&[u8]]) -> Option<SocketAddr> {
    let now = Timestamp::from_unix_seconds(1_763_718_000);
    let mut session = filter.session(&request()).ok().flatten().expect("a default");
    session.on_request(&mut request(), now).expect("the view answers");
    let response = response(MOVE, fields);
    let plan = session.on_response(&response, || Ok(now)).expect("the view answers");
    assert_eq!(plan.edits.last(), Some(&HeaderEdit::Remove(MOVE)));
    let token = plan.edits.iter().find_map(|edit| match edit {
        HeaderEdit::Set(CARRIER, token) => Some(token.clone()),
        _ => None,
    });
    let token = token.expect("a token, wherever it leads");
    let mut again = request().header(CARRIER, &token);
    let mut next = filter.session(&again).ok().flatten().expect("a default");
    let asked = next.on_request(&mut again, now).expect("the view answers");
    let steering = asked.steering.expect("a good token");
    let has_moved = plan.outcome == ResponseOutcome::Moved;
    assert_eq!(has_moved, steering.host.to_string() != HOST);
    assert_ne!(has_moved, steering.strict, "no client is locked out");
    assert!(!has_moved || plan.refused_move.is_none());
    has_moved.then_some(steering.host)
}
