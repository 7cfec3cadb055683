//! Which objects are ours: those with our class. Others are as if they were not there.

use limpet_api::Meta;

use crate::ContourSettings;

/// The first of these annotations that an object has says its class.
const ANNOTATIONS: [&str; 3] = [
    "projectcontour.io/ingress.class",
    "contour.heptio.com/ingress.class",
    "kubernetes.io/ingress.class",
];

pub(super) fn is_class(annotation: &str) -> bool {
    ANNOTATIONS.contains(&annotation)
}

pub(super) fn is_ours(meta: &Meta, settings: &ContourSettings) -> bool {
    let mut classes = ANNOTATIONS.iter().filter_map(|name| meta.annotations.get(*name));
    match classes.next() {
        Some(class) => *class == settings.ingress_class,
        None => settings.unclassified,
    }
}
