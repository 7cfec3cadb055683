//! The memory in the event loop: the ConfigMap's content goes into builds, and their result is written.

use std::collections::VecDeque;

use tokio::sync::watch;

use crate::cluster::reconcile::reconcile_loop::changed_or_never;
use limpet_model::Memory;

/// How many builds may remember something before the ConfigMap has it.
const MOST: usize = 256;

#[derive(Debug)]
pub(crate) struct KeptMemory {
    /// `None`: the ConfigMap was not read yet.
    published: watch::Receiver<Option<Memory>>,
    desired: watch::Sender<Option<Memory>>,
    /// Results of builds since the ConfigMap had the first of them. The last is newer than the ConfigMap, which is
    /// written only now and then: an object may become invalid before its first version is written.
    built: VecDeque<Memory>,
}

impl KeptMemory {
    /// `kept`: the ConfigMap's content. `wanted`: what it is to have.
    pub(crate) fn new(kept: watch::Receiver<Option<Memory>>, wanted: watch::Sender<Option<Memory>>) -> Self {
        Self {
            published: kept,
            desired: wanted,
            built: VecDeque::new(),
        }
    }

    /// Waits for content that no build remembered.
    pub(crate) async fn changed(&mut self) {
        loop {
            changed_or_never(&mut self.published).await;
            if self.read() {
                return;
            }
        }
    }

    pub(crate) fn current(&mut self) -> Memory {
        if self.published.has_changed().unwrap_or_default() {
            self.read();
        }
        let built = self.built.back().cloned();
        built.unwrap_or_else(|| self.published.borrow().clone().unwrap_or_default())
    }

    /// Reads the ConfigMap. Returns whether no build remembered its content.
    fn read(&mut self) -> bool {
        let kept = self.published.borrow_and_update();
        let Some(place) = self.built.iter().rposition(|built| Some(built) == kept.as_ref()) else {
            self.built.clear();
            return true;
        };
        self.built.drain(..place);
        if self.built.len() == 1 {
            // It is written. If it stayed wanted, it would undo later corrections in the ConfigMap.
            self.desired.send_if_modified(|wanted| wanted.take().is_some());
        }
        false
    }

    pub(crate) fn remember(&mut self, memory: Memory) {
        let wanted = (self.published.borrow().as_ref() != Some(&memory)).then(|| memory.clone());
        self.desired.send_if_modified(|known| {
            let changed = *known != wanted;
            *known = wanted;
            changed
        });
        if self.built.back() != Some(&memory) {
            self.built.push_back(memory);
        }
        if self.built.len() > MOST {
            self.built.pop_front();
        }
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

    #[test]
    fn what_was_not_written_yet_was_not_remembered() {
        let memory_of = |name: &str| {
            let text = format!(r#"{{"classes": [{{"name": "{name}", "controllerName": "limpet.dev/controller"}}]}}"#);
            Memory::parts()
                .find_map(|part| Memory::parse(part, &text).ok())
                .unwrap()
        };
        let (first, second, third) = (memory_of("a"), memory_of("b"), memory_of("c"));
        let (keeping, kept) = watch::channel(Some(Memory::default()));
        let (wanting, wanted) = watch::channel(None);
        let mut memory = KeptMemory::new(kept, wanting);
        memory.remember(first.clone());
        assert_eq!(memory.current(), first);
        memory.remember(second.clone());
        // The first one is written while the second one waits.
        keeping.send_replace(Some(first));
        assert!(memory.changed().now_or_never().is_none());
        assert_eq!(memory.current(), second);
        assert_eq!(*wanted.borrow(), Some(second.clone()));
        keeping.send_replace(Some(second));
        assert!(memory.changed().now_or_never().is_none());
        assert_eq!(*wanted.borrow(), None);
        // Another replica writes.
        keeping.send_replace(Some(third.clone()));
        assert!(memory.changed().now_or_never().is_some());
        assert_eq!(memory.current(), third);
    }
}
