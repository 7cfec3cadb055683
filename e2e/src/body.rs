//! Bodies of requests and answers, whole or piece by piece.

use std::error::Error;

use anyhow::{Context, Result};
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};

/// A body of any kind.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The reason that a body ends early.
pub type BoxError = Box<dyn Error + Send + Sync>;

pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body in pieces and their sender; dropping the [`Upload`] ends it.
#[must_use]
pub(crate) fn piecewise() -> (Upload, Body) {
    let (sender, body) = Channel::new(1);
    (Upload(sender), body.boxed_unsync())
}

/// The sender of a body's pieces.
pub struct Upload(Sender<Bytes, BoxError>);

impl Upload {
    /// Sends the next piece.
    ///
    /// # Errors
    /// If the receiver is gone.
    pub async fn send(&mut self, piece: impl Into<Bytes>) -> Result<()> {
        let sent = self.0.send_data(piece.into()).await;
        sent.context("the receiver of this body is gone")
    }

    /// Sends trailers, which end the body.
    ///
    /// # Errors
    /// If the receiver is gone, or a field is not valid.
    pub async fn trailers(mut self, fields: &[(&str, &str)]) -> Result<()> {
        let mut trailers = HeaderMap::new();
        for (name, value) in fields {
            trailers.append(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
        }
        let sent = self.0.send_trailers(trailers).await;
        sent.context("the receiver of this body is gone")
    }

    /// Ends the body early: HTTP/2 resets the stream, HTTP/1.1 closes the connection.
    pub fn abort(self) {
        self.0.abort("cut off".into());
    }
}
