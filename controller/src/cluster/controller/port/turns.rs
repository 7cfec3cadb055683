use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use limpet_xds::Origin;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::PortClient;

const PATIENCE: Duration = Duration::from_secs(5);

/// Turns for expensive answers. One client is answered at a time, so that requests do not keep the machine from its
/// work, and one of each address waits. Replicas wait for no other clients.
#[derive(Debug)]
pub(crate) struct AnswerTurns {
    of_replicas: Arc<Semaphore>,
    of_others: Arc<Semaphore>,
    /// Of addresses, as long as they wait.
    by_origin: Mutex<BTreeMap<Origin, Weak<Semaphore>>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct AnswerPermit {
    _of_origin: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for AnswerTurns {
    fn default() -> Self {
        let one = || Arc::new(Semaphore::new(1));
        Self {
            of_replicas: one(),
            of_others: one(),
            by_origin: Mutex::default(),
        }
    }
}

impl AnswerTurns {
    /// Waits for the turn of a client. Fails with the answer if that takes too long.
    pub(crate) async fn acquire(&self, client: PortClient) -> Result<AnswerPermit, Response> {
        let of_origin = self.of_origin(client.address.into());
        let of_all = if client.is_replica {
            &self.of_replicas
        } else {
            &self.of_others
        };
        let turn = async {
            let of_origin = of_origin.acquire_owned().await.ok()?;
            let of_all = Arc::clone(of_all).acquire_owned().await.ok()?;
            Some(AnswerPermit {
                _of_origin: of_origin,
                _of_all: of_all,
            })
        };
        timeout(PATIENCE, turn).await.ok().flatten().ok_or_else(busy)
    }

    fn of_origin(&self, origin: Origin) -> Arc<Semaphore> {
        let mut by_origin = self.by_origin.lock().unwrap_or_else(PoisonError::into_inner);
        by_origin.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = by_origin.get(&origin).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Semaphore::new(1));
        by_origin.insert(origin, Arc::downgrade(&turn));
        turn
    }
}

pub(crate) fn busy() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "others are asking: try again\n").into_response()
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test]
    async fn replicas_wait_for_no_other_clients() {
        let turns = AnswerTurns::default();
        let client = |last: u8, is_replica| PortClient {
            address: ([10, 0, 0, last], 1).into(),
            is_replica,
        };
        let first = turns.acquire(client(1, false)).await.unwrap();
        let of_replica = turns.acquire(client(2, true)).await.unwrap();
        let waiting = [client(1, false), client(3, false), client(2, true), client(4, true)];
        for turn in join_all(waiting.map(|client| turns.acquire(client))).await {
            assert_eq!(turn.unwrap_err().status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        drop((first, of_replica));
        assert!(turns.acquire(client(3, false)).await.is_ok() && turns.acquire(client(4, true)).await.is_ok());
        assert!(turns.by_origin.lock().unwrap().len() <= 2, "of those that wait");
    }
}
