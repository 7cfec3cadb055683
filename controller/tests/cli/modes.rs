//! Sessions in the application's own cookie or header: `prefix.yaml`, and tokens in front of the application's value.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::{KEY, assert_one, example, file, findings, limpet, path};

const CONFIG: &str = "envoy-configs/prefix.yaml";
const HOST: &str = "127.0.0.1:8081";
const MODES: [&str; 6] = [
    "cookie",
    "cookie-prefix",
    "cookie-rewrite",
    "header",
    "header-prefix",
    "query",
];

fn issued(more: &[&str]) -> String {
    let args = [&["token", "issue", "--host", HOST, "--cluster", "backends"], more];
    let ran = limpet(&args.concat()).env("LIMPET_KEY", KEY).run().code(0);
    ran.stdout.trim_end().to_owned()
}

fn inspect(code: i32, text: &str, more: &[&str]) -> Value {
    let args = [&["token", "inspect", text, "-o", "json"], more];
    limpet(&args.concat()).env("LIMPET_KEY", KEY).run().code(code).json()
}

fn keys() -> NamedTempFile {
    file(".yaml", "- {id: 1, env: LIMPET_KEY}\n")
}

#[test]
fn a_token_is_found_in_front_of_the_applications_value() {
    let cookie = issued(&["--config", CONFIG, "--policy", "app", "--scope", "app"]);
    let header = issued(&["--config", CONFIG, "--policy", "mcp", "--scope", "mcp"]);
    let of_app = json!({"policy": "app", "scope": "app", "mode": "cookie-prefix", "name": "JSESSIONID"});
    let of_mcp = json!({"policy": "mcp", "scope": "mcp", "mode": "header-prefix", "name": "Mcp-Session-Id"});
    for (text, session) in [
        (cookie.clone(), &of_app),
        (format!("JSESSIONID={cookie}~abc"), &of_app),
        (format!("JSESSIONID=\"{cookie}~a~b=\"; Path=/; HttpOnly"), &of_app),
        (
            format!("Set-Cookie: JSESSIONID={cookie}~abc; Path=/; HttpOnly"),
            &of_app,
        ),
        (format!("cookie: theme=dark; JSESSIONID={cookie}~abc; a=b~c"), &of_app),
        (header.clone(), &of_mcp),
        (format!("Mcp-Session-Id: {header}~abc"), &of_mcp),
        (format!("mcp-session-id: \"{header}~a~b\""), &of_mcp),
    ] {
        let json = inspect(0, &text, &["--config", CONFIG]);
        assert_eq!(
            (&json["verdict"], &json["session"]),
            (&"honoured".into(), session),
            "{text}"
        );
        assert_eq!(json["claims"]["host"], HOST, "{text}");
        assert!(
            json["left"]["absoluteSeconds"].as_u64() > Some(12 * 3600 - 60),
            "{text}"
        );
    }
}

/// With only keys, the text tells the mode; a rewritten cookie looks like the filter's own.
#[test]
fn every_mode_is_issued_and_opened_with_keys_alone() {
    let keys = keys();
    for mode in MODES {
        let given = ["--keys", path(&keys), "--mode", mode, "--name", "Session"];
        let token = issued(&given);
        let (text, name) = match mode {
            "cookie-prefix" => (format!("Session={token}~abc"), "Session"),
            "header" => (format!("Session: {token}"), "Session"),
            "header-prefix" => (format!("session: {token}~abc"), "session"),
            "query" => (format!("https://shop.example/a?b=1&Session={token}#top"), "Session"),
            _ => (format!("Session={token}"), "Session"),
        };
        let session = json!({"policy": null, "scope": "default", "mode": mode, "name": name});
        let alone = inspect(2 * i32::from(mode == "cookie-rewrite"), &text, &["--keys", path(&keys)]);
        if mode == "cookie-rewrite" {
            assert_eq!(alone["reason"], "bad_signature");
            let told = inspect(0, &text, &["--keys", path(&keys), "--mode", mode]);
            assert_eq!(told["session"], session);
        } else {
            assert_eq!((&alone["verdict"], &alone["session"]), (&"honoured".into(), &session));
        }
        for other in MODES.into_iter().filter(|other| *other != mode) {
            let json = inspect(
                2,
                &token,
                &["--keys", path(&keys), "--mode", other, "--name", "Session"],
            );
            assert_eq!(json["reason"], "bad_signature", "{mode} as {other}");
        }
    }
}

