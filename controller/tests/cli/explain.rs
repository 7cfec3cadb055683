use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::{KEY, Ran, file, limpet, path};

pub(crate) const NOW: &str = "2026-11-23T12:00:00Z";

/// Two routes at one Gateway. Of `shop`, the rule `cart` has a policy's sessions, `own` its own, and `plain` none.
pub(crate) const OBJECTS: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: limpet}
spec: {controllerName: limpet.dev/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: limpet
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: certificate}]}}
---
apiVersion: v1
kind: Service
metadata: {name: v1}
spec: {ports: [{name: web, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: v2}
spec: {ports: [{name: web, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: v1, labels: {kubernetes.io/service-name: v1}}
addressType: IPv4
ports: [{name: web, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.7], conditions: {ready: true}, targetRef: {kind: Pod, name: v1-a, uid: a}}
- addresses: [10.0.0.8]
  conditions: {ready: false, serving: true, terminating: true}
  targetRef: {kind: Pod, name: v1-b, uid: b}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: shop
  annotations: {session.limpet.dev/same-site: Lax}
spec:
  parentRefs: [{name: web}]
  hostnames: [shop.example.com]
  rules:
  - name: cart
    matches: [{path: {value: /cart}}]
    backendRefs: [{name: v1, port: 80, weight: 9}]
  - name: own
    matches: [{path: {value: /own}}]
    sessionPersistence: {sessionName: own, absoluteTimeout: 1h}
    backendRefs: [{name: v2, port: 80}]
  - name: plain
    backendRefs: [{name: v2, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other}
spec:
  parentRefs: [{name: web}]
  hostnames: [other.example.com]
  rules: [{name: pay, backendRefs: [{name: v1, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: sticky
  creationTimestamp: '2026-01-01T00:00:00Z'
  annotations: {session.limpet.dev/strict: 'true'}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {sessionName: shop, idleTimeout: 30m}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {name: newer, creationTimestamp: '2026-02-01T00:00:00Z'}
spec:
  targetRefs: [{group: '', kind: Service, name: v1}]
  sessionPersistence: {sessionName: newer}
";

pub(crate) struct Site {
    pub(crate) objects: NamedTempFile,
    pub(crate) keys: NamedTempFile,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            objects: file(".yaml", OBJECTS),
            keys: file(".yaml", "[{id: 1, env: LIMPET_KEY}, {id: 2, state: revoked}]\n"),
        }
    }

    pub(crate) fn explain(&self, arguments: &[&str]) -> Ran {
        let mut all = vec!["explain", "httproute/shop", "-f", path(&self.objects), "--time", NOW];
        all.extend(["--keys", path(&self.keys)]);
        all.extend(arguments);
        limpet(&all).env("LIMPET_KEY", KEY).run()
    }

    /// A token of this scope, cookie and backend, issued and last used at this time.
    pub(crate) fn token(&self, scope: &str, cookie: &str, at: (&str, &str), time: &str) -> String {
        let (cluster, host) = at;
        let all = [
            "token",
            "issue",
            "--keys",
            path(&self.keys),
            "--scope",
            scope,
            "--name",
            cookie,
            "--cluster",
            cluster,
            "--host",
            host,
            "--issued-at",
            time,
        ];
        let ran = limpet(&all).env("LIMPET_KEY", KEY).run().code(0);
        ran.stdout.trim().to_owned()
    }
}

pub(crate) const CART: &str = "httproute/default/shop/cart";
const OWN: &str = "httproute/default/shop/own";
const PAY: &str = "httproute/default/other/pay";
pub(crate) const V1: (&str, &str) = ("service/default/v1/80", "10.0.0.7:8080");
pub(crate) const RECENT: &str = "2026-11-23T11:58:00Z";

pub(crate) fn cookie_of(site: &Site, rule: &str) -> String {
    let ran = site.explain(&["--rule", rule, "-o", "json"]).code(0);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    json["rules"][0]["session"]["carrier"]["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn each_rule_is_explained_with_what_its_fields_came_from() {
    let site = Site::new();
    let ran = site.explain(&[]).code(0);
    let cookie = cookie_of(&site, "cart");
    assert_eq!(cookie, "shop", "it is the first rule of the policy");
    let ran = ran
        .says("HTTPRoute default/shop, spec.rules[0] (cart)")
        .says(&format!("scope     {CART}"))
        .says("counts    BackendLBPolicy default/sticky: ")
        .says(
            "does not  BackendLBPolicy default/newer: BackendLBPolicy default/sticky, which is older, targets the same",
        )
        .says(&format!(
            "Set-Cookie: {cookie}=<token>; HttpOnly; SameSite=Lax; Path=/\n"
        ))
        .says("cookie.secure        never    default: the host is served over HTTP as well")
        .says("BackendLBPolicy default/sticky: spec.sessionPersistence.idleTimeout")
        .says("HTTPRoute default/shop: annotation session.limpet.dev/same-site")
        .says("BackendLBPolicy default/sticky: annotation session.limpet.dev/strict")
        .says("52be60df  Service default/v1:80, weight 9, cluster service/default/v1/80")
        .says("no session: load balancing chooses for each request");
    assert!(!ran.stdout.contains("HTTPRoute default/other"), "{ran:?}");
    let ran = site.explain(&["--rule", "own"]).code(0);
    let ran = ran.says("counts    HTTPRoute default/shop spec.rules[1].sessionPersistence");
    assert!(!ran.stdout.contains("(cart)"), "{ran:?}");
    let config = file(".yaml", "{maxIdle: 3h}");
    let without = file(".yaml", &OBJECTS.replace(", idleTimeout: 30m", ""));
    for (options, words) in [
        (
            &["--config", path(&config)][..],
            "3h       configuration of the controller: maxIdle",
        ),
        (&[], "168h     default"),
    ] {
        let all = [&["explain", "httproute/other", "-f", path(&without)], options].concat();
        limpet(&all).run().code(0).says(words);
    }
    let over_https = file(
        ".yaml",
        &OBJECTS.replace("  - {name: http, port: 80, protocol: HTTP}\n", ""),
    );
    limpet(&["explain", "httproute/shop", "-f", path(&over_https)])
        .run()
        .code(0)
        .says("HttpOnly; SameSite=Lax; Secure; Path=/  (over HTTPS)");
    site.explain(&["--rule", "gone"])
        .code(3)
        .complains("--rule: expected cart or own or plain");
}

/// Only an Event and the log reported it.
#[test]
fn a_policy_whose_target_is_misspelt_was_not_told_of() {
    let misspelt = OBJECTS.replace("kind: Service, name: v1}", "kind: Service, name: v-one}");
    let objects = file(".yaml", &misspelt);
    let explain = |options: &[&str]| {
        let all = [&["explain", "httproute/shop", "-f", path(&objects)], options].concat();
        limpet(&all).run().code(0)
    };
    let why = "spec.targetRefs[0].name: expected an existing Service, found default/v-one";
    for policy in ["sticky", "newer"] {
        explain(&["--rule", "cart"]).says(&format!("does not  BackendLBPolicy default/{policy}: {why}"));
    }
    let ran = explain(&["--rule", "own"]);
    assert!(!ran.stdout.contains(why), "this rule has sessions: {ran:?}");
}

#[test]
fn json_has_the_same_for_programs() {
    let ran = Site::new().explain(&["-o", "json"]).code(0);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let cart = &json["rules"][0];
    assert_eq!((&cart["scope"], &cart["name"]), (&CART.into(), &"cart".into()));
    assert_eq!(cart["destinations"][0]["hash"], "52be60df");
    let fields = cart["session"]["fields"].as_array().unwrap();
    let idle = fields.iter().find(|field| field["field"] == "idleTimeout").unwrap();
    assert_eq!(idle["value"], "30m");
    assert_eq!(idle["from"]["kind"], "field");
    assert_eq!(idle["from"]["object"], "BackendLBPolicy default/sticky");
    assert!(json.get("tokens").is_none());
}

#[test]
fn a_token_of_the_route_is_honoured_here() {
    let site = Site::new();
    let cookie = cookie_of(&site, "cart");
    let token = site.token(CART, "shop", V1, RECENT);
    let line = format!("Cookie: a=1; {cookie}={token}; b=2");
    for arguments in [
        ["--token", token.as_str()],
        ["--cookie", &line],
        ["--token", &format!("{cookie}={token}")],
        ["--cookie", &format!("Set-Cookie: {cookie}={token}; Path=/; HttpOnly")],
        ["--cookie", &format!("{cookie}={token}")],
    ] {
        site.explain(&arguments)
            .code(0)
            .says(": honoured")
            .says("requests go to 10.0.0.7:8080 of service/default/v1/80, pod v1-a (ready)")
            .says("session of   HTTPRoute default/shop, spec.rules[0] (cart)")
            .says("last seen    2026-11-23T11:58:00Z  2m ago");
    }
    let draining = site.token(CART, "shop", ("service/default/v1/80", "10.0.0.8:8080"), RECENT);
    site.explain(&["--token", &draining]).code(0).says("draining");
    let json = site.explain(&["--token", &token, "-o", "json"]).code(0);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let judged = &json["tokens"][0];
    assert_eq!((&judged["verdict"], &judged["keyId"]), (&"honoured".into(), &1.into()));
    assert_eq!(judged["claims"]["idleEnd"], "2026-11-23T12:28:00Z");
}

#[test]
fn a_token_in_a_former_cookie_is_honoured_as_by_envoys() {
    let mut site = Site::new();
    let strict = "session.limpet.dev/strict: 'true'";
    let also = "session.limpet.dev/also: '[{cookie: {name: before}, former: true}]'";
    let objects = OBJECTS.replace(strict, &format!("{strict}, {also}"));
    site.objects = file(".yaml", &objects);
    let token = site.token(CART, "before", V1, RECENT);
    let line = format!("Cookie: before={token}");
    for arguments in [["--token", token.as_str()], ["--cookie", &line]] {
        let ran = site.explain(&arguments).code(0);
        ran.says(": honoured").says("requests go to 10.0.0.7:8080");
    }
    // Of the session's own cookie, it is another one's.
    let other = site.token(CART, "never", V1, RECENT);
    site.explain(&["--token", &other]).code(2).says("bad_signature");
}

#[test]
fn of_several_tokens_the_one_that_counts_is_told() {
    let site = Site::new();
    let cookie = cookie_of(&site, "cart");
    let old = site.token(CART, "shop", V1, "2026-11-23T11:50:00Z");
    let new = site.token(CART, "shop", ("service/default/v1/80", "10.0.0.9:8080"), RECENT);
    for (line, expected) in [
        (
            format!("Cookie: {cookie}={old}; {cookie}={new}"),
            [Some(false), Some(true)],
        ),
        (
            format!("Cookie: {cookie}={new}; {cookie}={old}"),
            [Some(true), Some(false)],
        ),
        (format!("Cookie: {cookie}={old}; {cookie}=cut"), [None, None]),
    ] {
        for option in ["--cookie", "--token"] {
            let ran = site.explain(&[option, &line, "-o", "json"]);
            let json: Value = serde_json::from_str(&ran.stdout).unwrap();
            let tokens = json["tokens"].as_array().unwrap();
            let counts: Vec<_> = tokens.iter().map(|token| token["counts"].as_bool()).collect();
            assert_eq!(counts, expected[..tokens.len()], "{option} {line}");
        }
    }
    site.explain(&["--cookie", &format!("Cookie: {cookie}={old}; {cookie}={new}")])
        .code(0)
        .says("counts       no: the rule honours another one that was issued later")
        .says("counts       yes: of the tokens that the rule honours, it was issued last");
}

#[test]
fn a_pod_among_the_files_drains_by_its_annotation() {
    let site = Site::new();
    let token = site.token(CART, "shop", V1, RECENT);
    let pod = |uid: &str| {
        let annotations = "{session.limpet.dev/drain: '2026-11-23T11:50:00Z'}";
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: v1-a";
        file(".yaml", &format!("{pod}, uid: {uid}, annotations: {annotations}}}}}\n"))
    };
    let (pod, former) = (pod("a"), pod("former"));
    site.explain(&["--token", &token, "-f", path(&pod)])
        .code(0)
        .says("token: honoured")
        .says("pod v1-a (draining: it keeps its sessions and gets no new ones)");
    site.explain(&["--token", &token, "-f", path(&former)])
        .code(0)
        .says("pod v1-a (ready)");
}

#[test]
fn a_token_that_is_not_honoured_says_why_and_by_whom() {
    let site = Site::new();
    let cart = cookie_of(&site, "cart");
    let with_key = |token: &str, id: u8| {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
        bytes[1] = id;
        URL_SAFE_NO_PAD.encode(bytes)
    };
    let good = site.token(CART, "shop", V1, RECENT);
    for (token, reason, words) in [
        (
            site.token(PAY, "shop", V1, RECENT),
            "bad_signature",
            vec![
                "its scope is httproute/default/other/pay",
                "accepted by  HTTPRoute default/other, spec.rules[0] (pay)",
            ],
        ),
        // A former name of the policy.
        (
            format!("{}={}", "old", site.token(CART, "old", V1, RECENT)),
            "bad_signature",
            vec![
                "with another session, cookie old",
                "accepted by  HTTPRoute default/shop, spec.rules[0] (cart), with",
            ],
        ),
        (
            site.token(
                OWN,
                "own",
                ("service/default/v2/80", "10.0.0.9:80"),
                "2026-11-23T10:57:00Z",
            ),
            "expired",
            vec!["it expired 3m ago: absoluteTimeout is 1h, and it was issued 1h 3m ago"],
        ),
        (
            site.token(CART, "shop", V1, "2026-11-23T10:00:00Z"),
            "idle",
            vec!["it was last used 2h ago, and idleTimeout is 30m"],
        ),
        (
            site.token(CART, "shop", V1, "2026-11-23T14:00:00Z"),
            "from_the_future",
            vec!["it is of a time in 2h"],
        ),
        (
            site.token(CART, "shop", ("service/default/gone/80", "10.0.0.7:8080"), RECENT),
            "unknown_destination",
            vec!["is no cluster of this rule"],
        ),
        (
            site.token(CART, "shop", ("service/default/v2/80", "10.0.0.7:8080"), RECENT),
            "unknown_destination",
            vec![
                "cc8b0a35, service/default/v2/80, is no cluster of this rule",
                "(own); HTTPRoute default/shop, spec.rules[2]",
            ],
        ),
        (
            with_key(&good, 9),
            "unknown_key",
            vec!["key 9 is not in the keyring, which has 1, 2"],
        ),
        (with_key(&good, 2), "revoked_key", vec!["key 2 is revoked"]),
        (
            good[..50].to_owned(),
            "malformed",
            vec!["expected 60 or 76 characters of base64url, found 50"],
        ),
        (
            format!("{}{}", &good[..59], if good.ends_with('A') { 'B' } else { 'A' }),
            "bad_signature",
            vec!["it was changed, or made with another key", cart.as_str()],
        ),
    ] {
        let mut ran = site
            .explain(&["--token", &token])
            .code(2)
            .says(&format!("not honoured ({reason})"));
        for words in words {
            ran = ran.says(words);
        }
    }
    // The filter honours it, and Envoy has no such host.
    let gone = site.token(CART, "shop", ("service/default/v1/80", "10.0.0.99:8080"), RECENT);
    site.explain(&["--token", &gone])
        .code(1)
        .says("not honoured")
        .says("has the address 10.0.0.99:8080: the policy is strict, so requests fail");
    // A good token in a cookie that the filter does not read.
    site.explain(&["--cookie", &format!("wrong={good}")])
        .code(2)
        .says("not honoured (no_token)")
        .says(&format!("in the cookie {cart}"));
    let moved = site.explain(&["--rule", "own", "--token", &good]).code(2);
    moved.says("its scope is httproute/default/shop/cart: it belongs to HTTPRoute default/shop, spec.rules[0] (cart)");
}

#[test]
fn what_has_no_token_is_told() {
    let site = Site::new();
    let cookie = cookie_of(&site, "cart");
    site.explain(&["--cookie", "Cookie: a=1; b=2"])
        .code(1)
        .says("the line has no token: expected ")
        .says(&cookie);
    site.explain(&["--cookie", &format!("{cookie}=cut")])
        .code(2)
        .says("malformed");
    let ran = limpet(&[
        "explain",
        "httproute/shop",
        "-f",
        path(&site.objects),
        "--token",
        "EAEA",
    ])
    .run();
    ran.code(2).says("malformed");
    let token = site.token(CART, "shop", V1, RECENT);
    let ran = limpet(&[
        "explain",
        "httproute/shop",
        "-f",
        path(&site.objects),
        "--token",
        &token,
    ])
    .run();
    ran.code(1).says("not verified").says("--keys was not given");
}

#[test]
fn a_route_that_is_nowhere_says_why() {
    let site = Site::new();
    let objects = OBJECTS.replace("parentRefs: [{name: web}]", "parentRefs: [{name: gone}]");
    let elsewhere = file(".yaml", &objects);
    let ran = limpet(&["explain", "httproute/shop", "-f", path(&elsewhere)]).run();
    ran.code(2).says("HTTPRoute default/shop: ").says("gone");
    limpet(&["explain", "httproute/gone", "-f", path(&site.objects)])
        .run()
        .code(3)
        .complains("no HTTPRoute default/gone in the files; there are default/other, default/shop");
    limpet(&["explain", "service/shop", "-f", path(&site.objects)])
        .run()
        .code(3)
        .complains("expected httproute, grpcroute or ingressroute, and NAME");
}

#[test]
fn other_kinds_of_routes_are_explained() {
    let more = "---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: echo}
spec:
  parentRefs: [{name: web}]
  rules:
  - name: all
    sessionPersistence: {type: Header, sessionName: x-echo}
    backendRefs: [{name: v1, port: 80}]
---
apiVersion: contour.heptio.com/v1beta1
kind: IngressRoute
metadata: {name: blog}
spec:
  virtualhost: {fqdn: blog.example.com}
  routes: [{match: /, services: [{name: v1, port: 80, strategy: Cookie}]}]
";
    let site = Site::new();
    let objects = file(".yaml", &format!("{OBJECTS}{more}"));
    let contour = file(".yaml", "{contour: {gateway: limpet/contour}}");
    let explain = |route: &str, options: &[&str]| {
        let all = [&["explain", route, "-f", path(&objects), "--time", NOW], options].concat();
        limpet(&all).env("LIMPET_KEY", KEY).run()
    };
    explain("grpcroute/echo", &[])
        .code(0)
        .says("session: header x-echo")
        .says("    x-echo: <token>\n")
        .says("GRPCRoute default/echo: spec.rules[0].sessionPersistence.sessionName");
    let token = site.token(
        "contour/default/blog.example.com/v1:80",
        "X-Contour-Session-Affinity",
        V1,
        RECENT,
    );
    let options = ["--config", path(&contour), "--keys", path(&site.keys)];
    let judged = [&options[..], &["--token", &token]].concat();
    explain("ingressroute/blog", &judged)
        .code(0)
        .says("IngressRoute default/blog, spec.routes[0]")
        .says("counts    IngressRoute default/blog spec.routes[0].services[0].strategy")
        .says("default: the name of Contour's cookie")
        .says("token: honoured");
    let judged = [&options[..], &["--token", &token]].concat();
    explain("grpcroute/echo", &judged)
        .code(2)
        .says("its scope is contour/default/blog.example.com/v1:80");
    explain("ingressroute/blog", &[])
        .code(3)
        .complains("IngressRoute default/blog is not read: the configuration has no `contour` (--config)");
}

/// Answers one request with these headers, and returns its head.
fn answer(headers: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            asked.extend(byte);
        }
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{headers}\r\n");
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (address, asked)
}

#[test]
fn the_session_of_a_fetched_url_is_judged() {
    let site = Site::new();
    let cookie = cookie_of(&site, "cart");
    let token = site.token(CART, "shop", V1, RECENT);
    let (address, asked) = answer(format!(
        "set-cookie: lang=en\r\nset-cookie: {cookie}={token}; Path=/\r\n"
    ));
    let url = format!("http://{address}/cart?a=b");
    site.explain(&["--curl", &url, "--header", "Host: shop.example.com"])
        .code(0)
        .says(&format!("cookie {cookie}: honoured"));
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("GET /cart?a=b HTTP/1.1\r\n"), "{asked}");
    assert_eq!(asked.matches("host: ").count(), 1, "{asked}");
    assert!(asked.contains("host: shop.example.com\r\n"), "{asked}");

    let (address, asked) = answer(String::new());
    site.explain(&["--curl", &format!("http://{address}/")])
        .code(1)
        .says("the answer, with status 200, has no token");
    asked.join().unwrap();
    site.explain(&["--curl", "http://127.0.0.1:1/"])
        .code(3)
        .complains("--curl: http://127.0.0.1:1/: ");
}

/// As kubectl takes kinds and names.
#[test]
fn a_route_had_to_have_its_kind_behind_a_slash() {
    let site = Site::new();
    let of = |objects: &str, route: &[&str]| {
        let objects = file(".yaml", objects);
        let files = ["-f", path(&objects)];
        limpet(&[&["explain"], route, &files].concat()).run()
    };
    let expected = of(OBJECTS, &["httproute/shop"]).code(0).stdout;
    for route in [&["httproute", "shop"][..], &["httproutes", "shop"], &["shop"]] {
        assert_eq!(of(OBJECTS, route).code(0).stdout, expected, "{route:?}");
    }
    of(OBJECTS, &["shopp"])
        .code(3)
        .complains("no route default/shopp in the files");
    let grpc = "apiVersion: gateway.networking.k8s.io/v1\nkind: GRPCRoute\nmetadata: {name: shop}\n\
                spec: {parentRefs: [{name: web}], rules: []}\n";
    let two = of(&format!("{OBJECTS}\n---\n{grpc}"), &["shop"]).code(3);
    two.complains("several kinds of routes have this name: expected httproute/shop or grpcroute/shop");
    let wide = site.explain(&["-o", "wide"]).code(0);
    wide.says("      10.0.0.7:8080  ready, pod v1-a\n")
        .says("      10.0.0.8:8080  draining, pod v1-b\n");
}
