use std::net::Ipv4Addr;

use super::dns::Dns;
use super::*;

const NAME: &str = "web.elsewhere.example";

fn external(name: &str, external_name: &str, port: u16) -> Value {
    service_object(
        name,
        &json!({"type": "ExternalName", "externalName": external_name, "ports": [{"port": port}]}),
    )
}

fn with_port(mut service: Value, port: u16) -> Value {
    service["port"] = port.into();
    service
}

async fn envoy(rendered: Rendered, dns: &Dns) -> Result<Envoy> {
    let at = dns.address();
    let resolver = json!({
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [{"socket_address": {"address": at.ip(), "port_value": at.port()}}],
            "dns_resolver_options": {"no_default_search_domain": true},
        },
    });
    let config = rendered.config();
    Envoy::serve(config.edit(|bootstrap| bootstrap["typed_dns_resolver_config"] = resolver)).await
}

fn backends() -> Result<[Backend; 3]> {
    let first = Backend::start_at("elsewhere/0", SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let port = first.address().port();
    let at = |number: u8| Backend::start_at(&format!("elsewhere/{number}"), ([127, 0, 0, number + 1], port).into());
    Ok([first, at(1)?, at(2)?])
}

#[tokio::test]
async fn a_service_elsewhere_is_reached_by_its_name() -> Result<()> {
    let backends = backends()?;
    let port = backends[0].address().port();
    let addresses = backends.each_ref().map(|backend| match backend.address().ip() {
        std::net::IpAddr::V4(address) => address,
        std::net::IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    });
    let dns = Dns::start(&[(NAME, &addresses)]).await?;
    let routes = json!([
        {"match": "/", "services": [with_port(plain("elsewhere"), port)]},
        {"match": "/kept", "services": [with_port(sticky("elsewhere"), port)]},
    ]);
    let objects = [root(&routes), external("elsewhere", NAME, port)];
    let rendered = Rendered::valid(&objects, &json!({"externalNames": true}))?;
    let envoy = envoy(rendered, &dns).await?;
    let services = Services::start(&[])?;
    let site = Site { envoy, services };
    let met = site.met("/", 60).await?;
    assert_eq!(different(&met), 3, "{met:?}");
    for _ in 0..6 {
        let (mut visitor, backend) = site.begin("/kept").await?;
        stays(&site, &mut visitor, "/kept", &backend).await?;
    }
    Ok(())
}

/// Names need permission; with it, those that only Envoy may reach stay refused.
#[tokio::test]
async fn local_names_and_addresses_are_refused() -> Result<()> {
    let backend = Backend::start("local")?;
    let port = backend.address().port();
    let dns = Dns::start(&[(NAME, &[Ipv4Addr::LOCALHOST]), ("localhost", &[Ipv4Addr::LOCALHOST])]).await?;
    let names = [
        "localhost",
        "localhost.",
        "LocalHost",
        "web.localhost",
        "127.0.0.1",
        "127.1.2.3",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "::ffff:169.254.169.254",
    ];
    let of = |number: usize| format!("vertex-{number}");
    let mut routes = vec![json!({"match": "/good", "services": [plain("web")]})];
    let mut objects = vec![external("none", NAME, port)];
    for (number, name) in names.iter().enumerate() {
        let path = format!("/{number}/");
        routes.push(json!({"match": path, "delegate": {"name": of(number)}}));
        let service = with_port(plain(&of(number)), port);
        objects.push(vertex(&of(number), &json!([{"match": path, "services": [service]}])));
        objects.push(external(&of(number), name, port));
    }
    // Without permission, not even a good name.
    let service = with_port(plain("none"), port);
    let bare = [
        vertex("none", &json!([{"match": "/none", "services": [service]}])),
        external("none", NAME, port),
    ];
    let delegating = root(&json!([{"match": "/none", "delegate": {"name": "none"}}]));
    for (leave, expected) in [(false, "invalid"), (true, "valid")] {
        let objects = [std::slice::from_ref(&delegating), &bare].concat();
        let rendered = Rendered::new(&objects, &json!({"externalNames": leave}))?;
        assert_eq!(
            rendered.status("none").0,
            expected,
            "{leave}: {:?}",
            rendered.status("none")
        );
    }

    let services = Services::start(&[("web", 1)])?;
    let objects = [vec![root(&json!(routes))], objects, services.objects()].concat();
    let rendered = Rendered::new(&objects, &json!({"externalNames": true}))?;
    let status = |number: usize| rendered.status(&of(number));
    let taken: Vec<_> = (0..names.len())
        .filter(|number| status(*number).0 != "invalid")
        .collect();
    let taken: Vec<_> = taken.into_iter().map(|number| names[number]).collect();
    assert!(taken.is_empty(), "these are reached: {taken:?}");
    let envoy = envoy(rendered, &dns).await?;
    let site = Site { envoy, services };
    for (number, name) in names.iter().enumerate() {
        let answer = site.ask(&format!("/{number}/")).await?;
        assert_eq!(answer.backend(), None, "{name}");
    }
    assert_eq!(backend.requests(), 0);
    // The root is not a vertex, and is served.
    assert_eq!(site.ask("/good").await?.backend(), Some("web/0"));
    Ok(())
}
