//! The requirements of GEP-1619, from objects in the API server to answers of stock Envoys. `e2e/tests/e2e/gateway_api`
//! quotes those that it tests, too, with the same numbers.

mod backends;
mod carriers;
mod client_ip;
mod client_ip_split;
mod cookies;
mod destinations;
mod dialect;
mod lifetimes;
mod names;
mod precedence;
mod rules;
mod site;
#[path = "../../e2e/splits/statistics.rs"]
#[allow(dead_code, reason = "the tests of splits need more of it")]
mod statistics;
mod streams;
mod tokens;

pub(crate) use site::{GatewaySite, rule, stated};
