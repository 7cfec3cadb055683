//! Contour's metrics of `IngressRoute`s, under its names. They are made of the last build at each request, so nothing
//! is left of objects that are gone.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::context::ControllerContext;
use super::gauges;
use crate::cluster::reconcile::reported::PublishedReports;
use limpet_api::ObjectName;
use limpet_model::graph::Graph;
use limpet_model::reports::{IngressRouteReport, IngressRouteStatus};
use limpet_model::{Map, Reports};

/// The last build that changed anything of `IngressRoute`s.
#[derive(Debug, Default)]
pub(super) struct LastChange {
    /// Unix time.
    pub(super) at: Option<Duration>,
}

impl LastChange {
    /// Compares two builds. `now`: Unix time.
    pub(super) fn record(
        &mut self,
        gateway: &ObjectName,
        before: Option<(&Graph, &Reports)>,
        (graph, reports): (&Graph, &Reports),
        now: Duration,
    ) {
        let is_same = before.is_some_and(|(former, known)| {
            let gateways = || former.gateways.get(gateway) == graph.gateways.get(gateway);
            known.ingress_routes == reports.ingress_routes && (std::ptr::eq(former, graph) || gateways())
        });
        if !is_same {
            self.at = Some(now);
        }
    }
}

/// Contour's metrics. Only the leader has them.
#[derive(Debug)]
pub(super) struct ContourMetrics {
    leads: watch::Receiver<bool>,
    reported: watch::Receiver<Option<PublishedReports>>,
}

impl ContourMetrics {
    /// Registers them if `IngressRoute`s are read.
    pub(super) fn register(
        registry: &mut Registry,
        context: &ControllerContext,
        reported: &watch::Receiver<Option<PublishedReports>>,
    ) {
        if context.settings.contour.is_some() {
            registry.register_collector(Box::new(Self {
                leads: context.leads.clone(),
                reported: reported.clone(),
            }));
        }
    }
}

impl Collector for ContourMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let reported = self.reported.borrow().clone();
        let Some(reported) = reported.filter(|_| *self.leads.borrow()) else {
            return Ok(());
        };
        if let Some(at) = reported.contour_changed {
            let help = "Unix time of the last build that changed anything of IngressRoutes.";
            let name = "contour_ingressroute_dagrebuild_timestamp";
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&at.as_secs_f64())?;
        }
        let routes = &reported.reports.ingress_routes;
        let in_namespace = |name: &ObjectName, _: &IngressRouteReport| vec![("namespace", name.namespace.to_string())];
        let of_host = |name: &ObjectName, report: &IngressRouteReport| {
            vec![
                ("namespace", name.namespace.to_string()),
                ("vhost", report.vhost.to_string()),
            ]
        };
        let is = |status| move |report: &IngressRouteReport| report.status == status;
        let mut write = |name: &str, help: &str, counts: BTreeMap<_, u64>| {
            gauges::write(&mut encoder, &format!("contour_ingressroute_{name}"), help, counts)
        };
        let all = count(routes, |_| true, in_namespace);
        write("total", "IngressRoutes.", all)?;
        let roots = count(routes, |report| report.is_root, in_namespace);
        write("root_total", "IngressRoutes that are roots.", roots)?;
        let orphaned = count(routes, is(IngressRouteStatus::Orphaned), in_namespace);
        write("orphaned_total", "IngressRoutes without a root.", orphaned)?;
        let valid = count(routes, is(IngressRouteStatus::Valid), of_host);
        write("valid_total", "IngressRoutes that are valid.", valid)?;
        let invalid = count(routes, is(IngressRouteStatus::Invalid), of_host);
        write("invalid_total", "IngressRoutes with a mistake.", invalid)
    }
}

