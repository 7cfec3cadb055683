//! Sessions of a destination: the split chooses a service for every request, and a client has a session in each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Config, Envoy, Request, Visitor, poll};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::site::{SplitSite, service};
use super::statistics::{TOO_MUCH_FOR_TWO, chi_squared};

const CLUSTERS: [&str; 3] = ["blue", "green", "red"];
const WEIGHTS: [u32; 2] = [70, 30];

/// Policies, weights and sessions of three clusters; `destination.yaml` has two.
fn config(policies: &Value, weights: [u32; 3], sessions: [Option<&str>; 3]) -> Result<Config> {
    let filter = json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": policies});
    let config = Config::load("destination.yaml")?.another_cluster(CLUSTERS[2], []);
    let entries = CLUSTERS.iter().zip(weights);
    let entries: Vec<_> = entries
        .map(|(name, weight)| json!({"name": name, "weight": weight}))
        .collect();
    let route = json!({"route": {"weighted_clusters": {"clusters": entries}}});
    Ok(config.filter(&filter).route(&route).edit(|bootstrap| {
        for (i, session) in sessions.into_iter().enumerate() {
            let metadata = session.map(|session| json!({"filter_metadata": {"limpet": {"session": session}}}));
            bootstrap["static_resources"]["clusters"][i]["metadata"] = metadata.into();
        }
    }))
}

fn unchanged() -> Result<Config> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session", "perScope": true}}});
    config(&policies, [70, 30, 0], [Some("web/blue"), Some("web/green"), None])
}

/// As [`unchanged`], by the policy of the route, of which each cluster has sessions.
fn of_route(policy: &Value) -> Result<Config> {
    let config = config(&json!({"web": policy}), [70, 30, 0], [None; 3])?;
    let metadata = json!({"metadata": {"filter_metadata": {"limpet": {"session": "@destination/web/shop"}}}});
    Ok(config.route(&metadata))
}

#[derive(Debug, Default)]
struct ClientView {
    backends: BTreeMap<String, BTreeSet<String>>,
    counts: [u32; 2],
}

async fn run_clients(envoy: &Envoy, clients: usize, requests: usize) -> Result<Vec<ClientView>> {
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (address, mut visitor) = (envoy.address(), Visitor::new(envoy));
        tasks.spawn(async move {
            let (mut view, mut kept) = (ClientView::default(), BTreeMap::new());
            for _ in 0..requests {
                let bring = |request: Request, (name, token): (&&str, &String)| request.header(name, token);
                let answer = visitor
                    .send(kept.iter().fold(Request::get(address, "/"), bring))
                    .await?;
                for name in ["x-blue", "x-green"] {
                    kept.extend(answer.header(name).map(|token| (name, token.to_owned())));
                }
                let service = service(&answer).context("Envoy answered without a backend")?;
                let at = CLUSTERS
                    .iter()
                    .position(|name| *name == service)
                    .context("another service")?;
                view.counts[at] += 1;
                let backends = view.backends.entry(service.to_owned()).or_default();
                let is_new = backends.insert(answer.backend().unwrap_or_default().to_owned());
                ensure!(is_new == (backends.len() == 1 && answer_begins(&answer)), "{view:?}");
                let seen = answer.seen()?;
                let own = seen.all(&format!("x-{service}"));
                ensure!(
                    seen.cookies().is_none() && own.is_empty(),
                    "a token reached the backend: {seen:?}"
                );
            }
            ensure!(
                visitor.cookie_names().len() + kept.len() == view.backends.len(),
                "{visitor:?} {kept:?}"
            );
            anyhow::Ok(view)
        });
    }
    let mut views = Vec::new();
    while let Some(view) = tasks.join_next().await {
        views.push(view??);
    }
    Ok(views)
}

fn answer_begins(answer: &Answer) -> bool {
    !answer.set_cookies().is_empty() || ["x-blue", "x-green"].iter().any(|name| answer.header(name).is_some())
}

