//! Protocols on both sides of Envoy.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// By an annotation of the Service, for the listed ports only.
#[tokio::test]
async fn h2c_is_spoken_to_the_ports_that_a_service_lists() -> Result<()> {
    for (name, ports, version) in [
        ("projectcontour.io/upstream-protocol.h2c", "80", "HTTP/2.0"),
        ("contour.heptio.com/upstream-protocol.h2c", "8080,80", "HTTP/2.0"),
        ("contour.heptio.com/upstream-protocol.h2c", "8080", "HTTP/1.1"),
    ] {
        let services = Services::start(&[("web", 3)])?;
        let mut objects = services.objects();
        for object in objects.iter_mut().filter(|object| object["kind"] == "Service") {
            object["metadata"]["annotations"] = json!({name: ports});
        }
        objects.push(root(&json!([{"match": "/", "services": [sticky("web")]}])));
        let envoy = Envoy::serve(Rendered::valid(&objects, &json!({}))?.config()).await?;
        let site = Site { envoy, services };
        let (mut visitor, backend) = site.begin("/").await?;
        stays(&site, &mut visitor, "/", &backend).await?;
        let seen = site.visit(&mut visitor, "/").await?.seen()?;
        assert_eq!(seen.version, version, "{name}: {ports}");
    }
    Ok(())
}

/// Health checks of some load balancers speak it.
#[tokio::test]
async fn http_1_0_is_answered() -> Result<()> {
    let site = Site::start(
        Services::start(&[("web", 1)])?,
        &[root(&json!([{"match": "/", "services": [plain("web")]}]))],
    )
    .await?;
    let mut stream = TcpStream::connect(site.http()?).await?;
    let request = format!("GET /old HTTP/1.0\r\nHost: {HOST}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    poll::patiently("the end of an answer", async {
        Ok(stream.read_to_end(&mut answer).await?)
    })
    .await?;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"),
        "{answer}"
    );
    assert!(answer.contains("x-backend: web/0"), "{answer}");
    assert_eq!(site.services.backend("web/0")?.last()?.path, "/old");
    Ok(())
}