#[test]
fn a_rewritten_cookie_is_recognized_by_its_policy() {
    let config = file(
        ".yaml",
        "keys: [{id: 1, env: LIMPET_KEY}]\n\
         policies: {shop: {cookie: {name: stick, mode: rewrite}}, web: {cookie: {name: limpet-session}}}\n",
    );
    let token = issued(&["--config", path(&config), "--policy", "shop", "--issued-at", "1000000"]);
    let args = ["--config", path(&config), "--time", "1000060"];
    let json = inspect(0, &format!("Set-Cookie: stick={token}; Path=/"), &args);
    assert_eq!(
        (&json["session"]["policy"], &json["session"]["mode"]),
        (&"shop".into(), &"cookie-rewrite".into())
    );
    let args = [&["token", "inspect", &token][..], &args].concat();
    let ran = limpet(&args).env("LIMPET_KEY", KEY).run().code(0);
    ran.says("(maxIdle 168h, from when the application last set it)\n");
    // At the exact time; a token in the filter's own cookie would have a tenth more.
    for (now, code) in [("1604800", 0), ("1604801", 2)] {
        let json = inspect(code, &token, &["--config", path(&config), "--time", now]);
        assert_eq!(json["reason"].as_str(), (code == 2).then_some("idle"));
    }
}

#[test]
fn a_timeout_that_the_mode_does_not_have_is_named() {
    let (keys, token) = (keys(), "EAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let given = format!(
        "s={}~abc",
        issued(&["--keys", path(&keys), "--mode", "cookie-prefix", "--name", "s"])
    );
    limpet(&[
        "token",
        "inspect",
        &given,
        "--keys",
        path(&keys),
        "--idle-timeout",
        "1h",
    ])
    .env("LIMPET_KEY", KEY)
    .run()
    .code(3)
    .complains("idleTimeout: remove it in this mode");
    let json = inspect(2, &format!("s={token}~abc"), &["--keys", path(&keys)]);
    assert_eq!(json["reason"], "bad_signature");
}

#[test]
fn fields_that_a_mode_does_not_have_are_refused() {
    let cookie = |mode: &str, more: Value| {
        let mut cookie = json!({"name": "s", "mode": mode});
        for (name, value) in more.as_object().unwrap() {
            cookie[name] = value.clone();
        }
        json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}], "policies": {"web": {"cookie": cookie}}})
    };
    for mode in ["prefix", "rewrite"] {
        for (field, value) in [
            ("path", json!("/shop")),
            ("domain", json!("example.com")),
            ("secure", json!("always")),
            ("httpOnly", json!(false)),
            ("sameSite", json!("Lax")),
            ("partitioned", json!(true)),
            ("lifetimeType", json!("Permanent")),
            ("perScope", json!(true)),
            ("forward", json!(true)),
        ] {
            let (code, found) = findings(&cookie(mode, json!({field: value})));
            let expected = format!(
                "error |  | policies.web.cookie.{field} | remove it in this mode: the cookie is the application's, \
                 which sets its attributes and gets it back"
            );
            assert_eq!((code, found), (2, vec![expected]), "{mode}");
        }
        let mut idle = cookie(mode, json!({}));
        idle["policies"]["web"]["idleTimeout"] = "30m".into();
        let (code, found) = findings(&idle);
        assert!(code == 2 && found.len() == 1, "{found:?}");
        assert!(
            found[0].contains("policies.web.idleTimeout | remove it in this mode: a token is renewed only"),
            "{found:?}"
        );
    }
    for (mode, code) in [("insert", 0), ("prefix", 2), ("rewrite", 2)] {
        let header = json!({"name": "s", "mode": mode, "forward": true});
        let (found_code, found) = findings(&json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {"web": {"header": header}},
        }));
        assert_eq!(found_code, code, "{mode}: {found:?}");
    }
    assert_one(
        &cookie("suffix", json!({})),
        "error",
        "",
        "policies.web.cookie.mode | unknown variant",
    );
}

/// The application may set different paths, so this may be right.
#[test]
fn two_sessions_in_the_applications_cookie_are_noted() {
    let with = |policies: Value| {
        let mut envoy = example("prefix.yaml");
        let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
        let filter = &mut envoy.pointer_mut(manager).unwrap()["http_filters"][1]["typed_config"]["config"];
        let value = &mut filter["configuration"]["value"];
        let mut config: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
        config["policies"] = policies;
        *value = config.to_string().into();
        envoy
    };
    let prefix = json!({"cookie": {"name": "shop-id", "mode": "prefix"}});
    let rewrite = json!({"cookie": {"name": "shop-id", "mode": "rewrite"}});
    let insert = json!({"cookie": {"name": "shop-id"}});
    for (mcp, app) in [
        (&prefix, &prefix),
        (&prefix, &rewrite),
        (&prefix, &insert),
        (&insert, &rewrite),
    ] {
        let message = "not checked: the path of the application's cookie shop-id, in which the sessions app/app and \
                       mcp/mcp travel";
        assert_one(&with(json!({"mcp": mcp, "app": app})), "note", "routes[1]", message);
    }
    let message = "the session app/app has the cookie shop-id with path /, as mcp/mcp has";
    assert_one(
        &with(json!({"mcp": insert, "app": insert})),
        "warning",
        "routes[1]",
        message,
    );
    let own_names = json!({"cookie": {"name": "shop-id", "perScope": true}});
    assert_eq!(
        findings(&with(json!({"mcp": own_names, "app": own_names}))),
        (0, vec![])
    );
}
