//! Files, filter configurations, and the filter's place in Envoy's.

use serde_json::{Value, json};

use crate::{KEY, OTHER_KEY, assert_one, checkout, example, file, findings, folder, limpet, path};

const FILTER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1";

#[test]
fn every_example_is_good() {
    let folder = checkout().join("envoy-configs");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.to_str().unwrap().to_owned())
        .filter(|path| !path.ends_with("docker-compose.yaml"))
        .collect();
    files.extend(["limpet", "wrapped-keys"].map(|name| format!("envoy-configs/ecds/{name}.yaml")));
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        let ran = limpet(&["check", &file, "--env", "--deny-warnings", "-o", "json"])
            .env("LIMPET_KEY", KEY)
            .env("LIMPET_KEY_1", KEY)
            .env("LIMPET_KEY_2", OTHER_KEY)
            .env("LIMPET_KEK_1", OTHER_KEY)
            .run();
        let inline = file.ends_with("inline-key.yaml");
        limpet(&["check", &file]).run().code(i32::from(inline));
        assert_eq!(ran.code, 2 * i32::from(inline), "{ran:?}");
        let json = ran.json();
        assert_eq!(json["warnings"], i32::from(inline), "{json}");
        let filters = json["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["filters"].as_array().unwrap().len());
        // One of them gets its filter from the controller.
        let here = usize::from(!file.ends_with("ecds-controller.yaml"));
        assert_eq!(filters.sum::<usize>(), here, "{json}");
    }
}

#[test]
fn a_configuration_of_the_filter_is_checked_in_yaml_and_json() {
    let yaml = file(
        ".yaml",
        "keys: &k\n- {id: 1, env: LIMPET_KEY}\npolicies:\n  web: {cookie: {name: s}}\n",
    );
    limpet(&["check", path(&yaml)])
        .run()
        .code(0)
        .says("not checked: the key in the environment variable LIMPET_KEY");
    let json = file(
        ".json",
        r#"{"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {"web": {"cookie": {"name": "s"}}}}"#,
    );
    limpet(&["check", path(&json)])
        .env("LIMPET_KEY", KEY)
        .run()
        .code(0)
        .says("ok (1 key and the policy web)");
}

#[test]
fn a_public_suffix_is_no_domain_of_a_cookie() {
    let mut filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": {"cookie": {"name": "s", "domain": "co.uk"}}},
    });
    let said = "policies.web.cookie.domain: expected a registered domain, found \"co.uk\"";
    let check = |filter: &Value| {
        let file = file(".json", &filter.to_string());
        limpet(&["check", path(&file)]).env("LIMPET_KEY", KEY).run()
    };
    check(&filter).code(2).says(said);
    filter["policies"]["web"]["cookie"]["domain"] = "example.co.uk".into();
    check(&filter).code(0);
}

#[test]
fn a_missing_variable_is_an_error_with_env() {
    let args = ["check", "envoy-configs/cookie.yaml", "--env"];
    limpet(&args)
        .run()
        .code(2)
        .says("keys[0].env: expected the environment variable LIMPET_KEY");
    limpet(&args)
        .env("LIMPET_KEY", "short")
        .run()
        .code(2)
        .says("keys[0].env: expected 32 bytes in base64");
    limpet(&args[..2])
        .env("LIMPET_KEY", "short")
        .run()
        .code(2)
        .says("expected 32 bytes in base64");
}

/// A configuration with an error, a warning and an unchecked part.
fn with_all_severities() -> tempfile::NamedTempFile {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}, {"id": 2, "inline": OTHER_KEY, "state": "retiring"}],
        "policies": {"web": {"cookie": {"name": "s"}, "strictStatus": 200}},
    });
    file(".json", &filter.to_string())
}

