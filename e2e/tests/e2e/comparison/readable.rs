//! A client finds in its cookie the backend's address or name, and clients with the same backend.

use super::*;

/// Whether the cookie shows the backend's address, in any form that can be read without a key.
fn shows(cookie: &SetCookie, backend: &Backend) -> bool {
    let address = backend.address();
    let (text, port) = (address.to_string(), address.port().to_be_bytes());
    let value = cookie.value.trim_matches('"');
    let decoded = [
        base64::prelude::BASE64_STANDARD,
        base64::prelude::BASE64_URL_SAFE_NO_PAD,
    ]
    .iter()
    .filter_map(|engine| engine.decode(value).ok());
    let binary = [&[127, 0, 0, 1][..], &port].concat();
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let written = |bytes: &[u8]| contains(bytes, text.as_bytes()) || contains(bytes, &binary);
    written(value.as_bytes()) || decoded.into_iter().any(|bytes| written(&bytes))
}

fn named<'a>(backends: &'a [Backend], session: &Session) -> Result<&'a Backend> {
    backends
        .iter()
        .find(|backend| backend.name() == session.backend)
        .context("another test's backend answered")
}

#[tokio::test]
async fn envoy_shows_the_backends_address() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let session = Session::begin(envoy.address()).await?;
    assert!(shows(&session.cookie, named(&backends, &session)?));
    Ok(())
}

/// The operator chooses the name, which all clients of a server have.
#[tokio::test]
async fn haproxy_shows_the_name_that_the_server_line_gives() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect", &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    assert_eq!(session.cookie.value, session.backend);
    assert!(!shows(&session.cookie, named(&backends, &session)?));
    Ok(())
}

#[tokio::test]
async fn haproxy_with_dynamic_cookies_shows_a_hash() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy_with_key("secret", &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    assert!(session.cookie.value.len() == 16 && session.cookie.value.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(!shows(&session.cookie, named(&backends, &session)?));
    Ok(())
}

#[tokio::test]
async fn limpet_shows_nothing_and_each_client_has_another_token() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    let mut values = BTreeSet::new();
    for _ in 0..12 {
        let session = Session::begin(envoy.address()).await?;
        assert!(!shows(&session.cookie, named(&backends, &session)?));
        values.insert(session.cookie.value);
    }
    assert_eq!(values.len(), 12);
    Ok(())
}

/// Signed tokens are for debugging. Shows that the search finds an address.
#[tokio::test]
async fn limpet_shows_the_address_if_tokens_are_only_signed() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({"token": "signed"}), &backends).await?;
    let session = Session::begin(envoy.address()).await?;
    assert!(shows(&session.cookie, named(&backends, &session)?));
    Ok(())
}
