use limpet_core::keyring::{Key, KeyId, KeyState, Keyring, Secret};
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, PayloadForm, Realm};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{KEY, Limpet, OTHER_KEY, example, file, limpet, path};

const HOST: &str = "127.0.0.1:8081";
const CONFIG: &str = "envoy-configs/cookie.yaml";

fn keys() -> NamedTempFile {
    file(
        ".yaml",
        "- {id: 1, env: LIMPET_KEY}\n- {id: 2, env: LIMPET_KEY_2, state: retiring}\n",
    )
}

fn with_key(args: &[&str]) -> Limpet {
    limpet(args).env("LIMPET_KEY", KEY)
}

fn token(more: &[&str]) -> String {
    token_for(HOST, more)
}

fn token_for(host: &str, more: &[&str]) -> String {
    let args = [
        &[
            "token",
            "issue",
            "--config",
            CONFIG,
            "--scope",
            "default",
            "--host",
            host,
            "--cluster",
            "backends",
        ],
        more,
    ];
    with_key(&args.concat()).run().code(0).stdout.trim_end().to_owned()
}

fn inspect(code: i32, token: &str, more: &[&str]) -> Value {
    let args = [&["token", "inspect", token, "-o", "json"], more];
    with_key(&args.concat()).run().code(code).json()
}

