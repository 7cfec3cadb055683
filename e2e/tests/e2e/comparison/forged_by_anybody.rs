//! A client that has no session writes a cookie by itself, and is sent to the backend of its choice.

use std::collections::BTreeMap;

use super::*;

#[tokio::test]
async fn envoy_sends_the_client_to_the_address_that_it_wrote() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    for backend in &backends {
        let forged = native_forgery(&backend.address().to_string());
        assert_eq!(reached(envoy.address(), &forged).await?, one(backend.name()));
    }
    Ok(())
}

#[tokio::test]
async fn haproxy_sends_the_client_to_the_server_that_it_named() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie session insert indirect", &backends).await?;
    for backend in &backends {
        let forged = format!("session={}", backend.name());
        assert_eq!(reached(haproxy.address(), &forged).await?, one(backend.name()));
    }
    Ok(())
}

/// The hash needs the key. It is one value for a server: each of its clients has the same.
#[tokio::test]
async fn haproxy_with_dynamic_cookies_takes_no_name_but_has_one_value_for_all_clients() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy_with_key("secret", &backends).await?;
    assert_eq!(reached(haproxy.address(), "session=a").await?.len(), 3);
    let address = format!("session={}", backends[0].address());
    assert_eq!(reached(haproxy.address(), &address).await?.len(), 3);

    let mut values = BTreeMap::<_, BTreeSet<_>>::new();
    for _ in 0..9 {
        let session = Session::begin(haproxy.address()).await?;
        assert!(session.holds().await?);
        values.entry(session.backend).or_default().insert(session.cookie.value);
    }
    assert_eq!(values.len(), 3);
    assert!(values.values().all(|values| values.len() == 1), "{values:?}");
    Ok(())
}

#[tokio::test]
async fn limpet_takes_neither_an_address_nor_a_name_nor_a_changed_token() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    for backend in &backends {
        let bare = backend.address().to_string();
        for forged in [
            native_forgery(&bare),
            format!("session={bare}"),
            format!("session={}", backend.name()),
        ] {
            assert_eq!(reached(envoy.address(), &forged).await?.len(), 3, "{forged}");
        }
    }
    let session = Session::begin(envoy.address()).await?;
    assert!(session.holds().await?);
    let mut changed = session.cookie.value.clone().into_bytes();
    changed[30] = if changed[30] == b'A' { b'B' } else { b'A' };
    let changed = format!("session={}", String::from_utf8(changed)?);
    assert_eq!(reached(envoy.address(), &changed).await?.len(), 3);
    Ok(())
}
