//! What the leader remembers of objects, in a ConfigMap for all replicas, and for itself after a restart.

use super::config_map::Content;
use limpet_model::Memory;

impl Content for Memory {
    const FIELD: &'static str = "memory.json";
    const ADVICE: &'static str = "what was remembered stays in use where it is known. Correct it, or delete it: rules \
                                  without a name that have changed their matches then lose their sessions";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }

    fn text(&self) -> String {
        self.text()
    }

    fn count(&self) -> usize {
        self.count()
    }
}
