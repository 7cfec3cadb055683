//! Cluster specifiers of the dynamic module, from Envoy 1.40 on. The tests beside this file run with them, too: `make
//! e2e FILTER=module SPLITS=specifier TEST=split`.

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Backend, Build, Carrier, Config, Crowd, Envoy, Keyring, tools};
use serde_json::{Value, json};

use super::rule::{Rule, specifier};
use super::site::{SERVICES, Session, SplitSite, policies, rules, service, split};

/// Whether the build under test chooses clusters in this Envoy.
pub(crate) fn chooses() -> Result<bool> {
    Ok(Build::tested()? == Build::Module && tools::envoy_version()? >= (1, 40))
}

fn rule(weights: &[(&str, u32)]) -> Rule {
    let to = |rule: Rule, (cluster, weight): &(&str, u32)| rule.to(cluster, *weight);
    weights.iter().fold(Rule::new("/", "cookie/shop"), to)
}

fn config(weights: &[(&str, u32)]) -> Result<Config> {
    let rule = rule(weights);
    Ok(split(std::slice::from_ref(&rule), &policies(false))?.routes(json!([rule.by_specifier()])))
}

/// Of `split-specifier.yaml`.
#[test]
fn a_specifier_has_the_route_of_the_example() -> Result<()> {
    let mut written = Value::Null;
    let _ = Config::load("split-specifier.yaml")?.route_configuration(|routes| {
        written = routes["virtual_hosts"][0]["routes"].clone();
    });
    let mut made = Rule::new("/", "web/shop")
        .to("shop-v1", 90)
        .to("shop-v2", 10)
        .by_specifier();
    let text = "/route/inline_cluster_specifier_plugin/extension/typed_config/specifier_config/value";
    for route in [&mut made, &mut written[0]] {
        let text = route.pointer_mut(text).context("no configuration")?;
        *text = serde_json::from_str(text.as_str().context("no text")?)?;
    }
    assert_eq!(json!([made]), written);
    Ok(())
}

/// By another filter, behind Limpet, with the same number for the weights.
#[tokio::test]
async fn a_route_that_is_matched_again_leads_to_the_session() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let code = "function envoy_on_request(handle) handle:clearRouteCache() end";
    let config = config(&[("shop-v1", 50), ("shop-v2", 50)])?.edit(|bootstrap| {
        let manager =
            bootstrap.pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters");
        if let Some(filters) = manager.and_then(Value::as_array_mut) {
            let lua = json!({
                "name": "lua",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                    "default_source_code": {"inline_string": code},
                },
            });
            filters.insert(filters.len() - 1, lua);
        }
    });
    let site = SplitSite::start(config).await?;
    for _ in 0..4 {
        // The token names the host that answered, wherever the weights led the request.
        let mut session = Session::begin(&site.envoy, Carrier::Cookie).await?;
        session.stays(&site.envoy, 20).await?;
    }
    Ok(())
}

/// The clusters asked for by name and by hash, in all that a client can set.
#[tokio::test]
async fn nothing_of_a_request_but_its_token_leads_it() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let site = SplitSite::start(config(&[("shop-v1", 1), ("shop-v2", 0), ("shop-v3", 0)])?).await?;
    let mut session = Session::begin(&site.envoy, Carrier::Cookie).await?;
    for name in SERVICES {
        let hash = limpet_core::token::DestinationId::of_cluster(name.as_bytes()).to_string();
        for value in [name, &hash] {
            for header in [
                "x-limpet-destination",
                "destination",
                "limpet.destination",
                "x-envoy-dynamic-metadata",
            ] {
                let request = site.envoy.get("/").header(header, value);
                let answer = request.send().await?;
                assert_eq!(service(&answer), Some("shop-v1"), "{header}: {value}");
            }
            let forged = format!("limpet-session={value}; destination={value}");
            let answer = site.envoy.get("/").cookie(&forged).send().await?;
            assert_eq!(service(&answer), Some("shop-v1"), "{forged}");
        }
    }
    session.stays(&site.envoy, 5).await?;
    // Nor does a foreign token.
    let mut token = session.token.clone().into_bytes();
    if let Some(last) = token.last_mut() {
        *last = if *last == b'A' { b'B' } else { b'A' };
    }
    session.token = String::from_utf8(token)?;
    let answer = session.go_on(&site.envoy).await?;
    assert_eq!(service(&answer), Some("shop-v1"));
    assert_eq!(site.envoy.metric("cookie.refused.bad_signature").await?, 1);
    Ok(())
}

