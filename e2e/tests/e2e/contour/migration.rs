//! Moves from Contour and back: an Envoy as Contour configures it, and one with Limpet.

use limpet_e2e::SetCookie;

use super::*;

const CLIENTS: usize = 1_000;

/// What Contour 1.0 makes of a route with one service and the strategy `Cookie`, with other cluster names and its own
/// order of hosts.
fn contours(backends: &[Backend]) -> Config {
    let endpoint = |backend: &Backend| {
        let at = backend.address();
        json!({"endpoint": {"address": {"socket_address": {"address": at.ip(), "port_value": at.port()}}}})
    };
    let endpoints: Vec<Value> = backends.iter().rev().map(endpoint).collect();
    let cookie = json!({"name": COOKIE, "ttl": "0s", "path": "/"});
    let cluster = "shop/web/80/da39a3ee5e";
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "ingress_http",
        "use_remote_address": true,
        "normalize_path": true,
        "route_config": {"name": "ingress_http", "virtual_hosts": [{
            "name": HOST,
            "domains": [HOST, format!("{HOST}:*")],
            "routes": [{
                "match": {"prefix": "/"},
                "route": {"cluster": cluster, "hash_policy": [{"cookie": cookie}]},
            }],
        }]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    Config::made(json!({"static_resources": {
        "listeners": [{
            "name": HTTP,
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }]}],
        }],
        "clusters": [{
            "name": cluster,
            "type": "STATIC",
            "connect_timeout": "0.250s",
            "lb_policy": "RING_HASH",
            "common_lb_config": {"healthy_panic_threshold": {}},
            "load_assignment": {"cluster_name": cluster, "endpoints": [{"lb_endpoints": endpoints}]},
        }],
    }}))
}

async fn ask(envoy: &Envoy, cookie: Option<&SetCookie>) -> Result<Answer> {
    let request = Request::get(envoy.listener(HTTP)?, "/").header("host", HOST);
    let request = match cookie {
        // As a browser sends it: with the quotes that Envoy writes.
        Some(cookie) => request.cookie(cookie.pair()),
        None => request,
    };
    request.send().await
}

/// Each client's cookie, and the backend that it is hashed to.
async fn clients(envoy: &Envoy) -> Result<Vec<(SetCookie, String)>> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let first = ask(envoy, None).await?;
        let cookie = first.set_cookie(COOKIE).with_context(|| format!("{first:?}"))?;
        let again = ask(envoy, Some(&cookie)).await?;
        ensure!(
            again.backend() == first.backend() && again.set_cookies().is_empty(),
            "{again:?}"
        );
        clients.push((cookie, backend(&first)?));
    }
    Ok(clients)
}

#[tokio::test]
async fn who_comes_from_contour_keeps_his_backend_and_may_go_back() -> Result<()> {
    let services = Services::start(&[("web", 5)])?;
    let before = Envoy::serve(contours(services.of("web")?)).await?;
    let clients = clients(&before).await?;
    let backends: Vec<String> = clients.iter().map(|(_, backend)| backend.clone()).collect();
    assert_eq!(different(&backends), 5);
    let values: BTreeSet<&str> = clients.iter().map(|(cookie, _)| cookie.value.as_str()).collect();
    assert!(values.len() > CLIENTS / 2, "{} values", values.len());

    // The first request stays there, and its answer has a token.
    let site = Site::start(services, &[root(&json!([{"match": "/", "services": [sticky("web")]}]))]).await?;
    let mut tokens = Vec::new();
    for (cookie, backend) in &clients {
        let answer = ask(&site.envoy, Some(cookie)).await?;
        ensure!(
            answer.backend() == Some(backend),
            "{cookie:?}: {backend} expected: {answer:?}"
        );
        let token = answer
            .set_cookie(COOKIE)
            .with_context(|| format!("no token: {answer:?}"))?;
        ensure!(token.value != cookie.value, "{token:?}");
        ensure!(
            answer.seen()?.cookies() == Some(cookie.pair()),
            "the router does not have the cookie: {answer:?}"
        );
        tokens.push(token);
    }
    let arrived = BTreeMap::from([("malformed".to_owned(), CLIENTS as u64)]);
    assert_eq!(refused(&site.envoy).await?, arrived);

    // From then on the token counts, and no client is counted as an arrival.
    for _ in 0..3 {
        for (token, (_, backend)) in tokens.iter().zip(&clients) {
            let answer = ask(&site.envoy, Some(token)).await?;
            ensure!(
                answer.backend() == Some(backend) && answer.set_cookies().is_empty(),
                "{answer:?}"
            );
        }
    }
    assert_eq!(refused(&site.envoy).await?, arrived);

    // Back again, Contour's Envoy hashes the token's text: a client stays on one backend, though another one.
    let mut kept = 0;
    for (token, (_, backend)) in tokens.iter().zip(&clients) {
        let first = ask(&before, Some(token)).await?;
        kept += usize::from(first.backend() == Some(backend));
        for _ in 0..2 {
            let next = ask(&before, Some(token)).await?;
            ensure!(
                next.backend().is_some() && next.backend() == first.backend(),
                "{next:?}"
            );
            ensure!(
                next.set_cookies().is_empty(),
                "Contour's Envoy does not take a token: {next:?}"
            );
        }
    }
    assert!(kept < CLIENTS, "Contour's Envoy reads tokens");
    Ok(())
}