/// The first words of lines that are not indented.
fn beginnings(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn errors_come_first_and_verdicts_last_in_one_stream() {
    let (good, bad) = (
        file(".json", r#"{"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {}}"#),
        with_all_severities(),
    );
    let ran = limpet(&["check", path(&good), path(&bad)]).run().code(2);
    let verdicts = [&good, &bad].map(|file| format!("{}:", path(file)));
    let expected = ["error", "note", "note", &verdicts[0], &verdicts[1]];
    assert_eq!(beginnings(&ran.stdout), expected, "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    ran.says(": ok, 1 note (1 key and no policy)")
        .says(": 1 error, 1 note (2 keys and the policy web)");
}

#[test]
fn quiet_prints_errors_and_nothing_of_what_is_well() {
    let bad = with_all_severities();
    for option in ["--quiet", "-q"] {
        let ran = limpet(&["check", option, path(&bad), "envoy-configs/cookie.yaml"])
            .run()
            .code(2);
        assert_eq!(
            beginnings(&ran.stdout),
            ["error", &format!("{}:", path(&bad))],
            "{}",
            ran.stdout
        );
        let ran = limpet(&["check", option, "envoy-configs/cookie.yaml"]).run().code(0);
        assert_eq!((&*ran.stdout, &*ran.stderr), ("", ""));
    }
    let json = limpet(&["check", "-q", path(&bad), "-o", "json"]).run().code(2).json();
    let found = json["files"][0]["findings"].as_array().unwrap();
    assert!(found.iter().all(|finding| finding["severity"] == "error"), "{json}");
}

#[test]
fn colours_are_for_terminals_alone() {
    let bad = with_all_severities();
    let plain = limpet(&["check", path(&bad)]).run();
    assert!(!plain.stdout.contains('\u{1b}'), "{plain:?}");
    // As a terminal would get them.
    limpet(&["check", path(&bad)])
        .env("CLICOLOR_FORCE", "1")
        .run()
        .says("\u{1b}[1m\u{1b}[31merror");
}

#[test]
fn all_problems_are_reported_with_their_fields() {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {
            "shop": {"cookie": {"name": "a=b", "path": "x"}},
            "api": {"header": {"name": "cookie"}, "strictStatus": 200},
        },
        "default": {"policy": "web"},
    });
    let (code, found) = findings(&filter);
    assert_eq!(code, 2);
    for field in [
        "policies.shop.cookie.name",
        "policies.shop.cookie.path",
        "policies.api.header.name",
        "policies.api.strictStatus",
        "default.policy",
    ] {
        assert!(
            found
                .iter()
                .any(|found| found.contains(&format!("| {field} | expected"))),
            "{field}: {found:#?}"
        );
    }
    let text = file(".json", &filter.to_string());
    limpet(&["check", path(&text)])
        .run()
        .code(2)
        .says("policies.api.strictStatus: expected a status from 400 to 599");
}

#[test]
fn no_message_repeats_a_key() {
    for keys in [
        json!([KEY]),
        json!(KEY),
        json!([{"id": KEY, "env": "A"}]),
        json!([{"id": 1, "env": KEY}]),
        json!([{"id": 1, "inline": [KEY]}]),
        json!([{"id": 1, "inline": format!("x{KEY}")}]),
        json!([{"id": 1, "inline": KEY, "env": "A"}]),
    ] {
        let document = file(".yaml", &json!({"keys": keys, "policies": {}}).to_string());
        // `run` looks for the key in the output.
        limpet(&["check", path(&document)]).run().code(2);
        limpet(&["check", path(&document), "--env", "-o", "json"]).run().code(2);
        limpet(&["token", "inspect", "s=x", "--keys", path(&document)]).run();
    }
    let broken = file(".yaml", &format!("keys:\n- {{id: 1, inline: {KEY}\npolicies: [\n"));
    limpet(&["check", path(&broken)]).run().code(3);
}

#[test]
fn files_are_checked_though_one_cannot_be_read() {
    limpet(&["check", "nowhere.yaml", "envoy-configs/cookie.yaml"])
        .run()
        .code(3)
        .complains("nowhere.yaml: cannot be read")
        .says("envoy-configs/cookie.yaml: ok");
    for (ending, text, complaint) in [
        (".yaml", "a: [1\nb: 2\n", "neither YAML nor JSON: "),
        (".yaml", "---\n", "empty"),
        (".yaml", "", "empty"),
        (".yaml", "a: 1\na: 2\n", "duplicate"),
        (".yaml", "a: *nobody\n", "unknown anchor at line 1"),
        (
            ".json",
            "{\"a\": {\"b\": 1, \"b\": 2}}",
            "expected each name once, found \"b\" again",
        ),
        (".json", "{\"keys\": ]", "not JSON: expected value at line 1 column 10"),
    ] {
        let document = file(ending, text);
        let ran = limpet(&["check", path(&document)]).run().code(3).complains(complaint);
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    let bomb: String = (1..20).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
        text + &format!("a{i}: &a{i} [*a{}, *a{}, *a{}, *a{}]\n", i - 1, i - 1, i - 1, i - 1)
    });
    limpet(&["check", path(&file(".yaml", &bomb))])
        .run()
        .code(3)
        // Long before a million, which takes half a minute.
        .complains("larger or deeper than any configuration (alias replay limit exceeded: total_replayed_events=20001");
    limpet(&["check"]).run().code(3).complains("FILE");
    limpet(&["check", "x", "-o", "xml"]).run().code(3).complains("xml");
}