/// Checks that the split has its weights, and that clients have one backend in each service.
fn assert_split_and_kept(views: &[ClientView]) {
    let of = |service: usize| views.iter().map(|view| view.counts[service]).sum::<u32>();
    let counts = [of(0), of(1)];
    let found = chi_squared(&counts, &WEIGHTS);
    assert!(found < TOO_MUCH_FOR_TWO, "{counts:?}: chi-squared is {found}");
    for wrong in [[1, 1], [30, 70], [90, 10]] {
        let found = chi_squared(&counts, &wrong);
        assert!(
            found > TOO_MUCH_FOR_TWO,
            "{counts:?} for {wrong:?}: chi-squared is {found}"
        );
    }
    for service in ["blue", "green"] {
        let backends = || views.iter().filter_map(|view| view.backends.get(service));
        assert!(backends().all(|backends| backends.len() == 1), "{views:?}");
        assert_eq!(
            backends().flatten().collect::<BTreeSet<_>>().len(),
            2,
            "{service} has only one backend"
        );
    }
}

#[tokio::test]
async fn the_split_is_kept_although_cookies_are_sent() -> Result<()> {
    let cookie = json!({"cookie": {"name": "limpet-session", "perScope": true}});
    for config in [unchanged()?, of_route(&cookie)?] {
        let site = SplitSite::with_services(config, CLUSTERS).await?;
        assert_split_and_kept(&run_clients(&site.envoy, 25, 40).await?);
        for counter in ["refused.bad_signature", "refused.malformed", "reissued"] {
            assert_eq!(site.envoy.metric(&format!("web.{counter}")).await?, 0, "{counter}");
        }
    }
    Ok(())
}

/// Clients keep one value for each destination's header.
#[tokio::test]
async fn the_split_is_kept_although_headers_are_sent() -> Result<()> {
    let policies = json!({"blue": {"header": {"name": "x-blue"}}, "green": {"header": {"name": "x-green"}}});
    let config = config(&policies, [70, 30, 0], [Some("blue/blue"), Some("green/green"), None])?;
    let site = SplitSite::with_services(config, CLUSTERS).await?;
    assert_split_and_kept(&run_clients(&site.envoy, 25, 40).await?);
    Ok(())
}

/// In a shared header, a client sends one value, maybe another destination's token. With `forward`, backends see it as
/// their own.
#[tokio::test]
async fn another_destinations_token_in_the_header_is_not_honoured() -> Result<()> {
    for forward in [false, true] {
        let policies = json!({"web": {"header": {"name": "x-session", "forward": forward}}});
        let config = config(&policies, [50, 50, 0], [Some("web/blue"), Some("web/green"), None])?;
        let site = SplitSite::with_services(config, CLUSTERS).await?;
        let first = site.envoy.get("/").send().await?;
        let token = first.header("x-session").context("no token")?;
        let mut elsewhere = 0;
        for _ in 0..40 {
            let answer = site.envoy.get("/").header("x-session", token).send().await?;
            let own = service(&answer) == service(&first);
            if own {
                assert_eq!(answer.backend(), first.backend());
            }
            assert_eq!(answer.header("x-session").is_none(), own, "{answer:?}");
            assert_eq!(answer.seen()?.all("x-session"), vec![token; forward.into()]);
            elsewhere += u64::from(!own);
        }
        assert!(
            (1..40).contains(&elsewhere),
            "{elsewhere} of 40 requests went to the other backend"
        );
        let refused = site.envoy.metric("web.refused.bad_signature").await?;
        assert_eq!(refused, elsewhere);
    }
    Ok(())
}

/// A visitor with sessions at blue and green, and their backends by service.
async fn with_both(site: &SplitSite) -> Result<(Visitor, BTreeMap<String, String>)> {
    let mut visitor = Visitor::new(&site.envoy);
    let mut backends = BTreeMap::new();
    poll::patiently("a session on each service", async {
        while backends.len() < 2 {
            let answer = visitor.get("/").await?;
            let service = service(&answer).context("Envoy answered without a backend")?;
            backends.insert(service.to_owned(), answer.backend().unwrap_or_default().to_owned());
        }
        Ok(())
    })
    .await?;
    Ok((visitor, backends))
}

