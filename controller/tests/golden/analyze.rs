//! What `limpet analyze` says of files: the same as `limpet render` and `limpet check`, in its own words and order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The golden file, the inputs, and the exit code.
const ANALYZED: &[(&str, &[&str], i32)] = &[
    (
        "backend-tls-refused",
        &["controller/tests/golden/cases/backend-tls-refused/in.yaml"],
        2,
    ),
    ("conflicts", &["controller/tests/golden/cases/conflicts/in.yaml"], 2),
    ("no-sessions", &["controller/tests/golden/cases/no-sessions/in.yaml"], 0),
    (
        "objects-not-read",
        &["controller/tests/golden/cases/objects-not-read/in.yaml"],
        2,
    ),
    (
        "policies-in-conflict",
        &["controller/tests/golden/cases/policies-in-conflict/in.yaml"],
        2,
    ),
    ("references", &["controller/tests/golden/cases/references/in.yaml"], 2),
    (
        "without-status",
        &["controller/tests/golden/cases/without-status/in.yaml"],
        2,
    ),
    ("envoy", &["envoy-configs/inline-key.yaml"], 1),
    ("envoy-in-part", &["envoy-configs/module-ecds.yaml"], 0),
    (
        "both",
        &[
            "controller/tests/golden/cases/names-generated/in.yaml",
            "envoy-configs/cookie.yaml",
        ],
        0,
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs the command in the checkout.
fn analyze(inputs: &[&str], options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_limpet"));
    command
        .arg("analyze")
        .args(options)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    for input in inputs {
        command.args(["-f", input]);
    }
    let output = command.env_remove("LIMPET_KEY").output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn every_analysis_is_the_golden_one() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for (name, inputs, expected) in ANALYZED {
        let (code, text) = analyze(inputs, &[]);
        let file = folder().join("analyze").join(format!("{name}.txt"));
        if update {
            fs::write(&file, &text).expect("it can be written");
        } else if fs::read_to_string(&file).unwrap_or_default() != text || code != Some(*expected) {
            different.push(format!("{name}: {code:?}: {text}"));
        }
    }
    assert!(
        different.is_empty(),
        "`make golden` writes them again:\n{}",
        different.join("\n")
    );
}

#[test]
fn programs_get_the_same_findings_as_people() {
    for (name, inputs, expected) in ANALYZED {
        let (code, text) = analyze(inputs, &["-o", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let findings = json["findings"].as_array().expect("findings");
        let golden = fs::read_to_string(folder().join("analyze").join(format!("{name}.txt"))).expect("a golden file");
        assert_eq!(code, Some(*expected), "{name}");
        assert_eq!(
            golden.lines().filter(|line| line.contains(" [LIMPET")).count(),
            findings.len(),
            "{name}"
        );
        for finding in findings {
            let text = |field: &str| finding[field].as_str().unwrap_or_default();
            let head = format!("{} [{}]", text("severity"), text("code"));
            assert!(
                golden.contains(&head) && golden.contains(text("link")),
                "{name}: {finding}"
            );
            // A code for reasons that no row knows is for what is yet to come.
            assert!(!text("code").ends_with("99"), "{name}: {finding}");
        }
        let (_, yaml) = analyze(inputs, &["-o", "yaml"]);
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(yaml, json, "{name}");
    }
}

/// Every condition of every case has a code of its own.
#[test]
fn a_case_has_a_finding_without_a_code() {
    let mut cases: Vec<_> = fs::read_dir(folder().join("cases")).expect("cases").collect();
    cases.retain(|case| {
        case.as_ref()
            .is_ok_and(|case| !case.path().join("contour.yaml").exists())
    });
    assert!(cases.len() > 40, "{}", cases.len());
    for case in cases {
        let file = case.expect("a case").path().join("in.yaml").display().to_string();
        let (_, text) = analyze(&[&file], &[]);
        let other = text.lines().find(|line| line.contains("99] "));
        assert_eq!(other, None, "{file}");
    }
}
