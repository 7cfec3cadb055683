use serde_json::{Value, json};

use crate::limpet;

/// Exit code and message of `limpet controller --check`.
fn checked(config: &Value) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let ran = limpet(&["controller", "--check", "--config", file]).run();
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let (_, message) = ran
        .stderr
        .split_once(file)
        .unwrap_or_else(|| panic!("the file is not named: {ran:?}"));
    (ran.code, message.to_owned())
}

#[test]
fn no_bad_field_hides_another() {
    let config = json!({"maxIdle": "1d", "http": {"address": "here"}, "xds": {"adress": "127.0.0.1:1"}});
    let (code, message) = checked(&config);
    assert_eq!(code, 2);
    for field in ["maxIdle: ", "http.address: ", "xds.adress: unknown field"] {
        assert!(message.contains(&format!(": {field}")), "{message}");
    }
}

#[test]
fn a_bad_field_is_named_by_its_path() {
    for (config, path, words) in [
        (
            json!({"controllerName": "limpet"}),
            "controllerName: ",
            "a domain and a path",
        ),
        (
            json!({"controlerName": "limpet.dev/x"}),
            "controlerName: ",
            "unknown field",
        ),
        (json!({"namespaces": ["shop", ""]}), "namespaces: ", "expected names"),
        (json!({"namespaces": "shop"}), "namespaces: ", "expected a list"),
        (
            json!({"sessionDefaults": {"sameSite": "strict"}}),
            "sessionDefaults.sameSite: ",
            "`Strict`",
        ),
        (
            json!({"sessionDefaults": {"strictStatus": 200}}),
            "sessionDefaults.strictStatus: ",
            "400",
        ),
        (
            json!({"sessionDefaults": {"domain": "a b"}}),
            "sessionDefaults.domain: ",
            "expected",
        ),
        (json!({"envoy": {"filter": {"wasm": {}}}}), "envoy.filter", ""),
        (
            json!({"envoy": {"managed": {"defaults": {"replica": 3}}}}),
            "envoy.managed.defaults.replica: ",
            "there is no such field",
        ),
        (
            json!({"envoy": {"managed": {"defaults": {"replicas": 3, "autoscaling": {"maxReplicas": 4}}}}}),
            "envoy.managed.defaults.replicas: ",
            "remove it",
        ),
        (
            json!({"envoy": {"managed": {"defaults": {"drainTime": "2h"}}}}),
            "envoy.managed.defaults.drainTime: ",
            "expected whole seconds from 1s to 1h, found 2h",
        ),
        (
            json!({"envoy": {"managed": {"infrastructure": {"serviceAnnotations": ["a", "*/b"]}}}}),
            "envoy.managed.infrastructure.serviceAnnotations[1]: ",
            "expected a name, or the begin of names and *",
        ),
        (
            json!({"envoy": {"listenAddress": "here"}}),
            "envoy.listenAddress: ",
            "IP address",
        ),
        (
            json!({"keyring": {"rotateEvery": "daily"}}),
            "keyring.rotateEvery: ",
            "duration",
        ),
        (json!({"maxIdle": "1d"}), "maxIdle: ", "duration"),
        (json!({"maxIdle": "0s"}), "maxIdle: ", "greater than zero"),
        (json!({"maxSessionLife": "0s"}), "maxSessionLife: ", "greater than zero"),
        (json!({"maxSourceEntries": 0}), "maxSourceEntries: ", "at least 1"),
        (
            json!({"maxIdle": "25h", "maxSessionLife": "24h"}),
            "maxIdle: ",
            "expected at most 24h, which is maxSessionLife, found 25h",
        ),
        (json!({"clockSkew": 5}), "clockSkew: ", "expected"),
        (json!({"xds": {"address": "127.0.0.1"}}), "xds.address: ", "address"),
        (
            json!({"xds": {"tls": {"certificate": "a", "key": "b"}}}),
            "xds.tls: ",
            "clientCa",
        ),
        (
            json!({"xds": {"plainText": true, "tls": {"certificate": "a", "key": "b", "clientCa": "c"}}}),
            "xds.plainText: ",
            "expected false",
        ),
        (
            json!({"http": {"address": "0.0.0.0:99999"}}),
            "http.address: ",
            "address",
        ),
        (
            json!({"leaderElection": {"enabled": "no"}}),
            "leaderElection.enabled: ",
            "boolean",
        ),
    ] {
        is_named(&config, path, words);
    }
}

fn is_named(config: &Value, path: &str, words: &str) {
    let (code, message) = checked(config);
    assert_eq!(code, 2, "{config}: {message}");
    assert!(message.starts_with(&format!(": {path}")), "{config}: {message}");
    assert!(message.contains(words), "{config}: expected {words:?} in {message}");
}

