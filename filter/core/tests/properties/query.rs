//! Our parameters are found and removed, and all other bytes of the path stay in order.

use limpet_core::carrier::query;
use proptest::prelude::*;

const NAME: &str = "session";

/// A parameter: ours, nearly ours, or any.
fn parameter() -> impl Strategy<Value = Vec<u8>> {
    let ours = "(session|sessio%6e|%73ession|%73%65%73%73%69%6F%6e)(=[a-zA-Z0-9=_%?-]{0,6})?";
    let nearly = "(Session|sessio|xsession|session2|%73essio|sess%69o|session%3d|session;|%2573ession)(=[a-z]{0,3})?";
    let other = "[a-z%+;?]{0,4}(=[ -%'-~]{0,8})?";
    prop_oneof![
        ours.prop_map(String::into_bytes),
        nearly.prop_map(String::into_bytes),
        other.prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>().prop_filter("no ampersand", |byte| *byte != b'&'), 0..6),
    ]
}

fn before() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "/[a-z/%&=]{0,8}".prop_map(String::into_bytes),
        Just(b"*".to_vec()),
        Just(Vec::new())
    ]
}

/// The bytes of an escaped text, by the URL Standard.
fn decoded(text: &[u8]) -> Vec<u8> {
    let hex = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match (text[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap());
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

/// The value of a parameter of our name, by definition.
fn ours(parameter: &[u8]) -> Option<Vec<u8>> {
    let equals = parameter.iter().position(|byte| *byte == b'=');
    let (name, value) = match equals {
        Some(at) => (&parameter[..at], &parameter[at + 1..]),
        None => (parameter, &b""[..]),
    };
    (decoded(name) == NAME.as_bytes()).then(|| decoded(value))
}

fn found(path: &[u8]) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
    let mut values = Vec::new();
    let rest = query::without(path, NAME, |value| values.push(value.to_vec()))?;
    Some((values, rest))
}

fn expected(path: &[u8]) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
    let mark = path.iter().position(|byte| *byte == b'?')?;
    let all: Vec<&[u8]> = path[mark + 1..].split(|byte| *byte == b'&').collect();
    let values: Vec<Vec<u8>> = all.iter().filter_map(|parameter| ours(parameter)).collect();
    let others: Vec<&[u8]> = all.into_iter().filter(|parameter| ours(parameter).is_none()).collect();
    let rest = if others.is_empty() {
        path[..mark].to_vec()
    } else {
        [&path[..=mark], &others.join(&b'&')].concat()
    };
    (!values.is_empty()).then_some((values, rest))
}

fn check(path: &[u8]) -> Result<(), TestCaseError> {
    let found = found(path);
    prop_assert_eq!(&found, &expected(path));
    if let Some((_, rest)) = found {
        prop_assert_eq!(self::found(&rest), None, "ours is still there");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn only_our_parameters_are_removed(
        before in before(),
        parameters in prop::collection::vec(parameter(), 0..12),
    ) {
        let path = [&before[..], b"?", &parameters.join(&b'&')].concat();
        check(&path)?;
    }

    #[test]
    fn any_path_of_a_client_is_handled(path: Vec<u8>) {
        check(&path)?;
    }

    #[test]
    fn a_token_in_a_url_is_found_again(
        before in before(),
        parameters in prop::collection::vec(parameter(), 0..6),
        fragment in "(#[a-z?&=]{0,6})?",
    ) {
        let no_fragment = |byte: &u8| *byte != b'#';
        let mut url = [&before[..], b"?", &parameters.join(&b'&')].concat();
        url.retain(no_fragment);
        let rest = found(&url).map_or(url.clone(), |(_, rest)| rest);
        let whole = [&url[..], fragment.as_bytes()].concat();
        let with_token = query::with(&whole, NAME, "T");
        let path = with_token.strip_suffix(fragment.as_bytes()).unwrap();
        let (values, left) = found(path).unwrap();
        prop_assert_eq!(values, vec![b"T".to_vec()]);
        // An empty parameter at the end is the token's place.
        let trimmed = |path: &[u8]| {
            let end = path.iter().rposition(|byte| !b"?&".contains(byte)).map_or(0, |last| last + 1);
            path[..end].to_vec()
        };
        prop_assert_eq!(trimmed(&left), trimmed(&rest));
    }
}
