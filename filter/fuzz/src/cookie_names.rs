use limpet_core::carrier::cookie_name::{CookieNames, CookieOwner};

/// Takes the lines as a session's name, its scope, and a cookie's name.
///
/// # Panics
/// If a cookie of the session is not recognized, or another one is.
pub fn cookie_names(data: &[u8]) {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let session = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let scope = lines.next().unwrap_or_default();
    let name = lines.next().unwrap_or_default();
    let [plain, per_scope] = [false, true].map(|per_scope| CookieNames::new(&session, scope, per_scope));
    assert_eq!((plain.current(), plain.former()), (&*session, per_scope.current()));
    assert_eq!(per_scope.former(), session);
    assert!(
        is_of_scope(&session, per_scope.current().as_bytes()),
        "{}",
        per_scope.current()
    );
    for names in [&plain, &per_scope] {
        let own = [
            (names.current(), CookieOwner::Current),
            (names.former(), CookieOwner::Former),
        ];
        for (name, whose) in own {
            assert_eq!(names.owner_of(name.as_bytes()), whose, "{name}");
        }
        let known = own.iter().find(|(own, _)| own.as_bytes() == name);
        let expected = match known {
            Some((_, whose)) => *whose,
            None if is_of_scope(&session, name) => CookieOwner::OtherScope,
            None => CookieOwner::Other,
        };
        assert_eq!(names.owner_of(name), expected, "{}", name.escape_ascii());
    }
    let of_another = CookieNames::new(&session, name, true);
    let expected = if of_another == per_scope {
        CookieOwner::Current
    } else {
        CookieOwner::OtherScope
    };
    assert_eq!(per_scope.owner_of(of_another.current().as_bytes()), expected);
}

fn is_of_scope(session: &str, name: &[u8]) -> bool {
    let rest = name
        .strip_prefix(session.as_bytes())
        .and_then(|rest| rest.strip_prefix(b"~"));
    rest.is_some_and(|rest| rest.len() == 8 && rest.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')))
}

/// Whether the third line names a cookie of a session in another scope.
#[must_use]
pub fn is_of_another_scope(data: &[u8]) -> bool {
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let session = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let names = CookieNames::new(&session, lines.next().unwrap_or_default(), true);
    names.owner_of(lines.next().unwrap_or_default()) == CookieOwner::OtherScope
}
