//! A connection that a test can cut.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Leads TCP connections from one address to another, as long as it is whole.
pub(super) struct Wire {
    from: SocketAddr,
    to: SocketAddr,
    lead: Option<JoinHandle<()>>,
}

impl Wire {
    pub(super) async fn lay(from: SocketAddr, to: SocketAddr) -> Result<Self> {
        let mut wire = Self { from, to, lead: None };
        wire.mend().await?;
        Ok(wire)
    }

    pub(super) async fn mend(&mut self) -> Result<()> {
        let listener = TcpListener::bind(self.from).await?;
        self.lead = Some(tokio::spawn(lead(listener, self.to)));
        Ok(())
    }

    /// Breaks all connections; there are no new ones.
    pub(super) async fn cut(&mut self) {
        if let Some(lead) = self.lead.take() {
            lead.abort();
            // Cancelled, which is what was wanted.
            let _ = lead.await;
        }
    }
}

async fn lead(listener: TcpListener, to: SocketAddr) {
    let mut connections = JoinSet::new();
    while let Ok((mut here, _)) = listener.accept().await {
        connections.spawn(async move {
            if let Ok(mut there) = TcpStream::connect(to).await {
                // It ends when either side does, however.
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
