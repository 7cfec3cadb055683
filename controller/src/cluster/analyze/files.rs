//! Findings of files: configurations of the filter and of Envoy, and objects.

use std::path::Path;

use serde_json::Value;

use super::code::FindingCode;
use super::finding::{AnalysisFinding, FindingPlace};
use super::reports::{of_check, of_rendered};
use crate::cli::CheckArgs;
use crate::cluster::cli::TargetKind;
use crate::cluster::config::Config;
use crate::cluster::render::{manifest_files, read_documents, render_manifests};
use crate::envoy_config::config_file;
use crate::exit::CommandFailure;
use crate::tools::check::{self, DocumentKind};
use limpet_core::config::schema::{KeyConfig, KeyStateConfig};
use limpet_outputs::{FilterInputs, FilterKeys};

/// What is found in files, and whether each could be read.
pub(super) struct AnalyzedFiles {
    pub(super) findings: Vec<AnalysisFinding>,
    pub(super) all_read: bool,
}

/// Analyzes files, `-` for standard input, and the `.yaml`, `.yml` and `.json` of directories.
///
/// # Errors
/// If there is no document.
pub(super) fn analyze(paths: &[String], config: &Config, target: TargetKind) -> Result<AnalyzedFiles, CommandFailure> {
    let mut findings = Vec::new();
    let (mut configurations, mut objects) = (Vec::new(), Vec::new());
    let (mut all_read, mut any_other) = (true, false);
    for (file, read) in read_all(paths) {
        match read {
            Ok(values) => {
                for (place, value) in check::named(&file, values) {
                    match DocumentKind::of(&place, &value) {
                        DocumentKind::Checked => configurations.push((place, value)),
                        DocumentKind::Object => objects.push((place, value)),
                        DocumentKind::Other => {
                            any_other = true;
                            findings.push(of_other(place));
                        }
                    }
                }
            }
            Err(failure) => {
                all_read = false;
                findings.push(unreadable(&file, &failure));
            }
        }
    }
    if configurations.is_empty() && objects.is_empty() && !any_other && all_read {
        let paths = paths.join(", ");
        return Err(CommandFailure(format!(
            "expected objects of Kubernetes, or configurations of Envoy or the filter, found none in {paths}"
        )));
    }
    if !configurations.is_empty() {
        let (report, _) = check::check_documents(configurations, &CheckArgs::default());
        findings.extend(of_check(&report));
    }
    if !objects.is_empty() {
        let settings = config.settings(target);
        let (manifests, failures) = read_documents(objects, &settings);
        findings.extend(failures.iter().map(|failure| unreadable("", failure)));
        let plane = config.control_plane(target);
        let rendered = render_manifests(manifests, &settings, &config.envoy, plane.as_ref(), &inputs(config));
        findings.extend(of_rendered(&rendered));
    }
    Ok(AnalyzedFiles { findings, all_read })
}

/// The documents of each file, or why it cannot be read.
fn read_all(paths: &[String]) -> Vec<(String, Result<Vec<Value>, CommandFailure>)> {
    let mut all = Vec::new();
    for path in paths {
        match manifest_files(Path::new(path)) {
            Ok(files) => all.extend(files.into_iter().map(|file| {
                let file = file.display().to_string();
                let read = config_file::read_all(&file);
                (file, read)
            })),
            Err(failure) => all.push((path.clone(), Err(failure))),
        }
    }
    all
}

/// Of a document of other software.
fn of_other(place: String) -> AnalysisFinding {
    let message = "not checked: neither an object of Kubernetes, nor a configuration of Envoy or of the filter";
    AnalysisFinding::new(FindingPlace::file(place), FindingCode::input("Other"), message)
}

fn unreadable(file: &str, CommandFailure(why): &CommandFailure) -> AnalysisFinding {
    let own = why.strip_prefix(file).and_then(|rest| rest.strip_prefix(": "));
    let place = FindingPlace::file(own.map(|_| file).unwrap_or_default());
    AnalysisFinding::new(place, FindingCode::input("Unreadable"), own.unwrap_or(why))
}

/// No finding depends on keys.
pub(super) fn inputs(config: &Config) -> FilterInputs {
    let key = KeyConfig {
        id: 1,
        env: Some("LIMPET_KEY".to_owned()),
        inline: None,
        state: KeyStateConfig::Signing,
    };
    FilterInputs {
        max_idle: config.max_idle(),
        clock_skew: config.clock_skew,
        ..FilterInputs::with_keys(FilterKeys::Listed(vec![key]))
    }
}