/// What Envoy and the module log of a route configuration that comes later.
#[tokio::test]
async fn a_bad_specifier_is_refused_and_the_good_one_stays() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let good = [("shop-v1", 0), ("shop-v2", 1)];
    let mut site = SplitSite::start(config(&good)?).await?;
    let mut session = Session::begin(&site.envoy, Carrier::Cookie).await?;
    let refused = site.envoy.stats("update_rejected").await?.into_values().sum::<u64>();
    assert_eq!(refused, 0);
    for (bad, error) in [
        (
            json!({"destinations": []}),
            "destinations: expected at least one cluster",
        ),
        (
            json!({"destinations": [{"cluster": "shop-v1", "weight": -1}]}),
            "destinations[0].weight: ",
        ),
        (
            json!({"destinations": [{"cluster": "shop-v1", "weight": 0}]}),
            "destinations: expected weights whose sum is 1 to 4294967295, found 0",
        ),
        (
            json!({"destinations": [{"cluster": "shop-v1", "weight": 1}], "policy": "cookie"}),
            "policy: unknown field",
        ),
    ] {
        let mut route = rule(&good).by_specifier();
        route["route"] = specifier(&bad);
        let before = site.envoy.stats("update_rejected").await?.into_values().sum::<u64>();
        site.envoy.update(|config| config.routes(json!([route])))?;
        limpet_e2e::poll::until("Envoy to refuse the routes", async || {
            let refused = site.envoy.stats("update_rejected").await.ok()?;
            (refused.into_values().sum::<u64>() > before).then_some(())
        })
        .await?;
        let log = site.envoy.log()?;
        ensure!(
            log.contains(&format!("limpet: cluster specifier refused: {error}")),
            "{error} is not in {log}"
        );
        session.stays(&site.envoy, 5).await?;
        let answer = site.envoy.get("/").send().await?;
        assert_eq!(service(&answer), Some("shop-v2"));
    }
    Ok(())
}

/// From the routes to the specifier and back: no session moves, and no request fails.
#[tokio::test]
async fn the_two_ways_take_each_others_place_under_load() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let weights = |v1, v2| rules(false, &[("shop-v1", v1), ("shop-v2", v2)]);
    let mut site = SplitSite::start(split(&weights(50, 50), &policies(false))?).await?;
    let crowd = Crowd::gather(24, &Carrier::ALL, &[site.envoy.address()]).await?;
    for (only, weights, by_routes) in [
        ("shop-v2", weights(0, 1), false),
        ("shop-v1", weights(1, 0), true),
        ("shop-v2", weights(0, 1), false),
    ] {
        let routes = weights.iter().flat_map(|rule| {
            if by_routes {
                rule.by_routes()
            } else {
                vec![rule.by_specifier()]
            }
        });
        let routes: Value = routes.collect();
        site.envoy.update(|config| config.routes(routes))?;
        let are_there = |answer: &limpet_e2e::Answer| service(answer) == Some(only);
        site.envoy
            .until_every_worker(&format!("new clients go to {only}"), are_there)
            .await?;
        crowd.rounds(2).await?;
    }
    let journeys = crowd.leave().await;
    journeys.none_failed()?;
    journeys.none_moved()
}

/// The specifier needs no keys.
#[tokio::test]
async fn a_keyring_in_a_secret_leads_from_the_first_request_on() -> Result<()> {
    if !chooses()? {
        return Ok(());
    }
    let keyring = Keyring::generate()?;
    let backends: Vec<Backend> = ["shop-v2/a", "shop-v2/b"]
        .into_iter()
        .map(Backend::start)
        .collect::<Result<_>>()?;
    let config = |v1, v2| {
        let rule = Rule::new("/", "web/shop").to("shop-v1", v1).to("shop-v2", v2);
        let config = Config::load("module-sds.yaml")?.keyring(&keyring);
        let config = config.routes(json!([rule.by_specifier()]));
        anyhow::Ok(
            config
                .another_cluster("shop-v1", [])
                .another_cluster("shop-v2", &backends),
        )
    };
    let first = Envoy::serve(config(0, 1)?).await?;
    let mut session = Session::begin(&first, Carrier::Cookie).await?;
    let second = Envoy::serve(config(1, 0)?).await?;
    session.stays(&second, 10).await
}
