use super::carrier_rules::{header_name_problem, name_problem};
use super::schema::{FurtherConfig, PolicyConfig, QueryConfig};
use super::{Carrier, CarrierKind, FurtherCarrier, Problem};

const MAX_NAME_LEN: usize = 256;
/// The most further carriers, because a request without a token that counts looks for each.
pub const MAX_ALSO: usize = 8;

/// Checks `query` and adds to `problems`.
pub(super) fn query(field: &str, config: &QueryConfig, problems: &mut Vec<Problem>) -> Carrier {
    let QueryConfig {
        name,
        forward,
        redirects,
    } = config;
    let parameter = further(CarrierKind::Query, name, *forward, false);
    problems.extend(name_problem_of(&parameter, field));
    Carrier::Query {
        parameter,
        redirects: *redirects,
    }
}

/// Checks `also` and `tell`, and adds to `problems`.
pub(super) fn further_carriers(
    field: &str,
    config: &PolicyConfig,
    own: &Carrier,
    problems: &mut Vec<Problem>,
) -> (Vec<FurtherCarrier>, Option<String>) {
    let mut also: Vec<FurtherCarrier> = Vec::new();
    if config.also.len() > MAX_ALSO {
        let message = format!("expected at most {MAX_ALSO}, found {}", config.also.len());
        problems.push(problem(format!("{field}.also"), &message));
    }
    for (i, config) in config.also.iter().enumerate() {
        let field = format!("{field}.also[{i}]");
        let Some((word, carrier)) = read(config) else {
            problems.push(problem(field, "expected exactly one of cookie, header and query"));
            continue;
        };
        let known = also.iter().any(|other| is_same(other, &carrier));
        let of_own = own.place() == Some(carrier.place) && own.name() == carrier.name;
        let field = format!("{field}.{word}");
        problems.extend(name_problem_of(&carrier, &field));
        if known || of_own {
            let message = format!("expected each carrier once, found the {word} {:?} again", carrier.name);
            problems.push(problem(format!("{field}.name"), &message));
        }
        also.push(carrier);
    }
    let tell = config.tell.as_ref().map(|tell| tell.header.name.as_str());
    if let Some(message) = tell.and_then(|name| tell_problem(name, own)) {
        problems.push(problem(format!("{field}.tell.header.name"), &message));
    }
    if let Carrier::Query { redirects, .. } = own
        && tell.is_none()
    {
        problems.extend(untold(field, config, *redirects));
    }
    (also, tell.map(str::to_ascii_lowercase))
}

fn read(config: &FurtherConfig) -> Option<(&'static str, FurtherCarrier)> {
    let of = |place, name: &str, forward| further(place, name, forward, config.former);
    match (&config.cookie, &config.header, &config.query) {
        (Some(cookie), None, None) => Some(("cookie", of(CarrierKind::Cookie, &cookie.name, cookie.forward))),
        (None, Some(header), None) => {
            let name = header.name.to_ascii_lowercase();
            Some(("header", of(CarrierKind::Header, &name, header.forward)))
        }
        (None, None, Some(query)) => Some(("query", of(CarrierKind::Query, &query.name, query.forward))),
        _ => None,
    }
}

fn further(place: CarrierKind, name: &str, forward: bool, is_former: bool) -> FurtherCarrier {
    FurtherCarrier {
        place,
        name: name.to_owned(),
        forward,
        is_former,
    }
}

fn is_same(one: &FurtherCarrier, other: &FurtherCarrier) -> bool {
    one.place == other.place && one.name == other.name
}

fn name_problem_of(carrier: &FurtherCarrier, field: &str) -> Option<Problem> {
    let message = match carrier.place {
        CarrierKind::Cookie => name_problem("cookie", &carrier.name),
        CarrierKind::Header => header_name_problem(&carrier.name),
        CarrierKind::Query => parameter_name_problem(&carrier.name),
    };
    message.map(|message| problem(format!("{field}.name"), &message))
}

/// Only characters that need no escapes in a query.
fn parameter_name_problem(name: &str) -> Option<String> {
    let is_unreserved = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let count = name.chars().count();
    let found = match name.chars().find(|c| !is_unreserved(*c)) {
        _ if name.is_empty() => "none".to_owned(),
        _ if count > MAX_NAME_LEN => format!("{count} characters"),
        Some(wrong) => format!("{name:?} with {wrong:?}"),
        None => return None,
    };
    Some(format!(
        "expected a name for a parameter: 1 to {MAX_NAME_LEN} letters, digits or -._~, found {found}"
    ))
}

fn tell_problem(name: &str, own: &Carrier) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let of_own = own.place() == Some(CarrierKind::Header) && own.name() == name;
    let message =
        format!("expected another header than the policy's own, found {name:?}: responses have the token in it");
    header_name_problem(&name).or(of_own.then_some(message))
}

fn untold(field: &str, config: &PolicyConfig, redirects: bool) -> Option<Problem> {
    if !redirects {
        let message = "expected a header, or redirects: true in query: nothing else gives a client its token";
        return Some(problem(format!("{field}.tell"), message));
    }
    let message = "remove it or add tell: a token is renewed only in redirects, so the time of its last \
                   use would be unknown; absoluteTimeout bounds it";
    config
        .idle_timeout
        .map(|_| problem(format!("{field}.idleTimeout"), message))
}

fn problem(field: String, message: &str) -> Problem {
    Problem {
        field,
        message: message.to_owned(),
    }
}
