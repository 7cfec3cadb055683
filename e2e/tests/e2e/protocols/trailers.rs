use anyhow::Result;
use limpet_e2e::{Carrier, Config, Request, Site};
use serde_json::json;

use super::{Session, address, config, start};

async fn site_with_trailers() -> Result<Site> {
    let enabled = json!({"enable_trailers": true});
    let config: Config = config()?
        .cluster(&json!({"typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "use_downstream_protocol_config": {"http_protocol_options": enabled},
            },
        }}))
        .edit(|bootstrap| {
            let listeners = bootstrap["static_resources"]["listeners"].as_array_mut();
            for listener in listeners.into_iter().flatten() {
                let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
                manager["http_protocol_options"] = enabled.clone();
            }
        });
    start(config).await
}

#[tokio::test]
async fn trailers_pass_both_ways_and_have_no_token() -> Result<()> {
    let site = site_with_trailers().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for http2 in [false, true, false, true] {
            let (request, mut upload) = Request::get(at, "/echo")
                .header("te", "trailers")
                .header("trailer", "x-sum, x-other")
                .upload();
            let request = if http2 { request.http2() } else { request };
            let mut exchange = session.open(request).await?;
            upload.send("some bytes").await?;
            assert_eq!(exchange.bytes(10).await?, b"some bytes");
            upload.trailers(&[("x-sum", "10"), ("x-other", "more")]).await?;
            let answer = exchange.rest().await?;
            let mut trailers: Vec<_> = answer
                .trailers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes()))
                .collect();
            trailers.sort_unstable();
            assert_eq!(trailers, [("x-other", &b"more"[..]), ("x-sum", b"10")]);
        }
        assert_eq!(session.continued, 3);
    }
    Ok(())
}
