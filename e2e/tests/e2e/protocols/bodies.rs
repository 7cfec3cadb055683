//! Large bodies in both directions at the same time.

use anyhow::{Result, ensure};
use limpet_e2e::{Exchange, Upload, poll};

const PIECE: usize = 64 * 1024;

pub(super) fn piece(client: usize, number: usize) -> Vec<u8> {
    let begin = number * PIECE;
    (begin..begin + PIECE)
        .map(|at| (at / 251 + at % 251 + client * 7).to_le_bytes()[0])
        .collect()
}

pub(super) async fn send(mut upload: Upload, client: usize, pieces: usize) -> Result<()> {
    for number in 0..pieces {
        poll::patiently("room for a piece", upload.send(piece(client, number))).await?;
    }
    Ok(())
}

/// Checks that the pieces are this client's, and reads the end.
pub(super) async fn receive(mut exchange: Exchange, client: usize, pieces: usize) -> Result<()> {
    for number in 0..pieces {
        let received = exchange.bytes(PIECE).await?;
        ensure!(received == piece(client, number), "piece {number} came back changed");
    }
    ensure!(exchange.piece().await?.is_none(), "more came back than was sent");
    Ok(())
}

mod tests {
    use anyhow::Result;
    use limpet_e2e::{Carrier, Request, Site};
    use serde_json::json;

    use super::super::{Session, address, config, start};
    use super::{receive, send};

    /// More than Envoy and the kernel buffer for a stream.
    const PIECES: usize = 128;

    async fn assert_pass(site: &Site, http2: bool) -> Result<()> {
        let at = address(site, Carrier::Cookie)?;
        let mut session = Session::new(Carrier::Cookie);
        for client in 0..2 {
            let (request, upload) = Request::get(at, "/echo").upload();
            let request = if http2 { request.http2() } else { request };
            let exchange = session.open(request).await?;
            tokio::try_join!(send(upload, client, PIECES), receive(exchange, client, PIECES))?;
            for _ in 0..4 {
                session.send(Request::get(at, "/")).await?;
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn large_bodies_pass_over_http1() -> Result<()> {
        assert_pass(&start(config()?).await?, false).await
    }

    #[tokio::test]
    async fn large_bodies_pass_over_http2() -> Result<()> {
        assert_pass(&start(config()?).await?, true).await
    }

    #[tokio::test]
    async fn large_bodies_pass_from_http1_to_http2() -> Result<()> {
        let own = json!({"typed_extension_protocol_options": null});
        assert_pass(&start(config()?.cluster(&own).http2_upstream()).await?, false).await
    }

    #[tokio::test]
    async fn large_bodies_pass_from_http2_to_http1() -> Result<()> {
        let own = json!({"typed_extension_protocol_options": null});
        assert_pass(&start(config()?.cluster(&own)).await?, true).await
    }
}
