//! `schema/limpet.schema.json` follows the types and agrees with the checks, and `docs/reference/configuration.md` has
//! every field. `make schema` regenerates it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test reads files, fails by panicking, and has long tables"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use limpet_core::Filter;
use limpet_core::config::schema::{FilterConfig, SpecifierConfig};
use serde_json::{Value, json};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md")
}

fn schema_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/limpet.schema.json")
}

fn specifier_file() -> PathBuf {
    schema_file().with_file_name("specifier.schema.json")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn generated() -> [(PathBuf, String); 2] {
    let schemas = [
        (schema_file(), schemars::schema_for!(FilterConfig)),
        (specifier_file(), schemars::schema_for!(SpecifierConfig)),
    ];
    schemas.map(|(file, schema)| (file, serde_json::to_string_pretty(&schema).unwrap() + "\n"))
}

fn checked_in() -> Value {
    serde_json::from_str(&read(&schema_file())).unwrap()
}

#[test]
fn the_schema_is_what_the_types_say() {
    for (file, generated) in generated() {
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&file, &generated).unwrap();
        }
        assert!(
            read(&file) == generated,
            "{} is out of date; regenerate it with `make schema`",
            file.display()
        );
    }
}

fn with_policy(policy: &Value) -> Value {
    json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"web": policy}})
}

fn with_cookie(cookie: &Value) -> Value {
    with_policy(&json!({"cookie": cookie, "absoluteTimeout": "1h"}))
}

fn with_former(lag: &Value) -> Value {
    with_policy(&json!({"cookie": {"name": "s"}, "idleTimeout": "1m", "formerLags": [lag]}))
}

fn with_keys(keys: &Value) -> Value {
    json!({"keys": keys, "policies": {}})
}

/// A keyring, wrapped under `INLINE` with the id 1.
const WRAPPED: &str = concat!(
    "gQGxMzQwJBVoDia0nZdw3B4_ibRT1-eWgYgNG6EHaAqWd5JzECHaha1ROICdkGOeltBlmmsw",
    "74NhH5Iz9xvmVvyXQsbCXKG-r40my3oxf1eDJ2u5Fl8",
);

fn with_wrapped_keys(wrapped: &Value) -> Value {
    json!({"wrappedKeys": wrapped, "policies": {}})
}

const INLINE: &str = "bm90IGEgc2VjcmV0OiBldmVyeWJvZHkgcmVhZHMgaXQ=";

fn with_sds_keys(sds: &Value) -> Value {
    json!({"sdsKeys": sds, "policies": {}})
}

