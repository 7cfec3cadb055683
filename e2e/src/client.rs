//! Clients: single requests with full control over their headers, and visitors who keep their cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::{Envoy, Seen, SetCookie};

/// A request to be sent, over a connection of its own.
#[derive(Debug, Clone)]
pub struct Request {
    address: SocketAddr,
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    http2: bool,
}

impl Request {
    /// A GET request over HTTP/1.1.
    #[must_use]
    pub fn get(address: SocketAddr, path: &str) -> Self {
        Self {
            address,
            method: Method::GET,
            path: path.to_owned(),
            headers: Vec::new(),
            http2: false,
        }
    }

    /// Over HTTP/2.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// With one field more, its value byte for byte.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// With one more Cookie field.
    #[must_use]
    pub fn cookie(self, field: impl AsRef<[u8]>) -> Self {
        self.header("cookie", field)
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn send(self) -> Result<Answer> {
        Connection::open(self.address, self.http2).await?.send(self).await
    }

    fn into_hyper(self) -> Result<hyper::Request<Empty<Bytes>>> {
        let authority = self.address.to_string();
        let uri = if self.http2 {
            format!("http://{authority}{}", self.path)
        } else {
            self.path
        };
        let mut request = hyper::Request::builder().method(self.method).uri(uri);
        if !self.http2 && !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request = request.header("host", &authority);
        }
        for (name, value) in &self.headers {
            request = request.header(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_bytes(value)?,
            );
        }
        Ok(request.body(Empty::new())?)
    }
}

/// A connection, for requests one after the other.
#[derive(Debug)]
pub struct Connection(Sender);

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Connection {
    /// Connects, for requests over HTTP/1.1 or over HTTP/2.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn open(address: SocketAddr, http2: bool) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("no connection to {address}"))?;
        let io = TokioIo::new(stream);
        Ok(Self(if http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::Builder::new().title_case_headers(true).handshake(io).await?;
            tokio::spawn(connection);
            Sender::Http1(sender)
        }))
    }

    /// Whether it takes one more request. The server may have closed it.
    pub async fn is_open(&mut self) -> bool {
        match &mut self.0 {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        let request = request.into_hyper()?;
        let response = match &mut self.0 {
            Sender::Http1(sender) => sender.send_request(request).await?,
            Sender::Http2(sender) => sender.send_request(request).await?,
        };
        let (head, body) = response.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The name of the backend that answered; none for an answer of Envoy's own.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.header("x-backend")
    }

    /// The request as the backend saw it.
    ///
    /// # Errors
    /// When no backend answered.
    pub fn seen(&self) -> Result<Seen> {
        Seen::from_json(&self.body)
    }

    /// The first field of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All cookies that the answer sets.
    #[must_use]
    pub fn set_cookies(&self) -> Vec<SetCookie> {
        let fields = self.headers.get_all("set-cookie").into_iter();
        fields
            .filter_map(|value| value.to_str().ok())
            .map(SetCookie::parse)
            .collect()
    }

    /// The cookie of this name that the answer sets.
    #[must_use]
    pub fn set_cookie(&self, name: &str) -> Option<SetCookie> {
        self.set_cookies().into_iter().find(|cookie| cookie.name == name)
    }
}

/// A client that keeps its cookies, as a browser does. (Path, Domain and Expires are left to the tests.)
#[derive(Debug, Clone)]
pub struct Visitor {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// A visitor without cookies.
    #[must_use]
    pub fn new(envoy: &Envoy) -> Self {
        Self {
            address: envoy.address(),
            cookies: BTreeMap::new(),
        }
    }

    /// A GET request with the visitor's cookies.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(Request::get(self.address, path)).await
    }

    /// This request, with the visitor's cookies.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn send(&mut self, mut request: Request) -> Result<Answer> {
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            request = request.cookie(pairs.join("; "));
        }
        let answer = request.send().await?;
        for cookie in answer.set_cookies() {
            self.cookies.insert(cookie.name, cookie.value);
        }
        Ok(answer)
    }

    /// The value of a cookie that the visitor holds.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Gives the visitor a cookie.
    pub fn keep(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }
}