#[test]
fn a_token_is_opened_with_the_configuration_it_was_made_for() {
    let token = token(&[
        "--issued-at",
        "2026-01-31T12:00:00Z",
        "--last-seen",
        "2026-01-31T12:05:00Z",
    ]);
    let args = ["--config", CONFIG, "--time", "2026-01-31T12:08:00Z"];
    let json = inspect(
        0,
        &format!("Set-Cookie: limpet-session={token}; Path=/; HttpOnly"),
        &args,
    );
    assert_eq!(json["form"], "sealed");
    assert_eq!(json["keyId"], 1);
    assert_eq!(json["verdict"], "honoured");
    assert_eq!(
        json["session"],
        serde_json::json!({"policy": "web", "scope": "default", "mode": "cookie", "name": "limpet-session"})
    );
    assert_eq!(json["claims"]["host"], HOST);
    assert_eq!(json["claims"]["cluster"], "backends");
    assert_eq!(json["claims"]["issuedAt"], "2026-01-31T12:00:00Z");
    assert_eq!(json["claims"]["ageSeconds"], 480);
    assert_eq!(json["claims"]["idleSeconds"], 180);
    assert_eq!(json["left"]["idleSeconds"], 7 * 24 * 3600 - 180);
    let text = with_key(&[&["token", "inspect", &token][..], &args].concat())
        .run()
        .code(0)
        .stdout;
    for line in [
        "token      sealed, 60 characters, key 1\n",
        "session    policy web, scope default, cookie limpet-session\n",
        "verdict    honoured\n",
        "backend    127.0.0.1:8081\n",
        "issued     2026-01-31T12:00:00Z  8m ago\n",
        "last seen  2026-01-31T12:05:00Z  3m ago\n",
        "idle       2026-02-07T12:05:00Z  in 6d 23h  (maxIdle 168h, up to a tenth later)\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}

#[test]
fn a_token_is_opened_with_keys_alone() {
    let (keys, token) = (keys(), token(&["--issued-at", "1000000"]));
    let given = format!("limpet-session={token}");
    let args = ["--keys", path(&keys), "--time", "1000600"];
    let json = inspect(0, &given, &args);
    assert_eq!(
        (&json["verdict"], &json["left"]["idleSeconds"]),
        (&"honoured".into(), &Value::Null)
    );
    let timeouts = ["--absolute-timeout", "30m", "--idle-timeout", "15m"];
    let json = inspect(0, &given, &[&args[..], &timeouts].concat());
    assert_eq!(
        (&json["left"]["absoluteSeconds"], &json["left"]["idleSeconds"]),
        (&1200.into(), &300.into())
    );
    // The filter's own verdict: at the absolute timeout, and at 1.1 times the idle timeout.
    for (timeouts, verdict, reason) in [
        (["--absolute-timeout", "10m"], "refused", "expired"),
        (["--absolute-timeout", "11m"], "honoured", ""),
        (["--idle-timeout", "9m"], "refused", "idle"),
        (["--idle-timeout", "9m30s"], "honoured", ""),
    ] {
        let json = inspect(
            2 * i32::from(verdict == "refused"),
            &given,
            &[&args[..], &timeouts].concat(),
        );
        assert_eq!(json["verdict"], verdict, "{timeouts:?}");
        assert_eq!(json["reason"].as_str().unwrap_or_default(), reason, "{timeouts:?}");
    }
    let json = inspect(2, &given, &["--keys", path(&keys), "--time", "999000"]);
    assert_eq!(json["reason"], "from_the_future");
}

#[test]
fn a_token_of_a_former_name_is_one_of_the_session() {
    let config = |name: &str, also: &str| {
        file(
            ".yaml",
            &format!(
                "keys: [{{id: 1, env: LIMPET_KEY}}]\npolicies: {{web: {{cookie: {{name: {name}}}{also}}}}}\n\
                 default: {{policy: web, scope: default}}\n"
            ),
        )
    };
    let before = config("old", "");
    let after = config(
        "new",
        ", also: [{header: {name: x-also}}, {cookie: {name: old}, former: true}]",
    );
    let issue = |config: &str| {
        let args = [
            "token",
            "issue",
            "--config",
            config,
            "--host",
            HOST,
            "--cluster",
            "backends",
        ];
        with_key(&args).run().code(0).stdout.trim_end().to_owned()
    };
    let token = issue(path(&before));
    let json = inspect(0, &format!("Cookie: old={token}"), &["--config", path(&after)]);
    assert_eq!(
        (&json["verdict"], &json["session"]["name"]),
        (&"honoured".into(), &"old".into())
    );
    let without = config("new", "");
    let json = inspect(2, &format!("Cookie: old={token}"), &["--config", path(&without)]);
    assert_eq!(json["reason"], "bad_signature");
    // A new token is one of the new name.
    let json = inspect(0, &issue(path(&after)), &["--config", path(&after)]);
    assert_eq!(json["session"]["name"], "new");
}

#[test]
fn a_line_with_two_tokens_was_judged_by_its_first() {
    let of = |host: &str, issued: &str| token_for(host, &["--issued-at", issued]);
    let (old, new) = (of("127.0.0.1:8082", "1000000"), of("127.0.0.1:8083", "1000100"));
    let args = ["--config", CONFIG, "--time", "1000200"];
    for (line, counts) in [
        (
            format!("Cookie: limpet-session={old}; a=1; limpet-session={new}"),
            [false, true],
        ),
        (format!("limpet-session: {new}, {old}"), [true, false]),
        (format!("GET /?s={old}&s={new} HTTP/1.1"), [false, true]),
        (
            format!("Cookie: limpet-session={new}; limpet-session={new}"),
            [true, false],
        ),
    ] {
        let json = inspect(0, &line, &args);
        let tokens = json["tokens"].as_array().unwrap();
        let found: Vec<_> = tokens
            .iter()
            .map(|token| (&token["verdict"], &token["counts"]))
            .collect();
        let expected = counts.map(|counts| (Value::from("honoured"), Value::from(counts)));
        assert_eq!(
            found,
            expected
                .iter()
                .map(|(verdict, counts)| (verdict, counts))
                .collect::<Vec<_>>(),
            "{line}"
        );
    }
    let inspected = |line: &str, code| {
        let ran = with_key(&[&["token", "inspect", line][..], &args].concat()).run();
        ran.code(code).stdout
    };
    let text = inspected(&format!("Cookie: limpet-session={old}; limpet-session={new}"), 0);
    for part in [
        "number     1 of 2, limpet-session\n",
        "counts     no: token 2 of the same session was issued later\n",
        "\n\nnumber     2 of 2, limpet-session\n",
        "counts     yes: of the tokens of this session, it was issued last\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    // A line is good with a token that is honoured beside refused ones.
    let changed = format!("{}AAAA", &new[..56]);
    let text = inspected(&format!("Cookie: limpet-session={old}; limpet-session={changed}"), 0);
    assert!(
        text.contains("counts     yes") && text.contains("refused: bad_signature"),
        "{text}"
    );
    inspected(
        &format!("Cookie: limpet-session={changed}; limpet-session={changed}"),
        2,
    );
}

/// A token of a session that moves, which `limpet token issue` does not make.
fn moving(form: PayloadForm) -> String {
    let key = Key::new(KeyId(1), KeyState::Signing, &Secret::from_base64(KEY).unwrap());
    let keyring = Keyring::new(vec![key]).unwrap();
    let realm = Realm::new(&keyring, b"default", CarrierMode::Cookie, "limpet-session");
    let destination = DestinationId::of_cluster(b"backends");
    let claims = Claims::moving(
        HOST.parse().unwrap(),
        destination,
        Timestamp::from_unix_seconds(1_000_000),
    );
    realm.seal(form, &claims, [7; 4])
}

#[test]
fn a_session_that_moves_is_told() {
    const ROW: &str = "moving     the application named the backend, which has not answered yet\n";
    let args = ["--config", CONFIG, "--time", "1000060"];
    let text = |token: &str, args: &[&str]| {
        let ran = with_key(&[&["token", "inspect", token][..], args].concat()).run();
        ran.code(i32::from(args.is_empty())).stdout
    };
    for form in [PayloadForm::Sealed, PayloadForm::Signed] {
        let token = moving(form);
        let json = inspect(0, &token, &args);
        assert_eq!(
            (&json["verdict"], &json["claims"]["moving"], &json["claims"]["host"]),
            (&"honoured".into(), &true.into(), &HOST.into())
        );
        assert_eq!(json["claims"]["ageSeconds"], 60);
        assert!(text(&token, &args).contains(ROW), "{}", text(&token, &args));
    }
    // Unsigned, the move is a client's claim.
    let unverified = text(&moving(PayloadForm::Signed), &[]);
    assert!(
        unverified.contains("UNVERIFIED") && unverified.contains("\nmoving   "),
        "{unverified}"
    );

    let arrived = token(&["--issued-at", "1000000"]);
    assert_eq!(inspect(0, &arrived, &args)["claims"]["moving"], false);
    assert!(!text(&arrived, &args).contains("moving"), "{}", text(&arrived, &args));
}

/// The scope's part of the cookie's name is not bound to the token.
#[test]
fn the_name_of_a_cookie_may_have_its_scope() {
    let (keys, token) = (keys(), token(&[]));
    // printf default | sha256sum | xxd -r -p | head -c 5 | base32 | tr A-Z a-z
    for (name, code) in [("limpet-session~g6uo5qoo", 0), ("limpet-session~aaaaaaaa", 2)] {
        inspect(code, &format!("{name}={token}"), &["--keys", path(&keys)]);
    }
}

#[test]
fn a_token_for_something_else_is_refused() {
    let (keys, token) = (keys(), token(&[]));
    let keys = path(&keys);
    for (given, args) in [
        (format!("other={token}"), vec!["--keys", keys]),
        (
            format!("limpet-session={token}"),
            vec!["--keys", keys, "--scope", "other"],
        ),
        (
            format!("limpet-session={token}"),
            vec!["--keys", keys, "--mode", "header"],
        ),
        (format!("session: {token}"), vec!["--keys", keys]),
        (token.clone(), vec!["--config", "envoy-configs/header.yaml"]),
    ] {
        let json = inspect(2, &given, &args);
        assert_eq!(json["reason"], "bad_signature", "{given} {args:?}");
        assert_eq!(json["claims"], Value::Null);
    }
    let ran = limpet(&["token", "inspect", &token, "--config", CONFIG])
        .env("LIMPET_KEY", OTHER_KEY)
        .run()
        .code(2);
    ran.says("refused: bad_signature");
    let json = inspect(2, &token, &["--config", "envoy-configs/inline-key.yaml"]);
    assert_eq!(json["reason"], "bad_signature");
    let other = file(".yaml", "- {id: 7, env: LIMPET_KEY}\n");
    let json = inspect(2, &token, &["--keys", path(&other), "--name", "limpet-session"]);
    assert_eq!(json["reason"], "unknown_key");
}

#[test]
fn without_a_key_only_the_readable_content_is_shown() {
    let sealed = token(&[]);
    let json = inspect(1, &sealed, &[]);
    assert_eq!(
        (&json["form"], &json["keyId"], &json["length"]),
        (&"sealed".into(), &1.into(), &60.into())
    );
    assert_eq!(
        (&json["verdict"], &json["claims"]),
        (&"not verified".into(), &Value::Null)
    );
    let signed = token(&["--form", "signed"]);
    let json = inspect(1, &signed, &[]);
    assert_eq!(
        (&json["verdict"], &json["claims"]["host"]),
        (&"not verified".into(), &HOST.into())
    );
    limpet(&["token", "inspect", &signed]).run().code(1).says("UNVERIFIED");
    // The key is listed, but not available.
    let ran = limpet(&["token", "inspect", &signed, "--config", CONFIG]).run().code(1);
    ran.says("not verified: the environment variable LIMPET_KEY is not set")
        .says("UNVERIFIED");
}

#[test]
fn any_other_text_is_a_malformed_token() {
    let token = token(&[]);
    for text in ["", "x", &token[1..], &format!("{token}A"), &format!("{token}=")] {
        let json = inspect(2, text, &[]);
        assert_eq!(
            (&json["verdict"], &json["reason"]),
            (&"refused".into(), &"malformed".into()),
            "{text:?}"
        );
    }
}

#[test]
fn policies_and_scopes_come_from_route_metadata() {
    let config = "envoy-configs/two-policies.yaml";
    let base = [
        "token",
        "issue",
        "--config",
        config,
        "--host",
        "[2001:db8::7]:80",
        "--cluster",
        "backends",
    ];
    let ran = with_key(&base).run().code(3);
    ran.complains("expected --policy and --scope to name one session of these: policy cart, scope cart, cookie cart");
    let cart = with_key(&[&base[..], &["--policy", "cart", "--scope", "cart"]].concat())
        .run()
        .code(0)
        .stdout;
    let json = inspect(0, cart.trim_end(), &["--config", config]);
    assert_eq!(json["length"], 76);
    assert_eq!(
        (&json["session"]["policy"], &json["session"]["scope"]),
        (&"cart".into(), &"cart".into())
    );
    assert_eq!(json["claims"]["host"], "[2001:db8::7]:80");
    let json = inspect(2, cart.trim_end(), &["--config", config, "--policy", "web"]);
    assert_eq!(json["reason"], "bad_signature");
    with_key(&[
        "token",
        "inspect",
        cart.trim_end(),
        "--config",
        config,
        "--policy",
        "shop",
    ])
    .run()
    .code(3);
}

#[test]
fn scopes_of_split_routes_and_of_clusters_are_tried() {
    let envoy = serde_json::json!({
        "routes": [
            {
                "name": "shop",
                "match": {"prefix": "/"},
                "metadata": {"filter_metadata": {"limpet": {"session": "@split/web/shop"}}},
            },
            {
                "name": "any",
                "match": {"prefix": "/"},
                "metadata": {"filter_metadata": {"limpet": {"session": "@destination"}}},
            },
            {
                "name": "each",
                "match": {"prefix": "/each"},
                "metadata": {"filter_metadata": {"limpet": {"session": "@destination/web/each"}}},
                "route": {"weighted_clusters": {"clusters": [{"name": "blue"}, {"name": "green#1f2e"}]}},
            },
        ],
        "clusters": [{"name": "blue", "metadata": {"filter_metadata": {"limpet": {"session": "web/blue"}}}}],
        "filter": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"name": "limpet"},
            "filter_name": "limpet",
            "filter_config": {
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": serde_json::json!({
                    "keys": [{"id": 1, "env": "LIMPET_KEY"}],
                    "policies": {"web": {"cookie": {"name": "limpet-session"}}},
                })
                .to_string(),
            },
        },
    });
    let file = file(".json", &envoy.to_string());
    for scope in ["shop", "blue", "each/blue", "each/green"] {
        let issue = [
            "token",
            "issue",
            "--config",
            path(&file),
            "--host",
            "10.0.0.7:80",
            "--cluster",
            "blue",
        ];
        let token = with_key(&[&issue[..], &["--policy", "web", "--scope", scope]].concat())
            .run()
            .code(0)
            .stdout;
        let json = inspect(0, token.trim_end(), &["--config", path(&file)]);
        assert_eq!(json["session"]["scope"], scope);
    }
}

