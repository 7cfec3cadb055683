//! Server-sent events: endless answers, and clients that reconnect for the next events.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use limpet_e2e::{Carrier, Exchange, Request, poll};

use super::{Session, address, site, until_idle};

/// Like a browser, it sends the last event's id when it reconnects.
pub(crate) struct EventSource {
    address: SocketAddr,
    last_id: u64,
    stream: Option<Exchange>,
    unread: String,
}

impl EventSource {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            last_id: 0,
            stream: None,
            unread: String::new(),
        }
    }

    /// The backend sends at most `at_a_time` events before it cuts the stream off.
    pub(crate) fn request(&self, at_a_time: usize) -> Request {
        let request = Request::get(self.address, "/events")
            .header("accept", "text/event-stream")
            .header("x-cut-after", at_a_time.to_string());
        match self.last_id {
            0 => request,
            id => request.header("last-event-id", id.to_string()),
        }
    }

    pub(crate) fn connected(&mut self, stream: Exchange) {
        self.unread.clear();
        self.stream = Some(stream);
    }

    pub(crate) async fn next(&mut self) -> Result<String> {
        let stream = self.stream.as_mut().context("not connected")?;
        loop {
            if let Some((event, rest)) = self.unread.split_once("\n\n") {
                let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
                let id = field("id: ").context("no id")?.parse()?;
                let data = field("data: ").context("no data")?.to_owned();
                self.unread = rest.into();
                if id != self.last_id + 1 {
                    bail!("event {id} follows event {}", self.last_id);
                }
                self.last_id = id;
                return Ok(data);
            }
            let piece = stream.piece().await?.context("the endless stream has ended")?;
            self.unread += std::str::from_utf8(&piece)?;
        }
    }

    pub(crate) async fn rest(&mut self) -> Result<Vec<String>> {
        poll::patiently("the end of a stream", async {
            let mut rest = Vec::new();
            while let Ok(data) = self.next().await {
                rest.push(data);
            }
            Ok(rest)
        })
        .await
    }
}

#[tokio::test]
async fn a_reconnect_lands_on_the_same_backend() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let mut session = Session::new(carrier);
        let mut events = EventSource::new(address(&site, carrier)?);
        for _ in 0..6 {
            // The token comes with the head: the answer has no end.
            events.connected(session.open(events.request(3)).await?);
            assert_eq!(events.rest().await?, [session.backend(); 3]);
        }
        assert_eq!(session.continued, 5);
    }
    until_idle(&site).await
}

#[tokio::test]
async fn a_session_moves_with_its_backend_and_the_events_continue() -> Result<()> {
    let mut site = site().await?;
    for carrier in Carrier::ALL {
        let mut session = Session::new(carrier);
        let mut events = EventSource::new(address(&site, carrier)?);
        events.connected(session.open(events.request(usize::MAX)).await?);
        events.next().await?;
        let lost = session.backend().to_owned();
        site.backend(&lost)?.stop().await;
        events.rest().await?;

        let stream = session.bring(events.request(usize::MAX)).open().await?;
        session.moved(&stream.head().headers)?;
        events.connected(stream);
        assert_eq!(events.next().await?, session.backend());
        let mut beside = EventSource::new(address(&site, carrier)?);
        beside.connected(session.open(beside.request(usize::MAX)).await?);
        assert_eq!(beside.next().await?, session.backend());
        site.backend(&lost)?.restart()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_backend_learns_that_its_client_has_gone() -> Result<()> {
    let site = site().await?;
    let at = address(&site, Carrier::Cookie)?;
    let mut session = Session::new(Carrier::Cookie);
    for http2 in [false, true] {
        let mut events = EventSource::new(at);
        let request = events.request(usize::MAX);
        let request = if http2 { request.http2() } else { request };
        events.connected(session.open(request).await?);
        events.next().await?;
        drop(events);
        until_idle(&site).await?;
    }
    Ok(())
}
