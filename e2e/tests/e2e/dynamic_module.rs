//! What only the dynamic module does, and sessions that both builds share.

use std::process::Command;

use anyhow::{Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::{Build, Config, Envoy, Site, Visitor, tools};
use serde_json::{Value, json};

async fn takes(build: Build) -> Result<bool> {
    Ok(Envoy::validate(&Config::load("cookie.yaml")?.build(build)).await?.0)
}

/// Envoy 1.38 and later must accept the module, and earlier ones must not.
pub(crate) async fn takes_the_module() -> Result<bool> {
    let new_enough = tools::envoy_version()? >= (1, 38);
    assert_eq!(takes(Build::Module).await?, new_enough);
    Ok(new_enough)
}

/// Envoy must accept the build under test.
pub(crate) async fn takes_both() -> Result<bool> {
    for build in [Build::Wasm, Build::Module] {
        if !takes(build).await? {
            assert_ne!(build, Build::tested()?);
            return Ok(false);
        }
    }
    Ok(true)
}

/// Each release calls modules of other interfaces deprecated.
#[tokio::test]
async fn envoy_called_the_module_deprecated() -> Result<()> {
    if takes_the_module().await? {
        let config = Config::load("cookie.yaml")?.build(Build::Module).alone();
        let envoy = Envoy::start(config).await?;
        let log = envoy.log()?;
        assert!(!log.contains("is deprecated"), "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn a_session_continues_at_an_envoy_with_the_other_build() -> Result<()> {
    if !takes_both().await? {
        return Ok(());
    }
    for (from, to) in [(Build::Wasm, Build::Module), (Build::Module, Build::Wasm)] {
        let site = Site::start(Config::load("cookie.yaml")?.build(from)).await?;
        let other = Envoy::serve(Config::load("cookie.yaml")?.build(to).backends(&site.backends)).await?;
        let mut here = site.visitor();
        let first = here.get("/").await?;
        let token = here.cookie("limpet-session").unwrap_or_default().to_owned();
        for _ in 0..5 {
            let mut there = Visitor::new(&other);
            there.keep("limpet-session", &token);
            let answer = there.get("/").await?;
            assert_eq!(answer.backend(), first.backend(), "{from:?} to {to:?}");
            assert!(answer.set_cookies().is_empty(), "{from:?} to {to:?}: the token changed");
            assert_eq!(
                here.get("/").await?.backend(),
                first.backend(),
                "{to:?} back to {from:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn an_envoy_that_is_too_old_refuses_the_module_and_says_why() -> Result<()> {
    let directory = tools::module()?;
    let output = Command::new(tools::old_envoy()?)
        .args(["--mode", "validate", "-c", "envoy-configs/module.yaml"])
        .current_dir(tools::checkout())
        .envs(
            directory
                .parent()
                .map(|directory| ("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", directory)),
        )
        .env("LIMPET_KEY", limpet_e2e::TEST_KEY)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "Envoy accepts the module: {said}");
    assert!(
        said.contains("too old for Limpet's dynamic module, which needs 1.38"),
        "{said}"
    );
    Ok(())
}

/// The headers that steer the wasm filter's chain are ordinary headers here.
#[tokio::test]
async fn no_header_of_a_client_steers() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let site = Site::start(Config::load("module.yaml")?.build(Build::Module)).await?;
    let host = BASE64_STANDARD.encode(site.backends[0].address().to_string());
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let forged = site
            .envoy
            .get("/")
            .header("x-limpet-host", &host)
            .header("x-limpet-host-strict", &host);
        let answer = forged.header("x-limpet-session", "missing/forged").send().await?;
        assert!(answer.set_cookie("limpet-session").is_some());
        reached.insert(answer.backend().map(str::to_owned));
    }
    assert_eq!(reached.len(), 3);
    assert_eq!(site.envoy.stat(&Build::Module.counter("unknown_sessions")).await?, 0);
    Ok(())
}

pub(crate) fn per_route(session: &str) -> Value {
    per_route_of("limpet", session)
}

/// A route's entry under our filter's name, made by this module.
fn per_route_of(module: &str, session: &str) -> Value {
    json!({"typed_per_filter_config": {"limpet": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
        "dynamic_module_config": {"name": module},
        "per_route_config_name": "limpet",
        "filter_config": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": session},
    }}})
}

fn two_policies() -> Value {
    json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "limpet-session"}}, "cart": {"cookie": {"name": "cart"}}},
        "default": {"policy": "web", "scope": "default"},
    })
}

