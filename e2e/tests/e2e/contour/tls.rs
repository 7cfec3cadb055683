use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::hellos::{Hello, Said, V1_1, V1_2, V1_3};
use super::*;

/// Its Secret, and its authority in PEM.
pub(super) fn certificate(name: &str, hosts: &[&str]) -> Result<(Value, String)> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(hosts)?;
    let chain = made.cert.pem();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "data": {
            "tls.crt": STANDARD.encode(&chain),
            "tls.key": STANDARD.encode(made.signing_key.serialize_pem()),
        },
    });
    Ok((secret, chain))
}

pub(super) fn secure_root(tls: &Value, routes: &Value) -> Value {
    let mut tls = tls.clone();
    tls["secretName"] = "cert".into();
    ingress_route(
        "root",
        &json!({"virtualhost": {"fqdn": HOST, "tls": tls}, "routes": routes}),
    )
}

/// A host for which object and configuration ask for these minimum versions.
async fn site(object: &Value, contour: &Value) -> Result<Site> {
    let (secret, _) = certificate("cert", &[HOST])?;
    let routes = json!([{"match": "/", "services": [plain("web")]}]);
    let objects = [secret, secure_root(object, &routes)];
    Site::configured(Services::start(&[("web", 1)])?, &objects, contour).await
}

async fn said(site: &Site, version: u16, name: Option<&str>) -> Result<Said> {
    Hello { version, name }.say(site.envoy.listener(HTTPS)?).await
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken_and_1_1_is_refused() -> Result<()> {
    // A minimum below the configuration's does not count.
    for object in [
        json!({}),
        json!({"minimumProtocolVersion": "1.1"}),
        json!({"minimumProtocolVersion": "1.2"}),
    ] {
        let site = site(&object, &json!({})).await?;
        assert_eq!(said(&site, V1_1, Some(HOST)).await?, Said::NotThisVersion, "{object}");
        assert_eq!(said(&site, V1_2, Some(HOST)).await?, Said::Speaks(V1_2), "{object}");
        assert_eq!(said(&site, V1_3, Some(HOST)).await?, Said::Speaks(V1_3), "{object}");
    }
    Ok(())
}

/// The higher of the object's and the configuration's counts.
#[tokio::test]
async fn tls_1_3_can_be_the_least() -> Result<()> {
    for (object, contour) in [
        (json!({"minimumProtocolVersion": "1.3"}), json!({})),
        (json!({}), json!({"minimumProtocolVersion": "1.3"})),
        (
            json!({"minimumProtocolVersion": "1.2"}),
            json!({"minimumProtocolVersion": "1.3"}),
        ),
    ] {
        let site = site(&object, &contour).await?;
        assert_eq!(
            said(&site, V1_2, Some(HOST)).await?,
            Said::NotThisVersion,
            "{object} {contour}"
        );
        assert_eq!(
            said(&site, V1_3, Some(HOST)).await?,
            Said::Speaks(V1_3),
            "{object} {contour}"
        );
    }
    Ok(())
}

/// With the minimum lowered to Contour's, 1.1 is spoken, too.
#[tokio::test]
async fn tls_1_1_is_a_matter_of_the_configuration() -> Result<()> {
    let lowered = json!({"minimumProtocolVersion": "1.1"});
    let lower = site(&json!({}), &lowered).await?;
    assert_eq!(said(&lower, V1_1, Some(HOST)).await?, Said::Speaks(V1_1));
    let higher = site(&json!({"minimumProtocolVersion": "1.2"}), &lowered).await?;
    assert_eq!(said(&higher, V1_1, Some(HOST)).await?, Said::NotThisVersion);
    Ok(())
}

#[tokio::test]
async fn an_unknown_server_name_is_closed_upon() -> Result<()> {
    let site = site(&json!({}), &json!({})).await?;
    for version in [V1_2, V1_3] {
        for name in [
            Some("elsewhere.example.com"),
            Some("a.shop.example.com"),
            Some("example.com"),
            None,
        ] {
            assert_eq!(said(&site, version, name).await?, Said::Nothing, "{name:?}");
        }
        assert_eq!(
            said(&site, version, Some("SHOP.example.com")).await?,
            Said::Speaks(version)
        );
    }
    Ok(())
}

/// By the server name; no host is served under another one's.
#[tokio::test]
async fn each_host_has_its_own_certificate_and_routes() -> Result<()> {
    const OTHER: &str = "blog.example.com";
    let host = |name: &str, fqdn: &str, service: &str| {
        let spec = json!({
            "virtualhost": {"fqdn": fqdn, "tls": {"secretName": name}},
            "routes": [{"match": "/", "services": [plain(service)]}],
        });
        ingress_route(name, &spec)
    };
    let (one, one_root) = certificate("one", &[HOST])?;
    let (two, two_root) = certificate("two", &[OTHER])?;
    let objects = [
        one,
        two,
        host("one", HOST, "web"),
        host("two", "Blog.Example.com", "blog"),
    ];
    let site = Site::start(Services::start(&[("web", 1), ("blog", 1)])?, &objects).await?;
    for (root, host, expected) in [(&one_root, HOST, "web/0"), (&two_root, OTHER, "blog/0")] {
        let answer = site.over_tls(root, host, site.get_of(host, "/")?).await?;
        assert_eq!(answer.backend(), Some(expected), "{host}");
        let mut connection = Connection::open_tls(site.envoy.listener(HTTPS)?, &Tls::new(root, host)?, true).await?;
        let other = connection.send(site.get_of("elsewhere.example.com", "/")?).await?;
        assert!(
            other.status >= 400,
            "{host}: another host's request was served: {other:?}"
        );
    }
    assert!(site.over_tls(&one_root, OTHER, site.get_of(OTHER, "/")?).await.is_err());
    Ok(())
}
