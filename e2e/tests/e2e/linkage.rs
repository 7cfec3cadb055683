//! What the dynamic module needs of its machine.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use goblin::elf::Elf;
use limpet_e2e::tools;

/// The parts of glibc in every image with an Envoy. 2.34 merged all but the linker and `libm`.
const GLIBC: [&str; 6] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
];

/// `GLIBC_2.31` in docs/reference/versions-and-limits.md.
const OLDEST: (u32, u32) = (2, 31);

fn glibc_version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn demanded(elf: &Elf<'_>) -> BTreeMap<String, Vec<String>> {
    let name = |at| elf.dynstrtab.get_at(at).unwrap_or_default().to_owned();
    let needs = elf.verneed.iter().flatten();
    needs
        .map(|need| {
            (
                name(need.vn_file),
                need.iter().map(|version| name(version.vna_name)).collect(),
            )
        })
        .collect()
}

#[test]
fn the_module_needs_no_library_but_those_of_glibc() -> Result<()> {
    let file = fs::read(tools::module()?)?;
    let needed = Elf::parse(&file)?.libraries;
    ensure!(needed.contains(&"libc.so.6"), "not linked to glibc: {needed:?}");
    let others: Vec<_> = needed.iter().filter(|name| !GLIBC.contains(name)).collect();
    ensure!(others.is_empty(), "an image without {others:?} cannot load the module");
    Ok(())
}

#[test]
fn the_module_is_loaded_by_glibc_2_31() -> Result<()> {
    let file = fs::read(tools::module()?)?;
    let elf = Elf::parse(&file)?;
    let demanded = demanded(&elf);
    ensure!(!demanded.is_empty(), "no symbol has a version");
    for (library, versions) in demanded {
        for version in versions {
            let number = glibc_version(&version).with_context(|| format!("{library}: {version}"))?;
            ensure!(number <= OLDEST, "{library} has to be of {version}");
        }
    }
    // A symbol without a version may come from any library.
    let versions = elf.versym.as_ref().context("no symbol has a version")?;
    for (symbol, version) in elf.dynsyms.iter().zip(versions.iter()) {
        let name = elf.dynstrtab.get_at(symbol.st_name).unwrap_or_default();
        let is_asked_for = symbol.is_import() && !name.is_empty() && symbol.st_bind() != goblin::elf::sym::STB_WEAK;
        ensure!(
            !is_asked_for || version.version() > 1,
            "no library is named that has {name}"
        );
    }
    Ok(())
}
