//! A session from its client's side.

use crate::{Answer, Carrier, Connection, Exchange, Request};
use anyhow::{Context, Result, ensure};
use hyper::HeaderMap;

/// A client's session: after the first answer, all come from the same backend, without a token.
#[derive(Debug)]
pub struct Session {
    carrier: Carrier,
    held: Option<Held>,
    /// The number of requests with the token.
    pub continued: u64,
}

#[derive(Debug)]
struct Held {
    token: String,
    backend: String,
}

impl Session {
    /// A session before its first request.
    #[must_use]
    pub fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            held: None,
            continued: 0,
        }
    }

    /// How the token travels.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// The name and value of the field for the next request.
    #[must_use]
    pub fn field(&self) -> Option<(&'static str, String)> {
        self.held.as_ref().map(|held| self.carrier.field(&held.token))
    }

    /// The session's backend.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.held.as_ref().map_or("none yet", |held| &held.backend)
    }

    /// The client's token.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.held.as_ref().map(|held| held.token.as_str())
    }

    /// Checks an answer's headers.
    ///
    /// # Errors
    /// If they are wrong.
    pub fn answered(&mut self, headers: &HeaderMap) -> Result<()> {
        let (backend, token) = self.read(headers)?;
        match &self.held {
            None => {
                let token = token.context("the first answer has no token")?;
                self.held = Some(Held { token, backend });
            }
            Some(held) => {
                ensure!(
                    backend == held.backend,
                    "{backend} answered a session of {}",
                    held.backend
                );
                ensure!(token.is_none(), "a token was issued again");
                self.continued += 1;
            }
        }
        Ok(())
    }

    /// Checks an answer's headers after the backend has gone.
    ///
    /// # Errors
    /// If the session has not moved, or has no token for that.
    pub fn moved(&mut self, headers: &HeaderMap) -> Result<()> {
        let (backend, token) = self.read(headers)?;
        ensure!(backend != self.backend(), "{backend} should have been gone");
        let token = token.context("the session has no token for its new backend")?;
        self.held = Some(Held { token, backend });
        Ok(())
    }

    /// The answer's backend and token. Checks that there is at most one, and no internal header.
    fn read(&self, headers: &HeaderMap) -> Result<(String, Option<String>)> {
        let backend = headers.get("x-backend").context("no backend answered")?;
        let tokens = match self.carrier {
            Carrier::Cookie => headers.get_all("set-cookie").iter().count(),
            Carrier::Header => headers.get_all("x-session").iter().count(),
        };
        ensure!(tokens <= 1, "the answer has {tokens} tokens");
        let internal = headers.keys().find(|name| name.as_str().starts_with("x-limpet"));
        ensure!(internal.is_none(), "the client sees {internal:?}");
        Ok((backend.to_str()?.to_owned(), self.carrier.token_in(headers)))
    }

    /// Adds the session's token to a request.
    #[must_use]
    pub fn bring(&self, request: Request) -> Request {
        match self.field() {
            Some((name, value)) => request.header(name, value),
            None => request,
        }
    }

    /// A gRPC call with the session's token.
    ///
    /// # Errors
    /// If the token cannot be metadata.
    pub fn call<T>(&self, message: T) -> Result<tonic::Request<T>> {
        let mut call = tonic::Request::new(message);
        if let Some((name, value)) = self.field() {
            call.metadata_mut().insert(name, value.parse()?);
        }
        Ok(call)
    }

    /// Checks a gRPC answer's metadata, and returns its message or stream.
    ///
    /// # Errors
    /// As [`Session::answered`].
    pub fn taken<T>(&mut self, answer: tonic::Response<T>) -> Result<T> {
        self.answered(answer.metadata().as_ref())?;
        Ok(answer.into_inner())
    }

    /// Sends a request over a new connection.
    ///
    /// # Errors
    /// If there is no answer, or a wrong one.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        self.open(request).await?.rest().await
    }

    /// As [`Session::send`], without reading the body.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn open(&mut self, request: Request) -> Result<Exchange> {
        let exchange = self.bring(request).open().await?;
        self.answered(&exchange.head().headers)?;
        Ok(exchange)
    }

    /// As [`Session::open`], over this connection.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn open_over(&mut self, connection: &mut Connection, request: Request) -> Result<Exchange> {
        let exchange = connection.exchange(self.bring(request)).await?;
        self.answered(&exchange.head().headers)?;
        Ok(exchange)
    }
}
