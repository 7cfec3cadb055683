//! The SBOMs of a release: each is valid, and lists what its file has.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use limpet_e2e::tools;
use serde_json::Value;

use crate::layout::{Layout, arches, run};

/// `CycloneDX`'s schema, and those that it refers to, from <https://github.com/CycloneDX/specification> (Apache-2.0).
const SCHEMA: &str = include_str!("cyclonedx/bom-1.5.schema.json");
const REFERENCED: [&str; 2] = [
    include_str!("cyclonedx/spdx.schema.json"),
    include_str!("cyclonedx/jsf-0.82.schema.json"),
];

/// The files of the release, by the end of their names.
fn files(end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(tools::release()?)?;
    let mut files = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    files.retain(|file| file.to_string_lossy().ends_with(end));
    files.sort();
    Ok(files)
}

/// An SBOM, by both ends of its name.
fn sbom(begin: &str, end: &str) -> Result<Value> {
    let is_it = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(begin)
            .is_some_and(|rest| rest.starts_with("-0.") || rest.starts_with("-1."))
    };
    let files = files(end)?;
    let file = files
        .iter()
        .find(is_it)
        .with_context(|| format!("{begin}: {files:?}"))?;
    Ok(serde_json::from_slice(&fs::read(file)?)?)
}

fn components(sbom: &Value) -> impl Iterator<Item = &Value> {
    sbom["components"].as_array().into_iter().flatten()
}

fn names<'a>(sbom: &'a Value, kind: &str) -> BTreeSet<&'a str> {
    let of_kind = components(sbom).filter(|component| component["type"] == kind);
    of_kind.filter_map(|component| component["name"].as_str()).collect()
}

