//! WebSockets: the answer that opens one carries the token.

use anyhow::Result;
use hyper::Method;
use hyper::client::conn::http2;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use limpet_e2e::protocols::Socket;
use limpet_e2e::{Backend, Carrier, Request, poll};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Session, address, config, site, start, until_idle};

#[tokio::test]
async fn the_opening_answer_has_the_token_for_a_reconnect() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for number in 0..8 {
            let mut socket = Socket::open(at, &mut session).await?;
            for word in ["one", "two", "three"] {
                socket.echo(format!("{word} of {number}")).await?;
            }
            socket.close().await?;
        }
        assert_eq!(session.continued, 7);
        let answer = session.send(Request::get(at, "/")).await?;
        assert_eq!(answer.status, 200, "a plain request of the session failed");
    }
    until_idle(&site).await
}

#[tokio::test]
async fn several_websockets_and_plain_requests_share_a_session() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        let mut sockets = Vec::new();
        for _ in 0..5 {
            sockets.push(Socket::open(at, &mut session).await?);
            session.send(Request::get(at, "/")).await?;
        }
        for socket in &mut sockets {
            socket.echo("still here").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn large_messages_arrive_whole() -> Result<()> {
    let site = site().await?;
    let mut session = Session::new(Carrier::Cookie);
    let mut socket = Socket::open(site.envoy.address(), &mut session).await?;
    let message: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    socket.echo(Message::binary(message)).await?;
    socket.close().await
}

#[tokio::test]
async fn a_session_moves_when_its_backend_goes() -> Result<()> {
    let mut site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        let mut socket = Socket::open(at, &mut session).await?;
        let lost = session.backend().to_owned();
        site.backend(&lost)?.stop().await;
        assert!(socket.receive().await.is_err(), "the WebSocket outlived its backend");
        let (socket, headers) = Socket::handshake(at, &session).await?;
        session.moved(&headers)?;
        socket.greeted_by(&session).await?;
        Socket::open(at, &mut session).await?;
        site.backend(&lost)?.restart()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_session_continues_after_its_websocket_was_closed() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for _ in 0..3 {
            let mut socket = Socket::open(at, &mut session).await?;
            socket.send("close").await?;
            assert!(matches!(socket.receive().await?, Message::Close(_)));
            let mut socket = Socket::open(at, &mut session).await?;
            socket.send("vanish").await?;
            assert!(socket.receive().await.is_err(), "the connection is still open");
        }
    }
    until_idle(&site).await
}

#[tokio::test]
async fn a_backend_learns_that_its_client_has_gone() -> Result<()> {
    let site = site().await?;
    let mut session = Session::new(Carrier::Cookie);
    let socket = Socket::open(site.envoy.address(), &mut session).await?;
    assert_eq!(site.backends.iter().map(Backend::under_way).sum::<usize>(), 1);
    drop(socket);
    until_idle(&site).await
}

#[tokio::test]
async fn a_refused_websocket_starts_a_session_too() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for _ in 0..3 {
            let request = Request::get(at, "/refuse")
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            assert_eq!(session.send(request).await?.status, 403);
            Socket::open(at, &mut session).await?.close().await?;
        }
    }
    Ok(())
}

/// RFC 8441: a stream becomes the WebSocket, with status 200.
#[tokio::test]
async fn sessions_stay_over_http2() -> Result<()> {
    let config = config()?
        .connection_manager(&json!({"http2_protocol_options": {"allow_connect": true}}))
        .cluster(&json!({"typed_extension_protocol_options": null}));
    let site = start(config).await?;
    let at = site.envoy.address();
    let stream = TokioIo::new(TcpStream::connect(at).await?);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    let mut session = Session::new(Carrier::Cookie);
    let mut sockets = Vec::new();
    for number in 0..6 {
        let mut request = hyper::Request::builder()
            .uri(format!("http://{at}/{}", if number == 0 { "" } else { "chat" }))
            .header("sec-websocket-version", "13")
            // Not in RFC 8441, but Envoy generates no key for a backend that speaks HTTP/1.1.
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        if let Some((name, value)) = session.field() {
            request = request.header(name, value);
        }
        let mut request = request.body(http_body_util::Empty::<hyper::body::Bytes>::new())?;
        // The client knows the server's support after the first answer.
        if number > 0 {
            *request.method_mut() = Method::CONNECT;
            request.extensions_mut().insert(Protocol::from_static("websocket"));
        }
        let response = poll::patiently("an answer", async { Ok(sender.send_request(request).await?) }).await?;
        assert_eq!(response.status(), 200);
        session.answered(response.headers())?;
        if number > 0 {
            let stream = TokioIo::new(hyper::upgrade::on(response).await?);
            sockets.push(Socket::over(stream).await.greeted_by(&session).await?);
        }
    }
    for socket in &mut sockets {
        socket.echo("one of many").await?;
    }
    for socket in sockets {
        socket.close().await?;
    }
    Ok(())
}
