//! Sessions of rules with several services, and the services that they go to.

mod destinations;
mod distribution;
mod forged;
mod kept;
mod leaving;
mod modifiers;
mod moves;
pub(crate) mod per_scope;
pub(crate) mod rule;
mod settings;
mod silent;
pub(crate) mod site;
pub(crate) mod specifier;
mod statistics;
