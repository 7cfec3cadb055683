use std::io;
use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Forwards TCP connections until it is cut.
pub(super) struct Wire {
    from: SocketAddr,
    to: SocketAddr,
    lead: Option<JoinHandle<()>>,
    held: watch::Sender<bool>,
}

impl Wire {
    pub(super) async fn lay(from: SocketAddr, to: SocketAddr) -> Result<Self> {
        let (held, _) = watch::channel(false);
        let lead = None;
        let mut wire = Self { from, to, lead, held };
        wire.mend().await?;
        Ok(wire)
    }

    pub(super) async fn mend(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.from).await?;
        self.lead = Some(tokio::spawn(lead(listener, self.to, self.held.clone())));
        Ok(())
    }

    /// Breaks all connections and accepts no new ones.
    pub(super) async fn cut(&mut self) {
        if let Some(lead) = self.lead.take() {
            lead.abort();
            // The task was aborted above: an error is expected.
            let _ = lead.await;
        }
    }

    /// If `held`, holds back all data in both directions without closing connections; else sends it.
    pub(super) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

async fn lead(listener: TcpListener, to: SocketAddr, held: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((here, _)) = listener.accept().await {
        let (up, down) = (held.subscribe(), held.subscribe());
        connections.spawn(async move {
            if let Ok(there) = TcpStream::connect(to).await {
                let ((near_read, near_write), (far_read, far_write)) = (here.into_split(), there.into_split());
                // It ends when either side ends, with or without an error.
                let _ = tokio::select! {
                    ended = carry(near_read, far_write, up) => ended,
                    ended = carry(far_read, near_write, down) => ended,
                };
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut held: watch::Receiver<bool>) -> io::Result<()> {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        let _ = held.wait_for(|held| !held).await;
        to.write_all(&bytes[..length]).await?;
    }
}
