//! Requests.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::body::{self, Body, Upload};
use crate::{Answer, Connection, Exchange};

/// A request, which opens a connection unless sent on a [`Connection`].
#[derive(Debug)]
pub struct Request {
    address: SocketAddr,
    method: Method,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    http2: bool,
    body: Body,
    informational: Option<UnboundedSender<Informational>>,
    from: Option<IpAddr>,
}

/// An informational answer: status, such as 100 (Continue), and headers.
pub type Informational = (u16, HeaderMap);

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
            body: body::whole(Bytes::new()),
            informational: None,
            from: None,
        }
    }

    /// Sets the local address of the request's own connection.
    #[must_use]
    pub fn from(mut self, ip: impl Into<IpAddr>) -> Self {
        self.from = Some(ip.into());
        self
    }

    /// Uses HTTP/2 for the request's own connection.
    #[must_use]
    pub fn http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Sets the method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// Adds a header field, byte for byte. Over HTTP/2, `host` becomes the authority.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Adds a Cookie field.
    #[must_use]
    pub fn cookie(self, field: impl AsRef<[u8]>) -> Self {
        self.header("cookie", field)
    }

    /// Asks the backend to add a header field.
    #[must_use]
    pub fn answered_with(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.header("x-answer", [name.as_bytes(), b": ", value.as_ref()].concat())
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body::whole(body);
        self
    }

    /// Makes this a POST request with a body in pieces.
    #[must_use]
    pub fn upload(self) -> (Self, Upload) {
        let (upload, body) = body::piecewise();
        let request = Self {
            body,
            ..self.method(Method::POST)
        };
        (request, upload)
    }

    /// Also returns a receiver of informational answers.
    #[must_use]
    pub fn informational(mut self) -> (Self, UnboundedReceiver<Informational>) {
        let (sender, receiver) = unbounded_channel();
        self.informational = Some(sender);
        (self, receiver)
    }

    /// Sends the request and reads the answer.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn send(self) -> Result<Answer> {
        self.open().await?.rest().await
    }

    /// Sends the request and reads the answer's head.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn open(self) -> Result<Exchange> {
        let mut connection = Connection::open_from(self.from, self.address, self.http2).await?;
        Ok(connection.exchange(self).await?.with(connection))
    }

    pub(super) fn into_hyper(self, scheme: Option<&str>) -> Result<hyper::Request<Body>> {
        let (hosts, headers): (Vec<_>, Vec<_>) =
            (self.headers.into_iter()).partition(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = match hosts.first() {
            Some((_, host)) => String::from_utf8(host.clone())?,
            None => self.address.to_string(),
        };
        let uri = match scheme {
            Some(scheme) => format!("{scheme}://{authority}{}", self.path),
            None => self.path,
        };
        let mut request = hyper::Request::builder().method(self.method).uri(uri);
        if scheme.is_none() {
            request = request.header("host", &authority);
        }
        for (name, value) in &headers {
            request = request.header(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_bytes(value)?,
            );
        }
        let mut request = request.body(self.body)?;
        if let Some(sender) = self.informational {
            hyper::ext::on_informational(&mut request, move |response| {
                let _ = sender.send((response.status().as_u16(), response.headers().clone()));
            });
        }
        Ok(request)
    }
}
