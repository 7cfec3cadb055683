use super::*;

fn split(old: u32, new: u32) -> Value {
    let of = |name: &str, weight: u32| json!({"name": name, "port": 80, "strategy": "Cookie", "weight": weight});
    root(&json!([{"match": "/", "services": [of("old", old), of("new", new)]}]))
}

fn services() -> Result<Services> {
    Services::start(&[("old", 3), ("new", 3)])
}

#[tokio::test]
async fn new_clients_are_met_by_weight() -> Result<()> {
    let site = Site::start(services()?, &[split(90, 10)]).await?;
    let met = site.met("/", 400).await?;
    let new = shares(&met).get("new").copied().unwrap_or_default();
    // 40 expected, with a deviation of 6.
    assert!((10..=70).contains(&new), "{new} of 400");
    assert_eq!(different(&met), 6);
    Ok(())
}

#[tokio::test]
async fn without_weights_services_are_equal() -> Result<()> {
    for object in [
        split(0, 0),
        root(&json!([{"match": "/", "services": [sticky("old"), sticky("new")]}])),
    ] {
        let site = Site::start(services()?, &[object]).await?;
        let met = site.met("/", 200).await?;
        let new = shares(&met).get("new").copied().unwrap_or_default();
        assert!((60..=140).contains(&new), "{new} of 200");
    }
    Ok(())
}

#[tokio::test]
async fn one_service_needs_no_weight() -> Result<()> {
    let service = json!({"name": "old", "port": 80, "weight": 0});
    let site = Site::start(services()?, &[root(&json!([{"match": "/", "services": [service]}]))]).await?;
    assert_eq!(shares(&site.met("/", 10).await?), [("old", 10)].into());
    Ok(())
}

/// Contour's design promises this; its weights chose again with every request.
#[tokio::test]
async fn who_has_a_session_stays_whatever_the_weights() -> Result<()> {
    let site = Site::start(services()?, &[split(90, 10)]).await?;
    let mut visitors = Vec::new();
    for _ in 0..40 {
        visitors.push(site.begin("/").await?);
    }
    let mut of_new = 0;
    for (visitor, backend) in &mut visitors {
        stays(&site, visitor, "/", backend).await?;
        of_new += usize::from(service(backend) == "new");
    }
    assert!(of_new < 20, "{of_new} of 40 are of the smaller share");

    let site = site.change(&[split(0, 100)]).await?;
    for (visitor, backend) in &mut visitors {
        let mut visitor = moved(&site, visitor)?;
        stays(&site, &mut visitor, "/", backend).await?;
    }
    assert_eq!(shares(&site.met("/", 50).await?), [("new", 50)].into());

    // Conversely, no new client goes there either.
    let site = site.change(&[split(100, 0)]).await?;
    for (visitor, backend) in &mut visitors {
        let mut visitor = moved(&site, visitor)?;
        stays(&site, &mut visitor, "/", backend).await?;
    }
    assert_eq!(shares(&site.met("/", 50).await?), [("old", 50)].into());
    Ok(())
}

/// Neither does a changed health check, or another name of the root.
#[tokio::test]
async fn a_canary_behind_the_first_service_ends_nothing() -> Result<()> {
    let alone = root(&json!([{"match": "/", "services": [sticky("old")]}]));
    let mut checked = split(0, 1);
    checked["spec"]["healthCheck"] = json!({"path": "/healthz"});
    let mut renamed = alone.clone();
    renamed["metadata"]["name"] = "another".into();
    let mut site = Site::start(services()?, std::slice::from_ref(&alone)).await?;
    let mut visitors = Vec::new();
    for _ in 0..10 {
        visitors.push(site.begin("/").await?);
    }
    for object in [split(50, 50), split(0, 1), checked, renamed, alone] {
        site = site.change(std::slice::from_ref(&object)).await?;
        for (visitor, backend) in &visitors {
            let mut visitor = moved(&site, visitor)?;
            stays(&site, &mut visitor, "/", backend)
                .await
                .with_context(|| object.to_string())?;
        }
    }
    Ok(())
}
