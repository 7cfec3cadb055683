//! The fuzz targets `http_route` and `ingress_route`: Envoy judges a sample.

use std::sync::Arc;

use anyhow::{Result, ensure};
use limpet_e2e::Envoy;
use limpet_fuzz::Random;
use limpet_model::Certificate;

use super::config;

/// Fields of a graph: matches, actions and filters.
const SERVED: [&str; 12] = [
    "regex",
    "prefix",
    "exact",
    "forward",
    "redirect",
    "rewrite",
    "requestHeaders",
    "responseHeaders",
    "mirrors",
    "cors",
    "retry",
    "requestTimeout",
];

/// A refused host stops all hosts of its port.
#[tokio::test]
async fn envoy_accepts_what_any_http_route_becomes() -> Result<()> {
    let mut random = Random::seeded();
    let inputs: Vec<Vec<u8>> = (0..1000).map(|_| random.bytes(300)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let graph = limpet_fuzz::graph(&inputs);
    let (accepted, said) = Envoy::validate(&config(&graph, &[])?).await?;
    ensure!(accepted, "{said}");
    // The sample has rules with each kind of match and filter that are served.
    let text = serde_json::to_string(&graph)?;
    for part in SERVED {
        ensure!(text.contains(&format!("\"{part}\":")), "nothing has {part}");
    }
    Ok(())
}

/// Fields of a graph: matches, actions and clusters.
const OF_CONTOUR: [&str; 14] = [
    "tlsMinimum",
    "redirect",
    "text",
    "prefix",
    "rewrite",
    "refusesWebsockets",
    "serverErrors",
    "backendTimeout",
    "hash",
    "balance",
    "healthCheck",
    "externalName",
    "neverBegins",
    "policy",
];

#[tokio::test]
async fn envoy_accepts_what_any_ingress_route_becomes() -> Result<()> {
    let mut random = Random::seeded();
    // Enough for each field to come up with any seed.
    let inputs: Vec<Vec<u8>> = (0..4000).map(|_| random.bytes(300)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut graph = limpet_fuzz::ingress_routes(&inputs);
    // Envoy could not load the target's own certificate.
    let made = rcgen::generate_simple_self_signed(["fuzzed.example".to_owned()])?;
    let certificate = Arc::new(Certificate {
        chain: made.cert.pem().into_bytes().into(),
        key: Arc::new(made.signing_key.serialize_pem().into_bytes().into()),
    });
    let names = graph.certificates.keys().cloned();
    graph.certificates = names.map(|name| (name, Arc::clone(&certificate))).collect();
    let (accepted, said) = Envoy::validate(&config(&graph, &[])?).await?;
    ensure!(accepted, "{said}");
    let text = serde_json::to_string(&graph)?;
    for part in OF_CONTOUR {
        ensure!(text.contains(&format!("\"{part}\":")), "nothing has {part}");
    }
    Ok(())
}
