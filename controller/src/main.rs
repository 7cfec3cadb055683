//! The limpet command.
fn main() {}
