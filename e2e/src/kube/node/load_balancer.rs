//! Gives Services of the type `LoadBalancer` addresses, which kube-proxy leads to pods: every address of 10.66.0.0/16
//! is this machine.

use std::time::Duration;

use anyhow::{Context, Result};
use hyper::Method;
use serde_json::{Value, json};

use super::super::Client;

/// Serves in its own thread, because each test has its own runtime.
pub(super) fn start(client: Client) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = async move {
        let mut given = 0;
        loop {
            // The API server may be away; the next look finds everything.
            let _ = serve(&client, &mut given).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let thread = std::thread::Builder::new().name("load-balancer".to_owned());
    thread.spawn(move || runtime.block_on(serve)).map(drop)?;
    Ok(())
}

async fn serve(client: &Client, given: &mut u8) -> Result<()> {
    let services = client.call(Method::GET, "/api/v1/services", "", None).await?;
    for service in services["items"].as_array().into_iter().flatten() {
        let lacks_address = service["status"]["loadBalancer"]["ingress"].is_null();
        if service["spec"]["type"] == "LoadBalancer" && lacks_address {
            *given += 1;
            let status = json!({"loadBalancer": {"ingress": [{"ip": format!("10.66.250.{given}")}]}});
            let namespace = text(&service["metadata"]["namespace"])?;
            let name = text(&service["metadata"]["name"])?;
            client
                .in_namespace(namespace)
                .merge_status("v1/Service", name, &status)
                .await?;
        }
    }
    Ok(())
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("no text")
}