/// Counts objects by labels.
fn count<L: Ord>(
    routes: &Map<ObjectName, IngressRouteReport>,
    is_counted: impl Fn(&IngressRouteReport) -> bool,
    labels: impl Fn(&ObjectName, &IngressRouteReport) -> L,
) -> BTreeMap<L, u64> {
    let mut counts = BTreeMap::new();
    for (name, report) in routes.iter().filter(|(_, report)| is_counted(report)) {
        *counts.entry(labels(name, report)).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::encoding::text::encode;

    use super::*;
    use limpet_model::graph::{Connections, Gateway};

    fn report(status: IngressRouteStatus, vhost: &str, is_root: bool) -> IngressRouteReport {
        IngressRouteReport {
            status,
            description: "".into(),
            vhost: vhost.into(),
            is_root,
            notes: Vec::new(),
        }
    }

    fn reports(all: &[(&str, &str, IngressRouteReport)]) -> Reports {
        let routes = all.iter();
        let routes = routes.map(|(namespace, name, report)| (ObjectName::new(namespace, name), report.clone()));
        Reports {
            ingress_routes: routes.collect(),
            ..Reports::default()
        }
    }

    fn reported(reports: Reports) -> PublishedReports {
        PublishedReports {
            contour_changed: Some(Duration::from_millis(1500)),
            ..reports.into()
        }
    }

    #[test]
    fn the_leader_alone_counts_the_objects_that_are_there() {
        use IngressRouteStatus::{Invalid, Orphaned, Valid};
        let (leading, leads) = watch::channel(true);
        let (reporting, of_build) = watch::channel(None);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ContourMetrics {
            leads,
            reported: of_build,
        }));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            let samples = samples.map(|line| line.trim_start_matches("contour_ingressroute_").to_owned());
            samples.collect::<Vec<_>>()
        };
        assert!(text().is_empty(), "nothing is built");
        reporting.send_replace(Some(reported(reports(&[
            ("a", "root", report(Valid, "a.example", true)),
            ("a", "part", report(Valid, "a.example", false)),
            ("a", "lost", report(Orphaned, "", false)),
            ("b", "root", report(Invalid, "", true)),
            ("b", "other", report(Invalid, "b.example", true)),
        ]))));
        let all = [
            "dagrebuild_timestamp 1.5",
            r#"total{namespace="a"} 3"#,
            r#"total{namespace="b"} 2"#,
            r#"root_total{namespace="a"} 1"#,
            r#"root_total{namespace="b"} 2"#,
            r#"orphaned_total{namespace="a"} 1"#,
            r#"valid_total{namespace="a",vhost="a.example"} 2"#,
            r#"invalid_total{namespace="b",vhost=""} 1"#,
            r#"invalid_total{namespace="b",vhost="b.example"} 1"#,
        ];
        assert_eq!(text(), all);
        leading.send_replace(false);
        assert!(text().is_empty(), "another replica leads");
        leading.send_replace(true);
        reporting.send_replace(Some(reported(reports(&[]))));
        assert_eq!(text(), ["dagrebuild_timestamp 1.5"]);
    }

    #[test]
    fn a_build_that_changes_nothing_of_contours_has_no_time() {
        let name = ObjectName::new("web", "contour");
        let served = |hops: u32| {
            let gateway = Gateway {
                connections: Connections {
                    trusted_hops: hops,
                    ..Connections::default()
                },
                ..Gateway::default()
            };
            Graph {
                gateways: [(name.clone(), gateway)].into_iter().collect(),
                ..Graph::default()
            }
        };
        let (first, mut second, other) = (served(0), served(0), served(1));
        second.gateways.insert(ObjectName::new("shop", "web"), Arc::default());
        let none = reports(&[]);
        let some = reports(&[("a", "root", report(IngressRouteStatus::Valid, "", true))]);
        let mut last = LastChange::default();
        let mut at = |before, after, now| {
            last.record(&name, before, after, Duration::from_secs(now));
            last.at.map(|at| at.as_secs())
        };
        assert_eq!(at(None, (&first, &none), 1), Some(1));
        assert_eq!(at(Some((&first, &none)), (&first, &none), 2), Some(1));
        assert_eq!(at(Some((&first, &none)), (&second, &none), 3), Some(1));
        assert_eq!(at(Some((&second, &none)), (&other, &none), 4), Some(4));
        assert_eq!(at(Some((&other, &none)), (&other, &some), 5), Some(5));
    }
}
