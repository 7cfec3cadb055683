//! Plain requests. Of the clients that speak HTTP/1.1, every second one opens a connection for each request, and the
//! others keep theirs, as those that speak HTTP/2.

use anyhow::Result;
use limpet_e2e::chaos::{Outcome, Protocol};
use limpet_e2e::{Answer, Carrier, Connection, Request};

use super::{Client, PAUSE};
use crate::connections::Line;

const CARRIER: Carrier = Carrier::Cookie;

pub(super) async fn run(mut client: Client) -> Result<()> {
    // Clients take the protocols in turn, so the numbers of those with the same one differ by the number of protocols.
    let keeps = client.protocol == Protocol::Http2 || (client.number / Protocol::ALL.len()).is_multiple_of(2);
    let mut kept: Option<(Line, Connection)> = None;
    while !client.is_leaving() {
        let begun = client.now();
        if let Some((_, connection)) = &mut kept
            && !connection.is_open().await
        {
            kept = None;
        }
        let taken = match kept.take() {
            Some(kept) => Some(kept),
            None => open(&client).await?,
        };
        let Some((line, mut connection)) = taken else { continue };
        let mut request = Request::get(client.address, "/");
        if let Some(token) = &client.token {
            request = CARRIER.bring(token, request);
        }
        match connection.send(request).await {
            Ok(answer) => {
                answered(&mut client, begun, line, &answer);
                kept = keeps.then_some((line, connection));
            }
            Err(error) => client.failed(begun, line.loss(format!("{error:#}"))),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn open(client: &Client) -> Result<Option<(Line, Connection)>> {
    let (line, stream) = client.connect().await?;
    let begun = client.now();
    match Connection::on(stream, client.protocol == Protocol::Http2).await {
        Ok(connection) => Ok(Some((line, connection))),
        Err(error) => {
            client.failed(begun, line.loss(format!("{error:#}")));
            Ok(None)
        }
    }
}

fn answered(client: &mut Client, begun: std::time::Duration, line: Line, answer: &Answer) {
    let Some(backend) = answer.backend().filter(|_| answer.status == 200) else {
        let said = String::from_utf8_lossy(&answer.body);
        client.failed(begun, line.loss(format!("{} {said}", answer.status)));
        return;
    };
    let token = CARRIER.token(answer);
    let outcome = Outcome::Answered {
        backend: backend.to_owned(),
        has_token: token.is_some(),
    };
    client.note(begun, outcome);
    client.token = token.or(client.token.take());
}
