use anyhow::{Context, Result};
use hyper::Method;
use limpet_e2e::{Carrier, Request};

use super::{Session, address, site};

fn both(request: impl Fn() -> Request) -> [Request; 2] {
    [request(), request().http2()]
}

#[tokio::test]
async fn a_session_is_the_same_for_every_method() -> Result<()> {
    let site = site().await?;
    let methods = ["OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "GET"];
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        for first in methods {
            let mut session = Session::new(carrier);
            for method in [first].into_iter().chain(methods) {
                for request in both(|| Request::get(at, "/")) {
                    let answer = session.send(request.method(method.parse()?)).await?;
                    assert_eq!(answer.seen()?.method, method);
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_answer_to_head_brings_the_token_and_no_body() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for request in both(|| Request::get(at, "/").method(Method::HEAD)) {
            let answer = session.send(request).await?;
            assert_eq!((answer.status, answer.body.len()), (200, 0));
            let length: usize = answer.header("content-length").context("no length")?.parse()?;
            assert!(length > 0, "the answer to HEAD has no length");
        }
        session.send(Request::get(at, "/")).await?;
    }
    Ok(())
}

/// Browsers send it before a request to another origin, without cookies, and ignore cookies in the answer.
fn preflight(request: Request) -> Request {
    request
        .method(Method::OPTIONS)
        .header("origin", "https://shop.example")
        .header("access-control-request-method", "PUT")
}

#[tokio::test]
async fn the_answer_to_a_preflight_brings_no_token() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let bad = carrier.bring("not a token", Request::get(at, "/"));
        let bad_http2 = carrier.bring("not a token", Request::get(at, "/")).http2();
        for request in both(|| Request::get(at, "/")).into_iter().chain([bad, bad_http2]) {
            let answer = preflight(request).send().await?;
            assert_eq!(answer.seen()?.method, "OPTIONS");
            assert_eq!(carrier.token(&answer), None);
        }
    }
    assert_eq!(site.envoy.metric("web.no_token").await?, 4);
    assert_eq!(site.envoy.metric("web.refused.malformed").await?, 4);
    assert_eq!(site.envoy.metric("web.issued").await?, 0);
    Ok(())
}

/// Its client is not a browser.
#[tokio::test]
async fn a_preflight_with_a_token_is_part_of_its_session() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        session.send(Request::get(at, "/")).await?;
        for _ in 0..4 {
            for request in both(|| Request::get(at, "/")) {
                session.send(preflight(request)).await?;
            }
        }
        assert_eq!(session.continued, 8);
    }
    Ok(())
}

#[tokio::test]
async fn what_only_looks_like_a_preflight_starts_a_session() -> Result<()> {
    let site = site().await?;
    let origin = ("origin", "https://shop.example");
    let asked = ("access-control-request-method", "PUT");
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        for (method, (name, value)) in [(Method::OPTIONS, origin), (Method::GET, asked), (Method::POST, asked)] {
            for request in both(|| Request::get(at, "/")) {
                let request = request.method(method.clone()).header(name, value);
                Session::new(carrier).send(request).await?;
            }
        }
    }
    Ok(())
}
