use std::sync::Arc;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// Why not all sessions are known, in words. Complete if empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CountGaps(Vec<Arc<str>>);

impl CountGaps {
    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_empty()
    }

    /// Without duplicates.
    pub(super) fn extend(&mut self, others: &Self) {
        for why in &others.0 {
            if !self.0.contains(why) {
                self.0.push(Arc::clone(why));
            }
        }
    }

    pub(super) fn push(&mut self, why: impl Into<Arc<str>>) {
        self.0.push(why.into());
    }

    #[cfg(test)]
    pub(super) fn words(&self) -> Vec<&str> {
        self.0.iter().map(|why| &**why).collect()
    }
}

/// As the fields `complete` and, if it is false, `why`.
impl Serialize for CountGaps {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why: Vec<&str> = self.0.iter().map(|why| &**why).collect();
        let mut fields = serializer.serialize_struct("Gaps", 2)?;
        fields.serialize_field("complete", &why.is_empty())?;
        if why.is_empty() {
            fields.skip_field("why")?;
        } else {
            fields.serialize_field("why", &why)?;
        }
        fields.end()
    }
}