#[test]
fn a_cluster_is_named_by_what_stands_before_a_hash() {
    let envoy = example("cookie.yaml")
        .to_string()
        .replace("\"backends\"", "\"backends#1f2e\"");
    let file = file(".json", &envoy);
    for cluster in ["backends", "backends#1f2e", "backends#3d4c"] {
        let issue = "token issue --scope default --host 127.0.0.1:8081 --config envoy-configs/cookie.yaml --cluster";
        let issue: Vec<&str> = issue.split(' ').chain([cluster]).collect();
        let token = with_key(&issue).run().code(0).stdout;
        let json = inspect(0, token.trim_end(), &["--config", path(&file)]);
        assert_eq!(json["claims"]["cluster"], "backends", "{cluster}");
    }
}

#[test]
fn a_filters_or_discovered_configuration_has_the_keys_too() {
    let token = token(&[]);
    for config in ["envoy-configs/ecds.yaml", "envoy-configs/ecds/limpet.yaml"] {
        assert_eq!(
            inspect(0, &token, &["--config", config])["verdict"],
            "honoured",
            "{config}"
        );
    }
    let filter = file(
        ".yaml",
        "keys: [{id: 1, env: LIMPET_KEY}]\npolicies: {p: {cookie: {name: limpet-session}}}\n",
    );
    assert_eq!(
        inspect(0, &token, &["--config", path(&filter)])["session"]["policy"],
        "p"
    );
    let fenced = file(
        ".yaml",
        "keys: [{id: 1, env: LIMPET_KEY}]\npolicies: {p: {cookie: {name: limpet-session}}}\n\
         fences: [{address: 127.0.0.1, notBefore: 99999999999}]\n",
    );
    assert_eq!(inspect(2, &token, &["--config", path(&fenced)])["reason"], "fenced");
}

