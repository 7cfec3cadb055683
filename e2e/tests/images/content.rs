//! What is in the image `limpet`.

use anyhow::{Context, Result, ensure};

use crate::layout::Layout;

#[test]
fn the_image_has_the_command_and_the_filters_alone() -> Result<()> {
    let listed = Layout::shipped("limpet")?.listed()?;
    let files: Vec<_> = listed
        .iter()
        .map(|line| {
            let mut words = line.split_whitespace();
            (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
                words.last().unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        ("-rwxr-xr-x", "0/0", "limpet"),
        ("drwxr-xr-x", "0/0", "usr/"),
        ("drwxr-xr-x", "0/0", "usr/share/"),
        ("drwxr-xr-x", "0/0", "usr/share/limpet/"),
        ("-rwxr-xr-x", "0/0", "usr/share/limpet/liblimpet.so"),
        ("-rw-r--r--", "0/0", "usr/share/limpet/limpet.wasm"),
    ];
    ensure!(files == expected, "{listed:#?}");
    Ok(())
}

#[test]
fn the_image_runs_the_command_as_a_user_without_rights() -> Result<()> {
    let image = Layout::shipped("limpet")?;
    let config = image.json(&image.manifest()?["config"])?;
    ensure!(
        config["config"]["Entrypoint"] == serde_json::json!(["/limpet"]),
        "{config}"
    );
    ensure!(config["config"]["User"] == "65532:65532", "{config}");
    let labels = config["config"]["Labels"].as_object().context("no labels")?;
    let version = labels.get("org.opencontainers.image.version");
    ensure!(
        version.is_some_and(|version| version == env!("CARGO_PKG_VERSION")),
        "{config}"
    );
    Ok(())
}