fn accepted() -> Vec<Value> {
    vec![
        with_keys(&json!([{"id": 255, "inline": INLINE}])),
        with_keys(&json!([
            {"id": 0, "env": "A"},
            {"id": 1, "env": "B", "state": "verifying"},
            {"id": 2, "env": "C", "state": "retiring"},
            {"id": 3, "state": "revoked"},
        ])),
        with_wrapped_keys(&json!({"text": WRAPPED, "keyEncryptionKeys": [{"id": 1, "env": "A"}]})),
        with_wrapped_keys(&json!({
            "text": WRAPPED,
            "keyEncryptionKeys": [{"id": 0, "env": "A"}, {"id": 1, "env": "B"}, {"id": 255, "env": "C"}],
        })),
        with_sds_keys(&json!({"name": "limpet"})),
        with_sds_keys(&json!({"name": "limpet", "sdsConfig": {"ads": {}, "resource_api_version": "V3"}})),
        with_cookie(&json!({"name": "session"})),
        with_cookie(&json!({
            "name": "__Host-s", "path": "/", "secure": "always", "httpOnly": false, "sameSite": "None",
            "partitioned": true, "lifetimeType": "Permanent", "forward": true,
        })),
        with_cookie(&json!({
            "name": "s", "path": "/a/b?c=+d", "domain": "a-1.example.com", "secure": "never", "sameSite": "Lax",
        })),
        with_cookie(&json!({"name": "s", "perScope": true, "mode": "insert"})),
        with_cookie(&json!({"name": "s", "mode": "prefix"})),
        with_cookie(&json!({"name": "__Host-s", "mode": "rewrite", "path": "/", "httpOnly": true, "forward": false})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix"}, "absoluteTimeout": "1h"})),
        with_policy(&json!({"header": {"name": "X-Session", "forward": true}, "strict": true, "strictStatus": 599})),
        with_policy(&json!({
            "header": {"name": "s"}, "absoluteTimeout": "1h30m", "idleTimeout": "500ms",
            "token": "signed", "cacheControl": "keep",
        })),
        with_policy(&json!({"query": {"name": "a-B_c.9~"}, "tell": {"header": {"name": "x"}}, "idleTimeout": "1h"})),
        with_policy(&json!({"query": {"name": "s", "forward": true, "redirects": true}, "absoluteTimeout": "1h"})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": []})),
        with_policy(&json!({
            "cookie": {"name": "s", "mode": "prefix"},
            "also": [
                {"cookie": {"name": "t", "forward": true}}, {"header": {"name": "s", "forward": true}},
                {"query": {"name": "s", "forward": true}}, {"cookie": {"name": "u"}, "former": true},
            ],
            "tell": {"header": {"name": "s"}},
        })),
        with_policy(&json!({"cookie": {"name": "s"}, "begin": "always", "end": {"cookie": "t"}})),
        with_policy(
            &json!({"cookie": {"name": "s"}, "begin": {"cookie": "t", "methods": ["POST", "VERSION-CONTROL"]}}),
        ),
        with_policy(&json!({"header": {"name": "s"}, "begin": {"header": "Location", "methods": []}})),
        with_policy(&json!({
            "query": {"name": "s", "redirects": true}, "begin": {"methods": ["POST"]}, "absoluteTimeout": "1h",
        })),
        with_policy(&json!({"cookie": {"name": "s", "mode": "prefix"}, "begin": "always"})),
        with_policy(&json!({"source": {}, "begin": {"cookie": "t"}, "end": {"cookie": "t"}})),
        with_policy(&json!({"cookie": {"name": "s"}, "end": {"header": "Clear-Site-Data"}})),
        with_policy(&json!({"header": {"name": "s"}, "tell": {"header": {"name": "t"}}, "move": {"header": "X-Move"}})),
        with_policy(&json!({"query": {"name": "s"}, "tell": {"header": {"name": "t"}}, "move": {"header": "m"}})),
        with_policy(&json!({"source": {}, "move": {"header": "m"}})),
        with_policy(&json!({"cookie": {"name": "s"}, "idleTimeout": "1h", "rebalance": "5m"})),
        with_policy(&json!({"query": {"name": "s"}, "tell": {"header": {"name": "t"}}, "rebalance": "5m"})),
        with_policy(&json!({
            "cookie": {"name": "s"}, "idleTimeout": "1m",
            "formerLags": [{"lag": "1h", "until": 1}, {"namespace": "n", "lag": "2h", "until": 0}],
        })),
        with_policy(&json!({"source": {}})),
        with_policy(&json!({
            "source": {"prefixV4": 24, "prefixV6": 128, "timeout": "1s", "entries": 10_000_000},
            "strict": true, "absoluteTimeout": "1h", "token": "sealed", "cacheControl": "private",
        })),
        json!({
            "keys": [{"id": 1, "env": "KEY"}],
            "policies": {"a.b_c-D9": {"cookie": {"name": "s"}}},
            "routes": [
                {"route": "r", "virtualHost": "v", "policy": "a.b_c-D9", "scope": "s", "perCluster": true},
                {"route": "", "policy": "a.b_c-D9"},
            ],
            "default": {"policy": "a.b_c-D9", "scope": "s"},
            "accessLog": true,
            "hosts": {"web": {"10.0.0.7:8080": "web-0"}},
            "maxIdle": "24h",
            "clockSkew": "0s",
            "fences": [
                {"address": "10.0.0.7", "notBefore": 1_790_000_000, "namespace": "n"},
                {"address": "[2001:db8::7]:80", "notBefore": 0},
            ],
            "reportSessions": {"cluster": "c", "nodeCluster": "n", "interval": "100ms", "maxBackends": 0},
        }),
    ]
}

fn refused() -> Vec<Value> {
    let policy = json!({"cookie": {"name": "s"}});
    vec![
        json!([]),
        json!({}),
        json!({"keys": [{"id": 1, "env": "KEY"}]}),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {}, "policy": 1}),
        with_keys(&json!([])),
        with_keys(&json!([{"id": 256, "env": "KEY"}])),
        with_keys(&json!([{"id": -1, "env": "KEY"}])),
        with_keys(&json!([{"id": "1", "env": "KEY"}])),
        with_keys(&json!([{"id": 1}])),
        with_keys(&json!([{"id": 1, "env": "KEY"}, {"id": 2, "inline": INLINE, "state": "revoked"}])),
        with_keys(&json!([{"id": 1, "env": "KEY"}, {"id": 2, "env": "KEY", "state": "revoked"}])),
        with_keys(&json!([{"id": 1, "env": "KEY", "inline": INLINE}])),
        with_keys(&json!([{"id": 1, "env": "KEY", "name": "x"}])),
        with_keys(&json!([{"id": 1, "inline": "c2hvcnQ="}])),
        with_keys(&json!([{"id": 1, "inline": INLINE.replace("XQ=", "XR=")}])),
        with_keys(&json!([{"id": 1, "env": "KEY", "state": "verifying"}])),
        with_keys(&json!([{"id": 1, "env": "KEY"}, {"id": 2, "env": "KEY", "state": "signing"}])),
        with_keys(&json!([{"id": 1, "env": "KEY", "state": "Signing"}])),
        with_sds_keys(&json!("limpet")),
        with_sds_keys(&json!({})),
        with_sds_keys(&json!({"name": ""})),
        with_sds_keys(&json!({"name": "limpet", "sdsConfig": "sds.yaml"})),
        with_sds_keys(&json!({"name": "limpet", "config": {}})),
        json!({"keys": [{"id": 1, "env": "KEY"}], "sdsKeys": {"name": "limpet"}, "policies": {}}),
        with_wrapped_keys(&json!([])),
        with_wrapped_keys(&json!({"text": WRAPPED})),
        with_wrapped_keys(&json!({"text": WRAPPED, "keyEncryptionKeys": []})),
        with_wrapped_keys(&json!({"text": WRAPPED, "keyEncryptionKeys": [{"id": 1}]})),
        with_wrapped_keys(&json!({"text": WRAPPED, "keyEncryptionKeys": [{"id": 256, "env": "A"}]})),
        with_wrapped_keys(&json!({"text": WRAPPED, "keyEncryptionKeys": [{"id": 1, "inline": INLINE}]})),
        with_wrapped_keys(&json!({"text": INLINE, "keyEncryptionKeys": [{"id": 1, "env": "A"}]})),
        with_wrapped_keys(&json!({"text": format!("{WRAPPED}="), "keyEncryptionKeys": [{"id": 1, "env": "A"}]})),
        with_wrapped_keys(&json!({"keyEncryptionKeys": [{"id": 1, "env": "A"}]})),
        json!({
            "keys": [{"id": 1, "env": "KEY"}],
            "wrappedKeys": {"text": WRAPPED, "keyEncryptionKeys": [{"id": 1, "env": "A"}]},
            "policies": {},
        }),
        with_policy(&json!({})),
        with_policy(&json!({"cookie": {"name": "s"}, "header": {"name": "s"}})),
        with_policy(&json!({"cookie": {}})),
        with_policy(&json!({"header": {"name": ""}})),
        with_policy(&json!({"header": {"name": "a b"}})),
        with_policy(&json!({"header": {"name": "a", "path": "/"}})),
        with_policy(&json!({"cookie": {"name": "s"}, "strictStatus": 399})),
        with_policy(&json!({"cookie": {"name": "s"}, "strictStatus": 600})),
        with_policy(&json!({"cookie": {"name": "s"}, "idleTimeout": "1d"})),
        with_policy(&json!({"cookie": {"name": "s"}, "idleTimeout": 60})),
        with_policy(&json!({"cookie": {"name": "s"}, "token": "plain"})),
        with_former(&json!({"lag": "1h"})),
        with_former(&json!({"until": 1})),
        with_former(&json!({"lag": "1h", "until": -1})),
        with_former(&json!({"lag": "1h", "until": 1, "namespace": ""})),
        with_former(&json!({"lag": "1h", "until": 1, "scope": "s"})),
        with_policy(&json!({"cookie": {"name": "s", "lifetimeType": "Permanent"}})),
        with_cookie(&json!({"name": "s", "mode": "Prefix"})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "path": "/a"})),
        with_cookie(&json!({"name": "s", "mode": "rewrite", "domain": "example.com"})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "secure": "always"})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "httpOnly": false})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "sameSite": "Lax"})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "lifetimeType": "Permanent"})),
        with_cookie(&json!({"name": "s", "mode": "prefix", "perScope": true})),
        with_cookie(&json!({"name": "s", "mode": "rewrite", "forward": true})),
        with_policy(&json!({"header": {"name": "s", "mode": "rewrite"}})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix", "forward": true}})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix"}, "idleTimeout": "1h"})),
        with_policy(&json!({"cookie": {"name": "s", "mode": "rewrite"}, "idleTimeout": "1h"})),
        with_cookie(&json!({"name": "a=b"})),
        with_cookie(&json!({"name": "a".repeat(257)})),
        with_cookie(&json!({"name": "s", "path": "x"})),
        with_cookie(&json!({"name": "s", "path": ""})),
        with_cookie(&json!({"name": "s", "path": "/a;b"})),
        with_cookie(&json!({"name": "s", "path": "/a,b"})),
        with_cookie(&json!({"name": "s", "path": "/a b"})),
        with_cookie(&json!({"name": "s", "path": format!("/{}", "a".repeat(1024))})),
        with_cookie(&json!({"name": "s", "domain": ".example.com"})),
        with_cookie(&json!({"name": "s", "domain": "-a.example.com"})),
        with_cookie(&json!({"name": "s", "domain": ""})),
        with_cookie(&json!({"name": "s", "sameSite": "strict"})),
        with_cookie(&json!({"name": "s", "sameSite": "None"})),
        with_cookie(&json!({"name": "s", "partitioned": true, "secure": "auto"})),
        with_cookie(&json!({"name": "s", "httponly": true})),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"a/b": policy}}),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"": policy}}),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"p": policy}, "default": {"policy": "p", "scope": ""}}),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"p": policy}, "routes": [{"policy": "p"}]}),
        json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {"p": policy}, "fences": [{"address": "10.0.0.7"}]}),
        json!({
            "keys": [{"id": 1, "env": "KEY"}],
            "policies": {"p": policy},
            "fences": [{"address": "10.0.0.7", "notBefore": -1}],
        }),
    ]
}