/// `cookie.yaml` with the filter's configuration as this message.
fn with_message(message: &Value) -> Value {
    let mut envoy = example("cookie.yaml");
    envoy.pointer_mut(FILTER).unwrap()["typed_config"]["config"]["configuration"] = message.clone();
    envoy
}

const BAD: &str = r#"{"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {"web": {"cookie": {"name": ""}}}}"#;
const PLACE: &str = "http_filters[1].typed_config.config.configuration.value";

#[test]
fn the_filter_is_found_in_every_kind_of_message() {
    // BAD in base64.
    let bytes = "eyJrZXlzIjogW3siaWQiOiAxLCAiZW52IjogIkxJTVBFVF9LRVkifV0sICJwb2xpY2llcyI6IHsid2ViIjogeyJjb29raWUiOiB7\
                 Im5hbWUiOiAiIn19fX0=";
    let message = |kind: &str, value: Value| {
        with_message(&json!({"@type": format!("type.googleapis.com/google.protobuf.{kind}"), "value": value}))
    };
    for (kind, value) in [("StringValue", BAD), ("BytesValue", bytes)] {
        let expected = "policies.web.cookie.name | expected a cookie name";
        assert_one(&message(kind, value.into()), "error", PLACE, expected);
    }
    assert_one(
        &message("Int32Value", 1.into()),
        "error",
        PLACE,
        "expected a google.protobuf.StringValue or BytesValue",
    );
    assert_one(&message("StringValue", 1.into()), "error", PLACE, "expected a string");
    assert_one(
        &message("BytesValue", "%".into()),
        "error",
        PLACE,
        "expected bytes in base64",
    );
}

/// Envoy hands a Struct over as serialized protobuf, whatever its documentation says (1.36 to 1.40).
#[test]
fn a_struct_is_refused_and_still_checked() {
    let (code, found) = findings(&with_message(&json!({
        "@type": "type.googleapis.com/google.protobuf.Struct",
        "value": serde_json::from_str::<Value>(BAD).unwrap(),
    })));
    assert_eq!((code, found.len()), (2, 2), "{found:#?}");
    assert!(
        found[0].contains("expected a google.protobuf.StringValue: Envoy hands a Struct"),
        "{found:#?}"
    );
    assert!(found[1].contains("policies.web.cookie.name"), "{found:#?}");
}

#[test]
fn the_filter_is_found_under_another_name_and_in_camel_case() {
    let message = json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": BAD});
    let text = with_message(&message).to_string();
    let renamed = text.replace("\"name\":\"limpet\"", "\"name\":\"ours\"");
    assert_ne!(renamed, text);
    assert_one(
        &serde_json::from_str(&renamed).unwrap(),
        "error",
        PLACE,
        "policies.web.cookie.name",
    );
    let camel = text
        .replace("typed_config", "typedConfig")
        .replace("http_filters", "httpFilters");
    let place = PLACE
        .replace("typed_config", "typedConfig")
        .replace("http_filters", "httpFilters");
    assert_one(
        &serde_json::from_str(&camel).unwrap(),
        "error",
        &place,
        "policies.web.cookie.name",
    );
}

