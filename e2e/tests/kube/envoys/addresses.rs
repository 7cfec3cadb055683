use anyhow::Result;
use serde_json::{Value, json};

use super::{SERVICE, Site};

fn address(value: &str) -> Value {
    json!([{"type": "IPAddress", "value": value}])
}

#[tokio::test]
async fn a_gateway_has_the_addresses_of_its_load_balancer() -> Result<()> {
    let site = Site::start("balancer", json!({})).await?;
    site.gateway("web", &json!({"addresses": [{"value": "192.0.2.7"}]}))
        .await?;
    let service = site.until("it", SERVICE, "web", |_| true).await?;
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    assert_eq!(service["spec"]["loadBalancerIP"], "192.0.2.7");
    let message = site
        .until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;
    assert!(message.contains(&site.envoys("web")), "{message}");

    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}});
    site.namespace
        .merge_status(SERVICE, &site.envoys("web"), &ingress)
        .await?;
    let message = site
        .until_condition("web", "Programmed", "False/AddressNotUsable")
        .await?;
    assert!(
        message.contains("spec.addresses[0].value: ") && message.contains("192.0.2.8"),
        "{message}"
    );
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"hostname": "shop.example"}]}});
    site.namespace
        .merge_status(SERVICE, &site.envoys("web"), &ingress)
        .await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;
    let both = json!([
        {"type": "IPAddress", "value": "192.0.2.7"},
        {"type": "Hostname", "value": "shop.example"},
    ]);
    let has = |gateway: &Value| gateway["status"]["addresses"] == both;
    site.namespace.until("both", "Gateway", "web", has).await?;

    site.namespace.delete("Gateway", "web").await?;
    site.namespace.until_gone(SERVICE, &site.envoys("web")).await?;
    site.gateway("web", &json!({})).await?;
    site.until_condition("web", "Programmed", "False/AddressNotAssigned")
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_gateway_gets_the_cluster_ip_that_it_asks_for() -> Result<()> {
    let site = Site::start("cluster-ip", json!({"defaults": {"service": {"type": "ClusterIP"}}})).await?;
    site.gateway("any", &json!({})).await?;
    let any = site.until("it", SERVICE, "any", |_| true).await?["spec"]["clusterIP"].clone();
    let any = any.as_str().unwrap_or_default();
    site.namespace
        .until("its address", "Gateway", "any", |gateway| {
            gateway["status"]["addresses"] == address(any)
        })
        .await?;
    // Free, because its Service goes.
    site.namespace.delete("Gateway", "any").await?;
    site.namespace.until_gone(SERVICE, &site.envoys("any")).await?;
    site.gateway("web", &json!({"addresses": [{"value": any}]})).await?;
    site.namespace
        .until("this address", "Gateway", "web", |gateway| {
            gateway["status"]["addresses"] == address(any)
        })
        .await?;
    site.until_condition("web", "Programmed", "False/Pending").await?;

    for (gateway, asked, words) in [
        ("taken", any, "already allocated"),
        ("outside", "198.51.100.1", "does not match the current range"),
    ] {
        site.gateway(gateway, &json!({"addresses": [{"value": asked}]})).await?;
        let message = site
            .until_condition(gateway, "Programmed", "False/AddressNotUsable")
            .await?;
        assert!(message.contains(words), "{message}");
    }
    site.gateway(
        "named",
        &json!({"addresses": [{"type": "NamedAddress", "value": "pool"}]}),
    )
    .await?;
    site.until_condition("named", "Accepted", "False/UnsupportedAddress")
        .await?;
    Ok(())
}
