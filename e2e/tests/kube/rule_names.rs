//! Rules without a name, which keep their sessions when they change their matches.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Proxy, Release};
use limpet_e2e::{Request, poll};
use serde_json::{Value, json};

use crate::keyring::{KeyringSite, key_encryption_key, replica};

/// Three rules without a name. The second one has these paths.
async fn route(namespace: &Namespace, paths: &[&str]) -> Result<()> {
    let rule = |paths: &[&str]| {
        let matches: Vec<Value> = paths.iter().map(|path| json!({"path": {"value": path}})).collect();
        json!({"matches": matches, "backendRefs": [{"name": "web", "port": 80}]})
    };
    let rules = [rule(&["/a"]), rule(paths), rule(&["/z"])];
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "web"},
        "spec": {"parentRefs": [{"name": "web"}], "rules": rules},
    });
    namespace.apply_object(&route).await.map(drop)
}

/// Waits until every Envoy answers requests for the path with this status.
async fn until_answered(addresses: &[SocketAddr], path: &str, status: u16) -> Result<()> {
    for address in addresses {
        let answered = async || (Request::get(*address, path).send().await.ok()?.status == status).then_some(());
        poll::until(&format!("{address} to answer {path} with {status}"), answered).await?;
    }
    Ok(())
}

async fn session(address: SocketAddr, path: &str) -> Result<(String, String)> {
    let answer = Request::get(address, path).send().await?;
    let cookie = answer.set_cookies().pop().context("no cookie")?;
    Ok((cookie.pair(), answer.backend().context("no backend")?.to_owned()))
}

async fn moved(addresses: &[SocketAddr], path: &str, sessions: &[(String, String)]) -> Result<usize> {
    let mut moved = 0;
    for (cookie, backend) in sessions {
        let mut stays = true;
        for address in addresses {
            let answer = Request::get(*address, path).cookie(cookie).send().await?;
            ensure!(answer.status == 200, "{}", answer.status);
            stays &= answer.backend() == Some(backend) && answer.set_cookies().is_empty();
        }
        moved += usize::from(!stays);
    }
    Ok(moved)
}

async fn follower(namespace: &Namespace, node: &str) -> Result<(Controller, Proxy)> {
    let controller = replica(Cluster::shared(Release::V1_2_1).await?, namespace, "1m", "1h").await?;
    let key = key_encryption_key(namespace).await?;
    let mut envoy = controller.envoy_with("web", node, &[("LIMPET_KEK_1", &key)]).await?;
    envoy.until_ready().await?;
    Ok((controller, envoy))
}

#[tokio::test]
async fn a_rule_with_one_match_more_keeps_its_sessions() -> Result<()> {
    let mut site = KeyringSite::start_with("matches", "1m", "1h").await?;
    let mut two = follower(&site.namespace, "two").await?;
    let mut three = follower(&site.namespace, "three").await?;
    let addresses = [&site.controller, &two.0, &three.0].map(|controller| controller.address(8080));
    route(&site.namespace, &["/cart"]).await?;
    // The former route led all paths to the Service.
    until_answered(&addresses, "/other", 404).await?;
    let mut sessions = Vec::new();
    for number in 0..12 {
        sessions.push(session(addresses[number % 3], "/cart").await?);
    }
    let other = session(addresses[0], "/a").await?;
    assert_eq!(moved(&addresses, "/cart", &sessions).await?, 0, "before any change");
    let remembered = async || {
        site.namespace
            .get("v1/ConfigMap", "limpet-controller-memory")
            .await
            .ok()
    };
    poll::until("the names to be remembered", remembered).await?;

    route(&site.namespace, &["/cart", "/basket"]).await?;
    until_answered(&addresses, "/basket", 200).await?;
    assert_eq!(moved(&addresses, "/cart", &sessions).await?, 0, "with one match more");
    assert_eq!(moved(&addresses, "/basket", &sessions).await?, 0, "at the new path");
    assert_eq!(moved(&addresses, "/a", &[other]).await?, 0, "at the rule beside it");

    // An unobserved change, and no memory of the former rules.
    let controllers = [&mut site.controller, &mut two.0, &mut three.0];
    for controller in controllers {
        controller.kill();
    }
    route(&site.namespace, &["/till"]).await?;
    for controller in [&mut site.controller, &mut two.0, &mut three.0] {
        controller.launch()?;
        controller.until_ready().await?;
    }
    until_answered(&addresses, "/till", 200).await?;
    assert_eq!(moved(&addresses, "/till", &sessions).await?, 0, "after a restart");
    Ok(())
}
