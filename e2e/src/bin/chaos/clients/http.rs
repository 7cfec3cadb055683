//! Plain requests. Every second HTTP/1.1 client opens a connection for each request, the others and HTTP/2 clients keep
//! theirs.

use std::time::Duration;

use anyhow::Result;
use limpet_e2e::chaos::Protocol;
use limpet_e2e::{Answer, Carrier, Connection, Request};

use super::{Client, PAUSE};
use crate::connections::Line;

const CARRIER: Carrier = Carrier::Cookie;

pub(super) async fn run(client: Client) -> Result<()> {
    let keeps = client.protocol == Protocol::Http2 || !client.is_second();
    let mut token: Option<String> = None;
    let mut kept: Option<(Line, Connection)> = None;
    while !client.is_leaving() {
        let begun = client.now();
        if let Some((_, connection)) = &mut kept
            && !connection.is_open().await
        {
            kept = None;
        }
        let open = match kept.take() {
            Some(kept) => Some(kept),
            None => connect(&client).await?,
        };
        let Some((line, mut connection)) = open else { continue };
        let mut request = Request::get(client.address, "/");
        if let Some(token) = &token {
            request = CARRIER.bring(token, request);
        }
        match connection.send(request).await {
            Ok(answer) => {
                token = answered(&client, begun, &line, &answer).or(token);
                kept = keeps.then_some((line, connection));
            }
            Err(error) => client.failed(begun, &line, format!("{error:#}")),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn connect(client: &Client) -> Result<Option<(Line, Connection)>> {
    let (line, stream) = client.connect().await?;
    let begun = client.now();
    match Connection::on(stream, client.protocol == Protocol::Http2).await {
        Ok(connection) => Ok(Some((line, connection))),
        Err(error) => {
            client.failed(begun, &line, format!("{error:#}"));
            Ok(None)
        }
    }
}

fn answered(client: &Client, begun: Duration, line: &Line, answer: &Answer) -> Option<String> {
    let token = CARRIER.token(answer);
    if let Some(backend) = answer.backend().filter(|_| answer.status == 200) {
        client.answered(begun, backend, token.is_some());
    } else {
        let said = String::from_utf8_lossy(&answer.body);
        client.failed(begun, line, format!("{} {said}", answer.status));
    }
    token
}
