//! `src/descriptors.binpb` has envoy-types' own descriptors of the written messages. `make descriptors` writes it
//! again.
#![allow(clippy::disallowed_methods, reason = "a test reads files and the environment")]
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use limpet_outputs::json::ROOTS;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

fn checked_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/descriptors.binpb")
}

fn all() -> FileDescriptorSet {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let package = packages.iter().find(|package| package["name"] == "envoy-types");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let file = Path::new(manifest.expect("envoy-types is a dependency")).with_file_name("src/generated/types.bin");
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    // Options are extensions that prost does not know, so they are gone with this.
    FileDescriptorSet::decode(bytes.as_slice()).expect("envoy-types ships descriptors")
}

/// A message or an enumeration, and what it leads to.
#[derive(Default)]
struct Described {
    file: String,
    leads_to: Vec<String>,
}

fn describe(described: &mut BTreeMap<String, Described>, file: &str, scope: &str, message: &DescriptorProto) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        describe(described, file, &name, nested);
    }
    for nested in &message.enum_type {
        describe_enum(described, file, &name, nested);
    }
    let types = message.field.iter().map(|field| field.type_name().to_owned());
    let entry = Described {
        file: file.to_owned(),
        leads_to: types.filter(|name| !name.is_empty()).collect(),
    };
    described.insert(name, entry);
}

fn describe_enum(described: &mut BTreeMap<String, Described>, file: &str, scope: &str, proto: &EnumDescriptorProto) {
    let entry = Described {
        file: file.to_owned(),
        leads_to: Vec::new(),
    };
    described.insert(format!("{scope}.{}", proto.name()), entry);
}

/// What remains of a message for these needs, if anything.
fn pruned(needed: &BTreeSet<String>, scope: &str, message: &DescriptorProto) -> Option<DescriptorProto> {
    let name = format!("{scope}.{}", message.name());
    let nested_type: Vec<_> = message
        .nested_type
        .iter()
        .filter_map(|nested| pruned(needed, &name, nested))
        .collect();
    let enum_type: Vec<_> = needed_enums(needed, &name, &message.enum_type);
    let is_needed = needed.contains(&name);
    if !is_needed && nested_type.is_empty() && enum_type.is_empty() {
        return None;
    }
    let whole = if is_needed {
        message.clone()
    } else {
        DescriptorProto {
            name: message.name.clone(),
            ..DescriptorProto::default()
        }
    };
    Some(DescriptorProto {
        nested_type,
        enum_type,
        reserved_name: Vec::new(),
        reserved_range: Vec::new(),
        ..whole
    })
}

fn needed_enums(needed: &BTreeSet<String>, scope: &str, enums: &[EnumDescriptorProto]) -> Vec<EnumDescriptorProto> {
    let is_needed = |proto: &&EnumDescriptorProto| needed.contains(&format!("{scope}.{}", proto.name()));
    enums.iter().filter(is_needed).cloned().collect()
}

fn generated() -> Vec<u8> {
    let all = all();
    let mut described = BTreeMap::new();
    for file in &all.file {
        let scope = format!(".{}", file.package());
        for message in &file.message_type {
            describe(&mut described, file.name(), &scope, message);
        }
        for proto in &file.enum_type {
            describe_enum(&mut described, file.name(), &scope, proto);
        }
    }
    let mut needed = BTreeSet::new();
    let mut pending: Vec<String> = ROOTS.iter().map(|root| format!(".{root}")).collect();
    while let Some(name) = pending.pop() {
        let entry = described.get(&name);
        let entry = entry.unwrap_or_else(|| panic!("envoy-types does not describe {name}"));
        if needed.insert(name) {
            pending.extend(entry.leads_to.iter().cloned());
        }
    }
    let mut imports: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for name in &needed {
        let entry = &described[name];
        let targets = entry.leads_to.iter().map(|target| described[target].file.clone());
        imports
            .entry(&entry.file)
            .or_default()
            .extend(targets.filter(|file| *file != entry.file));
    }
    let file = |file: &FileDescriptorProto| {
        let scope = format!(".{}", file.package());
        let imports = imports.get(file.name())?;
        Some(FileDescriptorProto {
            name: file.name.clone(),
            package: file.package.clone(),
            syntax: file.syntax.clone(),
            dependency: imports.iter().cloned().collect(),
            message_type: file
                .message_type
                .iter()
                .filter_map(|message| pruned(&needed, &scope, message))
                .collect(),
            enum_type: needed_enums(&needed, &scope, &file.enum_type),
            ..FileDescriptorProto::default()
        })
    };
    let mut file: Vec<_> = all.file.iter().filter_map(file).collect();
    file.sort_by(|one, other| one.name.cmp(&other.name));
    FileDescriptorSet { file }.encode_to_vec()
}

#[test]
fn the_descriptors_are_those_of_envoy_types() {
    let generated = generated();
    if std::env::var_os("UPDATE_DESCRIPTORS").is_some() {
        std::fs::write(checked_in(), &generated).expect("the file can be written");
    }
    let present = std::fs::read(checked_in()).expect("the file is there");
    assert!(
        present == generated,
        "src/descriptors.binpb is not what envoy-types says: run `make descriptors`"
    );
}
