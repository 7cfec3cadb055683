//! WebSockets. Every second client closes its own after some messages, the others keep theirs. Each returned message
//! counts as a request.

use anyhow::{Context, Result};
use limpet_e2e::Carrier;
use limpet_e2e::protocols::Socket;

use super::{Client, PAUSE};
use crate::connections::Line;

const CARRIER: Carrier = Carrier::Cookie;
const MESSAGES: usize = 10;

pub(super) async fn run(client: Client) -> Result<()> {
    let mut token: Option<String> = None;
    while !client.is_leaving() {
        let begun = client.now();
        let (line, stream) = client.connect().await?;
        let field = token.as_deref().map(|token| CARRIER.field(token));
        let place = format!("{}/chat", client.address);
        let opened = Socket::handshake_on(stream, &place, field).await;
        match opened.and_then(|(socket, headers)| {
            let backend = headers.get("x-backend").context("no backend answered")?.to_str()?;
            Ok((socket, backend.to_owned(), CARRIER.token_in(&headers)))
        }) {
            Ok((socket, backend, new)) => {
                client.answered(begun, &backend, new.is_some());
                token = new.or(token);
                converse(&client, line, socket, &backend).await;
            }
            Err(error) => client.failed(begun, &line, format!("{error:#}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn converse(client: &Client, line: Line, mut socket: Socket, backend: &str) {
    let mut begun = client.now();
    let mut result = socket.receive().await.map(drop);
    for number in 0.. {
        if let Err(error) = result {
            return client.ended(begun, &line, format!("{error:#}"));
        }
        if client.is_leaving() || client.is_second() && number == MESSAGES {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let sent = client.now();
        result = socket.echo(format!("message {number}")).await;
        if result.is_ok() {
            client.answered(sent, backend, false);
            begun = client.now();
        }
    }
    if let Err(error) = socket.close().await {
        client.ended(begun, &line, format!("{error:#}"));
    }
}
