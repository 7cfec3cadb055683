//! Memory that ended streams leave in Envoy.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use limpet_e2e::{Build, Carrier, Connection, Request, Site};
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Session, address, config, start, until_idle};

const CLIENTS: usize = 8;
/// Few enough: Envoy closes a connection if the client resets too many streams.
const STREAMS: usize = 100;

/// Both builds keep more than this for an open stream.
const PER_STREAM: usize = 64;

/// A third each ends regularly, is reset by the client, and by the backend.
#[tokio::test]
async fn streams_leave_nothing_in_memory() -> Result<()> {
    // One worker has one filter and one cache of freed memory.
    let site = start(config()?.workers(1)).await?;
    let at = address(&site, Carrier::Cookie)?;
    let bound = CLIENTS * STREAMS * PER_STREAM;
    // Much memory grows once and then stays. A leak grows every time.
    let mut grown = Vec::new();
    for _ in 0..6 {
        let before = memory(&site).await?;
        run(&site, at).await?;
        let growth = memory(&site).await?.saturating_sub(before);
        if growth < bound {
            return Ok(());
        }
        grown.push(growth);
    }
    bail!("each {} streams left this many bytes: {grown:?}", CLIENTS * STREAMS)
}

async fn run(site: &Site, at: SocketAddr) -> Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(at));
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    until_idle(site).await
}

async fn client(at: SocketAddr) -> Result<()> {
    let mut connection = Connection::open(at, true).await?;
    let mut session = Session::new(Carrier::Cookie);
    for number in 0..STREAMS {
        let request = Request::get(at, "/echo").header("x-cut-after", "1");
        let (request, mut upload) = request.upload();
        let mut exchange = session.open_over(&mut connection, request).await?;
        upload.send("begun").await?;
        exchange.bytes(5).await?;
        match number % 3 {
            0 => drop(upload),
            1 => upload.abort(),
            _ => upload.send("cut off").await?,
        }
        // The answer may be cut off here.
        let _ = exchange.rest().await;
    }
    Ok(())
}

/// The bytes of Envoy's allocator; for a wasm filter, whose memory is not among them, those of the process.
async fn memory(site: &Site) -> Result<usize> {
    if Build::tested()? == Build::Wasm {
        let status = std::fs::read_to_string(format!("/proc/{}/status", site.envoy.pid()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = resident.and_then(|line| line.trim().strip_suffix(" kB"));
        return Ok(kilobytes.context("no line about resident memory")?.parse::<usize>()? * 1024);
    }
    let memory: Value = serde_json::from_str(&site.envoy.admin_text("/memory").await?)?;
    Ok(memory["allocated"]
        .as_str()
        .context("the memory page has no number of bytes")?
        .parse()?)
}