#[test]
fn a_connect_timeout_out_of_bounds_is_refused() {
    for (timeout, words) in [
        (json!(1), "expected"),
        (json!("0.5s"), "write 500ms"),
        (json!("0s"), "expected a duration from 10ms to 1m, found 0s"),
        (json!("9ms"), "expected a duration from 10ms to 1m, found 9ms"),
        (json!("61s"), "expected a duration from 10ms to 1m, found 1m1s"),
    ] {
        let config = json!({"envoy": {"connectTimeout": timeout}});
        is_named(&config, "envoy.connectTimeout: ", words);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.json");
    for timeout in ["10ms", "1m"] {
        std::fs::write(&file, json!({"envoy": {"connectTimeout": timeout}}).to_string()).unwrap();
        let ran = limpet(&["controller", "--check", "--config", file.to_str().unwrap()]).run();
        assert_eq!(ran.code, 0, "{timeout}: {ran:?}");
    }
}

#[test]
fn a_bad_field_of_contour_is_named_by_its_path() {
    for (config, path, words) in [
        (json!({"contour": {}}), "contour", "gateway"),
        (
            json!({"contour": {"gateway": "web"}}),
            "contour.gateway: ",
            "namespace/name",
        ),
        (
            json!({"contour": {"gateway": "web/contour", "ingressClass": ""}}),
            "contour.ingressClass: ",
            "the name of a class",
        ),
        (
            json!({"contour": {"gateway": "web/contour", "rootNamespaces": ["roots", ""]}}),
            "contour.rootNamespaces: ",
            "expected names",
        ),
        (
            json!({"contour": {"gateway": "web/contour", "ports": {"http": 8443}}}),
            "contour.ports.https: ",
            "expected another port than contour.ports.http, found 8443",
        ),
        (
            json!({"contour": {"gateway": "web/contour", "ports": {"https": 19000}}}),
            "contour.ports.https: ",
            "another port than 19000, which is Envoy's own",
        ),
        (
            json!({"contour": {"gateway": "web/contour", "minimumProtocolVersion": "1.4"}}),
            "contour.minimumProtocolVersion: ",
            "1.2",
        ),
    ] {
        is_named(&config, path, words);
    }
}

#[test]
fn an_address_that_the_start_refuses_is_refused() {
    for (config, words) in [
        (
            json!({"xds": {"address": "0.0.0.0:18900"}}),
            "xds.address: 0.0.0.0:18900 is not a loopback address, and secrets are served: expected xds.tls, \
             or xds.plainText: true",
        ),
        (
            json!({"xds": {"address": "127.0.0.1:18080"}, "http": {"address": "0.0.0.0:18080"}}),
            "xds.address: 127.0.0.1:18080 is taken by http.address, 0.0.0.0:18080",
        ),
        (
            json!({"xds": {"address": "[::]:7", "plainText": true}, "http": {"address": "127.0.0.1:7"}}),
            "xds.address: [::]:7 is taken by http.address",
        ),
    ] {
        let (code, message) = checked(&config);
        assert_eq!(code, 2, "{config}: {message}");
        assert!(message.contains(words), "{config}: {message}");
    }
}

#[test]
fn other_control_planes_serve_nothing_of_contour() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.json");
    std::fs::write(&file, json!({"contour": {"gateway": "web/contour"}}).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let manifest = folder.path().join("service.yaml");
    std::fs::write(&manifest, "{apiVersion: v1, kind: Service, metadata: {name: shop}}").unwrap();
    let manifest = manifest.to_str().unwrap();
    for output in ["istio", "envoy-gateway"] {
        for command in [
            (
                ["controller", "--check", "--target", output, "--config", file].as_slice(),
                2,
            ),
            (&["render", "-f", manifest, "--target", output, "--config", file], 3),
        ] {
            let (command, code) = command;
            let ran = limpet(command).run();
            let words = format!("{file}: contour: expected it only with --target envoy, found --target {output}");
            assert_eq!(ran.code, code, "{ran:?}");
            assert!(ran.stderr.contains(&words), "{ran:?}");
        }
    }
    for command in [
        ["controller", "--check", "--config", file].as_slice(),
        &["render", "-f", manifest, "--config", file],
    ] {
        let ran = limpet(command).run();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn an_address_of_another_machine_is_refused() {
    let check = |config: Value, output: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("controller.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let file = file.to_str().unwrap();
        let ran = limpet(&["controller", "--check", "--target", output, "--config", file]).run();
        (ran.code, ran.stderr)
    };
    // An address for documentation (RFC 5737).
    let address = "192.0.2.1:18000";
    let (code, message) = check(json!({"http": {"address": address}}), "istio");
    assert_eq!(code, 2, "{message}");
    assert!(
        message.contains("http.address: cannot listen on 192.0.2.1:18000: "),
        "{message}"
    );
    let xds = json!({"xds": {"address": address, "plainText": true}});
    let (code, message) = check(xds.clone(), "envoy");
    assert_eq!(code, 2, "{message}");
    assert!(
        message.contains("xds.address: cannot listen on 192.0.2.1:18000: "),
        "{message}"
    );
    // A port without a listener is not checked.
    assert_eq!(check(xds, "istio").0, 0);

    // A running controller may have the port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, message) = check(json!({"http": {"address": taken.local_addr().unwrap()}}), "envoy");
    assert_eq!(code, 0, "{message}");
}
