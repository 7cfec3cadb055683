use std::fmt;

use limpet_api::DecodeError;

/// A field that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FieldProblem {
    /// Like `spec.rules[2].sessionPersistence.absoluteTimeout`.
    pub(crate) field: String,
    /// What was expected.
    pub(crate) message: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All problems in one line.
pub(crate) fn joined<'p>(problems: impl IntoIterator<Item = &'p FieldProblem>) -> String {
    let problems = problems.into_iter().map(ToString::to_string);
    problems.collect::<Vec<_>>().join("; ")
}

impl From<DecodeError> for FieldProblem {
    fn from(error: DecodeError) -> Self {
        Self {
            field: error.field,
            message: error.message,
        }
    }
}
