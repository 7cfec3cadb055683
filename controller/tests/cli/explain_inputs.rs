//! `limpet explain` on copied lines, kubectl's output, and incomplete files.

use serde_json::Value;

use crate::explain::{CART, NOW, OBJECTS, RECENT, Site, V1, cookie_of};
use crate::{KEY, file, limpet, path};

#[test]
fn a_line_is_read_as_it_was_copied() {
    let site = Site::new();
    let cookie = cookie_of(&site, "cart");
    let token = site.token(CART, "shop", V1, RECENT);
    for line in [
        format!("< set-cookie: {cookie}={token}; Path=/; HttpOnly"),
        format!("> Cookie: a=1; {cookie}={token}"),
        format!("\"Cookie: {cookie}={token}\""),
        format!("'{cookie}={token}; a=1'"),
        format!("{cookie}=\"{token}\""),
        format!("{cookie}='{token}'"),
        format!("#HttpOnly_shop.example.com\tFALSE\t/\tTRUE\t0\t{cookie}\t{token}"),
        format!("shop.example.com  TRUE  /cart  FALSE  1795435200  {cookie}  {token}"),
    ] {
        for option in ["--cookie", "--token"] {
            let ran = site.explain(&[option, &line]).code(0);
            ran.says(&format!("cookie {cookie}: honoured"));
        }
    }
    let row = format!("shop.example.com\tFALSE\t/\tTRUE\t0\t{cookie}\tcut");
    let ran = site.explain(&["--cookie", &row]).code(2);
    ran.says("not honoured (malformed)");
}

#[test]
fn an_object_in_place_of_its_content_is_named() {
    let site = Site::new();
    let token = site.token(CART, "shop", V1, RECENT);
    let map = file(
        ".yaml",
        "\
apiVersion: v1
kind: ConfigMap
metadata: {namespace: limpet-system, name: limpet-controller}
data: {controller.yaml: '{maxIdle: 3h}'}
",
    );
    site.explain(&["--config", path(&map)]).code(3).complains(
        "expected what is in the ConfigMap, found the ConfigMap itself: take it out with `kubectl get configmap \
         --namespace limpet-system limpet-controller --output 'jsonpath={.data.controller\\.yaml}' > controller.yaml`",
    );
    let secret = file(
        ".yaml",
        "\
apiVersion: v1
kind: Secret
metadata: {namespace: limpet-system, name: limpet-keyring}
data: {keyring.json: e30=}
",
    );
    let command = "(umask 077 && kubectl get secret --namespace limpet-system limpet-keyring \
                   --output 'jsonpath={.data.keyring\\.json}' | base64 -d > keyring.json)";
    let objects = path(&site.objects);
    let explain = ["explain", "httproute/shop", "-f", objects, "--token", &token];
    let explain = [&explain[..], &["--keys", path(&secret)]].concat();
    for arguments in [&explain[..], &["keys", "rotate", path(&secret)]] {
        let ran = limpet(arguments).run().code(3);
        let ran = ran.complains(command);
        assert!(!ran.stderr.contains("e30="), "{ran:?}");
    }
}

#[test]
fn a_route_of_another_namespace_is_named() {
    let site = Site::new();
    site.explain(&["-n", "shop"])
        .code(3)
        .complains("no HTTPRoute shop/shop in the files; there is default/shop");
    limpet(&["explain", "grpcroute/shop", "-f", path(&site.objects)])
        .run()
        .code(3)
        .complains("no GRPCRoute default/shop in the files; there is no GRPCRoute at all");
    let contour = file(".yaml", "{contour: {gateway: limpet/contour}}");
    let arguments = ["explain", "ingressroute/shop", "-f", path(&site.objects)];
    let with = [&arguments[..], &["--config", path(&contour)]].concat();
    limpet(&arguments).run().code(3).complains("is not read: ");
    limpet(&with)
        .run()
        .code(3)
        .complains("no IngressRoute default/shop in the files");
}

/// The verdict would be a forged token's.
#[test]
fn without_the_class_there_is_no_verdict() {
    let site = Site::new();
    let token = site.token(CART, "shop", V1, RECENT);
    let (_, others) = OBJECTS.split_once("---\n").unwrap();
    let objects = file(".yaml", others);
    let explain = |arguments: &[&str], code| {
        let all = ["explain", "httproute/shop", "-f", path(&objects), "--time", NOW];
        let all = [&all[..], &["--keys", path(&site.keys)], arguments].concat();
        limpet(&all).env("LIMPET_KEY", KEY).run().code(code)
    };
    let class = "Gateway default/web has the GatewayClass limpet, which is not in the files";
    explain(&["--token", &token], 1)
        .says(class)
        .says("token: not verified")
        .says("nothing serves the route, so what its rules accept is not known: no verdict is possible");
    explain(&["--rule", "cart"], 2).says(class);
    let json = explain(&["--token", &token, "-o", "json"], 1);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["tokens"][0]["verdict"], "notVerified");
    assert!(json["tokens"][0].get("reason").is_none(), "{json}");
    // What needs no rule is said all the same.
    explain(&["--token", &token[..50]], 2).says("not honoured (malformed)");
}
