//! What is in the image `limpet`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use goblin::elf::Elf;
use goblin::elf::header::{EM_AARCH64, EM_X86_64};
use tempfile::TempDir;

use crate::layout::{Layout, arches, run};

#[test]
fn the_image_has_the_command_and_the_filters_alone() -> Result<()> {
    let image = Layout::shipped("limpet")?;
    let expected = [
        ("-rwxr-xr-x", "0/0", "limpet"),
        ("drwxr-xr-x", "0/0", "usr/"),
        ("drwxr-xr-x", "0/0", "usr/share/"),
        ("drwxr-xr-x", "0/0", "usr/share/limpet/"),
        ("-rwxr-xr-x", "0/0", "usr/share/limpet/liblimpet.so"),
        ("-rw-r--r--", "0/0", "usr/share/limpet/limpet.wasm"),
    ];
    for manifest in image.manifests()? {
        let listed = image.listed(&manifest)?;
        let files = listed.iter().map(|line| {
            let mut words = line.split_whitespace();
            (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
                words.last().unwrap_or_default(),
            )
        });
        ensure!(files.collect::<Vec<_>>() == expected, "{listed:#?}");
    }
    Ok(())
}

/// Each image of an index has programs of its architecture.
#[test]
fn an_image_of_one_architecture_had_programs_of_another() -> Result<()> {
    let image = Layout::shipped("limpet")?;
    let manifests = image.manifests()?;
    let mut seen = BTreeSet::new();
    for manifest in manifests {
        let config = image.json(&manifest["config"])?;
        let architecture = config["architecture"].as_str().context("no architecture")?;
        let machine = match architecture {
            "amd64" => EM_X86_64,
            "arm64" => EM_AARCH64,
            other => bail!("{other}: {config}"),
        };
        let folder = TempDir::new()?;
        run(Command::new("tar")
            .arg("-xzf")
            .arg(image.blob(&manifest["layers"][0])?)
            .arg("-C")
            .arg(folder.path()))?;
        for program in ["limpet", "usr/share/limpet/liblimpet.so"] {
            let file = fs::read(folder.path().join(program))?;
            ensure!(
                Elf::parse(&file)?.header.e_machine == machine,
                "{architecture}: {program}"
            );
        }
        ensure!(seen.insert(architecture.to_owned()), "two of {architecture}");
    }
    ensure!(seen.len() == arches()?.len(), "{seen:?}");
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