/// The token, not the hash, then holds the session when backends come.
#[tokio::test]
async fn after_the_move_new_backends_move_nobody() -> Result<()> {
    let services = Services::start(&[("web", 6)])?;
    let all = services.of("web")?;
    let before = Envoy::serve(contours(all.get(..3).unwrap_or_default())).await?;
    let mut arrivals = Vec::new();
    for _ in 0..100 {
        let answer = ask(&before, None).await?;
        let cookie = answer.set_cookie(COOKIE).context("no cookie")?;
        arrivals.push((cookie, backend(&answer)?));
    }
    let object = root(&json!([{"match": "/", "services": [sticky("web")]}]));
    let mut objects = services.objects();
    objects.push(object.clone());
    // Half of the slices, while the others are not ready.
    let few = objects.iter().filter(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        !["web-3", "web-4", "web-5"].contains(&name)
    });
    let few: Vec<Value> = few.cloned().collect();
    let envoy = Envoy::serve(Rendered::valid(&few, &json!({}))?.config()).await?;
    let mut tokens = Vec::new();
    for (cookie, backend) in &arrivals {
        let answer = ask(&envoy, Some(cookie)).await?;
        ensure!(answer.backend() == Some(backend), "{backend} expected: {answer:?}");
        tokens.push(answer.set_cookie(COOKIE).context("no token")?);
    }
    drop(envoy);
    let site = Site::start(services, &[object]).await?;
    let mut led_away = 0;
    for (token, (cookie, backend)) in tokens.iter().zip(&arrivals) {
        let answer = ask(&site.envoy, Some(token)).await?;
        ensure!(answer.backend() == Some(backend), "{backend} expected: {answer:?}");
        led_away += usize::from(ask(&site.envoy, Some(cookie)).await?.backend() != Some(backend));
    }
    assert!(
        led_away > 20,
        "the hash leads {led_away} of 100 elsewhere, so this shows nothing"
    );
    Ok(())
}

/// An object gets another class when its host moves. Until then Limpet does not read it, and no client of other objects
/// is touched.
#[tokio::test]
async fn hosts_move_one_by_one() -> Result<()> {
    const OTHER: &str = "other.example.com";
    let routes = json!([{"match": "/", "services": [sticky("web")]}]);
    let mut one = root(&routes);
    let mut two = ingress_route("other", &json!({"virtualhost": {"fqdn": OTHER}, "routes": routes}));
    let contour = json!({"ingressClass": "limpet", "unclassified": false});
    let class = json!({"kubernetes.io/ingress.class": "limpet"});
    one["metadata"]["annotations"] = class.clone();
    let site = Site::configured(Services::start(&[("web", 2)])?, &[one.clone(), two.clone()], &contour).await?;
    assert_eq!(site.ask("/").await?.status, 200);
    assert_eq!(site.get_of(OTHER, "/")?.send().await?.status, 404);
    two["metadata"]["annotations"] = json!({"contour.heptio.com/ingress.class": "contour"});
    let objects = [&[one.clone(), two.clone()], site.services.objects().as_slice()].concat();
    let rendered = Rendered::valid(&objects, &contour)?;
    assert_eq!(rendered.status("root").0, "valid");
    assert_eq!(
        rendered.status("other"),
        ("", ""),
        "an object of another class has a status"
    );
    two["metadata"]["annotations"] = class;
    let Site { envoy, services } = site;
    drop(envoy);
    let site = Site::configured(services, &[one, two], &contour).await?;
    for host in [HOST, OTHER] {
        assert_eq!(site.get_of(host, "/")?.send().await?.status, 200, "{host}");
    }
    Ok(())
}