/// Its session moves to another backend of the same destination.
#[tokio::test]
async fn when_a_backend_goes_the_other_session_stays() -> Result<()> {
    let patient = json!({"route": {"retry_policy": {"retry_on": "connect-failure", "num_retries": 3}}});
    let mut site = SplitSite::with_services(unchanged()?.route(&patient), CLUSTERS).await?;
    let (mut visitor, backends) = with_both(&site).await?;
    let (blue, green) = (&backends["blue"], &backends["green"]);
    site.backend(blue)?.stop().await;
    let mut moved = 0;
    for _ in 0..40 {
        let answer = visitor.get("/").await?;
        if service(&answer) == Some("blue") {
            assert_ne!(answer.backend(), Some(blue.as_str()));
            moved += answer.set_cookies().len();
        } else {
            assert_eq!(answer.backend(), Some(green.as_str()));
            assert!(answer.set_cookies().is_empty());
        }
    }
    assert_eq!(moved, 1);
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_only_within_its_destination() -> Result<()> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session", "perScope": true}, "strict": true}});
    let sessions = [Some("web/blue"), Some("web/green"), None];
    for config in [config(&policies, [50, 50, 0], sessions)?, of_route(&policies["web"])?] {
        strict_sessions_fail_within_their_destination(config.strict_routes()).await?;
    }
    Ok(())
}

async fn strict_sessions_fail_within_their_destination(config: Config) -> Result<()> {
    let mut site = SplitSite::with_services(config, CLUSTERS).await?;
    let (mut visitor, backends) = with_both(&site).await?;
    let (blue, green) = (&backends["blue"], &backends["green"]);
    for _ in 0..10 {
        let answer = visitor.get("/").await?;
        assert!([blue, green].contains(&&answer.backend().unwrap_or_default().to_owned()));
    }
    site.backend(blue)?.stop().await;
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let answer = visitor.get("/").await?;
        assert!(answer.set_cookies().is_empty());
        seen.insert((answer.status, answer.backend().map(str::to_owned)));
    }
    assert_eq!(seen, [(503, None), (200, Some(green.clone()))].into());
    Ok(())
}

/// Green names an unknown policy, and red names none.
#[tokio::test]
async fn a_destination_without_a_session_is_left_alone() -> Result<()> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session", "perScope": true}}});
    let sessions = [Some("web/blue"), Some("missing/green"), None];
    let site = SplitSite::with_services(config(&policies, [40, 30, 30], sessions)?, CLUSTERS).await?;
    let mut visitor = Visitor::new(&site.envoy);
    visitor.keep("other", "1");
    let mut reached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut unknown = 0;
    for _ in 0..60 {
        let sent: Vec<_> = visitor
            .cookie_names()
            .into_iter()
            .map(|name| format!("{name}={}", visitor.cookie(name).unwrap_or_default()))
            .collect();
        let answer = visitor.get("/").await?;
        let service = service(&answer).context("Envoy answered without a backend")?;
        let cookies = answer.seen()?.cookies();
        if service == "blue" {
            assert_eq!(cookies.as_deref(), Some("other=1"));
        } else {
            assert_eq!(cookies, Some(sent.join("; ")), "{service}");
            assert!(answer.set_cookies().is_empty(), "{service}");
        }
        unknown += u64::from(service == "green");
        let backend = answer.backend().unwrap_or_default().to_owned();
        reached.entry(service.to_owned()).or_default().insert(backend);
    }
    assert_eq!(
        reached.values().map(BTreeSet::len).collect::<Vec<_>>(),
        [1, 2, 2],
        "{reached:?}"
    );
    assert_eq!(site.envoy.metric("unknown_sessions").await?, unknown);
    Ok(())
}
