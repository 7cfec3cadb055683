use limpet_core::{RouteSession, Split};

/// Takes the bytes as the metadata of a route.
///
/// # Panics
/// If writing the parsed metadata gives another text.
pub fn route_session(text: &[u8]) {
    let written = match RouteSession::parse(text) {
        Err(error) => return assert!(!error.to_string().is_empty(), "refused for nothing"),
        Ok(RouteSession::Destination) => b"@destination".to_vec(),
        Ok(RouteSession::Rule { policy, scope, split }) => {
            assert!(
                (1..=128).contains(&policy.len()) && !policy.contains(['/', '@']),
                "a policy's name"
            );
            assert!(scope.is_none_or(|scope| (1..=1024).contains(&scope.len())), "a scope");
            let split: &[u8] = match split {
                Some(Split::Routes) => b"@split/",
                Some(Split::Specifier) => b"@specifier/",
                Some(Split::Destinations) => b"@destination/",
                None => b"",
            };
            let scope = scope.map(|scope| [b"/", scope].concat()).unwrap_or_default();
            [split, policy.as_bytes(), &scope].concat()
        }
    };
    // An empty scope may have a slash.
    let same = text == written || text.strip_suffix(b"/") == Some(&written);
    assert!(same, "{} was read as {}", text.escape_ascii(), written.escape_ascii());
}
