//! The server of wasm files for Envoy Gateway.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Answers every HTTP request with the same file, until dropped.
pub(crate) struct Files {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Files {
    pub(crate) async fn serve(file: &Path, address: SocketAddr) -> Result<Self> {
        let content = Arc::new(std::fs::read(file).with_context(|| file.display().to_string())?);
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let server = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(answer(connection, Arc::clone(&content)));
            }
        });
        Ok(Self { address, server })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/limpet.wasm", self.address)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Answers a connection's only request.
async fn answer(mut connection: TcpStream, content: Arc<Vec<u8>>) -> Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(connection.read_u8().await?);
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/wasm\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        content.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(&content).await?;
    Ok(connection.shutdown().await?)
}
