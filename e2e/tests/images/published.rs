//! A release in a registry, as `publish.sh` and `sign.sh` of the release's workflow leave it, and verified as
//! docs/how-to/verify-a-release.md says. The two tests cost 8 seconds, most of it for cosign.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Registry, helm, tools};
use limpet_repo_tests::Page;
use serde_json::Value;

use crate::layout::{arches, run};
use crate::signatures::Bench;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The workflow's identity on the page. Here a key signs.
const IDENTITY: &str = "--certificate-identity $identity --certificate-oidc-issuer $issuer";
const KEY: &str = "--key cosign.pub --insecure-ignore-tlog";

/// What Cargo.toml says of the registry.
fn place() -> Result<String> {
    let manifest = fs::read_to_string(tools::checkout().join("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("registry = \""));
    Ok(line.context("no registry")?.trim_end_matches('"').to_owned())
}

/// The commands of a section of the page, for a registry and a key of the test.
fn commands(heading: &str, registry: &str) -> Result<String> {
    let page = fs::read_to_string(tools::checkout().join("docs/how-to/verify-a-release.md"))?;
    let (_, section) = page
        .split_once(&format!("\n## {heading}\n"))
        .context("no such section")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = Page::parse(section).blocks.into_iter();
    let found: Vec<String> = blocks
        .filter(|block| block.language == "sh")
        .map(|block| block.text)
        .collect();
    let text = found.join("\n");
    ensure!(text.contains(IDENTITY) || !text.contains("cosign"), "{heading}: {text}");
    Ok(text.replace(IDENTITY, KEY).replace(&place()?, registry))
}

fn crane(arguments: &[&str]) -> Result<String> {
    let crane = tools::registry("crane")?;
    run(Command::new(crane).args(arguments).arg("--insecure"))
}

#[tokio::test]
async fn a_published_release_was_not_what_dist_release_has() -> Result<()> {
    let registry = Registry::start(IpAddr::from([10, 66, 50, 4])).await?;
    let published = registry.publish()?;
    let place = registry.name();
    let lines: Vec<&str> = published.lines().collect();
    ensure!(lines.len() == 4, "{published}");
    for line in lines {
        let (reference, sbom) = line.split_once(' ').context("no SBOM")?;
        let (name, digest) = reference.split_once('@').context("no digest")?;
        ensure!(
            crane(&["digest", &format!("{name}:{VERSION}")])?.trim() == digest,
            "{line}"
        );
        ensure!(tools::release()?.join(sbom).is_file(), "{line}");
    }
    // An index with an image for each architecture that was built.
    let index: Value = serde_json::from_str(&crane(&["manifest", &format!("{place}/limpet:{VERSION}")])?)?;
    let images = index["manifests"].as_array().map_or(1, Vec::len);
    ensure!(images == arches()?.len(), "{index}");

    // The chart, as its users install it, runs the published image.
    let chart = format!("oci://{place}/charts/limpet");
    let rendered = helm::run(&["template", "limpet", &chart, "--version", VERSION, "--plain-http"])?;
    let image = format!("image: {}/limpet:{VERSION}", self::place()?);
    ensure!(rendered.contains(&image), "{rendered}");
    let readme = helm::run(&["show", "readme", &chart, "--version", VERSION, "--plain-http"])?;
    ensure!(readme.contains("helm install limpet oci://"), "{readme}");
    let owner = crane(&["manifest", &format!("{place}/charts/limpet:artifacthub.io")])?;
    ensure!(owner.contains("artifacthub.repository-metadata"), "{owner}");

    // A second time it leaves all of it.
    ensure!(registry.publish()? == published, "another digest");
    // A tag with other content stays.
    crane(&["tag", &format!("{place}/limpet-wasm:{VERSION}"), "kept"])?;
    let (wasm, compat) = (
        format!("{place}/limpet-wasm"),
        format!("{place}/limpet-wasm-compat:{VERSION}"),
    );
    crane(&["copy", &compat, &format!("{wasm}:{VERSION}")])?;
    let refused = registry.publish().err().context("it was overwritten")?.to_string();
    ensure!(refused.contains("is there with other content"), "{refused}");
    Ok(())
}

/// `sign.sh` with a key.
fn sign(folder: &Path, published: &str) -> Result<()> {
    let file = folder.join("published");
    fs::write(&file, published)?;
    let config = folder.join("signing-config.json");
    let output = Command::new(tools::checkout().join("e2e/tools/sign.sh"))
        .arg("--key")
        .arg(folder.join("cosign.key"))
        .arg("--signing-config")
        .arg(config)
        .env("COSIGN_PASSWORD", "a password")
        .env("HOME", folder)
        .env("RELEASE", folder)
        .stdin(fs::File::open(file)?)
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "sign.sh: {error}");
    Ok(())
}

#[tokio::test]
async fn a_signed_release_was_refused_or_a_changed_one_accepted() -> Result<()> {
    let registry = Registry::start(IpAddr::from([10, 66, 50, 5])).await?;
    let published = registry.publish()?;
    let bench = Bench::new()?;
    bench.release()?;
    bench.run("cosign generate-key-pair && cosign signing-config create --out signing-config.json")?;
    let place = registry.name();
    let (files, images, sboms) = (
        commands("Files", &place)?,
        commands("Images and the chart", &place)?,
        commands("SBOMs", &place)?,
    );
    bench.refuses(&images, "no signatures found")?;
    sign(bench.path(), &published)?;
    bench.run(&files)?;
    bench.run(&images)?;
    bench.run(&sboms)?;

    bench.run("mv cosign.pub own.pub && mkdir other && cd other && cosign generate-key-pair && cp cosign.pub ..")?;
    bench.refuses(&files, "signature")?;
    bench.refuses(&images, "signature")?;
    bench.run("mv own.pub cosign.pub && echo >>limpet-wasm-*.tar.gz")?;
    bench.refuses(&files, "did NOT match")
}
