//! The wasm file from a registry, by its users' fetchers.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use limpet_e2e::{Registry, tools};

use crate::layout::{Layout, run};

/// Envoy Gateway's, and Istio's where `make e2e-images` knows Istio's place.
fn fetchers() -> Result<Vec<PathBuf>> {
    let mut fetchers = vec![tools::registry("fetch-envoy-gateway")?];
    fetchers.extend(tools::registry("fetch-istio"));
    Ok(fetchers)
}

async fn fetched_from(address: Ipv4Addr, image: &str) -> Result<()> {
    let wasm = fs::read(tools::wasm()?)?;
    let registry = Registry::start(address).await?;
    registry.publish()?;
    let reference = format!("{}/{image}:{}", registry.name(), env!("CARGO_PKG_VERSION"));
    for fetcher in fetchers()? {
        let fetched = registry.folder().join("fetched.wasm");
        run(Command::new(&fetcher).arg(&reference).arg(&fetched))?;
        ensure!(fs::read(fetched)? == wasm, "{} fetched another file", fetcher.display());
    }
    Ok(())
}

#[tokio::test]
async fn the_wasm_artefact_is_fetched_from_a_registry() -> Result<()> {
    fetched_from(Ipv4Addr::new(10, 66, 50, 1), "limpet-wasm").await
}

#[tokio::test]
async fn the_wasm_image_of_one_layer_is_fetched_too() -> Result<()> {
    fetched_from(Ipv4Addr::new(10, 66, 50, 2), "limpet-wasm-compat").await
}

/// By its types, the file is found without unpacking.
#[test]
fn the_wasm_artefact_says_what_it_is() -> Result<()> {
    let image = Layout::shipped("limpet-wasm")?;
    let manifest = image.manifest()?;
    let types: Vec<_> = manifest["layers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|layer| &layer["mediaType"])
        .collect();
    let expected = [
        "application/vnd.module.wasm.config.v1+json",
        "application/vnd.module.wasm.content.layer.v1+wasm",
    ];
    ensure!(types == expected, "{manifest}");
    ensure!(
        image.json(&manifest["layers"][0])?["type"] == "envoy_proxy",
        "{manifest}"
    );
    ensure!(
        fs::read(image.blob(&manifest["layers"][1])?)? == fs::read(tools::wasm()?)?,
        "another file"
    );
    Ok(())
}
