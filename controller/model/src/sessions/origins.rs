//! Which part of a policy's sources says each of its fields.

use crate::session_fields::{SessionCarrier, SessionField};

const COUNT: usize = SessionField::ALL.len();

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldSource {
    /// `sessionPersistence`.
    Persistence,
    /// The annotations of the route, where others are its policy's.
    Route,
    /// The annotations of the object that asks for the sessions.
    Annotations,
    /// The controller's `sessionDefaults`.
    Defaults,
    /// The Gateway API, by the shape of `sessionPersistence`.
    Shape,
    /// The matches of the rule, where the path of the cookie is theirs.
    Matches,
    /// The listeners, where the host is served over HTTP and HTTPS.
    Schemes,
}

/// The parts that say the fields of a policy. The others are the filter's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origins {
    holder: SessionCarrier,
    /// The parts in the order of the table.
    parts: [Option<FieldSource>; COUNT],
}

impl Origins {
    pub(super) fn new(holder: SessionCarrier, part: impl Fn(&SessionField) -> Option<FieldSource>) -> Self {
        let mut parts = [None; COUNT];
        for (to, entry) in parts.iter_mut().zip(SessionField::ALL) {
            *to = part(entry);
        }
        Self { holder, parts }
    }

    pub(super) fn set(&mut self, annotation: &str, part: FieldSource) {
        for (to, entry) in self.parts.iter_mut().zip(SessionField::ALL) {
            if entry.annotation() == annotation {
                *to = Some(part);
            }
        }
    }

    pub(super) fn domain(&self) -> Option<FieldSource> {
        let mut fields = self.fields();
        fields.find_map(|(entry, part)| part.filter(|_| entry.config == ["cookie.domain"]))
    }

    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static SessionField, Option<FieldSource>)> + '_ {
        let all = SessionField::ALL.iter().zip(self.parts);
        all.filter(|(entry, _)| entry.of.applies_to(self.holder))
    }
}