fn refused_reports() -> Vec<Value> {
    let reports = [
        json!({"cluster": "", "nodeCluster": "n"}),
        json!({"cluster": "c"}),
        json!({"cluster": "c", "nodeCluster": "n", "interval": "soon"}),
    ];
    let config = |reports| json!({"keys": [{"id": 1, "env": "KEY"}], "policies": {}, "reportSessions": reports});
    reports.into_iter().map(config).collect()
}

fn refused_carriers() -> Vec<Value> {
    vec![
        with_policy(&json!({"query": {"name": "s"}})),
        with_policy(&json!({"query": {"name": "s", "redirects": false}})),
        with_policy(&json!({"query": {"name": "s", "redirects": true}, "idleTimeout": "1h"})),
        with_policy(&json!({"query": {"name": "s", "redirects": true}, "cookie": {"name": "s"}})),
        with_policy(&json!({"query": {"name": "a b", "redirects": true}})),
        with_policy(&json!({"query": {"name": "a'b", "redirects": true}})),
        with_policy(&json!({"query": {"name": "", "redirects": true}})),
        with_policy(&json!({"query": {"name": "s", "mode": "insert", "redirects": true}})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": {"query": {"name": "s"}}})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{"query": {}}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{"query": {"name": "a&b"}}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{"query": {"name": "s", "redirects": true}}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{"header": {"name": "a b"}}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "also": [{"cookie": {"name": "t"}, "header": {"name": "t"}}]})),
        with_policy(&json!({"cookie": {"name": "s"}, "tell": {}})),
        with_policy(&json!({"cookie": {"name": "s"}, "tell": {"cookie": {"name": "t"}}})),
        with_policy(&json!({"cookie": {"name": "s"}, "tell": {"header": {"name": "a b"}}})),
        with_policy(&json!({"cookie": {"name": "s"}, "move": true})),
        with_policy(&json!({"cookie": {"name": "s"}, "move": {}})),
        with_policy(&json!({"cookie": {"name": "s"}, "move": {"header": {"name": "m"}}})),
        with_policy(&json!({"cookie": {"name": "s"}, "move": {"header": "a b"}})),
        with_policy(&json!({"cookie": {"name": "s", "mode": "prefix"}, "move": {"header": "m"}})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix"}, "move": {"header": "m"}})),
        with_policy(&json!({"query": {"name": "s", "redirects": true}, "move": {"header": "m"}})),
        with_policy(&json!({"cookie": {"name": "s"}, "rebalance": true})),
        with_policy(&json!({"cookie": {"name": "s", "mode": "rewrite"}, "rebalance": "5m"})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix"}, "rebalance": "5m"})),
        with_policy(&json!({"query": {"name": "s", "redirects": true}, "rebalance": "5m"})),
        with_policy(&json!({"source": {}, "rebalance": "5m"})),
    ]
}

fn refused_sources() -> Vec<Value> {
    vec![
        with_policy(&json!({"source": true})),
        with_policy(&json!({"source": {}, "cookie": {"name": "s"}})),
        with_policy(&json!({"source": {}, "header": {"name": "s"}})),
        with_policy(&json!({"source": {"name": "s"}})),
        with_policy(&json!({"source": {"prefixV4": 0}})),
        with_policy(&json!({"source": {"prefixV4": 33}})),
        with_policy(&json!({"source": {"prefixV6": 0}})),
        with_policy(&json!({"source": {"prefixV6": 129}})),
        with_policy(&json!({"source": {"timeout": 3600}})),
        with_policy(&json!({"source": {"entries": 0}})),
        with_policy(&json!({"source": {"entries": 10_000_001}})),
        with_policy(&json!({"source": {}, "idleTimeout": "1h"})),
        with_policy(&json!({"source": {}, "token": "signed"})),
        with_policy(&json!({"source": {}, "cacheControl": "keep"})),
        with_policy(&json!({"source": {}, "also": [{"header": {"name": "s"}}]})),
        with_policy(&json!({"source": {}, "tell": {"header": {"name": "s"}}})),
        with_policy(&json!({"source": {}, "formerLags": [{"lag": "1h", "until": 1}]})),
    ]
}

fn refused_begins_and_ends() -> Vec<Value> {
    let beginning = |begin: Value| with_policy(&json!({"cookie": {"name": "s"}, "begin": begin}));
    let ending = |end: Value| with_policy(&json!({"cookie": {"name": "s"}, "end": end}));
    vec![
        beginning(json!("never")),
        beginning(json!("Always")),
        beginning(json!(true)),
        beginning(Value::Null),
        beginning(json!([])),
        beginning(json!({})),
        beginning(json!({"methods": []})),
        beginning(json!({"cookie": "t", "header": "t"})),
        beginning(json!({"cookie": ""})),
        beginning(json!({"cookie": {"name": "t"}})),
        beginning(json!({"header": "a b"})),
        beginning(json!({"query": "t"})),
        beginning(json!({"methods": "POST"})),
        beginning(json!({"methods": ["post"]})),
        beginning(json!({"methods": [""]})),
        beginning(json!({"methods": ["-"]})),
        beginning(json!({"methods": ["A".repeat(33)]})),
        beginning(json!({"methods": ["POST", "PUT", "POST"]})),
        ending(json!("t")),
        ending(json!({})),
        ending(json!({"cookie": "a b"})),
        ending(json!({"header": "a b"})),
        ending(json!({"cookie": "t", "header": "t"})),
        with_policy(&json!({"header": {"name": "s"}, "end": {"cookie": "t"}})),
        with_policy(&json!({"query": {"name": "s"}, "tell": {"header": {"name": "x"}}, "end": {"cookie": "t"}})),
        with_policy(&json!({"cookie": {"name": "s", "mode": "prefix"}, "end": {"cookie": "t"}})),
        with_policy(&json!({"cookie": {"name": "s", "mode": "rewrite"}, "begin": {"methods": ["POST"]}})),
        with_policy(&json!({"header": {"name": "s", "mode": "prefix"}, "begin": {"header": "t"}})),
    ]
}

#[test]
fn the_schema_and_the_filter_agree() {
    let schema = jsonschema::validator_for(&checked_in()).unwrap();
    // Only a filter that can get secrets accepts `sdsKeys`.
    let filter = |config: &Value| {
        let parsed = limpet_core::config::parse(config.to_string().as_bytes())?;
        match parsed.sds_keys {
            Some(_) => Filter::without_keys(&parsed),
            None => Filter::new(&parsed, &|_| Some(INLINE.to_owned())).map(|(filter, _)| filter),
        }
    };
    for config in accepted() {
        assert!(
            schema.is_valid(&config),
            "the schema refuses {config}: {:?}",
            schema.validate(&config)
        );
        assert!(
            filter(&config).is_ok(),
            "the filter refuses {config}: {}",
            filter(&config).unwrap_err()
        );
    }
    let all = [
        refused(),
        refused_reports(),
        refused_carriers(),
        refused_sources(),
        refused_begins_and_ends(),
    ];
    for config in all.into_iter().flatten() {
        assert!(!schema.is_valid(&config), "the schema accepts {config}");
        assert!(filter(&config).is_err(), "the filter accepts {config}");
    }
}

/// Every field of the schema by its path, such as `policies.<name>.cookie.name` or `keys[].id`, with its default.
fn fields(schema: &Value) -> BTreeMap<String, Option<Value>> {
    let mut fields = BTreeMap::new();
    collect(schema, schema, "", &mut fields);
    fields
}

fn collect(root: &Value, schema: &Value, path: &str, fields: &mut BTreeMap<String, Option<Value>>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("a reference within the schema");
        let target = root
            .pointer(pointer)
            .unwrap_or_else(|| panic!("no {reference} in the schema"));
        collect(root, target, path, fields);
    }
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        collect(root, alternative, path, fields);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        fields.insert(path.clone(), property.get("default").cloned());
        collect(root, property, &path, fields);
    }
    if schema["items"].is_object() {
        collect(root, &schema["items"], &format!("{path}[]"), fields);
    }
    if schema["additionalProperties"].is_object() {
        collect(root, &schema["additionalProperties"], &format!("{path}.<name>"), fields);
    }
}

fn set(config: &Value, path: &str, paths: &mut BTreeSet<String>) {
    for item in config.as_array().into_iter().flatten() {
        set(item, &format!("{path}[]"), paths);
    }
    for (name, value) in config.as_object().into_iter().flatten() {
        let path = match path {
            "" => name.clone(),
            "policies" => "policies.<name>".to_owned(),
            path => format!("{path}.{name}"),
        };
        set(value, &path, paths);
        paths.insert(path);
    }
}

#[test]
fn every_field_is_in_an_accepted_configuration() {
    let mut paths = BTreeSet::new();
    for config in accepted() {
        set(&config, "", &mut paths);
    }
    let fields = fields(&checked_in());
    let missing: Vec<_> = fields.keys().filter(|field| !paths.contains(*field)).collect();
    // Envoy reads its content, not the filter.
    let of_envoy: Vec<_> = missing
        .iter()
        .filter(|field| field.starts_with("sdsKeys.sdsConfig."))
        .collect();
    assert_eq!(missing.len(), of_envoy.len(), "not in accepted(): {missing:?}");
}

fn with_field(config: &Value, field: &str, value: &Value) -> Value {
    let is_of = |part: &str| field.starts_with(&format!("policies.<name>.{part}"));
    let of_all = ["query.", "also[]", "tell.", "move.", "begin.", "end.", "formerLags[]"];
    let policy = if of_all.into_iter().any(is_of) {
        "all"
    } else if is_of("header.") {
        "api"
    } else if is_of("source.") {
        "ip"
    } else {
        "web"
    };
    let dotted = field.replace("[]", ".0").replace("<name>", policy);
    let mut place: Vec<&str> = dotted.split('.').collect();
    let name = place.pop().unwrap();
    let mut written = config.clone();
    let parent = place
        .iter()
        .fold(&mut written, |value, segment| match segment.parse::<usize>() {
            Ok(index) => &mut value[index],
            Err(_) => &mut value[segment],
        });
    assert!(
        parent.is_object(),
        "the configuration of this test has no place for {field}: add one with its required fields"
    );
    parent[name] = value.clone();
    written
}

fn parse(config: &Value) -> Result<FilterConfig, limpet_core::config::ConfigError> {
    limpet_core::config::parse(config.to_string().as_bytes())
}

/// A place for every field of a policy. `all` can be read, and is refused later.
fn policies() -> Value {
    let named = json!({"name": "s"});
    json!({
        "web": {"cookie": named},
        "api": {"header": named},
        "ip": {"source": {}},
        "all": {
            "query": named,
            "also": [{"cookie": named, "header": named, "query": named}],
            "tell": {"header": named},
            "begin": {},
            "end": {"cookie": "t"},
            "move": {"header": "m"},
            "formerLags": [{"lag": "1h", "until": 0}],
        },
    })
}

#[test]
fn the_defaults_are_what_an_absent_field_means() {
    let config = json!({
        "keys": [{"id": 1, "env": "KEY"}],
        "policies": policies(),
        "routes": [{"route": "r", "policy": "web"}],
        "default": {"policy": "web"},
        "fences": [{"address": "10.0.0.7", "notBefore": 0}],
        "reportSessions": {"cluster": "c", "nodeCluster": "n"},
    });
    for (field, default) in fields(&checked_in()) {
        let Some(default) = default else { continue };
        assert_eq!(
            parse(&with_field(&config, &field, &default)),
            parse(&config),
            "the schema's default of {field} is {default}"
        );
    }
}

/// The rule of `src/config/schema/policy.rs`; for absent fields, `configuration/policy_json.rs` tests it.
#[test]
fn a_policy_field_with_its_default_is_not_written() {
    let config = json!({"keys": [], "policies": policies()});
    let written = |config: &FilterConfig| serde_json::to_string_pretty(&config.policies).unwrap();
    let shortest = written(&parse(&config).unwrap());
    let fields = fields(&checked_in());
    // Set above, because they are required.
    let required = [
        "cookie",
        "header",
        "cookie.name",
        "header.name",
        "query.name",
        "also[].cookie",
        "also[].cookie.name",
        "also[].header",
        "also[].header.name",
        "also[].query",
        "also[].query.name",
        "tell.header",
        "tell.header.name",
        "end.cookie",
        "move.header",
        "formerLags[].lag",
        "formerLags[].until",
    ]
    .map(|field| format!("policies.<name>.{field}"));
    let optional = fields
        .iter()
        .filter(|(field, _)| field.starts_with("policies.<name>.") && !required.contains(field));
    for (field, default) in optional {
        let value = default.clone().unwrap_or(Value::Null);
        let parsed = parse(&with_field(&config, field, &value)).unwrap_or_else(|error| {
            panic!("{error}: {field} is optional, so the schema needs its default (`extend(\"default\" = ...)`)")
        });
        assert_eq!(
            written(&parsed),
            shortest,
            "{field} is written with its default and renames policies: add skip_serializing_if"
        );
    }
}

fn other_value(root: &Value, field: &str, property: &Value) -> Value {
    let default = property.get("default").cloned().unwrap_or(Value::Null);
    // The schema of an `Option` is one of two.
    let reference = property.get("$ref").or_else(|| property.pointer("/anyOf/0/$ref"));
    if let Some(reference) = reference.and_then(Value::as_str) {
        let definition = root.pointer(reference.trim_start_matches('#')).unwrap();
        let mut values = definition["oneOf"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| &it["const"]);
        if let Some(value) = values.find(|value| **value != default) {
            return value.clone();
        }
    }
    match &default {
        Value::Bool(flag) => json!(!flag),
        Value::String(text) => json!(format!("{text}x")),
        Value::Null if property["type"] == json!(["string", "null"]) => json!("x"),
        _ => panic!("this test knows no other value of {field} than {default}: add one"),
    }
}

#[test]
fn an_applications_carrier_accepts_no_other_field() {
    let root = checked_in();
    let schema = jsonschema::validator_for(&root).unwrap();
    for (carrier, definition, modes) in [
        ("cookie", "CookieConfig", &["prefix", "rewrite"][..]),
        ("header", "HeaderConfig", &["prefix"]),
    ] {
        let properties = root["$defs"][definition]["properties"].as_object().unwrap();
        for (field, property) in properties {
            if ["name", "mode"].contains(&field.as_str()) {
                continue;
            }
            for mode in modes {
                let value = other_value(&root, field, property);
                let config = with_policy(&json!({
                    carrier: {"name": "s", "mode": mode, field: value},
                    "absoluteTimeout": "1h",
                }));
                assert!(!schema.is_valid(&config), "the schema accepts {config}");
                let problems = match Filter::new(&parse(&config).unwrap(), &|_| Some(INLINE.to_owned())) {
                    Ok(_) => Vec::new(),
                    Err(error) => error.problems,
                };
                let path = format!("policies.web.{carrier}.{field}");
                assert!(
                    problems.iter().any(|problem| problem.field == path),
                    "the filter accepts {path} in mode {mode}: {problems:?}"
                );
            }
        }
    }
}

/// The rows of the tables of fields, by the field's path. The third cell is the default.
fn documented(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut rows = BTreeMap::new();
    let mut in_table = false;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        in_table = line.starts_with("| Field |") || (in_table && line.starts_with('|'));
        if in_table
            && let Some(path) = cells
                .first()
                .and_then(|cell| cell.strip_prefix('`'))
                .and_then(|cell| cell.strip_suffix('`'))
        {
            let cells = cells.iter().map(ToString::to_string).collect();
            assert!(
                rows.insert(path.to_owned(), cells).is_none(),
                "configuration.md has {path} twice"
            );
        }
    }
    rows
}

#[test]
fn every_field_is_documented_and_nothing_else() {
    let mut fields = fields(&checked_in());
    let specifier: Value = serde_json::from_str(&read(&specifier_file())).unwrap();
    fields.extend(self::fields(&specifier));
    let documented = documented(&read(&page()));
    let undocumented: Vec<_> = fields.keys().filter(|field| !documented.contains_key(*field)).collect();
    assert!(
        undocumented.is_empty(),
        "not in a table of docs/reference/configuration.md: {undocumented:?}"
    );
    let unknown: Vec<_> = documented.keys().filter(|field| !fields.contains_key(*field)).collect();
    assert!(
        unknown.is_empty(),
        "docs/reference/configuration.md names fields that do not exist: {unknown:?}"
    );
    for (field, default) in &fields {
        let Some(default) = default
            .as_ref()
            .filter(|default| !default.is_null() && **default != json!([]))
        else {
            continue;
        };
        let words = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
        let said = &documented[field][2];
        assert_eq!(
            said,
            &format!("`{words}`"),
            "docs/reference/configuration.md has a wrong default for {field}"
        );
    }
}
