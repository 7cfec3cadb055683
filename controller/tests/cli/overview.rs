//! `limpet analyze`, `status`, `version` and `keys` without a cluster.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{checkout, folder, limpet};

/// A folder with these files.
fn with_files(files: &[(&str, &str)]) -> TempDir {
    let folder = folder();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// A kubeconfig of a server at this address.
fn kubeconfig(address: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], users: [{{name: a, user: {{}}}}]}}"
    )
}

#[test]
fn a_version_without_a_cluster_is_a_failure() {
    let folder = with_files(&[("config", &kubeconfig("127.0.0.1:1"))]);
    let config = folder.path().join("config").display().to_string();
    let ran = limpet(&["version", "--kubeconfig", &config]).run().code(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let own = format!("client       limpet {} (", env!("CARGO_PKG_VERSION"));
    assert!(lines.len() == 2 && lines[0].starts_with(&own), "{ran:?}");
    assert!(lines[1].starts_with("controllers  not known: "), "{ran:?}");
    let ran = limpet(&["version", "--client", "-o", "json", "--kubeconfig", &config])
        .run()
        .code(0);
    let json = ran.json();
    assert_eq!(json["client"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
}

#[test]
fn a_version_waits_for_a_silent_cluster() {
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = with_files(&[("config", &kubeconfig(&silent.local_addr().unwrap().to_string()))]);
    let config = folder.path().join("config").display().to_string();
    let start = Instant::now();
    let ran = limpet(&["version", "--kubeconfig", &config]).run().code(0);
    assert!(
        ran.stdout.ends_with("controllers  not known: no answer in 2 s\n"),
        "{ran:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn commands_of_a_cluster_end_otherwise_without_one() {
    let folder = with_files(&[("config", &kubeconfig("127.0.0.1:1"))]);
    let config = folder.path().join("config").display().to_string();
    for command in [
        &["analyze"][..],
        &["status"],
        &["keys", "list"],
        &["keys", "rotate"],
        &["keys", "revoke", "--key", "1"],
    ] {
        let ran = limpet(&[command, &["--kubeconfig", &config]].concat()).run().code(3);
        assert!(ran.stderr.contains("error: "), "{command:?}: {ran:?}");
    }
}

#[test]
fn an_option_of_keyring_files_is_taken_without_one() {
    for (options, named) in [
        (&["rotate", "--force"][..], "--force"),
        (&["rotate", "--config", "x.yaml"], "--config"),
        (&["revoke", "--key", "1", "--stats", "x.txt"], "--stats"),
    ] {
        let ran = limpet(&[&["keys"], options].concat()).run().code(3);
        let words = format!("error: {named}: expected it only with FILE: ");
        assert!(ran.stderr.starts_with(&words), "{options:?}: {ran:?}");
    }
    let ran = limpet(&["keys", "list", "keyring.json", "--secret", "a/b"])
        .run()
        .code(3);
    assert!(ran.stderr.contains("cannot be used with"), "{ran:?}");
}

#[test]
fn files_that_cannot_be_read_hide_other_findings() {
    let folder = with_files(&[
        ("broken.yaml", "a: ["),
        ("filter.yaml", "keys: [{id: 1, env: LIMPET_KEY}]\npolicys: {}\n"),
    ]);
    let path = folder.path().display().to_string();
    let ran = limpet(&["analyze", "-f", &path]).run().code(3);
    for words in [
        "error [LIMPET0101] ",
        "broken.yaml: neither YAML nor JSON: ",
        "error [LIMPET1001] ",
        "filter.yaml: policys: unknown field",
        "\n2 errors\n",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {ran:?}");
    }
    let ran = limpet(&["analyze", "-f", &path, "-n", "shop"]).run().code(3);
    assert!(ran.stderr.contains("cannot be used with"), "{ran:?}");
}

#[test]
fn a_name_in_a_file_changed_the_terminal() {
    let object = "apiVersion: gateway.networking.k8s.io/v1\nkind: \"Gate\\e[2Jway\"\nmetadata: {name: a}\n";
    let folder = with_files(&[("object.yaml", object)]);
    let path = folder.path().join("object.yaml").display().to_string();
    let ran = limpet(&["analyze", "-f", &path]).run().code(2);
    assert!(
        !ran.stdout.contains('\u{1b}') && ran.stdout.contains("Gate\\u{1b}[2Jway"),
        "{ran:?}"
    );
}

/// A route with this line of metadata, served by a Gateway.
fn shop(metadata: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: limpet}}
spec: {{controllerName: limpet.dev/controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
---
apiVersion: v1
kind: Service
metadata: {{namespace: shop, name: v1}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: shop, name: shop{metadata}}}
spec:
  parentRefs: [{{name: web}}]
  rules: [{{backendRefs: [{{name: v1, port: 80}}]}}]
"
    )
}

#[test]
fn a_rule_without_its_sessions_was_an_error_of_explain_only() {
    let policy = "---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {namespace: shop, name: p}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {type: Cookies}
";
    let annotated = shop(", annotations: {session.limpet.dev/cookie: a, session.limpet.dev/strict: perhaps}")
        .replace("rules: [{", "rules: [{sessionPersistence: {}, ");
    for (text, code) in [
        (annotated, "LIMPET0505"),
        (format!("{}{policy}", shop("")), "LIMPET0812"),
    ] {
        let folder = with_files(&[("shop.yaml", &text)]);
        let path = folder.path().join("shop.yaml").display().to_string();
        limpet(&["explain", "shop", "-n", "shop", "-f", &path]).run().code(2);
        let ran = limpet(&["analyze", "-f", &path]).run().code(2);
        assert!(ran.stdout.contains(&format!("error [{code}] ")), "{code}: {ran:?}");
    }
}

#[test]
fn a_status_in_a_file_counted() {
    let status = "status: {parents: [{controllerName: limpet.dev/controller, parentRef: {name: web}, conditions: \
                  [{type: Accepted, status: 'False', reason: NoMatchingParent}]}]}\n";
    let folder = with_files(&[("shop.yaml", &format!("{}{status}", shop("")))]);
    let path = folder.path().join("shop.yaml").display().to_string();
    limpet(&["analyze", "-f", &path]).run().code(0);
    let help = limpet(&["analyze", "--help"]).run().code(0).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("With --filename, it ignores a status in a file"),
        "{help}"
    );
}

#[test]
fn a_program_is_told_that_arguments_are_missing_but_not_which() {
    for (args, expected) in [
        (
            &["check"][..],
            "the following required arguments were not provided: <FILE>...",
        ),
        (
            &["keys", "revoke"],
            "the following required arguments were not provided: --key <ID>...",
        ),
        (
            &["render", "--target", "kong"],
            "invalid value 'kong' for '--target <TARGET>' [possible values: envoy, istio, envoy-gateway]",
        ),
    ] {
        let ran = limpet(&[args, &["-o", "json"]].concat()).run().code(3);
        assert_eq!(ran.json()["error"], expected, "{args:?}");
    }
}

#[test]
fn a_watched_file_was_taken_for_another_with_the_same_resource() {
    let configs = checkout().join("envoy-configs");
    let path = |name: &str| configs.join(name).display().to_string();
    let [wasm, module] = ["ecds.yaml", "module-ecds.yaml"].map(path);
    for files in [[&wasm, &module], [&module, &wasm]] {
        let ran = limpet(&["check", files[0], files[1]]).run().code(0);
        assert!(ran.stdout.contains("module.yaml"), "{ran:?}");
    }
    // Also if Envoy's paths lead nowhere here.
    let folder = folder();
    for name in ["ecds.yaml", "module-ecds.yaml", "ecds/limpet.yaml", "ecds/module.yaml"] {
        let text = std::fs::read_to_string(configs.join(name)).unwrap();
        let to = folder.path().join(name.rsplit('/').next().unwrap());
        std::fs::write(to, text.replace("envoy-configs/ecds/", "/etc/envoy/")).unwrap();
    }
    let all = folder.path().display().to_string();
    limpet(&["analyze", "-f", &all]).run().code(0);
}

#[test]
fn a_file_of_other_software_was_an_error() {
    let folder = with_files(&[("docker-compose.yaml", "services: {envoy: {image: envoy}}\n")]);
    let path = folder.path().display().to_string();
    let ran = limpet(&["analyze", "-f", &path]).run().code(0);
    assert!(ran.stdout.contains("info [LIMPET0112] "), "{ran:?}");
    assert!(ran.stdout.contains("docker-compose.yaml: not checked: "), "{ran:?}");
    // A mistake in an object or in a configuration makes it none of the two.
    for text in ["kind: HTTPRoute\nspec: {}\n", "keys: []\npolicys: {}\n"] {
        let folder = with_files(&[("a.yaml", text)]);
        let path = folder.path().display().to_string();
        limpet(&["analyze", "-f", &path]).run().code(2);
    }
}

#[test]
fn a_misspelt_field_of_a_route_was_no_problem() {
    let text = shop("")
        .replace("  rules: [{", "  hostname: shop.example\n  rules: [{match: [], ")
        .replace("listeners: [{name: http, ", "listeners: [{name: http, tsl: {}, ");
    let folder = with_files(&[("shop.yaml", &text)]);
    let path = folder.path().join("shop.yaml").display().to_string();
    let ran = limpet(&["analyze", "-f", &path]).run().code(1);
    for line in [
        "warning [LIMPET0317] Gateway shop/web: not supported and ignored: spec.listeners[0].tsl\n",
        "warning [LIMPET0510] HTTPRoute shop/shop: not supported and ignored: spec.hostname, spec.rules[0].match\n",
        "\n2 warnings\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {ran:?}");
    }
}
