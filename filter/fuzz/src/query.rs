use limpet_core::carrier::{location, query};

const NAME: &str = "session";
const AUTHORITY: &[u8] = b"shop.example:8080";

/// Takes the bytes as a path and as a Location.
///
/// # Panics
/// If a parameter of ours is not found or not removed, anything else is removed, or a URL that leads elsewhere gets a
/// token.
pub fn query(data: &[u8]) {
    as_path(data);
    as_location(data);
}

/// Whether the path has a parameter called `session`.
#[must_use]
pub fn has_parameter(path: &[u8]) -> bool {
    query::without(path, NAME, |_| ()).is_some()
}

/// Whether the Location leads back to the host of the request.
#[must_use]
pub fn leads_back(url: &[u8]) -> bool {
    location::is_same_origin(url, AUTHORITY, false)
}

fn as_path(path: &[u8]) {
    let mark = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    let (before, query) = path.split_at(mark);
    let all: Vec<&[u8]> = query
        .get(1..)
        .map_or(Vec::new(), |query| query.split(|byte| *byte == b'&').collect());
    let (ours, others): (Vec<&[u8]>, Vec<&[u8]>) = all.into_iter().partition(|parameter| is_ours(parameter));
    let mut values = Vec::new();
    let Some(rest) = query::without(path, NAME, |value| values.push(value.to_vec())) else {
        assert!(ours.is_empty(), "ours is in the path and was not found");
        return;
    };
    assert_eq!(values.len(), ours.len(), "a value of each");
    assert!(values.iter().all(|value| value.len() <= path.len()), "nothing grows");
    let separator: &[u8] = if others.is_empty() { b"" } else { b"?" };
    assert_eq!(
        rest,
        [before, separator, &others.join(&b'&')].concat(),
        "exactly ours is gone"
    );
    assert!(!has_parameter(&rest), "nothing of ours is left");
}

/// By the URL Standard: the name is in front of `=`, with escapes.
fn is_ours(parameter: &[u8]) -> bool {
    let raw = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
    let mut name = Vec::new();
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        let escaped = raw
            .get(at + 1..at + 3)
            .filter(|digits| *byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let digits = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        name.push(digits.unwrap_or(*byte));
        at += if digits.is_some() { 3 } else { 1 };
    }
    name == NAME.as_bytes()
}

fn as_location(url: &[u8]) {
    for https in [false, true] {
        if !location::is_same_origin(url, AUTHORITY, https) {
            continue;
        }
        // Browsers drop some of these bytes, and take `\` for `/`.
        assert!(
            url.iter().all(|byte| *byte > b' ' && *byte != b'\\'),
            "no URL of two meanings"
        );
        let end = url.iter().position(|byte| b"?#".contains(byte)).unwrap_or(url.len());
        if let Some(at) = url[..end]
            .windows(2)
            .position(|two| two == b"//")
            .filter(|at| is_authority(url, *at))
        {
            let host = url[at + 2..]
                .split(|byte| b"/?#".contains(byte))
                .next()
                .unwrap_or_default();
            assert!(
                host.eq_ignore_ascii_case(AUTHORITY),
                "another host: {}",
                url.escape_ascii()
            );
        }
        let with_token = query::with(url, NAME, "T");
        assert!(
            location::is_same_origin(&with_token, AUTHORITY, https),
            "it leads elsewhere now"
        );
        let without_fragment = with_token.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut values = Vec::new();
        query::without(without_fragment, NAME, |value| values.push(value.to_vec())).expect("the token is in the URL");
        assert_eq!(values, [b"T"], "once");
    }
}

/// Whether `//` here begins an authority: at the start, or behind a scheme.
fn is_authority(url: &[u8], at: usize) -> bool {
    let scheme = &url[..at];
    scheme.is_empty() || scheme.last() == Some(&b':') && !scheme.contains(&b'/')
}
