use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::{folder, limpet};

/// The names of a command and all its subcommands, by their help: `limpet`, `limpet-keys`, `limpet-keys-list`.
fn names(command: &[&str]) -> Vec<String> {
    let ran = limpet(&[command, &["--help"]].concat()).run().code(0);
    let listed = ran.stdout.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let listed = listed.split("\n\n").next().unwrap();
    let subcommands = listed
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' ') && !line.starts_with("help "))
        .filter_map(|line| line.split(' ').next());
    let mut all = vec![["limpet"].iter().chain(command).copied().collect::<Vec<_>>().join("-")];
    for subcommand in subcommands {
        all.extend(names(&[command, &[subcommand]].concat()));
    }
    all
}

#[test]
fn bash_accepts_its_completion_script() {
    let script = limpet(&["completions", "bash"]).run().code(0).stdout;
    for word in ["--deny-warnings", "rotate", "completions"] {
        assert!(script.contains(word), "{word} is not in the script");
    }
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(bash.wait().unwrap().success());
}

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "elvish", "fish", "kubectl", "powershell", "zsh"] {
        limpet(&["completions", shell]).run().code(0).says("limpet");
    }
    limpet(&["completions", "csh"]).run().code(3);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = folder();
    // The command creates missing directories.
    let to = folder.path().join("man/man1");
    limpet(&["man", "--write", to.to_str().unwrap()]).run().code(0);
    let pages = std::fs::read_dir(&to).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = names(&[]).iter().map(|name| format!("{name}.1")).collect();
    assert!(expected.contains("limpet-keys-rotate.1"), "{expected:?}");
    assert_eq!(pages, expected);
    let check = std::fs::read_to_string(to.join("limpet-check.1")).unwrap();
    for part in [".TH limpet-check 1", r"\-\-deny\-warnings", "Exit codes:"] {
        assert!(check.contains(part), "{part} is not in {check}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_named() {
    let file = crate::file(".txt", "");
    let ran = limpet(&["man", "--write", crate::path(&file)]).run().code(3);
    ran.complains("cannot be written");
}

/// As kubectl finds it.
fn plugin(args: &[&str]) -> crate::Ran {
    let folder = folder();
    let program = folder.path().join("kubectl-limpet");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_limpet"), &program).unwrap();
    let mut command = Command::new(program);
    command.args(args);
    crate::Limpet(command).run()
}

#[test]
fn a_plugin_of_kubectl_called_itself_limpet() {
    plugin(&["check", "--help"])
        .code(0)
        .says("Usage: kubectl limpet check ")
        .says("  kubectl limpet check --env");
    plugin(&["check"]).code(3).complains("Usage: kubectl limpet check ");
    plugin(&["check", "x", "-o", "xml"])
        .code(3)
        .complains("invalid value 'xml'");
    let completed = plugin(&["__complete", "keys", "ro"]).code(0).stdout;
    assert!(
        completed.starts_with("rotate\t") && completed.ends_with("\n:4\n"),
        "{completed}"
    );
    let script = plugin(&["completions", "kubectl"]).code(0).stdout;
    assert!(script.contains("\nexec kubectl-limpet __complete \"$@\"\n"), "{script}");
}

#[test]
fn the_version_is_a_command_in_every_form() {
    let version = env!("CARGO_PKG_VERSION");
    let said = |args: &[&str]| limpet(args).run().code(0).stdout;
    let client = said(&["version", "--client"]);
    assert!(client.starts_with(&format!("limpet {version} (")), "{client}");
    let client = said(&["version", "--client", "-o", "yaml"]);
    assert!(client.contains(&format!("  version: \"{version}\"\n")), "{client}");
    assert_eq!(said(&["--version"]), format!("limpet {version}\n"));
    let refused = limpet(&["version", "-o", "wide"]).run().code(3);
    refused.complains("-o wide: expected text, json or yaml: this command has no wider table");
}
