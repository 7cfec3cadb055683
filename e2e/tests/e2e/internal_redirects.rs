//! Envoy follows a redirect itself: the request begins again, without the token that the filter took out.

use std::sync::Arc;

use anyhow::Result;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use limpet_e2e::{Answering, BoxError, Carrier, Config, Connection, Envoy, Protocol, Reply, Request, Site, Tasks};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::protocols::Session;
use crate::splits::site::{Session as SplitSession, SplitSite, policies, rules, split};

const REDIRECTS: usize = 20;

fn followed() -> Value {
    json!({"route": {"internal_redirect_policy": {"max_internal_redirects": 3}}})
}

/// Redirects `/2` to `/1` to `/0`, and never answers `/held`.
#[derive(Debug)]
struct Redirecting;

impl Protocol for Redirecting {
    fn speaks(&self, request: &hyper::Request<Incoming>) -> bool {
        ["/1", "/2", "/held"].contains(&request.uri().path())
    }

    fn answer(&self, _: &str, request: hyper::Request<Incoming>, _: &Tasks) -> Reply {
        if request.uri().path() == "/held" {
            return Box::pin(std::future::pending());
        }
        let next = if request.uri().path() == "/2" { "1" } else { "0" };
        let response = hyper::Response::builder()
            .status(302)
            .header("location", format!("http://shop.example/{next}"))
            .body(Empty::new().map_err(BoxError::from).boxed_unsync());
        Box::pin(async { Ok(response?) })
    }
}

async fn start(config: Config) -> Result<Site> {
    Site::start_speaking(config.route(&followed()), &[Arc::new(Redirecting)]).await
}

/// Checks that the session's backend answers at `/0`, and sees neither a token nor an internal header.
async fn assert_stays(session: &mut Session, request: Request) -> Result<()> {
    let answer = session.send(request).await?;
    let seen = answer.seen()?;
    assert_eq!((answer.status, seen.path.as_str()), (200, "/0"));
    let carrier = session.carrier();
    let tokens = match carrier {
        Carrier::Cookie => seen.all("cookie"),
        Carrier::Header => seen.all("x-session"),
    };
    assert_eq!((tokens, seen.internal_headers()), (Vec::new(), Vec::new()));
    Ok(())
}

async fn begun(envoy: &Envoy, carrier: Carrier) -> Result<Session> {
    let mut session = Session::new(carrier);
    session.send(envoy.get("/0")).await?;
    Ok(session)
}

#[tokio::test]
async fn redirected_sessions_stay_at_their_backends() -> Result<()> {
    for carrier in Carrier::ALL {
        for strict in [false, true] {
            let mut policy = carrier.policy();
            policy["strict"] = strict.into();
            let config = Config::load("cookie.yaml")?.policy(&policy);
            let site = start(if strict { config.strict_routes() } else { config }).await?;
            let mut session = begun(&site.envoy, carrier).await?;
            for number in 0..REDIRECTS {
                let request = site.envoy.get(["/1", "/2"][number % 2]);
                let request = if number % 3 == 0 { request.http2() } else { request };
                assert_stays(&mut session, request).await?;
            }
            assert_eq!(site.envoy.metric("web.steered").await?, 2 * 10 + 3 * 10);
            assert_eq!(site.envoy.metric("web.issued").await?, 1);
        }
    }
    Ok(())
}

/// A request that begins again repeats what load balancing hashes.
#[tokio::test]
async fn redirected_clients_of_a_prefix_stay() -> Result<()> {
    for strict in [false, true] {
        let policy = json!({"source": {"prefixV4": 24}, "strict": strict});
        let config = Config::load("source.yaml")?.policy(&policy).workers(1);
        let config = config.cluster(&json!({"lb_policy": "ROUND_ROBIN"}));
        let site = start(if strict { config.strict_routes() } else { config }).await?;
        let first = site.envoy.get("/0").send().await?;
        for number in 0..REDIRECTS {
            let answer = site.envoy.get(["/1", "/2"][number % 2]).send().await?;
            assert_eq!(
                (answer.status, answer.backend()),
                (200, first.backend()),
                "strict: {strict}"
            );
        }
        assert_eq!(site.envoy.metric("host_errors").await?, 0);
        assert_eq!(site.envoy.metric("web.issued").await?, 1);
    }
    Ok(())
}

