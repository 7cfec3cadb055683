//! A client whose session has ended writes another time into its cookie.

use super::*;

/// The cookie may omit its end.
#[tokio::test]
async fn envoy_honours_a_cookie_without_its_end() -> Result<()> {
    let backends = Backend::three()?;
    let config = native_config(&json!({}), &json!({"ttl": "1s"}))?.backends(&backends);
    let envoy = Envoy::serve(config).await?;
    let session = Session::begin(envoy.address()).await?;
    session.until_it_ends().await?;
    // Field 1 of the message, the address: a tag, a length, the text.
    let bytes = native_bytes(&session.cookie)?;
    let address = String::from_utf8(bytes[2..2 + usize::from(bytes[1])].to_vec())?;
    assert!(session.holds_with(&native_forgery(&address)).await?);
    Ok(())
}

/// HAProxy's cookie may also omit its dates: name, last visit, first visit.
#[tokio::test]
async fn haproxy_honours_a_cookie_without_its_dates() -> Result<()> {
    let backends = Backend::three()?;
    let haproxy = haproxy("cookie limpet-session insert indirect maxidle 1 maxlife 1", &backends).await?;
    let session = Session::begin(haproxy.address()).await?;
    session.until_it_ends().await?;
    let (name, dates) = session.cookie.value.split_once('|').context("no dates")?;
    assert_eq!(dates.split('|').count(), 2);
    assert!(session.holds_with(&format!("limpet-session={name}")).await?);
    Ok(())
}

/// A `signed` token shows its times.
#[tokio::test]
async fn limpet_does_not_honour_a_token_with_another_time() -> Result<()> {
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    let backends = Backend::three()?;
    let envoy = limpet(&json!({"absoluteTimeout": "1s", "token": "signed"}), &backends).await?;
    let session = Session::begin(envoy.address()).await?;
    session.until_it_ends().await?;
    let token = BASE64_URL_SAFE_NO_PAD.decode(&session.cookie.value)?;
    // After the version, the key id and the tag: wherever the times are, some byte changes.
    let payload = 18..token.len();
    for at in payload.clone() {
        let mut later = token.clone();
        later[at] = later[at].wrapping_add(1);
        let later = format!("limpet-session={}", BASE64_URL_SAFE_NO_PAD.encode(later));
        Request::get(session.at, "/").cookie(later).send().await?;
    }
    let refused = envoy.metric("web.refused.bad_signature").await?;
    assert_eq!(usize::try_from(refused)?, payload.len());
    Ok(())
}