#[test]
fn a_header_token_is_issued_and_opened() {
    let keys = keys();
    let args = [
        "token",
        "issue",
        "--keys",
        path(&keys),
        "--mode",
        "header",
        "--name",
        "X-Session",
        "--scope",
        "s",
    ];
    let args = [&args[..], &["--host", HOST, "--cluster", "c", "-o", "json"]].concat();
    let json = with_key(&args).run().code(0).json();
    let token = json["token"].as_str().unwrap();
    assert_eq!(json["session"]["mode"], "header");
    let json = inspect(
        0,
        &format!("x-session: {token}"),
        &["--keys", path(&keys), "--scope", "s"],
    );
    assert_eq!(json["verdict"], "honoured");
}

#[test]
fn wrong_arguments_are_named() {
    let keys = keys();
    let token = token(&[]);
    let base = [
        "token",
        "issue",
        "--keys",
        path(&keys),
        "--name",
        "s",
        "--cluster",
        "c",
        "--host",
    ];
    for (args, complaint) in [
        (vec!["token", "inspect", &token, "--keys", path(&keys)], "--name"),
        (
            vec!["token", "inspect", &token, "--keys", "nowhere.yaml", "--name", "s"],
            "nowhere.yaml: cannot be read",
        ),
        (vec!["token", "inspect", &token, "--time", "soon"], "--time"),
        (
            vec!["token", "inspect", &token, "--keys", path(&keys), "--config", CONFIG],
            "--config",
        ),
        (
            vec!["token", "issue", "--host", HOST, "--cluster", "c"],
            "--keys or --config",
        ),
        ([&base[..], &["localhost:80"]].concat(), "--host"),
        (
            [&base[..], &[HOST, "--issued-at", "2", "--last-seen", "1"]].concat(),
            "--last-seen",
        ),
    ] {
        with_key(&args).run().code(3).complains(complaint);
    }
    limpet(&[&base[..], &[HOST]].concat())
        .run()
        .code(3)
        .complains("LIMPET_KEY is not set");
    for (text, complaint) in [
        ("[]", "keys: expected at least one key"),
        ("{id: 1}", "keys: expected a list of keys"),
        ("[{id: 300, env: A}]", "[0].id: "),
        ("keys: [{id: 1, environment: A}]", "keys[0].environment: unknown field"),
        (
            "[{id: 1, env: A, state: retiring}]",
            "keys: expected one with state signing",
        ),
    ] {
        let keys = file(".yaml", text);
        let args = [
            "token",
            "issue",
            "--keys",
            path(&keys),
            "--name",
            "s",
            "--cluster",
            "c",
            "--host",
            HOST,
        ];
        limpet(&args).run().code(3).complains(complaint);
    }
}
