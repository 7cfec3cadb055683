//! Answers of every kind: the backends' own, and Envoy's.

use anyhow::{Context, Result};
use hyper::Method;
use limpet_e2e::{Answering, Site};
use serde_json::json;

use super::*;

/// Whatever the request and the status: what the application sets gets its token.
#[tokio::test]
async fn every_answer_that_sets_a_session_gets_a_token() -> Result<()> {
    let site = Site::start(every_mode(&json!({}))?).await?;
    for mode in Mode::ALL {
        for (method, status) in [
            (Method::GET, 200),
            (Method::HEAD, 200),
            (Method::GET, 204),
            (Method::POST, 302),
            (Method::GET, 304),
            (Method::GET, 404),
            (Method::GET, 503),
        ] {
            for backend in &site.backends {
                backend.answer(Answering::status(status));
            }
            let mut client = Client::new(&site.envoy, mode);
            let (name, value) = mode.setting("abc");
            let request = site
                .envoy
                .get(&mode.path())
                .method(method.clone())
                .answered_with(name, value);
            let answer = client.send(request).await?;
            assert_eq!(answer.status, status, "{mode:?} {method}");
            assert_eq!(
                answer.body.is_empty(),
                method == Method::HEAD || [204, 304].contains(&status)
            );
            client.token("abc")?;
            let backend = answer.backend().context("no backend")?;
            for _ in 0..3 {
                let again = client.send(site.envoy.get(&mode.path()).method(method.clone())).await?;
                assert_eq!(again.backend(), Some(backend), "{mode:?} {method} {status}");
            }
        }
    }
    Ok(())
}

/// A token is of one client, so no shared cache may store an answer with one; others stay as they are.
#[tokio::test]
async fn shared_caches_store_no_answer_with_a_token() -> Result<()> {
    for (more, kept) in [
        (json!({}), "private, max-age=60"),
        (json!({"cacheControl": "keep"}), "public, max-age=60"),
    ] {
        let site = Site::start(every_mode(&more)?).await?;
        for backend in &site.backends {
            backend.answer(Answering::ok().header("cache-control", "public, max-age=60"));
        }
        for mode in Mode::ALL {
            let mut client = Client::new(&site.envoy, mode);
            assert_eq!(
                client.get().await?.header("cache-control"),
                Some("public, max-age=60"),
                "{mode:?}"
            );
            assert_eq!(
                client.begin("abc").await?.header("cache-control"),
                Some(kept),
                "{mode:?}"
            );
            assert_eq!(
                client.get().await?.header("cache-control"),
                Some("public, max-age=60"),
                "{mode:?}"
            );
            assert_eq!(
                client.begin("def").await?.header("cache-control"),
                Some(kept),
                "{mode:?}"
            );
        }
    }
    Ok(())
}

/// A reply of Envoy's own, which no backend gave, names none, whatever it sets.
#[tokio::test]
async fn envoys_own_replies_stay_as_they_are() -> Result<()> {
    let own = [("set-cookie", "JSESSIONID=abc; Path=/"), (HEADER, "abc")];
    let fields = own.map(
        |(name, value)| json!({"header": {"key": name, "value": value}, "append_action": "APPEND_IF_EXISTS_OR_ADD"}),
    );
    let config = every_mode(&json!({}))?
        .route(&json!({"response_headers_to_add": fields}))
        .route_configuration(|routes| {
            for (path, reply) in [
                ("/direct", json!({"direct_response": {"status": 200}})),
                ("/redirect", json!({"redirect": {"path_redirect": "/there"}})),
            ] {
                for mode in Mode::ALL {
                    let mut route = json!({
                        "name": mode.name(),
                        "match": {"path": format!("{path}{}", mode.path())},
                        "response_headers_to_add": fields,
                    });
                    for (name, value) in reply.as_object().into_iter().flatten() {
                        route[name] = value.clone();
                    }
                    if let Some(routes) = routes["virtual_hosts"][0]["routes"].as_array_mut() {
                        routes.insert(0, route);
                    }
                }
            }
        });
    let mut site = Site::start(config).await?;
    // As long as a backend answers, what the route adds is as good as what the backend sets.
    for mode in Mode::ALL {
        let answer = site.envoy.get(&mode.path()).send().await?;
        let kept = mode.set_by(&answer).context("nothing was set")?;
        mode.token(&kept, "abc")?;
    }
    for backend in &mut site.backends {
        backend.stop().await;
    }
    for mode in Mode::ALL {
        for (path, status) in [("/direct", 200), ("/redirect", 301), ("", 503)] {
            let answer = site.envoy.get(&format!("{path}{}", mode.path())).send().await?;
            assert_eq!((answer.status, answer.backend()), (status, None), "{mode:?} {path}");
            // Envoy adds the fields of a route to replies of the route's own alone.
            let expected: &[_] = if path.is_empty() { &[] } else { &own };
            for (name, value) in expected {
                assert_eq!(fields_without(&answer, name, "no token"), [*value], "{mode:?} {path}");
            }
        }
        assert_eq!(site.envoy.metric(&format!("{}.issued", mode.name())).await?, 1);
    }
    Ok(())
}

/// Browsers forget what the answer to a preflight sets; but what the application sets it has reasons for.
#[tokio::test]
async fn a_preflight_begins_a_session_where_the_application_does() -> Result<()> {
    let site = Site::start(every_mode(&json!({}))?).await?;
    for mode in Mode::ALL {
        let preflight = || {
            let request = site.envoy.get(&mode.path()).method(Method::OPTIONS);
            request
                .header("origin", "https://example.com")
                .header("access-control-request-method", "GET")
        };
        assert_eq!(mode.set_by(&preflight().send().await?), None);
        let (name, value) = mode.setting("abc");
        let answer = preflight().answered_with(name, value).send().await?;
        mode.token(&mode.set_by(&answer).context("nothing was set")?, "abc")?;
    }
    Ok(())
}
