//! Services of one route with different strategies.

use super::*;

fn objects(other: &str) -> Vec<Value> {
    let services = json!([
        {"name": "kept", "port": 80, "weight": 1, "strategy": "Cookie"},
        {"name": "met", "port": 80, "weight": 1, "strategy": other},
    ]);
    vec![root(&json!([{"match": "/", "services": services}]))]
}

fn services() -> Result<Services> {
    Services::start(&[("kept", 3), ("met", 3)])
}

/// A client meets either Service until it meets the one with `Cookie`, and stays there.
#[tokio::test]
async fn after_a_while_everybody_has_a_session() -> Result<()> {
    for other in ["Random", "RoundRobin", "WeightedLeastRequest"] {
        let site = Site::start(services()?, &objects(other)).await?;
        let mut without = 0;
        for _ in 0..20 {
            let mut visitor = site.visitor()?;
            let mut session: Option<String> = None;
            for _ in 0..50 {
                let answer = site.visit(&mut visitor, "/").await?;
                let met = backend(&answer)?;
                let tokens = answer.set_cookies().len();
                match &session {
                    Some(kept) => assert_eq!((&met, tokens), (kept, 0), "{other}: a session moved"),
                    None if service(&met) == "kept" => {
                        assert_eq!(tokens, 1, "{other}: no session began");
                        session = Some(met);
                    }
                    None => {
                        assert_eq!(tokens, 0, "{other}: an answer without a session has a token");
                        without += 1;
                    }
                }
            }
            assert!(session.is_some(), "{other}: 50 requests met the other service alone");
        }
        // On average one for each client.
        assert!(
            (3..100).contains(&without),
            "{other}: {without} answers without a session"
        );
    }
    Ok(())
}

/// No cookie of a client begins a session where none begins.
#[tokio::test]
async fn foreign_cookies_are_met_by_weight() -> Result<()> {
    let site = Site::start(services()?, &objects("Random")).await?;
    let mut met = Vec::new();
    for number in 0..60_u64 {
        let request = site.get("/")?.cookie(format!("{COOKIE}=\"{number:016x}\""));
        let answer = request.send().await?;
        let backend = backend(&answer)?;
        let expected = usize::from(service(&backend) == "kept");
        assert_eq!(answer.set_cookies().len(), expected, "{backend}: {answer:?}");
        met.push(backend);
    }
    let shares = shares(&met);
    assert!(
        shares.values().all(|share| *share > 10) && shares.len() == 2,
        "{shares:?}"
    );
    Ok(())
}

/// A session stays when a Service with another strategy joins its own, and when its own gets the weight 0.
#[tokio::test]
async fn a_session_outlasts_a_second_strategy() -> Result<()> {
    let alone = root(&json!([{"match": "/", "services": [sticky("kept")]}]));
    let site = Site::start(services()?, &[alone]).await?;
    let (visitor, kept) = site.begin("/").await?;
    let mut second = objects("Random");
    let site = site.change(&second).await?;
    stays(&site, &mut moved(&site, &visitor)?, "/", &kept).await?;
    second[0]["spec"]["routes"][0]["services"][0]["weight"] = 0.into();
    let site = site.change(&second).await?;
    stays(&site, &mut moved(&site, &visitor)?, "/", &kept).await?;
    assert_eq!(shares(&site.met("/", 20).await?), [("met", 20)].into());
    Ok(())
}
