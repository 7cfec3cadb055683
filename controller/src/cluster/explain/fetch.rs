//! The answer of a server to one request, for the sessions in it.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Request, Uri};
use kube::client::Body;
use kube::{Client, Config};

use crate::cluster::kube::words;
use crate::exit::CommandFailure;

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server answered.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    /// In their order. Values that are no text are left out.
    pub(super) headers: Vec<(String, String)>,
}

/// Gets a URL, with these headers (`name: value`). Redirects are not followed: the session of the first answer counts.
pub(super) async fn fetch(url: &str, headers: &[String], insecure: bool) -> Result<HttpAnswer, CommandFailure> {
    let wrong = |what: &dyn std::fmt::Display| CommandFailure(format!("--curl: {what}, found {url:?}"));
    let uri: Uri = url
        .parse()
        .map_err(|error| wrong(&format!("expected a URL ({error})")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(wrong(&"expected a URL that begins with http:// or https://"));
    }
    let failed = |error: &kube::Error| CommandFailure(format!("--curl: {url}: {}", words(error)));
    // The client of the API server sends requests to others as well. It adds no credentials: this configuration has
    // none.
    let mut base = Uri::builder();
    if let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) {
        base = base.scheme(scheme.clone()).authority(authority.clone());
    }
    let base = base.path_and_query("/").build().map_err(|error| wrong(&error))?;
    let mut config = Config::new(base);
    config.accept_invalid_certs = insecure;
    let client = Client::try_from(config).map_err(|error| failed(&error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::get(path).body(Body::empty()).map_err(|error| wrong(&error))?;
    for header in headers {
        let (name, value) = read_header(header)?;
        request.headers_mut().append(name, value);
    }
    let answer = tokio::time::timeout(PATIENCE, client.send(request)).await;
    let answer = answer.map_err(|_| CommandFailure(format!("--curl: {url}: no answer in time")))?;
    let answer = answer.map_err(|error| failed(&error))?;
    let headers = answer.headers().iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    Ok(HttpAnswer {
        status: answer.status().as_u16(),
        headers: headers.collect(),
    })
}

fn read_header(text: &str) -> Result<(HeaderName, HeaderValue), CommandFailure> {
    let read = || {
        let (name, value) = text.split_once(':')?;
        Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
    };
    read().ok_or_else(|| CommandFailure(format!("--header: expected name: value, found {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_with_its_value() {
        let (name, value) = read_header("Host: shop.example:8080").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("host", "shop.example:8080"));
        for text in ["", "host", ": a", "a b: c"] {
            assert!(read_header(text).is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_url_is_refused() {
        for url in ["shop.example", "/cart", "ftp://shop.example/", "http://"] {
            let failure = fetch(url, &[], false).await.unwrap_err();
            assert!(failure.0.starts_with("--curl: expected a URL"), "{url}: {failure}");
        }
    }
}
