use limpet_api::DecodeError;

/// A field that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    /// Its path, like `spec.rules[2].sessionPersistence.absoluteTimeout`.
    pub(crate) field: String,
    /// What was expected.
    pub(crate) message: String,
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Self {
        Self {
            field: error.field,
            message: error.message,
        }
    }
}