/// Envoy's configuration of a filter per route wins over route metadata.
#[tokio::test]
async fn a_routes_own_filter_configuration_names_its_session() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let config = Config::load("cookie.yaml")?
        .filter(&two_policies())
        .build(Build::Module);
    let metadata = json!({"metadata": {"filter_metadata": {"limpet": {"session": "web/one"}}}});
    for (session, cookie) in [
        ("cart/one", Some("cart")),
        ("cart", Some("cart")),
        ("missing/one", None),
    ] {
        let site = Site::start(config.clone().route(&metadata).route(&per_route(session))).await?;
        let mut visitor = site.visitor();
        let first = visitor.get("/").await?;
        let names: Vec<_> = first.set_cookies().into_iter().map(|cookie| cookie.name).collect();
        assert_eq!(names, Vec::from_iter(cookie), "{session}");
        for _ in 0..5 {
            let again = visitor.get("/").await?;
            assert!(cookie.is_none() || again.backend() == first.backend(), "{session}");
        }
    }
    for bad in ["", "/one", "a b/one", "{\"session\": \"cart/one\"}"] {
        let (accepted, said) = Envoy::validate(&config.clone().route(&per_route(bad))).await?;
        assert!(
            !accepted && said.contains("route configuration refused"),
            "{bad}: {said}"
        );
    }
    Ok(())
}

/// In the order of `limpet check`: all routes, a virtual host, a route, a weighted cluster.
#[tokio::test]
async fn the_innermost_level_names_the_session() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let levels = [
        "",
        "/virtual_hosts/0",
        "/virtual_hosts/0/routes/0",
        "/virtual_hosts/0/routes/0/route/weighted_clusters/clusters/0",
    ];
    let weighted =
        json!({"route": {"cluster": null, "weighted_clusters": {"clusters": [{"name": "backends", "weight": 1}]}}});
    let config = Config::load("cookie.yaml")?
        .filter(&two_policies())
        .build(Build::Module)
        .route(&weighted);
    for (innermost, place) in levels.iter().enumerate() {
        let config = config.clone().route_configuration(|routes| {
            for (level, outer) in levels.iter().take(innermost + 1).enumerate() {
                let session = if level == innermost { "cart/one" } else { "web/one" };
                if let Some(level) = routes.pointer_mut(outer) {
                    level["typed_per_filter_config"] = per_route(session)["typed_per_filter_config"].take();
                }
            }
        });
        let answer = Site::start(config).await?.visitor().get("/").await?;
        assert!(
            answer.set_cookie("cart").is_some(),
            "{place}: {:?}",
            answer.set_cookies()
        );
        assert!(answer.set_cookie("limpet-session").is_none(), "{place}");
    }
    Ok(())
}

/// Envoy hands a route's configuration to the filter of that name, whichever module made it.
#[tokio::test]
async fn another_modules_configuration_of_a_route_is_passed_over() -> Result<()> {
    if !takes_the_module().await? {
        return Ok(());
    }
    let route = |path: &str, module: &str| {
        let mut route = per_route_of(module, "cart/one");
        route["match"] = json!({"prefix": path});
        route["route"] = json!({"cluster": "backends"});
        route["metadata"] = json!({"filter_metadata": {"limpet": {"session": "web/one"}}});
        route
    };
    let config = Config::load("cookie.yaml")?
        .filter(&two_policies())
        .routes(json!([route("/theirs", "other"), route("/ours", "limpet")]))
        .beside_another_module()?;
    let site = Site::start(config).await?;
    for (path, cookie) in [("/theirs", "limpet-session"), ("/ours", "cart")] {
        for _ in 0..6 {
            let answer = site.visitor().get(path).await?;
            let names: Vec<_> = answer.set_cookies().into_iter().map(|cookie| cookie.name).collect();
            assert_eq!((answer.status, names), (200, vec![cookie.to_owned()]), "{path}");
        }
    }
    assert_eq!(
        site.envoy.stat(&Build::Module.counter("unknown_route_configs")).await?,
        6
    );
    Ok(())
}
