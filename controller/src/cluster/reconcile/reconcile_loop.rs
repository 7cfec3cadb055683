//! The loop of every reconciler: take a turn, and wait for a change or for the time of the next turn.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

pub(crate) trait Reconcile: Send {
    /// How long to wait for further changes after one, so that a batch is one turn.
    const GATHER: Duration;

    /// Waits for a change of any input of a turn.
    ///
    /// It must be cancel safe: the future is dropped if the next turn is due first, and must not lose a change.
    ///
    /// # Errors
    /// If a channel to or from another task is closed, which ends the loop.
    fn changed(&mut self) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Takes a turn. Returns how long to wait for the next one; `None`: until something changes.
    fn reconcile(&mut self) -> impl Future<Output = Option<Duration>> + Send;
}

impl<R: Reconcile> Reconcile for &mut R {
    const GATHER: Duration = R::GATHER;

    fn changed(&mut self) -> impl Future<Output = Result<(), Closed>> + Send {
        (**self).changed()
    }

    fn reconcile(&mut self) -> impl Future<Output = Option<Duration>> + Send {
        (**self).reconcile()
    }
}

/// The end of changes: for example, the other end of a channel was dropped.
#[derive(Debug)]
pub(crate) struct Closed;

impl From<watch::error::RecvError> for Closed {
    fn from(_: watch::error::RecvError) -> Self {
        Self
    }
}

/// Runs until the future is dropped, or a channel is closed.
pub(crate) async fn run<R: Reconcile>(mut reconciler: R) {
    loop {
        let next = reconciler.reconcile().await;
        tokio::select! {
            changed = reconciler.changed() => match changed {
                Ok(()) if R::GATHER.is_zero() => {}
                Ok(()) => sleep(R::GATHER).await,
                Err(Closed) => return,
            },
            () = after(next) => {}
        }
    }
}

async fn after(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}

/// Waits for ever if the sender was dropped.
pub(crate) async fn changed_or_never<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counter {
        changes: watch::Receiver<u32>,
        turns: Arc<AtomicU32>,
        next: Option<Duration>,
    }

    impl Reconcile for Counter {
        const GATHER: Duration = Duration::from_millis(50);

        async fn changed(&mut self) -> Result<(), Closed> {
            Ok(self.changes.changed().await?)
        }

        async fn reconcile(&mut self) -> Option<Duration> {
            self.changes.borrow_and_update();
            self.turns.fetch_add(1, Ordering::Relaxed);
            self.next.take()
        }
    }

    fn start(next: Option<Duration>) -> (watch::Sender<u32>, Arc<AtomicU32>, impl Future<Output = ()>) {
        let (sender, changes) = watch::channel(0);
        let turns = Arc::<AtomicU32>::default();
        let counter = Counter {
            changes,
            turns: Arc::clone(&turns),
            next,
        };
        (sender, turns, run(counter))
    }

    #[test]
    fn changes_that_come_together_are_one_turn() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (sender, turns, running) = start(None);
        runtime.block_on(async {
            let change = async move {
                for change in 1..4 {
                    tokio::task::yield_now().await;
                    sender.send_replace(change);
                }
                sleep(Duration::from_millis(100)).await;
            };
            tokio::join!(running, change);
        });
        assert_eq!(turns.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_next_turn_comes_in_its_time_without_a_change() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (sender, turns, running) = start(Some(Duration::from_millis(1)));
        runtime.block_on(async {
            let close = async move {
                sleep(Duration::from_millis(100)).await;
                drop(sender);
            };
            tokio::join!(running, close);
        });
        assert_eq!(turns.load(Ordering::Relaxed), 2);
    }
}
