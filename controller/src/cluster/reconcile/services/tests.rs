use std::sync::Arc;

use kube::core::{ApiResource, GroupVersionKind};
use limpet_api::{BackendPort, EndpointSelector, Meta, Object, XBackendSpec};
use limpet_model::{Objects, Reports};
use tokio::sync::watch;

use super::*;
use crate::cluster::kube::Observation;
use crate::cluster::reconcile::reconcile_loop::Reconcile as _;
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::test_server::{RecordedRequest, client, refusal, take};
use crate::cluster::reconcile::turns::ROUND;
use limpet_api::{Kind, ObjectName};

/// The API server refuses the Services of the namespace `many`.
struct Site {
    reconciler: ServiceReconciler,
    refused: watch::Receiver<RefusedServices>,
    asked: RecordedRequest,
    reporting: Arc<watch::Sender<Option<PublishedReports>>>,
    _observing: watch::Sender<Observation>,
    _leading: watch::Sender<bool>,
}

fn backend(name: &ObjectName, label: &str) -> Object<XBackendSpec> {
    let selector = EndpointSelector {
        match_labels: [("app".to_owned(), label.to_owned())].into(),
    };
    Object {
        meta: Meta {
            name: name.name.clone(),
            namespace: name.namespace.clone(),
            ..Meta::default()
        },
        spec: XBackendSpec {
            kind: "EndpointSelector".to_owned(),
            endpoint_selector: Some(selector),
            port: Some(BackendPort { number: 80 }),
            ..XBackendSpec::default()
        },
        unread: Vec::new(),
        malformed: None,
    }
}

fn reported(names: &[ObjectName], label: &str) -> PublishedReports {
    let mut objects = Objects::default();
    let mut reports = Reports::default();
    for name in names {
        objects.backends.insert(name.clone(), backend(name, label).into());
        reports.backends.insert(name.clone(), Arc::default());
    }
    PublishedReports {
        objects: Arc::new(objects),
        ..reports.into()
    }
}

/// `changes`: whether there is newer input with each request.
fn site(names: &[ObjectName], changes: bool) -> Site {
    let (reporting, reports) = watch::channel(Some(reported(names, "a")));
    let reporting = Arc::new(reporting);
    let newer = Arc::clone(&reporting);
    let (client, asked) = client(move |request| {
        if changes {
            newer.send_modify(|_| ());
        }
        match request.split_once(' ') {
            Some(("PATCH", path)) if path.contains("/other/") => (
                200,
                serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {}}),
            ),
            Some(("PATCH", _)) => refusal(422),
            _ => refusal(404),
        }
    });
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "gateway.networking.x-k8s.io",
        "v1alpha1",
        "XBackend",
    ));
    let (observing, observation) = watch::channel(Observation {
        served: [(Kind::XBackend, resource)].into(),
        ..Observation::default()
    });
    let (leading, leads) = watch::channel(true);
    let (reconciler, refused) = ServiceReconciler::new(client, reports, observation, leads);
    Site {
        reconciler,
        refused,
        asked,
        reporting,
        _observing: observing,
        _leading: leading,
    }
}

fn many(count: usize) -> Vec<ObjectName> {
    let many = (0..count).map(|number| ObjectName::new("many", &format!("{number:03}")));
    many.chain([ObjectName::new("other", "one")]).collect()
}

fn patches(asked: &RecordedRequest) -> Vec<String> {
    let mut asked = take(asked);
    asked.retain(|request| request.starts_with("PATCH"));
    asked
}

#[tokio::test]
async fn refused_services_were_asked_for_every_ten_seconds_before_those_of_others() {
    let mut site = site(&many(100), false);
    let rest = site.reconciler.reconcile().await;
    let first = patches(&site.asked);
    assert_eq!(first.len(), 101);
    assert!(
        first[..2].iter().any(|request| request.contains("/other/")),
        "{first:?}"
    );
    assert_eq!(site.refused.borrow().len(), 100);
    assert!(rest.is_some_and(|rest| !rest.is_zero()), "{rest:?}");
    // Unchanged refusals are reported without a request.
    for _ in 0..3 {
        site.reporting.send_modify(|_| ());
        site.reconciler.reconcile().await;
        assert_eq!(patches(&site.asked), [] as [String; 0]);
        assert_eq!(site.refused.borrow().len(), 100);
    }
    site.reporting.send_replace(Some(reported(&many(100), "b")));
    site.reconciler.reconcile().await;
    assert_eq!(patches(&site.asked).len(), 101);
}

#[tokio::test]
async fn a_round_with_many_services_let_newer_input_wait() {
    let mut site = site(&many(3 * ROUND), true);
    for left in [3 * ROUND + 1, 2 * ROUND + 1, ROUND + 1, 1, 0] {
        site.reconciler.reconcile().await;
        assert_eq!(patches(&site.asked).len(), left.min(ROUND));
    }
}
