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
    let haproxy = haproxy("cookie limpet-session insert indirect", &backends).await?;
    for backend in &backends {
        let forged = format!("limpet-session={}", backend.name());
        assert_eq!(reached(haproxy.address(), &forged).await?, one(backend.name()));
    }
    Ok(())
}

/// A client cannot make the hash without the key, but all clients of a server have the same one.
#[tokio::test]
async fn haproxys_dynamic_cookie_is_the_same_for_all_clients() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy_with_key("secret", &backends).await?;
    assert_eq!(reached(haproxy.address(), "limpet-session=a").await?.len(), 3);
    let address = format!("limpet-session={}", backends[0].address());
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
async fn limpet_refuses_an_address_a_name_and_a_changed_token() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = limpet(&json!({}), &backends).await?;
    for backend in &backends {
        let bare = backend.address().to_string();
        for forged in [
            native_forgery(&bare),
            format!("limpet-session={bare}"),
            format!("limpet-session={}", backend.name()),
        ] {
            assert_eq!(reached(envoy.address(), &forged).await?.len(), 3, "{forged}");
        }
    }
    let session = Session::begin(envoy.address()).await?;
    assert!(session.holds().await?);
    let mut changed = session.cookie.value.clone().into_bytes();
    changed[30] = if changed[30] == b'A' { b'B' } else { b'A' };
    let changed = format!("limpet-session={}", String::from_utf8(changed)?);
    assert_eq!(reached(envoy.address(), &changed).await?.len(), 3);
    Ok(())
}
