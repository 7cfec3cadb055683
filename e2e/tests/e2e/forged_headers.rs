//! Internal headers of a client reach neither route matching, nor the load balancer, nor a backend: with the filter,
//! with it disabled, and without it.

use std::collections::BTreeSet;

use anyhow::Result;
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::{Backend, Build, Config, Envoy, Request, Site};
use serde_json::{Value, json};

/// Routes like a split's: x-limpet-destination would reach the cluster `secret`.
fn routes(patch: &Value) -> Value {
    let mut secret = json!({
        "name": "web",
        "match": {"prefix": "/", "headers": [{"name": "x-limpet-destination", "string_match": {"exact": "secret"}}]},
        "route": {"cluster": "secret"},
    });
    let mut usual = json!({"name": "web", "match": {"prefix": "/"}, "route": {"cluster": "backends"}});
    for (name, value) in patch.as_object().into_iter().flatten() {
        secret[name] = value.clone();
        usual[name] = value.clone();
    }
    json!([secret, usual])
}

fn forge(request: Request, backend: &Backend) -> Request {
    let host = BASE64_STANDARD.encode(backend.address().to_string());
    request
        .header("x-limpet-host", &host)
        .header("x-limpet-host-strict", &host)
        .header("x-limpet-destination", "secret")
        .header("x-limpet-session", "web/forged")
}

async fn assert_forgery_has_no_effect(config: Config) -> Result<()> {
    let backends = Backend::three()?;
    let secret = Backend::start("secret")?;
    let envoy = Envoy::serve(config.backends(&backends).another_cluster("secret", [&secret])).await?;
    let mut reached = BTreeSet::new();
    for http2 in [false, true].into_iter().cycle().take(24) {
        let request = forge(envoy.get("/"), &backends[0]);
        let answer = if http2 { request.http2() } else { request }.send().await?;
        assert_eq!(
            answer.seen()?.internal_headers(),
            Vec::<&str>::new(),
            "the backend saw internal headers"
        );
        assert!(
            !answer.headers.keys().any(|name| name.as_str().starts_with("x-limpet")),
            "the client got internal headers"
        );
        reached.insert(answer.backend().unwrap_or_default().to_owned());
    }
    assert!(!reached.contains("secret"), "a forged header reached route matching");
    assert!(
        reached.len() > 1,
        "a forged header steered: only {reached:?} got requests"
    );
    Ok(())
}

#[tokio::test]
async fn forged_headers_have_no_effect_with_the_filter() -> Result<()> {
    assert_forgery_has_no_effect(Config::load("cookie.yaml")?.routes(routes(&json!({})))).await
}

#[tokio::test]
async fn forged_headers_have_no_effect_with_a_strict_policy() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session"}, "strict": true});
    assert_forgery_has_no_effect(
        Config::load("cookie.yaml")?
            .policy(&policy)
            .routes(routes(&json!({})))
            .strict_routes(),
    )
    .await
}

#[tokio::test]
async fn forged_headers_have_no_effect_with_a_minimal_chain() -> Result<()> {
    let minimal = Config::load("cookie.yaml")?.minimal()?;
    assert_forgery_has_no_effect(minimal.clone()).await?;
    assert_forgery_has_no_effect(minimal.without_limpet()).await
}

#[tokio::test]
async fn forged_headers_have_no_effect_with_a_minimal_strict_chain() -> Result<()> {
    let policy = json!({"cookie": {"name": "limpet-session"}, "strict": true});
    let strict = Config::load("cookie.yaml")?.policy(&policy).strict_routes();
    let minimal = strict.minimal()?;
    assert_forgery_has_no_effect(minimal.clone()).await?;
    assert_forgery_has_no_effect(minimal.without_limpet()).await
}

