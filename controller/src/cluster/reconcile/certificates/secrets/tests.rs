use std::sync::Arc;
use std::time::{Duration, SystemTime};

use limpet_api::ObjectName;
use limpet_model::Reports;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::cluster::reconcile::reconcile_loop::Reconcile as _;
use crate::cluster::reconcile::test_server::{RecordedRequest, client, list, take};
use crate::cluster::reconcile::turns::ROUND;

/// A leader in whose namespace `many` all names of Secrets are taken.
struct Site {
    reconciler: CertificateReconciler,
    diagnostics: Diagnostics,
    asked: RecordedRequest,
    _reporting: Arc<watch::Sender<Option<PublishedReports>>>,
    _knowing: watch::Sender<KnownAuthority>,
    _leading: watch::Sender<bool>,
}

fn reported(count: usize) -> PublishedReports {
    let many = (0..count).map(|number| ObjectName::new("many", &format!("{number:03}")));
    PublishedReports {
        gateways: Arc::new(many.chain([ObjectName::new("other", "one")]).collect()),
        ..Reports::default().into()
    }
}

/// `changes`: whether each request adds a Gateway.
fn site(count: usize, changes: bool) -> Site {
    let (reporting, reports) = watch::channel(Some(reported(count)));
    let reporting = Arc::new(reporting);
    let newer = Arc::clone(&reporting);
    let (client, asked) = client(move |request| {
        if changes {
            newer.send_modify(|known| {
                if let Some(known) = known {
                    let gateways = Arc::make_mut(&mut known.gateways);
                    gateways.insert(ObjectName::new("third", &gateways.len().to_string()));
                }
            });
        }
        match request.split_once(' ') {
            Some(("PATCH", _)) => (200, json!({"metadata": {}})),
            Some((_, path)) if path.contains("/many/") && path.contains("fieldSelector") => {
                list(&[json!({"metadata": {"name": "taken"}})])
            }
            _ => list(&[]),
        }
    });
    let authority = Authority::new(SystemTime::now(), Duration::from_secs(86_400)).unwrap();
    let (knowing, known) = watch::channel(KnownAuthority {
        authority: Some(Arc::new(authority)),
        missing: None,
    });
    let place = SecretPlacement {
        namespace: "limpet".to_owned(),
        with_gateways: true,
        label: "c".to_owned(),
        keys: None,
    };
    let (leading, leads) = watch::channel(true);
    let (everywhere, _) = watch::channel(None);
    let diagnostics = Diagnostics::new();
    let life = Duration::from_secs(3600);
    let (reconciler, _) = CertificateReconciler::new(
        client,
        (place, life),
        reports,
        known,
        everywhere,
        leads,
        diagnostics.clone(),
    );
    Site {
        reconciler,
        diagnostics,
        asked,
        _reporting: reporting,
        _knowing: knowing,
        _leading: leading,
    }
}

fn tried(asked: &RecordedRequest) -> (usize, usize) {
    let asked = take(asked);
    let count = |part: &str| asked.iter().filter(|request| request.contains(part)).count();
    (count("fieldSelector"), count("PATCH"))
}

#[tokio::test]
async fn secrets_of_others_cost_a_signature_and_a_list_every_ten_seconds() {
    let mut site = site(20, false);
    site.reconciler.reconcile().await;
    let first = site.asked.lock().unwrap().clone();
    let mut tries = first.iter().filter(|request| request.contains("fieldSelector"));
    assert!(
        tries.by_ref().take(2).any(|request| request.contains("/other/")),
        "{first:?}"
    );
    assert_eq!(tried(&site.asked), (21, 1));
    let told = site.diagnostics.of(ABOUT);
    assert_eq!(told.len(), 1);
    for _ in 0..3 {
        site.reconciler.compared = None;
        site.reconciler.reconcile().await;
        // The API server of this test keeps nothing.
        assert_eq!(tried(&site.asked), (1, 1));
        assert_eq!(site.diagnostics.of(ABOUT), told);
    }
}

#[tokio::test]
async fn a_round_with_many_certificates_let_newer_input_wait() {
    let mut site = site(3 * ROUND, true);
    for _ in 0..2 {
        site.reconciler.reconcile().await;
        assert_eq!(tried(&site.asked).0, ROUND);
    }
}
