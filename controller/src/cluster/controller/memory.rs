//! The memory in the event loop: what the ConfigMap has goes into a build, and what the build remembers is to be
//! written.

use tokio::sync::watch;

use crate::cluster::reconcile::reconcile_loop::changed_or_never;
use limpet_model::Memory;

#[derive(Debug)]
pub(crate) struct KeptMemory {
    /// `None`: the ConfigMap was not read yet.
    kept: watch::Receiver<Option<Memory>>,
    wanted: watch::Sender<Option<Memory>>,
    /// What the last build remembered. It leads to the same graph, so it needs no other build when it is read again.
    built: Option<Memory>,
}

impl KeptMemory {
    /// `kept` has what the ConfigMap has; `wanted` takes what the ConfigMap is to have.
    pub(crate) fn new(kept: watch::Receiver<Option<Memory>>, wanted: watch::Sender<Option<Memory>>) -> Self {
        Self {
            kept,
            wanted,
            built: None,
        }
    }

    /// Waits for what the last build does not know.
    pub(crate) async fn changed(&mut self) {
        loop {
            changed_or_never(&mut self.kept).await;
            if *self.kept.borrow_and_update() != self.built {
                return;
            }
            // It is written. A wish that stayed would undo what somebody corrects in the ConfigMap later.
            self.wanted.send_if_modified(|wanted| wanted.take().is_some());
        }
    }

    /// What to build with.
    pub(crate) fn kept(&mut self) -> Memory {
        self.kept.borrow_and_update().clone().unwrap_or_default()
    }

    /// Takes in what a build remembers.
    pub(crate) fn remember(&mut self, memory: Memory) {
        let wanted = (self.kept.borrow().as_ref() != Some(&memory)).then(|| memory.clone());
        self.wanted.send_if_modified(|known| {
            let changed = *known != wanted;
            *known = wanted;
            changed
        });
        self.built = Some(memory);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_wish_ends_with_its_write() {
        let written = Memory::default();
        let (keeping, kept) = watch::channel(None);
        let (wanting, wanted) = watch::channel(None);
        let mut memory = KeptMemory::new(kept, wanting);
        memory.remember(written.clone());
        assert_eq!(*wanted.borrow(), Some(written.clone()));
        keeping.send_replace(Some(written));
        assert!(memory.changed().now_or_never().is_none(), "it is what was built");
        assert_eq!(*wanted.borrow(), None);
    }
}
