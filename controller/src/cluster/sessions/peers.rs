//! Reads what the other replicas know, again and again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{self, Body};
use axum::http::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use prost::Message as _;

use super::Book;
use super::replica::{After, Replica};
use crate::cluster::reconcile::replicas::Replicas;

/// How often the other replicas are asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer: 10,000 backends with many sessions each.
const LIMIT: usize = 256 << 20;

/// Runs for ever.
pub(crate) async fn follow(book: Book, mut replicas: Replicas) {
    let client: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build_http();
    let mut known: BTreeMap<String, After> = BTreeMap::new();
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    loop {
        tokio::time::sleep(INTERVAL).await;
        // Whoever is not heard of may still be there, but says nothing new.
        let Some(view) = replicas.others() else { continue };
        book.share(view.len() + 1);
        book.forget_loads_of_others(|name| view.contains_key(name));
        known.retain(|name, _| view.contains_key(name));
        failed.retain(|name, _| view.contains_key(name));
        for (name, address) in view.iter().filter_map(|(name, said)| Some((name, said.pages?))) {
            let after = known.get(name).copied().unwrap_or_default();
            match tokio::time::timeout(PATIENCE, ask(&client, address, after)).await {
                Ok(Ok(replica)) => {
                    failed.remove(name);
                    let after = After {
                        process: replica.process,
                        changes: replica.changes,
                    };
                    known.insert(name.clone(), after);
                    book.hear_replica(name, replica);
                }
                Ok(Err(error)) => fail(&mut failed, name, error),
                Err(_) => fail(&mut failed, name, "no answer in time".to_owned()),
            }
        }
    }
}

fn fail(failed: &mut BTreeMap<String, String>, replica: &str, error: String) {
    if failed.get(replica) != Some(&error) {
        tracing::warn!(
            replica,
            error,
            "cannot read another replica's sessions: those that it alone knows are missing"
        );
    }
    failed.insert(replica.to_owned(), error);
}

async fn ask(client: &Client<HttpConnector, Body>, address: SocketAddr, after: After) -> Result<Replica, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let uri = format!("http://{address}/sessions/replica?{}", after.query());
    let request = Request::get(uri).body(Body::empty()).map_err(|error| failed(&error))?;
    let answer = client.request(request).await.map_err(|error| failed(&error))?;
    if answer.status() != StatusCode::OK {
        return Err(format!("status {}", answer.status()));
    }
    let bytes = body::to_bytes(Body::new(answer.into_body()), LIMIT).await;
    let bytes = bytes.map_err(|error| failed(&error))?;
    Replica::decode(bytes).map_err(|error| failed(&error))
}
