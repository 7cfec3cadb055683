//! Bodies of requests and answers, whole or piece by piece.

use std::error::Error;

use anyhow::{Context, Result};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};

/// Any body.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Why a body ends early.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A body that is there already.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is sent piece by piece, and where the pieces go. It ends when the [`Upload`] is dropped.
#[must_use]
pub(crate) fn piecewise() -> (Upload, Body) {
    let (sender, body) = Channel::new(1);
    (Upload(sender), body.boxed_unsync())
}

/// What is sent piece by piece.
pub struct Upload(Sender<Bytes, BoxError>);

impl Upload {
    /// The next piece.
    ///
    /// # Errors
    /// When nobody takes it any more.
    pub async fn send(&mut self, piece: impl Into<Bytes>) -> Result<()> {
        let sent = self.0.send_data(piece.into()).await;
        sent.context("nobody takes the rest of this body")
    }

    /// Trailers, which end it.
    ///
    /// # Errors
    /// When nobody takes them, or they are none.
    pub async fn trailers(mut self, fields: &[(&str, &str)]) -> Result<()> {
        let mut trailers = HeaderMap::new();
        for (name, value) in fields {
            trailers.append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
        }
        let sent = self.0.send_trailers(trailers).await;
        sent.context("nobody takes the trailers of this body")
    }

    /// Ends it early: HTTP/2 resets the stream, HTTP/1.1 closes the connection.
    pub fn abort(self) {
        self.0.abort("cut off".into());
    }
}
