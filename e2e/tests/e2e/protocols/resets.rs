use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::{Answering, Carrier, Connection, Exchange, Request, Site, Upload, tools};
use tokio::sync::OnceCell;

use super::{Session, address, site, until_idle};

fn over(http2: bool, request: Request) -> Request {
    if http2 { request.http2() } else { request }
}

async fn assert_continues(site: &Site, session: &mut Session) -> Result<()> {
    until_idle(site).await?;
    let at = address(site, session.carrier())?;
    session.send(Request::get(at, "/")).await?;
    session.send(Request::get(at, "/").http2()).await?;
    Ok(())
}

/// Sends a piece to `/echo` and gets it back.
pub(super) async fn echo(upload: &mut Upload, exchange: &mut Exchange, piece: &str) -> Result<()> {
    upload.send(piece.to_owned()).await?;
    let back = exchange.bytes(piece.len()).await?;
    ensure!(back == piece.as_bytes(), "other bytes came back: {back:?}");
    Ok(())
}

/// No more bytes come. Envoy before 1.37 resets an HTTP/2 stream with the code `NO_ERROR`, which hyper takes for the
/// end.
pub(super) async fn assert_cut_off(exchange: Exchange, http2: bool) -> Result<()> {
    static TELLS: OnceCell<bool> = OnceCell::const_new();
    let tells = TELLS.get_or_try_init(async || anyhow::Ok(tools::envoy_version()? >= (1, 37)));
    let tells = *tells.await?;
    match exchange.rest().await {
        Err(_) => Ok(()),
        Ok(answer) if http2 && !tells => {
            ensure!(answer.body.is_empty(), "more came: {:?}", answer.body);
            Ok(())
        }
        Ok(answer) => bail!("half an answer has a regular end, after {:?}", answer.body),
    }
}

#[tokio::test]
async fn a_client_resets_its_upload() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for http2 in [false, true, false, true] {
            let (request, mut upload) = Request::get(at, "/echo").upload();
            let mut exchange = session.open(over(http2, request)).await?;
            echo(&mut upload, &mut exchange, "begun").await?;
            upload.abort();
            assert!(exchange.rest().await.is_err(), "half a request has a complete answer");
            assert_continues(&site, &mut session).await?;
        }
    }
    Ok(())
}

/// No session begins without an answer.
#[tokio::test]
async fn a_client_leaves_before_its_first_answer() -> Result<()> {
    let site = site().await?;
    let at = address(&site, Carrier::Cookie)?;
    for http2 in [false, true] {
        let (request, mut upload) = Request::get(at, "/").upload();
        let answer = tokio::spawn(over(http2, request).send());
        upload.send("begun").await?;
        let busy = async || {
            site.backends
                .iter()
                .any(|backend| backend.under_way() > 0)
                .then_some(())
        };
        limpet_e2e::poll::until("the request to reach a backend", busy).await?;
        upload.abort();
        assert!(answer.await?.is_err(), "half a request was answered");
        until_idle(&site).await?;
    }
    assert_eq!(site.envoy.metric("web.no_token").await?, 2);
    assert_eq!(site.envoy.metric("web.issued").await?, 0);
    assert_continues(&site, &mut Session::new(Carrier::Cookie)).await
}

#[tokio::test]
async fn a_client_leaves_during_its_answer() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for http2 in [false, true, false, true] {
            let mut exchange = session.open(over(http2, Request::get(at, "/events"))).await?;
            exchange.bytes(5).await?;
            drop(exchange);
            assert_continues(&site, &mut session).await?;
        }
    }
    Ok(())
}

/// The connection's other streams continue.
#[tokio::test]
async fn a_client_resets_one_stream_of_many() -> Result<()> {
    let site = site().await?;
    let at = address(&site, Carrier::Cookie)?;
    let mut session = Session::new(Carrier::Cookie);
    let mut connection = Connection::open(at, true).await?;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let (request, upload) = Request::get(at, "/echo").upload();
        streams.push((session.open_over(&mut connection, request).await?, upload));
    }
    while let Some((exchange, upload)) = streams.pop() {
        upload.abort();
        drop(exchange);
        for (exchange, upload) in &mut streams {
            echo(upload, exchange, "still here").await?;
        }
    }
    assert_continues(&site, &mut session).await
}

#[tokio::test]
async fn a_client_drops_a_connection_with_many_streams() -> Result<()> {
    let site = site().await?;
    let at = address(&site, Carrier::Cookie)?;
    let mut session = Session::new(Carrier::Cookie);
    let mut connection = Connection::open(at, true).await?;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut exchange = session.open_over(&mut connection, Request::get(at, "/events")).await?;
        exchange.bytes(5).await?;
        streams.push(exchange);
    }
    drop(connection);
    assert_continues(&site, &mut session).await
}

#[tokio::test]
async fn a_backend_cuts_its_answer_off() -> Result<()> {
    let site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        for http2 in [false, true, false, true] {
            let (request, mut upload) = Request::get(at, "/echo").header("x-cut-after", "1").upload();
            let mut exchange = session.open(over(http2, request)).await?;
            echo(&mut upload, &mut exchange, "begun").await?;
            upload.send("cut off").await?;
            assert_cut_off(exchange, http2).await?;
            drop(upload);
            assert_continues(&site, &mut session).await?;
        }
    }
    Ok(())
}

/// Envoy answers without a token. The client keeps its own.
#[tokio::test]
async fn a_backend_hangs_up_during_an_upload() -> Result<()> {
    let mut site = site().await?;
    for carrier in Carrier::ALL {
        let at = address(&site, carrier)?;
        let mut session = Session::new(carrier);
        session.send(Request::get(at, "/")).await?;
        for http2 in [false, true, false, true] {
            site.backend(session.backend())?.answer_next(Answering::hanging_up());
            let (request, mut upload) = Request::get(at, "/").upload();
            upload.send("begun").await?;
            let answer = session.bring(over(http2, request)).send().await?;
            assert_eq!((answer.status, answer.backend()), (503, None));
            assert_eq!(carrier.token(&answer), None);
            drop(upload);
            assert_continues(&site, &mut session).await?;
        }
        session.token().context("the session is gone")?;
    }
    Ok(())
}