#[test]
fn another_wasm_filter_is_not_checked() {
    let mut envoy = example("cookie.yaml");
    let filter = envoy.pointer_mut(FILTER).unwrap();
    filter["name"] = "other".into();
    filter["typed_config"]["config"] = json!({"name": "other", "configuration": {
        "@type": "type.googleapis.com/google.protobuf.StringValue", "value": "{}",
    }});
    assert_one(&envoy, "error", "", "no Limpet filter in it");
}

#[test]
fn a_variable_that_envoy_does_not_forward_is_an_error() {
    let mut envoy = example("cookie.yaml");
    envoy.pointer_mut(FILTER).unwrap()["typed_config"]["config"]["vm_config"]["environment_variables"] = Value::Null;
    assert_one(
        &envoy,
        "error",
        PLACE,
        "keys[0].env | expected LIMPET_KEY in vm_config.environment_variables.host_env_keys",
    );
}

#[test]
fn a_discovered_configuration_may_be_in_any_of_the_files() {
    let checked = |ran: &crate::Ran| {
        let json = ran.json();
        json["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["filters"].as_array().unwrap().len())
            .sum::<usize>()
    };
    let ran = limpet(&["check", "envoy-configs/ecds.yaml", "-o", "json"])
        .run()
        .code(0);
    assert_eq!(checked(&ran), 1, "{ran:?}");
    // In another directory, the path in it is wrong.
    let elsewhere = folder();
    let (listener, resource) = (
        checkout().join("envoy-configs/ecds.yaml"),
        checkout().join("envoy-configs/ecds/limpet.yaml"),
    );
    let (listener, resource) = (listener.to_str().unwrap(), resource.to_str().unwrap());
    let alone = limpet(&["check", listener]).within(elsewhere.path()).run().code(0);
    alone.says("not checked: the filter's configuration, which Envoy gets from envoy-configs/ecds/limpet.yaml");
    let both = limpet(&["check", listener, resource, "-o", "json"])
        .within(elsewhere.path())
        .run()
        .code(0);
    assert_eq!(checked(&both), 1, "{both:?}");
    assert!(!both.stdout.contains("not checked: the filter's"), "{both:?}");
}

#[test]
fn a_mistake_in_a_discovered_configuration_is_found_in_its_file() {
    let mut resource = example("ecds/limpet.yaml");
    resource["resources"][0]["typed_config"]["config"]["configuration"]["value"] = BAD.into();
    let place = "resources[0].typed_config.config.configuration.value";
    assert_one(&resource, "error", place, "policies.web.cookie.name");
}

#[test]
fn discovery_without_a_default_is_noted() {
    let mut envoy = example("ecds.yaml");
    envoy.pointer_mut(FILTER).unwrap()["config_discovery"]["default_config"] = Value::Null;
    assert_one(&envoy, "note", "http_filters[1].config_discovery", "default_config");
}

#[test]
fn a_vm_that_stays_dead_is_told() {
    const PLUGIN: &str = "/typed_config/config";
    let with = |policy: Value| {
        let mut envoy = example("cookie.yaml");
        let plugin = envoy.pointer_mut(FILTER).unwrap().pointer_mut(PLUGIN).unwrap();
        plugin["failure_policy"] = policy;
        envoy
    };
    for good in [json!("FAIL_RELOAD"), json!(1)] {
        assert_eq!(findings(&with(good)), (0, Vec::new()));
    }
    let expected = "expected failure_policy: FAIL_RELOAD: without it, when the filter's VM has ended, all requests";
    for (policy, place, what) in [
        (Value::Null, "config", "fail with 503 until Envoy restarts"),
        (
            json!("FAIL_CLOSED"),
            "failure_policy",
            "fail with 503 until Envoy restarts",
        ),
        (
            json!("FAIL_OPEN"),
            "failure_policy",
            "have no session and take their tokens to backends",
        ),
    ] {
        assert_one(&with(policy), "warning", place, &format!("{expected} {what}"));
    }
    let mut open = with(Value::Null);
    open.pointer_mut(FILTER).unwrap()["typed_config"]["config"]["fail_open"] = true.into();
    assert_one(&open, "warning", "config", "take their tokens to backends");
    // Envoy reads names in any case, and numbers in quotes.
    for good in [json!("fail_reload"), json!("1")] {
        assert_eq!(findings(&with(good)), (0, Vec::new()));
    }
    // Envoy 1.36 to 1.40 refuse these.
    for wrong in [json!("FAIL_RELAOD"), json!(7), json!("7"), json!(true)] {
        let expected = format!("expected FAIL_RELOAD, FAIL_CLOSED or FAIL_OPEN, found {wrong}: Envoy refuses it");
        assert_one(&with(wrong), "error", "failure_policy", &expected);
    }

    let mut plugin = example("istio/wasm-plugin.yaml");
    assert!(!findings(&plugin).1.iter().any(|found| found.contains("FAIL_RELOAD")));
    plugin["spec"]["failStrategy"] = "FAIL_OPEN".into();
    let told = |found: &String| found.starts_with("warning") && found.contains("expected failStrategy: FAIL_RELOAD");
    assert!(findings(&plugin).1.iter().any(told));
    plugin["spec"]["failStrategy"] = "FAIL_CLOSED".into();
    let expected = "expected FAIL_RELOAD, FAIL_CLOSE or FAIL_OPEN, found \"FAIL_CLOSED\": the API server refuses it";
    let told = |found: &String| found.starts_with("error") && found.contains(expected);
    assert!(findings(&plugin).1.iter().any(told));
}

#[test]
fn each_document_of_a_file_is_checked() {
    let resource = std::fs::read_to_string(checkout().join("envoy-configs/istio/wasm-plugin.yaml")).unwrap();
    let others = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let both = file(".yaml", &format!("---\n{others}---\n---\n{resource}"));
    let name = path(&both);
    limpet(&["check", name])
        .run()
        .code(0)
        .says(&format!("{name}, document 1: ok"))
        .says("not checked: no Limpet filter in it")
        .says(&format!("{name}, document 2: ok"));
    let filter = "keys: [{id: 1, env: A}]\npolicies: {web: {cookie: {name: 'a b'}}}\n";
    let bad = file(".yaml", &format!("{resource}---\n{filter}"));
    limpet(&["check", path(&bad)])
        .run()
        .code(2)
        .says(&format!("{}, document 2", path(&bad)))
        .says("policies.web.cookie.name");
    // Other commands read one document.
    let two = file(".yaml", &format!("{filter}---\n{filter}"));
    limpet(&["keys", "list", path(&two)])
        .run()
        .code(3)
        .complains("expected one document, found 2");
}

#[test]
fn a_file_that_cannot_be_read_was_no_error_in_json() {
    let ran = limpet(&["check", "-o", "json", "nosuch.yaml"]).run();
    let report = ran.code(3).complains("error: nosuch.yaml: cannot be read").json();
    assert_eq!(report["errors"], 1);
    let file = &report["files"][0];
    assert_eq!(file["file"], "nosuch.yaml");
    assert!(
        file["findings"][0]["message"]
            .as_str()
            .unwrap()
            .starts_with("cannot be read")
    );
}

/// Failures of arguments, of files and of missing objects.
#[test]
fn failures_were_no_json() {
    for (arguments, expected) in [
        (&["keys", "list", "nosuch.json"][..], "nosuch.json: cannot be read"),
        (&["keys", "rotate", "nosuch.json"], "nosuch.json: cannot be read"),
        (
            &["token", "inspect", "x", "--config", "nosuch.yaml"],
            "nosuch.yaml: cannot be read",
        ),
        (
            &["keys", "rotate", "keyring.json", "--longest-life", "1x"],
            "invalid value '1x'",
        ),
        (&["check", "--nosuch"], "unexpected argument '--nosuch' found"),
    ] {
        for format in [&["-o", "json"][..], &["--output=json"]] {
            let ran = limpet(&[arguments, format].concat()).run();
            let error = ran.code(3).json();
            let said = error["error"].as_str().unwrap();
            assert!(said.starts_with(expected), "{said}");
        }
        let plain = limpet(arguments).run();
        assert_eq!(plain.stdout, "");
    }
}
