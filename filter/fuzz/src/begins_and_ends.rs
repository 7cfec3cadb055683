use limpet_core::carrier::set_cookie::{CookieChange, change_of};
use limpet_core::outcome::ResponseOutcome;
use limpet_core::time::Timestamp;
use limpet_core::{Filter, HeaderEdit};

use crate::proxy::{request, response};

const NAME: &str = "session";
/// No input has it.
const OWN: &str = "the-cookie-of-the-filter";

thread_local! {
    static FILTER: Filter = {
        let config = serde_json::json!({
            "keys": [{"id": 1, "inline": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="}],
            "policies": {"web": {"cookie": {"name": OWN}, "begin": {"cookie": NAME}, "end": {"cookie": NAME}}},
            "default": {"policy": "web", "scope": "scope"},
        });
        let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).expect("a good configuration");
        filter
    };
}

pub(crate) fn begins_and_ends(fields: &[&[u8]]) {
    let now = Timestamp::from_unix_seconds(1_763_718_000);
    let session = FILTER.with(|filter| filter.session(&request()));
    let mut session = session.expect("every answer is there").expect("a default");
    session.on_request(&mut request(), now).expect("every answer is there");
    let plan = session
        .on_response(&response("set-cookie", fields), || Ok(now))
        .expect("every answer is there");
    let expected = change_of(fields.iter().copied(), NAME, now);
    let outcome = match expected {
        Some(CookieChange::Set) => ResponseOutcome::Issued,
        Some(CookieChange::Deleted) | None => ResponseOutcome::Unchanged,
    };
    assert_eq!(plan.outcome, outcome, "{expected:?}");
    let added: Vec<_> = plan
        .edits
        .iter()
        .filter_map(|edit| match edit {
            HeaderEdit::Add("set-cookie", field) => Some(field),
            _ => None,
        })
        .collect();
    let own = added
        .last()
        .map(|field| field.starts_with(b"the-cookie-of-the-filter=;"));
    let deletes = expected.map(|said| said == CookieChange::Deleted);
    assert_eq!(own, deletes, "a token, a deletion, or nothing");
}
