//! Matches, redirects and rewrites.

use anyhow::{Context, Result};
use limpet_e2e::Answer;
use limpet_model::graph::{
    Action, HeaderChanges, Hostname, Listener, PathChange, PathMatch, Redirect, Rewrite, Route, ValueMatch, VirtualHost,
};

use super::GraphSite;
use super::graphs::{forward, graph, listener, listening, route, to};

fn rewriting(prefix: &str, change: PathChange) -> Route {
    let mut action = forward(vec![to("v1", 1)]);
    action.rewrite = Rewrite {
        hostname: None,
        path: Some(change),
    };
    route(prefix, Action::Forward(action))
}

/// The table in the documentation of `HTTPPathModifier.replacePrefixMatch`, and a few more lines.
#[tokio::test]
async fn prefixes_are_replaced_as_the_gateway_api_says() -> Result<()> {
    let change = |prefix: &str, becomes: &str| rewriting(prefix, PathChange::Prefix(becomes.to_owned()));
    let routes = vec![
        change("/to", "/xyz"),
        change("/to-slash", "/xyz/"),
        change("/to-none", ""),
        change("/to-root", "/"),
        rewriting("/full", PathChange::Full(r"/all\1".to_owned())),
        change("", "/root"),
    ];
    let site = GraphSite::start(&graph(routes)).await?;
    for (path, becomes) in [
        ("/to/bar", "/xyz/bar"),
        ("/to", "/xyz"),
        ("/to/", "/xyz/"),
        ("/to?a=/to", "/xyz"),
        ("/to-slash/bar", "/xyz/bar"),
        ("/to-slash", "/xyz"),
        ("/to-none/bar", "/bar"),
        ("/to-none/", "/"),
        ("/to-none", "/"),
        ("/to-none?a=b", "/"),
        ("/to-root/bar", "/bar"),
        ("/to-root/", "/"),
        ("/to-root", "/"),
        ("/full/bar?a=b", r"/all\1"),
        ("/full", r"/all\1"),
        ("/", "/root/"),
        ("/bar", "/root/bar"),
    ] {
        let answer = site.get("http-80", path)?.send().await?;
        assert_eq!(answer.seen()?.path, becomes, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn the_host_is_rewritten() -> Result<()> {
    let mut action = forward(vec![to("v1", 1)]);
    action.rewrite.hostname = Some("other.example.com".to_owned());
    let site = GraphSite::start(&graph(vec![route("", Action::Forward(action))])).await?;
    let answer = site
        .get("http-80", "/")?
        .header("host", "shop.example.com")
        .send()
        .await?;
    let seen = answer.seen()?;
    assert_eq!(seen.all("host"), ["other.example.com"]);
    assert_eq!(seen.all("x-forwarded-host"), ["shop.example.com"]);
    assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
    // For a client on loopback, Envoy writes its own address.
    assert_eq!(seen.all("x-forwarded-for").len(), 1);
    Ok(())
}

fn redirects() -> Vec<Route> {
    let to = |prefix: &str, redirect: Redirect| route(prefix, Action::Redirect(redirect));
    let base = || Redirect {
        status: 302,
        ..Redirect::default()
    };
    let https = || Some("https".to_owned());
    let host = || Some("example.com".to_owned());
    vec![
        to(
            "/host",
            Redirect {
                hostname: host(),
                ..base()
            },
        ),
        to(
            "/https",
            Redirect {
                scheme: https(),
                status: 301,
                ..base()
            },
        ),
        to(
            "/both",
            Redirect {
                scheme: https(),
                hostname: host(),
                status: 308,
                ..base()
            },
        ),
        to(
            "/port",
            Redirect {
                port: Some(8443),
                status: 307,
                ..base()
            },
        ),
        to(
            "/prefix",
            Redirect {
                path: Some(PathChange::Prefix("/new".to_owned())),
                status: 303,
                ..base()
            },
        ),
        to(
            "/none",
            Redirect {
                path: Some(PathChange::Prefix("/".to_owned())),
                ..base()
            },
        ),
        to(
            "/full",
            Redirect {
                path: Some(PathChange::Full("/new".to_owned())),
                ..base()
            },
        ),
    ]
}

#[tokio::test]
async fn redirects_lead_where_the_gateway_api_says() -> Result<()> {
    let ports = [
        (80, vec![listener("http", "", redirects())]),
        (8080, vec![listener("other", "", redirects())]),
    ];
    let site = GraphSite::start(&listening(ports.into())).await?;
    let ask = async |port: u16, path: &str| -> Result<(u16, String)> {
        let authority = if port == 80 {
            "a.com".to_owned()
        } else {
            format!("a.com:{port}")
        };
        let request = site.get(&format!("http-{port}"), path)?.header("host", authority);
        let answer: Answer = request.send().await?;
        Ok((
            answer.status,
            answer.header("location").context("no Location")?.to_owned(),
        ))
    };
    for (port, path, status, location) in [
        (80, "/host/x?y", 302, "http://example.com/host/x?y"),
        (80, "/https/x", 301, "https://a.com/https/x"),
        (80, "/both", 308, "https://example.com/both"),
        (80, "/port", 307, "http://a.com:8443/port"),
        (80, "/prefix/x?y", 303, "http://a.com/new/x?y"),
        (80, "/none/x", 302, "http://a.com/x"),
        (80, "/none", 302, "http://a.com/"),
        (80, "/full/x?y", 302, "http://a.com/new?y"),
        (8080, "/host", 302, "http://example.com:8080/host"),
        (8080, "/https", 301, "https://a.com:443/https"),
        (8080, "/both", 308, "https://example.com/both"),
        (8080, "/port", 307, "http://a.com:8443/port"),
        (8080, "/prefix", 303, "http://a.com:8080/new"),
    ] {
        assert_eq!(ask(port, path).await?, (status, location.to_owned()), "{port} {path}");
    }
    Ok(())
}

#[tokio::test]
async fn requests_are_matched_by_host_path_method_headers_and_query() -> Result<()> {
    // A header names the route that matched.
    let named = |name: &str, change: &dyn Fn(&mut Route)| {
        let mut route = route("", Action::Forward(forward(vec![to("v1", 1)])));
        route.request_headers = HeaderChanges {
            set: vec![("x-route".to_owned(), name.to_owned())],
            ..HeaderChanges::default()
        };
        change(&mut route);
        route
    };
    let exact = |value: &str| ValueMatch::Exact(value.to_owned());
    let routes = vec![
        named("exact", &|route| {
            route.matches.path = PathMatch::Exact("/exact".to_owned());
        }),
        named("regex", &|route| {
            route.matches.path = PathMatch::Regex("/r[0-9]+".to_owned());
        }),
        named("method", &|route| route.matches.method = Some("DELETE".to_owned())),
        named("header", &|route| {
            route.matches.headers.insert("x-a".to_owned(), exact("1"));
        }),
        named("query", &|route| {
            let value = ValueMatch::Regex("[a-c]+".to_owned());
            route.matches.query.insert("q".to_owned(), value);
        }),
        named("100% rest", &|_| {}),
    ];
    let mut http = listener("http", "", routes);
    for (hostname, name) in [("a.example.com", "host"), ("*.example.com", "suffix")] {
        http.virtual_hosts.extend(Listener::hosts([VirtualHost {
            hostname: Hostname::parse(Some(hostname)),
            routes: vec![named(name, &|_| {})],
        }]));
    }
    let site = GraphSite::start(&listening([(80, vec![http])].into())).await?;
    let get = |path: &str| site.get("http-80", path);
    let delete = hyper::Method::DELETE;
    for (request, expected) in [
        (get("/exact")?, "exact"),
        (get("/exact/")?, "100% rest"),
        (get("/r42")?, "regex"),
        (get("/r42/")?, "100% rest"),
        (get("/a")?.method(delete), "method"),
        (get("/a")?.header("x-a", "1"), "header"),
        (get("/a")?.header("x-a", "12"), "100% rest"),
        (get("/a?q=abc")?, "query"),
        (get("/a?q=abcd")?, "100% rest"),
        (get("/")?.header("host", "a.example.com"), "host"),
        (get("/")?.header("host", "a.example.com:8080"), "host"),
        (get("/")?.header("host", "b.c.example.com"), "suffix"),
        (get("/")?.header("host", "example.com"), "100% rest"),
        // Paths are normalised before matching.
        (get("/x/../exact")?, "exact"),
        (get("//exact")?, "exact"),
    ] {
        let words = format!("{request:?}");
        let seen = request.send().await?.seen()?;
        assert_eq!(seen.all("x-route"), [expected], "{words}");
    }
    Ok(())
}
