//! Envoy and `limpet check` accept what the controller makes.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use limpet_core::config::schema::PolicyConfig;
use limpet_e2e::{Envoy, tools};
use limpet_model::Graph;
use limpet_model::graph::{
    Action, ClusterName, Cors, HeaderChanges, Mirror, PathChange, PathMatch, Protocol, Redirect, Retry, Route, Session,
    ValueMatch,
};
use limpet_outputs::envoy::{BootstrapOptions, BootstrapTls, bootstrap, bootstrap_secrets, static_bootstrap};
use limpet_outputs::json;

use super::graphs::{forward, gateway, graph, nowhere, route, to, with_own_session, with_session};
use super::{LIMITS, all, config};

/// Everything that a graph can contain, except TLS.
fn everything() -> Graph {
    let mut modified = to("v1", 1);
    modified.request_headers = HeaderChanges {
        set: vec![("x-a".to_owned(), "100%".to_owned())],
        add: vec![("x-b".to_owned(), "b".to_owned())],
        remove: vec!["x-c".to_owned()],
    };
    modified.response_headers = modified.request_headers.clone();
    let mut own = forward(vec![to("v1", 1), to("v2", 1)]);
    own.session = Session::Destinations;
    let mut long = forward(vec![to("v1", 1), nowhere(1)]);
    long.request_timeout = Some(Duration::from_secs(10));
    long.backend_timeout = Some(Duration::from_millis(2500));
    long.rewrite.hostname = Some("other.example.com".to_owned());
    long.rewrite.path = Some(PathChange::Prefix("/".to_owned()));
    long.retry = Some(Retry {
        server_errors: false,
        attempts: 3,
        codes: vec![500, 503],
        backoff: Some(Duration::from_millis(1)),
    });
    long.mirrors = vec![Mirror {
        cluster: ClusterName("v2".into()),
        per_million: 1,
    }];
    let mut wordy = route("/words", Action::Forward(forward(vec![to("v1", 1)])));
    wordy.matches.method = Some("GET".to_owned());
    wordy.matches.grpc = true;
    wordy.matches.path = PathMatch::Regex("/([a-z]{1,60}|[0-9]{1,60})/.*".to_owned());
    wordy
        .matches
        .headers
        .insert("x-a".to_owned(), ValueMatch::Regex("a+".to_owned()));
    wordy
        .matches
        .query
        .insert("q".to_owned(), ValueMatch::Exact("a b".to_owned()));
    let redirect = Redirect {
        scheme: Some("https".to_owned()),
        path: Some(PathChange::Prefix(String::new())),
        status: 301,
        ..Redirect::default()
    };
    let answer = Action::Respond {
        status: 500,
        reason: "spec.rules[0].backendRefs[0]: no such Service".to_owned(),
    };
    let mut graph = graph(vec![
        wordy,
        with_session("/strict", "strict", vec![to("v1", 1)]),
        with_session("/strict-split", "strict", vec![to("v1", 1), to("v2", 0)]),
        with_session("/split", "web", vec![modified.clone(), to("v2", 1), nowhere(2)]),
        with_session("/zero", "web", vec![to("v1", 0)]),
        asked(with_session("/asked", "web", vec![to("v1", 1)])),
        asked(with_session(
            "/asked-split",
            "strict",
            vec![to("v1", 1), to("v2", 1), nowhere(1)],
        )),
        asked(with_session("/asked-zero", "web", vec![to("v1", 0)])),
        asked(route("/asked-own", Action::Forward(own.clone()))),
        with_session("/one", "web", vec![modified]),
        route("/own", Action::Forward(own)),
        route("/long", Action::Forward(long)),
        route("/redirect", Action::Redirect(redirect)),
        route("/answer", answer),
        route("", Action::Forward(forward(vec![to("v1", 1)]))),
    ]);
    // Rules share a policy, as in the model.
    let per_scope = |(name, mut policy): (limpet_api::Text, Arc<PolicyConfig>)| {
        if let Some(cookie) = &mut Arc::make_mut(&mut policy).cookie {
            cookie.per_scope = true;
        }
        (name, policy)
    };
    graph.policies = graph.policies.into_iter().map(per_scope).collect();
    with_own_session(&mut graph, "v1", "web");
    with_own_session(&mut graph, "v2", "strict");
    if let Some(cluster) = graph.clusters.get_mut(&ClusterName("v1".into())) {
        Arc::make_mut(cluster).protocol = Protocol::H2c;
    }
    graph
}

fn asked(route: Route) -> Route {
    let cors = Cors {
        allow_origins: vec![
            ValueMatch::Exact("*".to_owned()),
            ValueMatch::Regex("https://[^/:]+".to_owned()),
        ],
        allow_methods: vec!["*".to_owned()],
        allow_headers: vec!["x-a".to_owned(), "x-b".to_owned()],
        expose_headers: vec!["x-c".to_owned()],
        allow_credentials: true,
        max_age: 5,
    };
    Route {
        cors: Some(cors),
        ..route
    }
}

#[tokio::test]
async fn envoy_accepts_every_resource() -> Result<()> {
    let (accepted, said) = Envoy::validate(&config(&everything(), &[])?).await?;
    ensure!(accepted, "{said}");
    // Envoy refuses a broken configuration.
    let broken = config(&everything(), &[])?.edit(|bootstrap| {
        bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
            ["virtual_hosts"][0]["domains"] = serde_json::json!(["*", "*"]);
    });
    ensure!(!Envoy::validate(&broken).await?.0);
    Ok(())
}

#[test]
fn limpet_check_has_no_findings() -> Result<()> {
    let made = json::typed(&static_bootstrap(&all(&everything(), &[])?, 9901)?)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("envoy.json");
    std::fs::write(&file, made.to_string())?;
    let output = tools::run_limpet(&["check", "--deny-warnings", &file.to_string_lossy()], &[])?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

#[test]
fn envoy_accepts_the_controllers_bootstrap() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(["controller.limpet".to_owned()])?;
    let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("cert.pem"), made.cert.pem())?;
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem())?;
    let tls = BootstrapTls {
        trusted_ca: path("cert.pem"),
        certificate_chain: path("cert.pem"),
        private_key: path("key.pem"),
        server_name: None,
        folder: None,
    };
    let watched = BootstrapTls {
        folder: Some(path("")),
        ..tls.clone()
    };
    for tls in [None, Some(tls), Some(watched)] {
        for host in ["127.0.0.1", "controller.limpet.svc"] {
            let options = BootstrapOptions {
                gateway: gateway(),
                node_id: Some("envoy-1".to_owned()),
                controller_host: host.to_owned(),
                controller_port: 18000,
                tls: tls.clone(),
                admin_port: 9901,
                ready: (Ipv6Addr::UNSPECIFIED, 19001).into(),
                metrics: Some((Ipv6Addr::UNSPECIFIED, 9102).into()),
                limits: LIMITS,
            };
            for (file, response) in bootstrap_secrets(&options) {
                std::fs::write(path(file), json::typed(&response)?.to_string())?;
            }
            let made = json::typed(&bootstrap(&options))?;
            assert_eq!(
                made["node"],
                serde_json::json!({
                    "id": "envoy-1",
                    "cluster": "shop/web",
                    "metadata": {"limpet.preflight": true},
                })
            );
            // Unchanged, because its files exist.
            std::fs::write(path("envoy.json"), made.to_string())?;
            let mut command = std::process::Command::new(tools::envoy()?);
            let output = command
                .args(["--mode", "validate", "-l", "warning", "-c", &path("envoy.json")])
                .output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}
