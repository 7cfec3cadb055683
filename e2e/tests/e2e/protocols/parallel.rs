//! 200 clients of all kinds at once, each with its own connection and session. Nothing leaks, hangs or is mixed up.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use limpet_e2e::protocols::{EchoClient, Note, Socket};
use limpet_e2e::{Build, Carrier, Connection, Envoy, Request, poll};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::events::EventSource;
use super::grpc;
use super::resets::{assert_cut_off, echo};
use super::{Session, address, bodies, config, start, until_idle};

const CLIENTS: usize = 200;

#[tokio::test]
async fn two_hundred_clients_of_all_kinds_do_not_mix() -> Result<()> {
    // Unused connections to backends must end, too.
    let idle = json!({"typed_extension_protocol_options": {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "common_http_protocol_options": {"idle_timeout": "0.2s"},
        },
    }});
    let site = start(config()?.cluster(&idle)).await?;
    assert_eq!(under_way(&site.envoy).await?, BTreeMap::new());

    let everybody = Arc::new(Barrier::new(CLIENTS + 1));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let carrier = Carrier::ALL[number / KINDS % 2];
        let client = Client {
            number,
            at: address(&site, carrier)?,
            session: Session::new(carrier),
            everybody: Arc::clone(&everybody),
        };
        clients.spawn(client.live());
    }
    // If a client fails, the test does not wait for it.
    let waiting = poll::patiently("every client to have a stream", async { Ok(everybody.wait().await) });
    tokio::select! {
        waited = waiting => { waited?; }
        Some(ended) = clients.join_next() => { ended??; }
    }
    let busy = under_way(&site.envoy).await?;
    assert_eq!(busy.get("http.web.downstream_cx_active"), Some(&(CLIENTS as u64)));
    assert!(busy.contains_key("http.web.downstream_rq_active"), "{busy:?}");
    everybody.wait().await;
    let mut sessions = Vec::new();
    while let Some(ended) = clients.join_next().await {
        sessions.push(ended??);
    }

    let tokens: BTreeSet<_> = sessions.iter().filter_map(Session::token).collect();
    assert_eq!(tokens.len(), CLIENTS, "clients share tokens");
    let continued: u64 = sessions.iter().map(|session| session.continued).sum();
    let build = Build::tested()?;
    let mut counted = site.envoy.stats(&build.counter("")).await?;
    counted.retain(|_, count| *count > 0);
    let expected = [
        (build.counter("keys.1.given"), CLIENTS as u64),
        (build.counter("web.issued"), CLIENTS as u64),
        (build.counter("web.no_token"), CLIENTS as u64),
        (build.counter("web.steered"), continued),
    ];
    assert_eq!(counted, expected.into());

    until_idle(&site).await?;
    let mut left = BTreeMap::new();
    let nothing_left = poll::until("Envoy to have nothing open", async || {
        left = under_way(&site.envoy).await.ok()?;
        left.is_empty().then_some(())
    });
    nothing_left.await.with_context(|| format!("{left:?} is still open"))
}

/// Open connections and streams, and bytes, without those that are 0.
async fn under_way(envoy: &Envoy) -> Result<BTreeMap<String, u64>> {
    let gauges = "^(http.web|cluster.backends|listener.127).*_(active|buffered)$";
    let mut under_way = envoy.stats(gauges).await?;
    under_way.retain(|_, value| *value > 0);
    Ok(under_way)
}

struct Client {
    number: usize,
    at: SocketAddr,
    session: Session,
    everybody: Arc<Barrier>,
}

const KINDS: usize = 8;

impl Client {
    async fn live(mut self) -> Result<Session> {
        let lived = match self.number % KINDS {
            0 => self.asks(false).await,
            1 => self.asks(true).await,
            2 => self.calls().await,
            3 => self.chats().await,
            4 => self.uploads().await,
            5 => self.gives_up().await,
            6 => self.is_cut_off().await,
            _ => self.follows_events().await,
        };
        lived.with_context(|| format!("client {}, kind {}", self.number, self.number % KINDS))?;
        self.asks_once(None).await?;
        Ok(self.session)
    }

    /// Each then has a connection on which a request was answered.
    async fn waits_for_all(&self) -> Result<()> {
        for _ in 0..2 {
            poll::patiently("the others", async { Ok(self.everybody.wait().await) }).await?;
        }
        Ok(())
    }

    /// A text that only this client sends, at its `index`th request only.
    fn word(&self, index: usize) -> String {
        format!("client {:03}, {index:03}", self.number)
    }

    fn http2(&self) -> bool {
        self.number / KINDS % 4 >= 2
    }

