use anyhow::{Context, Result};
use hyper::Method;
use limpet_e2e::{Answering, Site};
use serde_json::json;

use super::*;

/// Whatever the method and the status.
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

/// Envoy's own replies get no token, even if they set the application's session.
#[tokio::test]
async fn envoys_own_replies_do_not_change() -> Result<()> {
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
    // In a backend's answer, a session that the route adds gets a token, too.
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
            // Envoy adds a route's fields only to that route's replies.
            let expected: &[_] = if path.is_empty() { &[] } else { &own };
            for (name, value) in expected {
                assert_eq!(fields_without(&answer, name, "no token"), [*value], "{mode:?} {path}");
            }
        }
        assert_eq!(site.envoy.metric(&format!("{}.issued", mode.name())).await?, 1);
    }
    Ok(())
}

/// Browsers ignore cookies in the answer to a preflight.
#[tokio::test]
async fn a_preflight_begins_a_session_if_the_application_does() -> Result<()> {
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
