//! The same for sessions that the client's address holds.

use std::net::Ipv4Addr;

use super::*;

#[tokio::test]
async fn an_address_has_a_session_from_login_to_logout() -> Result<()> {
    let policy = json!({"source": {}, "begin": {"cookie": "login"}, "end": {"cookie": "login"}});
    let in_turn = json!({"lb_policy": "ROUND_ROBIN"});
    let config = Config::load("source.yaml")?
        .policy(&policy)
        .workers(1)
        .cluster(&in_turn);
    let site = Site::start(config).await?;
    let request = || site.envoy.get("/").from(Ipv4Addr::new(127, 0, 9, 1));
    let reached = async || -> Result<BTreeSet<String>> {
        let mut reached = BTreeSet::new();
        for _ in 0..6 {
            let answer = request().send().await?;
            assert!(answer.set_cookies().is_empty());
            reached.insert(answer.backend().unwrap_or_default().to_owned());
        }
        Ok(reached)
    };
    for round in 1..=2 {
        assert_eq!(reached().await?.len(), 3, "nobody has logged in");
        let login = request().answered_with("set-cookie", LOGIN).send().await?;
        assert_eq!(login.set_cookies().len(), 1, "the application's");
        let own = login.backend().unwrap_or_default().to_owned();
        assert_eq!(reached().await?, [own].into());
        request().answered_with("set-cookie", LOGOUT).send().await?;
        assert_eq!(site.envoy.metric("web.issued").await?, round);
        assert_eq!(site.envoy.metric("web.ended").await?, round);
    }
    assert_eq!(reached().await?.len(), 3);
    Ok(())
}
