//! Commands of the pages (`sh`, and behind `$ ` in `console`). Each page's are one script for bash, with stand-ins for
//! programs that only check their arguments: quoting, loops, variables and substitutions are the shell's.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use limpet_repo_tests::Page;
use tempfile::TempDir;

use crate::{LIMPET, assert_none, checkout, copy_of_the_checkout, pages};

/// Programs with a stand-in.
const STAND_INS: [&str; 21] = [
    "cosign",
    "crane",
    "curl",
    "docker",
    "dist/limpet",
    "e2e/tools/publish.sh",
    "envoy",
    "gh",
    "git",
    "go",
    "helm",
    "kubectl",
    "limpet",
    "make",
    "pilot-discovery",
    "python3",
    "skopeo",
    "sleep",
    "openssl",
    "scp",
    "ssh",
];

/// Programs that really run, in the test's folder.
const REAL: [&str; 20] = [
    "awk",
    "base64",
    "bash",
    "cat",
    "cmp",
    "cp",
    "cut",
    "date",
    "grep",
    "head",
    "mkdir",
    "mv",
    "rm",
    "sed",
    "seq",
    "sha256sum",
    "sort",
    "timeout",
    "tr",
    "uniq",
];

/// Writes what is wrong with its arguments to `$PROBLEMS`.
const STAND_IN: &str = r#"#!/bin/bash
name=${0##*/}
say() { echo "$PAGE:$PAGE_LINE: $name $arguments: $*" >>"$PROBLEMS"; }
arguments=$*
for argument in "$@"; do
  case $argument in
    envoy-configs/* | controller/* | design/* | docs/* | e2e/* | filter/*)
      [[ -e $CHECKOUT/$argument ]] || say "there is no $argument" ;;
  esac
done
case $name in
  limpet)
    # A command line that is read up to its end is answered with the help.
    why=$("$LIMPET" "$@" --help 2>&1 >/dev/null) || say "$why"
    ;;
  helm)
    case $1 in
      history | install | list | rollback | show | status | template | uninstall | upgrade) ;;
      *) say "helm has no command $1" ;;
    esac
    ;;
  make)
    for argument in "$@"; do
      [[ $argument == *=* ]] || grep -q "^$argument:" "$CHECKOUT/Makefile" || say "there is no target $argument"
    done
    ;;
  kubectl)
    while (($#)); do
      case $1 in
        -n | --namespace | -l | -o | --output | --context) shift ;;
        -*) ;;
        annotate | apply | config | cp | create | delete | describe | edit | exec | get | label | logs | patch) break ;;
        port-forward | replace | rollout | scale | set | wait) break ;;
        *) say "kubectl has no command $1"; break ;;
      esac
      shift
    done
    (($#)) || say "no command"
    while (($#)); do
      case $1 in
        -f | -k | --filename | --kustomize)
          # What has no folder is a file of the reader's.
          [[ $2 != */* || $2 == https://* || -e $2 || -e $CHECKOUT/$2 ]] || say "there is no $2" ;;
      esac
      shift
    done
    ;;
esac
"#;

/// In front of a page's commands.
const PRELUDE: &str = r#"set -o functrace -o errtrace -o pipefail
found() { echo "$PAGE:$1: $2" >>"$PROBLEMS"; }
command_not_found_handle() { found $((BASH_LINENO[0] - 1)) "$1: these tests know no such program"; return 127; }
trap 'export PAGE_LINE=$((LINENO - 1))' DEBUG
trap 'code=$?; ((code != 126 && code != 127)) || found "$PAGE_LINE" "$BASH_COMMAND: exit code $code"' ERR"#;

fn executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A copy of the checkout with stand-ins.
fn stage() -> TempDir {
    let folder = copy_of_the_checkout();
    let root = folder.path();
    for name in STAND_INS {
        let path = if name.contains('/') {
            root.join(name)
        } else {
            root.join("programs").join(name)
        };
        executable(&path, STAND_IN);
    }
    for name in REAL {
        let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        let found = found.iter().find(|path| path.exists());
        symlink(
            found.unwrap_or_else(|| panic!("there is no {name}")),
            root.join("programs").join(name),
        )
        .unwrap();
    }
    for folder in ["e2e/tools", "controller/deploy"] {
        for entry in fs::read_dir(checkout().join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            if Path::new(&name).extension().is_some_and(|extension| extension == "sh") {
                // envoy.sh prints where an Envoy is.
                executable(
                    &root.join(folder).join(name),
                    "#!/bin/bash\nbasename=${0##*/}\necho ${basename%.sh}\n",
                );
            }
        }
    }
    folder
}

/// Each command is one line later than in the page.
fn script(page: &Page) -> Option<String> {
    let mut lines: Vec<&str> = Vec::new();
    for block in &page.blocks {
        let is_script = block.language == "sh";
        if !is_script && !block.language.starts_with("console") {
            continue;
        }
        lines.resize(lines.len().max(block.line), "");
        let mut continues = false;
        for text in block.text.lines() {
            let command = text.strip_prefix("$ ").filter(|_| !is_script);
            lines.push(match command {
                Some(command) => command,
                None if is_script || continues => text,
                None => "",
            });
            continues = (command.is_some() || continues) && text.ends_with('\\');
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn problems(path: &str, page: &Page) -> Vec<String> {
    let Some(script) = script(page) else {
        return Vec::new();
    };
    let stage = stage();
    let root = stage.path();
    // One line, so that a line of the script is the one before it in the page.
    let prelude = PRELUDE.replace('\n', "; ");
    let file = root.join("page");
    fs::write(&file, format!("{prelude}\n{script}\n")).unwrap();
    let found = root.join("problems");
    let output = Command::new("timeout")
        .args(["120", "bash"])
        .arg(&file)
        .current_dir(root)
        .env_clear()
        .env("PATH", root.join("programs"))
        .env("HOME", root)
        .env("LIMPET", LIMPET)
        .env("CHECKOUT", checkout())
        .env("PAGE", path)
        .env("PROBLEMS", &found)
        .output()
        .unwrap();
    let mut problems: Vec<String> = fs::read_to_string(found)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    let said = String::from_utf8_lossy(&output.stderr);
    let of_bash = said
        .lines()
        .filter(|line| line.contains("syntax error") || line.contains("unexpected"));
    problems.extend(of_bash.map(|line| format!("{path} (a line later there): {line}")));
    if output.status.code() == Some(124) {
        problems.push(format!("{path}: its commands do not end"));
    }
    problems
}

/// Takes seconds: bash runs each block of each page.
#[test]
fn every_command_of_the_pages_is_understood() {
    let problems: Vec<_> = pages().iter().flat_map(|(path, page)| problems(path, page)).collect();
    assert_none(&problems);
}

#[test]
fn commands_that_are_not_understood_are_found() {
    let of = |text: &str| problems("page.md", &Page::parse(&format!("# A\n\n```sh\n{text}\n```\n")));
    for good in [
        "limpet check --env envoy-configs/cookie.yaml",
        "export LIMPET_KEY=$(dist/limpet keys generate)",
        "for file in a b; do limpet check $file | grep x; done",
        "limpet check \\\n  --env a.yaml",
        "kubectl -n shop apply -f controller/deploy/rbac.yaml",
        "controller/deploy/certificates.sh folder default/web | kubectl apply -f -",
        "make e2e FILTER=module",
        "cat <<END | limpet check -\nlimpet nothing\nEND",
    ] {
        assert_eq!(of(good), Vec::<String>::new(), "{good}");
    }
    for (wrong, line) in [
        ("limpet check --enf a.yaml", 4),
        ("limpet chek a.yaml", 4),
        ("x=$(dist/limpet keys generat)", 4),
        (
            "limpet check a.yaml\nlimpet keys wrap k.json | grep x || limpet keys wap k.json",
            5,
        ),
        ("limpet check envoy-configs/none.yaml", 4),
        ("kubectl -n shop aply -f a.yaml", 4),
        ("kubectl apply -k controller/none", 4),
        ("helm instal limpet controller/deploy/chart", 4),
        ("helm install limpet controller/deploy/none", 4),
        ("make nothing", 4),
        ("frobnicate", 4),
        ("e2e/tools/none.sh", 4),
    ] {
        let found = of(wrong);
        assert!(
            found
                .iter()
                .any(|problem| problem.starts_with(&format!("page.md:{line}: "))),
            "{wrong}: {found:?}"
        );
    }
    assert!(!of("for a in b; do").is_empty());
}