    fn request(&self, path: &str) -> Request {
        let request = Request::get(self.at, path);
        if self.http2() { request.http2() } else { request }
    }

    /// Over this connection or a new one. The backend must see this client's text and no token.
    async fn asks_once(&mut self, connection: Option<&mut Connection>) -> Result<()> {
        let word = self.word(0);
        let request = self.request("/").header("x-client", &word);
        let exchange = match connection {
            Some(connection) => self.session.open_over(connection, request).await?,
            None => self.session.open(request).await?,
        };
        let seen = exchange.rest().await?.seen()?;
        ensure!(
            seen.all("x-client") == [&*word],
            "the answer is another client's: {seen:?}"
        );
        ensure!(
            seen.cookies().is_none() && seen.all("x-session").is_empty(),
            "the backend sees {seen:?}"
        );
        Ok(())
    }

    async fn asks(&mut self, http2: bool) -> Result<()> {
        let mut connection = Connection::open(self.at, http2).await?;
        self.asks_once(Some(&mut connection)).await?;
        self.waits_for_all().await?;
        for _ in 0..10 {
            self.asks_once(Some(&mut connection)).await?;
        }
        Ok(())
    }

    async fn calls(&mut self) -> Result<()> {
        let mut client = EchoClient::connect(self.at).await?;
        let (sender, notes) = grpc::notes();
        let mut answers = grpc::converse(&mut client, &mut self.session, notes).await?;
        self.waits_for_all().await?;
        for index in 0..5 {
            let word = self.word(index);
            sender.send(Note::new(&word)).await?;
            let answer = grpc::say(&mut client, &mut self.session, &word).await?;
            for answer in [answer, grpc::next(&mut answers).await?] {
                ensure!(
                    answer.text == word && answer.backend == self.session.backend(),
                    "{answer:?}"
                );
            }
        }
        Ok(())
    }

    async fn chats(&mut self) -> Result<()> {
        let mut socket = Socket::open(self.at, &mut self.session).await?;
        self.waits_for_all().await?;
        for round in 0..3 {
            for index in 0..5 {
                socket.echo(self.word(index)).await?;
            }
            match round {
                0 => socket.close().await?,
                1 => socket.send("vanish").await?,
                _ => drop(socket),
            }
            socket = Socket::open(self.at, &mut self.session).await?;
        }
        Ok(())
    }

    async fn uploads(&mut self) -> Result<()> {
        let (request, upload) = self.request("/echo").upload();
        let mut first = Some((self.session.open(request).await?, upload));
        self.waits_for_all().await?;
        for _ in 0..2 {
            let (exchange, upload) = if let Some(first) = first.take() {
                first
            } else {
                let (request, upload) = self.request("/echo").upload();
                (self.session.open(request).await?, upload)
            };
            tokio::try_join!(
                bodies::send(upload, self.number, 8),
                bodies::receive(exchange, self.number, 8)
            )?;
        }
        Ok(())
    }

    /// Resets during the upload and during the answer.
    async fn gives_up(&mut self) -> Result<()> {
        for round in 0..4 {
            let (request, mut upload) = self.request("/echo").upload();
            let mut exchange = self.session.open(request).await?;
            if round == 0 {
                self.waits_for_all().await?;
            }
            echo(&mut upload, &mut exchange, &self.word(round)).await?;
            upload.abort();
            ensure!(exchange.rest().await.is_err(), "half a request was answered");
            let mut events = EventSource::new(self.at);
            events.connected(self.session.open(events.request(usize::MAX)).await?);
            events.next().await?;
        }
        Ok(())
    }

    async fn is_cut_off(&mut self) -> Result<()> {
        for round in 0..4 {
            let (request, mut upload) = self.request("/echo").header("x-cut-after", "1").upload();
            let mut exchange = self.session.open(request).await?;
            if round == 0 {
                self.waits_for_all().await?;
            }
            echo(&mut upload, &mut exchange, &self.word(round)).await?;
            upload.send("too much").await?;
            assert_cut_off(exchange, self.http2()).await?;
        }
        Ok(())
    }

    async fn follows_events(&mut self) -> Result<()> {
        let mut events = EventSource::new(self.at);
        events.connected(self.session.open(events.request(usize::MAX)).await?);
        events.next().await?;
        self.waits_for_all().await?;
        for _ in 0..4 {
            events.connected(self.session.open(events.request(3)).await?);
            let data = events.rest().await?;
            ensure!(data == [self.session.backend(); 3], "the events came from {data:?}");
        }
        Ok(())
    }
}
