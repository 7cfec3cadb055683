//! Signing as in docs/how-to/images.md, by the genuine cosign with its own key, in a network with only a registry.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Registry, tools};
use limpet_repo_tests::Page;
use tempfile::TempDir;

/// The registry of the page.
const REGISTRY: &str = "registry.example.com";

/// The commands below "Sign and verify": sign files, verify them, sign an image, verify it.
fn blocks() -> Result<[String; 4]> {
    let page = fs::read_to_string(tools::checkout().join("docs/how-to/images.md"))?;
    let heading = page.find("\n## Sign and verify").context("no such heading")?;
    let (_, section) = page.split_at(heading);
    let blocks = Page::parse(section).blocks;
    let commands = blocks.into_iter().filter(|block| block.language == "sh");
    let commands: Vec<String> = commands.map(|block| block.text).collect();
    <[String; 4]>::try_from(commands).map_err(|found| anyhow::anyhow!("expected four blocks, found {found:#?}"))
}

/// A folder with only a release, and the pages' programs on the path.
pub(crate) struct Bench {
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let folder = TempDir::new()?;
        let programs = folder.path().join("programs");
        fs::create_dir(&programs)?;
        symlink(tools::cosign()?, programs.join("cosign"))?;
        symlink(tools::registry("crane")?, programs.join("crane"))?;
        Ok(Self { folder })
    }

    pub(crate) fn release(&self) -> Result<()> {
        for entry in fs::read_dir(tools::release()?)? {
            let file = entry?.path();
            fs::copy(&file, self.path().join(file.file_name().context("no name")?))?;
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn try_run(&self, commands: &str) -> Result<Output> {
        let path = std::env::var("PATH")?;
        let output = Command::new("timeout")
            .args(["120", "bash", "-euc", commands])
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", self.path().join("programs").display()))
            .env("HOME", self.path())
            .env("COSIGN_PASSWORD", "a password")
            .output()?;
        Ok(output)
    }

    pub(crate) fn run(&self, commands: &str) -> Result<()> {
        let output = self.try_run(commands)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{commands}: {said}");
        Ok(())
    }

    pub(crate) fn refuses(&self, commands: &str, words: &str) -> Result<()> {
        let output = self.try_run(commands)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(words), "{commands}: {said}");
        Ok(())
    }
}

#[test]
fn signed_digests_are_verified_and_changed_ones_refused() -> Result<()> {
    let [sign, verify, ..] = blocks()?;
    let bench = Bench::new()?;
    bench.release()?;
    bench.run(&sign)?;
    bench.run(&verify)?;

    // Another key.
    bench.run(
        "mkdir other && cd other && cosign generate-key-pair && cp ../cosign.pub ../own.pub && cp cosign.pub ..",
    )?;
    bench.refuses(&verify, "signature")?;
    bench.run("cp own.pub cosign.pub")?;
    // A file of the release, and then the digests themselves.
    bench.run("cp SHA256SUMS kept && echo >>limpet-chart-*.tgz")?;
    let output = bench.try_run(&verify)?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(!output.status.success() && said.contains(".tgz: FAILED"), "{said}");
    bench.run("sha256sum limpet-*.tar limpet-*.tgz limpet-*.gz limpet-*.json >SHA256SUMS")?;
    bench.refuses(&verify, "signature")
}

#[tokio::test]
async fn signed_images_are_verified_in_a_registry_and_others_refused() -> Result<()> {
    let [sign_files, _, sign, verify] = blocks()?;
    let registry = Registry::start(IpAddr::from([10, 66, 50, 3])).await?;
    let bench = Bench::new()?;
    bench.release()?;
    // It makes the key.
    bench.run(&sign_files)?;
    registry.publish()?;
    for image in ["limpet", "limpet-wasm", "limpet-wasm-compat"] {
        let of_test = &format!("{}/{image}", registry.name());
        let reference = format!("{of_test}:{}", env!("CARGO_PKG_VERSION"));
        let page = format!("{REGISTRY}/limpet");
        ensure!(sign.contains(&page) && verify.contains(&page), "{sign}\n{verify}");
        let with = |commands: &str| {
            let tagged = commands.replace(&format!("{page}:{}", env!("CARGO_PKG_VERSION")), &reference);
            tagged.replace(&page, of_test)
        };
        let digest = format!("digest=$(crane digest --insecure {reference})\n");
        bench.refuses(&format!("{digest}{}", with(&verify)), "no signatures found")?;
        bench.run(&format!("{digest}{}\n{}", with(&sign), with(&verify)))?;
    }
    bench.run("mkdir other && cd other && cosign generate-key-pair && cp cosign.pub ..")?;
    let of_test = format!("{}/limpet", registry.name());
    let reference = format!("{of_test}:{}", env!("CARGO_PKG_VERSION"));
    let verify = verify.replace(&format!("{REGISTRY}/limpet"), &of_test);
    let digest = format!("digest=$(crane digest --insecure {reference})\n");
    bench.refuses(&format!("{digest}{verify}"), "signature")
}