/// A filter in front delays repeated requests, so that others end in between.
#[tokio::test]
async fn redirected_sessions_do_not_mix() -> Result<()> {
    let delaying = json!([{
        "name": "envoy.filters.http.fault",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "delay": {"fixed_delay": "0.02s", "percentage": {"numerator": 60}},
        },
    }]);
    let site = start(Config::load("cookie.yaml")?.prepend_filters(&delaying)).await?;
    let mut clients = JoinSet::new();
    for _ in 0..40 {
        let mut session = begun(&site.envoy, Carrier::Cookie).await?;
        let address = site.envoy.address();
        clients.spawn(async move {
            for _ in 0..REDIRECTS {
                assert_stays(&mut session, Request::get(address, "/1")).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(())
}

/// A proxy in front may name requests in its own way.
#[tokio::test]
async fn redirected_sessions_stay_whatever_the_request_id() -> Result<()> {
    let mut policy = Carrier::Cookie.policy();
    policy["strict"] = true.into();
    let config = Config::load("cookie.yaml")?.policy(&policy).strict_routes();
    let site = start(config.connection_manager(&json!({"preserve_external_request_id": true}))).await?;
    let mut session = begun(&site.envoy, Carrier::Cookie).await?;
    for length in [1, 64, 65, 200, 8000] {
        let request = site.envoy.get("/2").header("x-request-id", "x".repeat(length));
        assert_stays(&mut session, request).await?;
    }
    Ok(())
}

/// A filter in front delays a repeated request until everything is forgotten: ten seconds, by a time that is a tick
/// late, on a busy machine more.
#[tokio::test]
async fn what_was_remembered_is_forgotten_after_seconds() -> Result<()> {
    let delaying = json!([{
        "name": "envoy.filters.http.fault",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
            "delay": {"fixed_delay": "12s", "percentage": {"numerator": 100}},
            "headers": [{"name": "x-envoy-original-url", "present_match": true}],
        },
    }]);
    let site = start(Config::load("cookie.yaml")?.prepend_filters(&delaying)).await?;
    let session = begun(&site.envoy, Carrier::Cookie).await?;
    let answer = session.bring(site.envoy.get("/1")).send().await?;
    assert!(answer.set_cookie("limpet-session").is_some(), "{answer:?}");
    Ok(())
}

/// A repeated request matches the weighted route first.
#[tokio::test]
async fn redirected_sessions_stay_at_their_services() -> Result<()> {
    for strict in [false, true] {
        let rules = rules(strict, &[("shop-v1", 50), ("shop-v2", 50)]);
        let config = split(&rules, &policies(strict))?.route(&followed());
        let mut site = SplitSite::start(config).await?;
        for carrier in Carrier::ALL {
            let mut session = SplitSession::begin(&site.envoy, carrier).await?;
            let location = format!("http://shop.example{}", carrier.path());
            for _ in 0..REDIRECTS {
                let redirect = Answering::status(302).header("location", &location);
                site.backend(&session.backend)?.answer_next(redirect);
                session.stays(&site.envoy, 1).await?;
            }
        }
    }
    Ok(())
}

/// Neither a request's id nor the redirect's header gives a client another's session.
#[tokio::test]
async fn a_client_cannot_take_what_was_remembered() -> Result<()> {
    let site =
        start(Config::load("cookie.yaml")?.connection_manager(&json!({"preserve_external_request_id": true}))).await?;
    let session = begun(&site.envoy, Carrier::Cookie).await?;
    for number in 0..REDIRECTS {
        let id = format!("request-{number}");
        let mut connection = Connection::open(site.envoy.address(), true).await?;
        let unanswered = session.bring(site.envoy.get("/held").header("x-request-id", &id));
        let unanswered = connection.begin(unanswered).await?;
        site.envoy.until_stat("http.web.downstream_rq_active", 1).await?;
        drop(unanswered);
        site.envoy.until_stat("http.web.downstream_rq_active", 0).await?;
        let forged = site.envoy.get("/0").header("x-request-id", &id);
        let forged = forged.header("x-envoy-original-url", "http://shop.example/1");
        let answer = forged.send().await?;
        assert!(answer.set_cookie("limpet-session").is_some(), "{answer:?}");
    }
    assert_eq!(site.envoy.metric("web.steered").await?, REDIRECTS as u64);
    Ok(())
}
