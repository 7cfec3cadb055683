//! What GEP-1619's words ask for, from objects in the API server to answers of stock Envoys that `limpet controller` serves. A number is a
//! requirement's; each file says in which words. `e2e/tests/e2e/gateway_api` has the same numbers in depth, of the filter alone.

mod backends;
mod cookies;
mod destinations;
mod dialect;
mod lifetimes;
mod names;
mod precedence;
mod rules;
mod stage;
#[path = "../../e2e/splits/statistics.rs"]
#[allow(dead_code, reason = "the tests of splits need more of it")]
mod statistics;
mod streams;
mod tokens;
