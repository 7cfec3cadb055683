//! What a session is.
