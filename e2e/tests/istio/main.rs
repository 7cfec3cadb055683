//! Sessions in Istio: a real istiod, stock Envoys as its gateways, and the objects of `envoy-configs/istio` or of the
//! controller.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod by_controller;
mod by_hand;
mod carriers;
#[path = "../control_planes/carriers.rs"]
mod elsewhere;
mod golden;
mod site;
