//! A session from its client's side, for all protocols.

use crate::{Answer, Carrier, Connection, Exchange, Request};
use anyhow::{Context, Result, ensure};
use hyper::HeaderMap;

/// A client's session. It begins with the first answer. All later answers must come from the same backend, without a
/// token.
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
    /// The session of a client that has not sent a request yet.
    #[must_use]
    pub fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            held: None,
            continued: 0,
        }
    }

    /// How it travels.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// The field that the next request must have: its name and value.
    #[must_use]
    pub fn field(&self) -> Option<(&'static str, String)> {
        self.held.as_ref().map(|held| self.carrier.field(&held.token))
    }

    /// The backend that the session is on.
    #[must_use]
    pub fn backend(&self) -> &str {
        self.held.as_ref().map_or("none yet", |held| &held.backend)
    }

    /// What the client holds.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.held.as_ref().map(|held| held.token.as_str())
    }

    /// Checks the headers of an answer.
    ///
    /// # Errors
    /// If it is not as it should be.
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

    /// Checks the headers of an answer after the session's backend has gone.
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

    /// The backend that answered, and the token in the answer. Checks that there is at most one token, and no internal
    /// header.
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

    /// A gRPC call of this session.
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

    /// Checks the metadata of a gRPC answer. Returns its message or stream.
    ///
    /// # Errors
    /// As [`Session::answered`].
    pub fn taken<T>(&mut self, answer: tonic::Response<T>) -> Result<T> {
        self.answered(answer.metadata().as_ref())?;
        Ok(answer.into_inner())
    }

    /// Sends a request of this session over a new connection.
    ///
    /// # Errors
    /// If there is no answer, or it is not as it should be.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        self.open(request).await?.rest().await
    }

    /// As [`Session::send`], but does not read the body of the answer.
    ///
    /// # Errors
    /// If there is no answer, or it is not as it should be.
    pub async fn open(&mut self, request: Request) -> Result<Exchange> {
        let exchange = self.bring(request).open().await?;
        self.answered(&exchange.head().headers)?;
        Ok(exchange)
    }

    /// As [`Session::open`], over this connection.
    ///
    /// # Errors
    /// If there is no answer, or it is not as it should be.
    pub async fn open_over(&mut self, connection: &mut Connection, request: Request) -> Result<Exchange> {
        let exchange = connection.exchange(self.bring(request)).await?;
        self.answered(&exchange.head().headers)?;
        Ok(exchange)
    }
}
