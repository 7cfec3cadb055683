/// Why an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct DecodeError {
    /// The field's path, like `spec.rules[0].matches`.
    pub field: String,
    /// What was expected there.
    pub message: String,
}