#[test]
fn every_file_of_a_release_has_an_sbom() -> Result<()> {
    let shipped = [files(".tar.gz")?, files(".oci.tar")?, files(".tgz")?].concat();
    // The wasm file, three images, the chart, and two archives for each architecture.
    ensure!(shipped.len() == 5 + 2 * arches()?.len(), "{shipped:?}");
    for file in shipped {
        let name = file.to_string_lossy();
        let bare = [".tar.gz", ".tar", ".tgz"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let sbom = format!("{}.cdx.json", bare.unwrap_or_default());
        ensure!(fs::exists(&sbom)?, "{name} has no {sbom}");
    }
    Ok(())
}

#[test]
fn every_sbom_is_what_the_schema_of_cyclonedx_wants() -> Result<()> {
    let mut registry = jsonschema::Registry::new();
    for text in REFERENCED {
        let schema: Value = serde_json::from_str(text)?;
        let id = schema["$id"].as_str().context("no id")?.to_owned();
        registry = registry.add(id, schema)?;
    }
    let registry = registry.prepare()?;
    let schema: Value = serde_json::from_str(SCHEMA)?;
    let validator = jsonschema::options().with_registry(&registry).build(&schema)?;
    let mut seen = 0;
    for file in files(".cdx.json")? {
        let mut sbom: Value = serde_json::from_slice(&fs::read(&file)?)?;
        let mistakes: Vec<String> = validator
            .iter_errors(&sbom)
            .map(|mistake| format!("{}: {mistake}", mistake.instance_path()))
            .collect();
        ensure!(mistakes.is_empty(), "{}: {mistakes:#?}", file.display());
        // The schema does not check references.
        let known: BTreeSet<Option<&str>> = components(&sbom)
            .chain([&sbom["metadata"]["component"]])
            .map(|component| component["bom-ref"].as_str())
            .collect();
        for dependency in sbom["dependencies"].as_array().context("no dependencies")? {
            let named = dependency["dependsOn"].as_array().into_iter().flatten();
            for named in named.chain([&dependency["ref"]]) {
                ensure!(known.contains(&named.as_str()), "{}: {named}", file.display());
            }
        }
        sbom["components"][0]["type"] = "program".into();
        ensure!(!validator.is_valid(&sbom), "the schema finds nothing");
        seen += 1;
    }
    ensure!(seen == 5 + 2 * arches()?.len(), "{seen} SBOMs");
    Ok(())
}

/// A program has each of these texts if the library is linked in.
#[test]
fn the_sbom_of_a_program_has_what_is_linked_in_besides_crates() -> Result<()> {
    const TRACES: [(&str, &str); 5] = [
        ("rust-std", "/rustc/"),
        ("llvm-libunwind", "libunwind: "),
        ("musl", "No error information"),
        ("jemalloc", "<jemalloc>: "),
        ("wasi-libc", "wasi_snapshot_preview1"),
    ];
    let built = tools::images()?.with_file_name("");
    let mut programs = vec![("limpet-wasm", "0.cdx.json".to_owned(), tools::wasm()?)];
    for arch in arches()? {
        let built = built.join(arch);
        programs.push(("limpet", format!("{arch}.cdx.json"), built.join("limpet")));
        programs.push(("limpet-module", format!("{arch}.cdx.json"), built.join("liblimpet.so")));
    }
    for (name, end, program) in programs {
        let sbom = sbom(name, &end)?;
        let listed = names(&sbom, "library");
        ensure!(listed.contains("limpet-core"), "{name}: {listed:?}");
        let program = fs::read(program)?;
        for (library, trace) in TRACES {
            let is_linked = program.windows(trace.len()).any(|bytes| bytes == trace.as_bytes());
            ensure!(listed.contains(library) == is_linked, "{name}: {library}: {listed:?}");
        }
        ensure!(listed.contains("zig-compiler-rt") == (name != "limpet-wasm"), "{name}");
    }
    Ok(())
}

#[test]
fn the_sbom_of_an_image_has_its_files_and_all_that_is_in_them() -> Result<()> {
    for image in ["limpet", "limpet-wasm", "limpet-wasm-compat"] {
        let sbom = sbom(image, ".oci.cdx.json")?;
        let layout = Layout::shipped(image)?;
        let manifest = layout.manifest()?;
        let is_artefact = image == "limpet-wasm";
        let files: BTreeSet<String> = if is_artefact {
            let layers = manifest["layers"].as_array().context("no layers")?;
            let titles = layers
                .iter()
                .filter_map(|layer| layer["annotations"]["org.opencontainers.image.title"].as_str());
            titles.map(|title| format!("/{title}")).collect()
        } else {
            let listed = layout.listed(&manifest)?;
            let files = listed.iter().filter(|line| !line.ends_with('/'));
            files
                .filter_map(|line| Some(format!("/{}", line.split_whitespace().last()?)))
                .collect()
        };
        let listed = names(&sbom, "file");
        ensure!(
            files.iter().map(String::as_str).collect::<BTreeSet<_>>() == listed,
            "{image}: {listed:?}"
        );
        let digest = &sbom["metadata"]["component"]["hashes"][0]["content"];
        let index: Value = serde_json::from_slice(&fs::read(layout.folder().join("index.json"))?)?;
        let expected = index["manifests"][0]["digest"].as_str().context("no digest")?;
        ensure!(digest == expected.trim_start_matches("sha256:"), "{image}: {digest}");
        let libraries = names(&sbom, "library");
        ensure!(
            libraries.contains("wasi-libc") && libraries.contains("limpet-core"),
            "{image}"
        );
        ensure!(
            libraries.contains("musl") == (image == "limpet"),
            "{image}: {libraries:?}"
        );
    }
    Ok(())
}

#[test]
fn the_sbom_of_the_chart_has_the_images_it_runs() -> Result<()> {
    let sbom = sbom("limpet-chart", ".cdx.json")?;
    let listed: BTreeSet<String> = components(&sbom)
        .map(|image| format!("{}:{}", image["name"], image["version"]).replace('"', ""))
        .collect();
    let limpet = concat!("ghcr.io/limpet-dev/limpet:", env!("CARGO_PKG_VERSION"));
    // The chart's and the manifests' own images.
    let deployed = tools::checkout().join("controller/deploy/envoy/envoy.yaml");
    let deployed = fs::read_to_string(deployed)?;
    let envoy = deployed
        .lines()
        .find_map(|line| line.trim().strip_prefix("image: envoyproxy"));
    let envoy = format!("envoyproxy{}", envoy.context("no Envoy")?);
    ensure!(listed == BTreeSet::from([limpet.to_owned(), envoy]), "{listed:?}");
    Ok(())
}

#[test]
fn the_digests_are_those_of_all_files() -> Result<()> {
    let release = tools::release()?;
    let sums = fs::read_to_string(release.join("SHA256SUMS"))?;
    run(std::process::Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&release))?;
    let listed: BTreeSet<&str> = sums.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let there: BTreeSet<String> = files("")?
        .iter()
        .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()))
        .filter(|name| name != "SHA256SUMS")
        .collect();
    ensure!(
        there.iter().map(String::as_str).collect::<BTreeSet<_>>() == listed,
        "{listed:?}"
    );
    Ok(())
}
