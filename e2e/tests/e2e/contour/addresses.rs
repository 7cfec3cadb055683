//! Services with `sessionAffinity: ClientIP` and no strategy.

use std::net::Ipv4Addr;

use super::*;

const CLIENTS: u8 = 100;

pub(super) fn client(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 9, number)
}

/// The client's backend, from another port each time.
pub(super) async fn of_client(site: &Site, path: &str, number: u8) -> Result<String> {
    let answer = site.get(path)?.from(client(number)).send().await?;
    ensure!(
        answer.set_cookies().is_empty(),
        "a client of an address got a token: {answer:?}"
    );
    backend(&answer)
}

pub(super) async fn of_clients(site: &Site, path: &str) -> Result<Vec<String>> {
    let mut backends = Vec::new();
    for number in 1..=CLIENTS {
        backends.push(of_client(site, path, number).await?);
    }
    Ok(backends)
}

fn services() -> Result<Services> {
    let affinity = json!({
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}},
    });
    Ok(Services::start(&[("web", 5), ("other", 3)])?.with("web", affinity))
}

#[tokio::test]
async fn a_hundred_addresses_stay_from_any_port() -> Result<()> {
    let routes = json!([
        {"match": "/", "services": [plain("web")]},
        {"match": "/again", "services": [plain("web")]},
        {"match": "/other", "services": [plain("other")]},
    ]);
    let site = Site::start(services()?, &[root(&routes)]).await?;
    let first = of_clients(&site, "/").await?;
    assert_eq!(different(&first), 5, "{first:?}");
    // Sessions belong to the Service, so another route shares them.
    for path in ["/", "/again", "/"] {
        assert_eq!(of_clients(&site, path).await?, first, "{path}");
    }
    let mut without = Vec::new();
    for _ in 0..20 {
        without.push(of_client(&site, "/other", 1).await?);
    }
    assert_eq!(
        different(&without),
        3,
        "a Service without ClientIP keeps an address: {without:?}"
    );
    Ok(())
}

/// Another Envoy, or this one after a restart, has an empty table.
#[tokio::test]
async fn another_envoy_chooses_alike() -> Result<()> {
    let object = root(&json!([{"match": "/", "services": [plain("web")]}]));
    let site = Site::start(services()?, std::slice::from_ref(&object)).await?;
    let first = of_clients(&site, "/").await?;
    let site = site.change(&[object]).await?;
    assert_eq!(of_clients(&site, "/").await?, first);
    Ok(())
}

/// The address is the connection's, or what that many trusted proxies say.
#[tokio::test]
async fn trusted_proxies_name_the_client() -> Result<()> {
    let object = root(&json!([{"match": "/", "services": [plain("web")]}]));
    for (hops, expected) in [(0, 1), (1, 5)] {
        let site = Site::configured(
            services()?,
            std::slice::from_ref(&object),
            &json!({"trustedHops": hops}),
        )
        .await?;
        let mut met = Vec::new();
        for number in 1..=60 {
            let request = site.get("/")?.header("x-forwarded-for", format!("192.0.2.{number}"));
            met.push(backend(&request.send().await?)?);
        }
        assert_eq!(different(&met), expected, "{hops}: {met:?}");
    }
    Ok(())
}

/// The token holds the session; the address chooses for clients without one.
#[tokio::test]
async fn a_token_counts_before_the_address() -> Result<()> {
    let site = Site::start(
        services()?,
        &[root(&json!([{"match": "/", "services": [sticky("web")]}]))],
    )
    .await?;
    let mut elsewhere = 0;
    for number in 1..=20 {
        let mut visitor = site.visitor()?;
        let first = visitor.send(site.get("/")?.from(client(number))).await?;
        assert_eq!(first.set_cookies().len(), 1);
        for other in 21..=30 {
            let next = visitor.send(site.get("/")?.from(client(other))).await?;
            assert_eq!((next.backend(), next.set_cookies().len()), (first.backend(), 0));
        }
        let another = site.get("/")?.from(client(30)).send().await?;
        elsewhere += usize::from(another.backend() != first.backend());
    }
    assert!(elsewhere > 5, "{elsewhere}");
    Ok(())
}

/// The table keeps clients of other backends.
#[tokio::test]
async fn when_a_backend_goes_only_its_clients_move() -> Result<()> {
    let object = root(&json!([{"match": "/", "services": [plain("web")]}]));
    let mut site = Watched::start(services()?, object, "web").await?;
    let first = of_clients(&site.site, "/").await?;
    let lost = first.first().context("no client")?.clone();
    site.without(&lost).await?;
    let next = of_clients(&site.site, "/").await?;
    for (number, (first, next)) in first.iter().zip(&next).enumerate() {
        assert_eq!(first == next, *first != lost, "client {number} of {first} is on {next}");
    }
    assert_eq!(of_clients(&site.site, "/").await?, next);
    Ok(())
}

/// A site whose Envoy follows changes of one Service's endpoints.
pub(super) struct Watched {
    pub(super) site: Site,
    service: String,
}

impl Watched {
    /// With an object that leads to this Service only.
    pub(super) async fn start(services: Services, object: Value, service: &str) -> Result<Self> {
        let objects = [vec![object], services.objects()].concat();
        let rendered = Rendered::valid(&objects, &json!({}))?;
        let envoy = Envoy::serve(rendered.config().discover_endpoints()).await?;
        Ok(Self {
            site: Site { envoy, services },
            service: service.to_owned(),
        })
    }

    /// Takes a backend away, and waits until no worker has it.
    pub(super) async fn without(&mut self, name: &str) -> Result<()> {
        let Site { envoy, services } = &mut self.site;
        let left = services
            .of(&self.service)?
            .iter()
            .filter(|backend| backend.name() != name);
        let left: Vec<&Backend> = left.collect();
        envoy.update(|config| config.backends(left))?;
        let (site, mut asked) = (&self.site, 0_u8);
        poll::until("every worker: the backend is gone", async || {
            for _ in 0..20 {
                // A new client each time: the table may hold known ones on others.
                asked = asked.wrapping_add(1);
                let request = site.get("/").ok()?.from(Ipv4Addr::new(127, 0, 10, asked));
                (request.send().await.ok()?.backend()? != name).then_some(())?;
            }
            Some(())
        })
        .await
    }
}