/// With `FAIL_OPEN`, requests then pass without the filter.
#[tokio::test]
async fn a_minimal_chain_is_closed_when_the_vm_has_ended() -> Result<()> {
    if Build::tested()? == Build::Module {
        return Ok(());
    }
    for policy in ["FAIL_RELOAD", "FAIL_CLOSED", "FAIL_OPEN"] {
        let config = Config::load("cookie.yaml")?.minimal()?.workers(1).vm_may_grow_by(0)?;
        let config = config.edit(|bootstrap| {
            let manager = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0];
            manager["typed_config"]["http_filters"][1]["typed_config"]["config"]["failure_policy"] = policy.into();
        });
        let site = Site::start(config).await?;
        let backend = &site.backends[0];
        let mut visitor = site.visitor();
        visitor.get("/").await?;
        let (mut statuses, mut reached) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..12 {
            let killing = forge(site.envoy.get("/"), backend);
            let killing = (0..15).fold(killing, |request, _| request.header("x-padding", "x".repeat(3_700)));
            for answer in [
                killing.send().await?,
                visitor.bring(forge(site.envoy.get("/"), backend)).send().await?,
            ] {
                statuses.insert(answer.status);
                for (name, value) in &answer.headers {
                    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                    let addresses = site.backends.iter().map(|backend| backend.address().to_string());
                    let mut forms = addresses.flat_map(|address| [BASE64_STANDARD.encode(&address), address]);
                    assert!(
                        !name.as_str().starts_with("x-limpet"),
                        "{policy}: the client got {name}"
                    );
                    assert!(!forms.any(|form| value.contains(&form)), "{policy}: {name}: {value}");
                }
                if answer.status == 200 {
                    assert_eq!(answer.seen()?.internal_headers(), Vec::<&str>::new(), "{policy}");
                    reached.extend(answer.backend().map(str::to_owned));
                }
            }
        }
        let log = site.envoy.log()?;
        assert!(
            log.contains("proxy_on_memory_allocate failed"),
            "{policy}: the VM has not ended"
        );
        assert!(
            statuses.contains(&if policy == "FAIL_OPEN" { 200 } else { 503 }),
            "{policy}: {statuses:?}"
        );
        if policy == "FAIL_OPEN" {
            assert!(
                reached.len() > 1,
                "a forged header steered: only {reached:?} got requests"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn forged_headers_have_no_effect_with_the_filter_disabled() -> Result<()> {
    let disabled = json!({"typed_per_filter_config": {
        "limpet": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true},
    }});
    assert_forgery_has_no_effect(Config::load("cookie.yaml")?.routes(routes(&disabled))).await
}

#[tokio::test]
async fn forged_headers_have_no_effect_on_a_disabled_strict_route() -> Result<()> {
    let disabled = json!({"typed_per_filter_config": {
        "limpet": {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true},
    }});
    assert_forgery_has_no_effect(Config::load("cookie.yaml")?.routes(routes(&disabled)).strict_routes()).await
}

#[tokio::test]
async fn forged_headers_have_no_effect_without_the_filter() -> Result<()> {
    assert_forgery_has_no_effect(Config::load("cookie.yaml")?.without_limpet().routes(routes(&json!({})))).await
}

/// Envoy refuses the filter's first configuration, so `default_config` passes everything through.
#[tokio::test]
async fn forged_headers_have_no_effect_with_a_bad_configuration() -> Result<()> {
    let config = Config::load("ecds.yaml")?.filter(&json!({"keys": []}));
    assert_forgery_has_no_effect(config.routes(routes(&json!({})))).await
}

/// Shows that the tests above can fail.
#[tokio::test]
async fn forged_headers_would_steer_without_the_chain() -> Result<()> {
    let backends = Backend::three()?;
    let secret = Backend::start("secret")?;
    let config = Config::load("cookie.yaml")?
        .without_limpet()
        .without_header_removal()
        .routes(routes(&json!({})));
    let envoy = Envoy::serve(config.backends(&backends).another_cluster("secret", [&secret])).await?;
    assert_eq!(
        forge(envoy.get("/"), &backends[0]).send().await?.backend(),
        Some("secret")
    );
    let host = BASE64_STANDARD.encode(backends[0].address().to_string());
    for _ in 0..6 {
        assert_eq!(
            envoy.get("/").header("x-limpet-host", &host).send().await?.backend(),
            Some("a")
        );
    }
    Ok(())
}
