use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_outputs::envoys;
use limpet_outputs::manifests::{Manifest, Manifests, WriteStage};
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::reconcile_loop::Reconcile as _;
use crate::cluster::reconcile::test_server::{Asked, client, list, refusal, take};
use crate::cluster::reconcile::turns::ROUND;

/// A leader whose API server refuses the objects of the namespace `many`.
struct Site {
    reconciler: ManifestReconciler,
    written: watch::Receiver<WrittenManifests>,
    asked: Asked,
    wanting: Arc<watch::Sender<Option<Arc<DesiredManifests>>>>,
    _leading: watch::Sender<bool>,
}

fn manifest(gateway: &ObjectName, labels: usize) -> Manifest {
    Manifest {
        stage: WriteStage::Routes,
        definition: &envoys::DEPLOYMENT,
        name: gateway.clone(),
        gateways: [gateway.clone()].into(),
        owner: None,
        labels: [("app".to_owned(), labels.to_string())].into(),
        annotations: [].into(),
        spec: json!({}),
    }
}

/// So many Gateways in the namespace `many`, and one in another.
fn wanted(count: usize, labels: usize) -> Arc<DesiredManifests> {
    let many = (0..count).map(|number| ObjectName::new("many", &format!("{number:03}")));
    let gateways: BTreeSet<ObjectName> = many.chain([ObjectName::new("other", "one")]).collect();
    let objects = gateways.iter().map(|gateway| Arc::new(manifest(gateway, labels)));
    Arc::new(DesiredManifests {
        manifests: Arc::new(Manifests {
            objects: objects.collect(),
            ..Manifests::default()
        }),
        gateways,
        ..DesiredManifests::default()
    })
}

/// `changes`: whether there is newer input with each request.
fn site(count: usize, changes: bool) -> Site {
    let (wanting, wants) = watch::channel(Some(wanted(count, 1)));
    let wanting = Arc::new(wanting);
    let newer = Arc::clone(&wanting);
    let (client, asked) = client(move |request| {
        if changes {
            newer.send_modify(|_| ());
        }
        match request.split_once(' ') {
            Some(("PATCH", path)) if path.contains("/other/") => (200, json!({"metadata": {}})),
            Some(("PATCH", _)) => refusal(403),
            Some((_, path)) if path.contains("labelSelector") || !path.contains("deployments/") => list(&[]),
            _ => refusal(404),
        }
    });
    let (leading, leads) = watch::channel(true);
    let complaints = OrphanDiagnostics::new(&Diagnostics::new(), "pod".to_owned());
    let recipient = ManifestRecipient::Envoys(None);
    let (reconciler, written) =
        ManifestReconciler::new(client, recipient, "c", Duration::ZERO, wants, leads, complaints);
    Site {
        reconciler,
        written,
        asked,
        wanting,
        _leading: leading,
    }
}

/// The Deployments that were written since this was called last.
fn patches(asked: &Asked) -> Vec<String> {
    let mut asked = take(asked);
    asked.retain(|request| request.starts_with("PATCH"));
    asked
}

#[tokio::test]
async fn refused_objects_of_one_namespace_were_asked_for_every_two_seconds_before_those_of_others() {
    let mut site = site(100, false);
    site.reconciler.reconcile().await;
    let first = patches(&site.asked);
    assert_eq!(first.len(), 101);
    assert!(
        first[..2].iter().any(|request| request.contains("/other/")),
        "{first:?}"
    );
    assert_eq!(site.written.borrow().conditions.len(), 100);
    for _ in 0..3 {
        site.reconciler.reconcile().await;
        let again = patches(&site.asked);
        // The API server of this test keeps nothing.
        assert!(again.iter().all(|request| request.contains("/other/")), "{again:?}");
        assert_eq!(site.written.borrow().conditions.len(), 100, "the refusals are reported");
    }
    site.wanting.send_replace(Some(wanted(100, 2)));
    site.reconciler.reconcile().await;
    assert_eq!(patches(&site.asked).len(), 101);
}

#[tokio::test]
async fn a_round_with_many_objects_let_newer_input_wait() {
    let mut site = site(3 * ROUND, true);
    for _ in 0..3 {
        site.reconciler.reconcile().await;
        assert_eq!(patches(&site.asked).len(), ROUND);
    }
}
