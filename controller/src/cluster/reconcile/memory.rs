//! The leader's memory of objects, in a ConfigMap for all replicas.

use super::config_map::{ConfigMapContent, ConfigMapFields, ConfigMapPatch};
use limpet_model::Memory;

impl ConfigMapContent for Memory {
    const WHAT: &'static str = "memory";
    const ADVICE: &'static str = "what was remembered stays in use where it is known. Correct it, or delete it: rules \
                                  without a name that have changed their matches then lose their sessions";

    fn parse(fields: &ConfigMapFields) -> Result<Self, String> {
        let mut memory = Self::default();
        for part in Self::parts() {
            let field = field(part);
            if let Some(text) = fields.get(&field) {
                memory.add(Self::parse(part, text).map_err(|error| format!("data[{field}]: {error}"))?);
            }
        }
        Ok(memory)
    }

    fn changes(&self, former: &Self) -> ConfigMapPatch {
        let changed = self.changed_parts(former).into_iter();
        changed.map(|part| (field(part), self.text(part))).collect()
    }

    fn count(&self) -> usize {
        self.count()
    }
}

fn field(part: u8) -> String {
    format!("memory-{part:x}.json")
}
