//! The wasm32 filter.
