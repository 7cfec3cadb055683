//! Applications with sessions in memory: a session works only at its first backend.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use limpet_e2e::{Body, Protocol, Reply, Tasks};

use super::COOKIE;

/// A servlet container. `/shop/login` always begins a session with a new id; `/shop/add` adds an item to its basket and
/// answers with the number of items; `/shop/logout` ends it; other paths need no session.
#[derive(Debug, Default)]
pub(super) struct ServletApplication {
    baskets: Sessions<usize>,
}

/// A Model Context Protocol server: a POST without a session begins one, DELETE ends it, all else needs one.
#[derive(Debug, Default)]
pub(super) struct McpServer {
    sessions: Sessions<()>,
}

pub(super) const MCP_SESSION: &str = "mcp-session-id";

#[derive(Debug)]
struct Sessions<T> {
    known: Mutex<BTreeMap<(String, String), T>>,
    begun: Mutex<usize>,
}

impl<T> Default for Sessions<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            begun: Mutex::default(),
        }
    }
}

impl<T> Sessions<T> {
    /// Its id looks like those of real applications.
    fn begin(&self, backend: &str, content: T) -> String {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun += 1;
        let id = format!("0B3F~{:028X}.{backend}=~", *begun);
        self.with(|known| known.insert((backend.to_owned(), id.clone()), content));
        id
    }

    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<(String, String), T>) -> R) -> R {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&self, backend: &str, id: &str) -> Option<T> {
        self.with(|known| known.remove(&(backend.to_owned(), id.to_owned())))
    }
}

impl ServletApplication {
    pub(super) fn shared() -> Arc<dyn Protocol> {
        Arc::<Self>::default()
    }
}

impl McpServer {
    pub(super) fn shared() -> Arc<dyn Protocol> {
        Arc::<Self>::default()
    }
}

impl Protocol for ServletApplication {
    fn speaks(&self, request: &Request<Incoming>) -> bool {
        request.uri().path().starts_with("/shop")
    }

    fn answer(&self, backend: &str, request: Request<Incoming>, _: &Tasks) -> Reply {
        let id = own_cookie(request.headers()).unwrap_or_default();
        let (status, set_cookie, said) = match request.uri().path() {
            "/shop/login" => {
                self.baskets.end(backend, &id);
                let id = self.baskets.begin(backend, 0);
                let cookie = format!("{COOKIE}={id}; Path=/shop; HttpOnly; SameSite=Lax");
                (StatusCode::OK, Some(cookie), id)
            }
            "/shop/add" => {
                let key = (backend.to_owned(), id);
                let count = self.baskets.with(|known| {
                    let count = known.get_mut(&key)?;
                    *count += 1;
                    Some(*count)
                });
                match count {
                    Some(count) => (StatusCode::OK, None, count.to_string()),
                    None => (StatusCode::UNAUTHORIZED, None, "log in first".to_owned()),
                }
            }
            "/shop/logout" => {
                let ended = self.baskets.end(backend, &id).is_some();
                let cookie =
                    format!("{COOKIE}=; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:10 GMT; Path=/shop; HttpOnly");
                (StatusCode::OK, Some(cookie), ended.to_string())
            }
            _ => (StatusCode::OK, None, "welcome".to_owned()),
        };
        let mut response = Response::builder().status(status);
        if let Some(cookie) = set_cookie {
            response = response.header("set-cookie", "theme=dark").header("set-cookie", cookie);
        }
        Box::pin(async move { Ok(response.body(text(said))?) })
    }
}

impl Protocol for McpServer {
    fn speaks(&self, request: &Request<Incoming>) -> bool {
        request.uri().path() == "/mcp"
    }

    fn answer(&self, backend: &str, request: Request<Incoming>, _: &Tasks) -> Reply {
        let ids: Vec<String> = request.headers().get_all(MCP_SESSION).iter().map(latin1).collect();
        let mut response = Response::builder();
        response = match (request.method(), ids.as_slice()) {
            (&Method::POST, []) => response.header(MCP_SESSION, self.sessions.begin(backend, ())),
            (_, []) => response.status(StatusCode::BAD_REQUEST),
            (&Method::DELETE, [id]) if self.sessions.end(backend, id).is_some() => {
                response.status(StatusCode::NO_CONTENT)
            }
            (_, [id])
                if self
                    .sessions
                    .with(|known| known.contains_key(&(backend.to_owned(), id.clone()))) =>
            {
                response
            }
            _ => response.status(StatusCode::NOT_FOUND),
        };
        Box::pin(async move { Ok(response.body(text(ids.join(",")))?) })
    }
}

/// The first of several counts, as in servlet containers.
fn own_cookie(headers: &HeaderMap) -> Option<String> {
    let fields: Vec<String> = headers.get_all("cookie").iter().map(latin1).collect();
    let fields = fields.join("; ");
    let mut pairs = fields.split("; ").filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value.to_owned())
}

fn latin1(value: &hyper::header::HeaderValue) -> String {
    value.as_bytes().iter().copied().map(char::from).collect()
}

fn text(said: String) -> Body {
    Full::new(said.into()).map_err(|never| match never {}).boxed_unsync()
}
