//! Rules that lead to several services: whose sessions they have, and where those go.

mod destinations;
mod distribution;
mod forged;
mod kept;
mod leaving;
mod modifiers;
pub(crate) mod per_scope;
pub(crate) mod rule;
pub(crate) mod shop;
mod statistics;
