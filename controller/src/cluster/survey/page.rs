//! What controllers tell of sessions: the JSON of `GET /sessions`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::time_format;

/// What one controller tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SessionsPage {
    /// Since when it counts, in RFC 3339: another time after a restart. `None`: it does not yet.
    pub(crate) since: Option<String>,
    /// Whether it knows all sessions.
    pub(crate) complete: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) why: BTreeSet<String>,
    pub(crate) pods: Vec<PodRow>,
}

/// The sessions of a Service at one of its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodRow {
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) pod: String,
    /// The pod's uid. Pods of one name have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    /// One of its addresses, with the port.
    pub(crate) address: String,
    pub(crate) state: PodRowState,
    /// Distinct sessions that were seen within their idle bound.
    pub(crate) sessions: u64,
    /// Requests in flight, including `WebSockets`.
    pub(crate) streams: u64,
    pub(crate) requests: u64,
    /// In RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_use: Option<String>,
    /// Since when the oldest session is known, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest: Option<String>,
    /// Whether there are no more than these.
    pub(crate) complete: bool,
    /// Why there may be more.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) why: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PodRowState {
    /// No route leads to its Service any more.
    Unrouted,
    /// It is no endpoint any more.
    Gone,
    #[default]
    Ready,
    /// It gets no new sessions.
    Draining,
}

impl PodRowState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unrouted => "unrouted",
            Self::Gone => "gone",
            Self::Ready => "ready",
            Self::Draining => "draining",
        }
    }
}

impl SessionsPage {
    /// Why it does not know all sessions.
    pub(super) fn doubts(&self) -> impl Iterator<Item = String> {
        let silent = !self.complete && self.why.is_empty();
        let silent = silent.then(|| "a controller does not say whether it knows all sessions".to_owned());
        let why = self.why.iter().filter(|_| !self.complete).cloned();
        why.chain(silent)
    }
}

impl PodRow {
    /// There may be more than these.
    pub(super) fn doubt(&mut self, why: impl IntoIterator<Item = String>) {
        self.why.extend(why);
        self.complete &= self.why.is_empty();
    }

    /// What tells its pod from others: also from one that had its name.
    pub(crate) fn identity(&self) -> [&str; 4] {
        let address = || self.address.rsplit_once(':').map_or(&*self.address, |(ip, _)| ip);
        let pod = self.uid.as_deref().unwrap_or_else(address);
        [&self.namespace, &self.pod, &self.service, pod]
    }
}

/// What the pages of all controllers say together, by namespace, pod and Service, pods that are no backends last.
/// `pages` has each controller's, by replica.
///
/// Replicas tell each other what they count, so the largest number is the nearest. Several controllers in a namespace
/// have Envoys of their own, so their numbers add up.
pub(crate) fn together(pages: impl IntoIterator<Item = Vec<SessionsPage>>) -> Vec<PodRow> {
    let of_each = pages
        .into_iter()
        .map(|replicas| joined(replicas.into_iter().map(|page| page.pods), u64::max));
    let mut all = joined(of_each, u64::saturating_add);
    let is_backend = |state| matches!(state, PodRowState::Ready | PodRowState::Draining);
    let key = |row: &PodRow| (!is_backend(row.state), row.identity().map(str::to_owned));
    all.sort_by_cached_key(|row| (row.namespace.clone(), key(row)));
    all
}

fn joined(all: impl Iterator<Item = Vec<PodRow>>, both: fn(u64, u64) -> u64) -> Vec<PodRow> {
    let mut rows: BTreeMap<[String; 4], PodRow> = BTreeMap::new();
    for row in all.flatten() {
        let identity = row.identity().map(str::to_owned);
        match rows.get_mut(&identity) {
            Some(known) => join(known, &row, both),
            None => drop(rows.insert(identity, row)),
        }
    }
    rows.into_values().collect()
}

fn join(known: &mut PodRow, other: &PodRow, both: fn(u64, u64) -> u64) {
    known.state = known.state.max(other.state);
    known.sessions = both(known.sessions, other.sessions);
    known.streams = both(known.streams, other.streams);
    known.requests = both(known.requests, other.requests);
    known.complete &= other.complete;
    known.why.extend(other.why.iter().cloned());
    let time = |text: &Option<String>| text.as_deref().and_then(|text| time_format::parse(text).ok());
    if time(&other.last_use) > time(&known.last_use) {
        known.last_use.clone_from(&other.last_use);
    }
    let oldest = (time(&other.oldest), time(&known.oldest));
    if matches!(oldest, (Some(other), Some(known)) if other < known) || matches!(oldest, (Some(_), None)) {
        known.oldest.clone_from(&other.oldest);
    }
}

/// Which rows are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowSelection {
    /// `None`: all.
    pub(crate) namespace: Option<String>,
    pub(crate) service: Option<String>,
    pub(crate) pod: Option<String>,
    /// Of a Service or of a pod.
    pub(crate) either: Option<String>,
}

impl RowSelection {
    /// Reads `NAME`, `service/NAME` or `pod/NAME`, with the short names that `kubectl` knows.
    ///
    /// # Errors
    /// If it names another kind.
    pub(crate) fn read(namespace: Option<String>, name: Option<&str>) -> Result<Self, String> {
        let mut selection = Self {
            namespace,
            ..Self::default()
        };
        let Some(name) = name else { return Ok(selection) };
        let (kind, name) = name.split_once('/').unwrap_or(("", name));
        let slot = match kind {
            "" => &mut selection.either,
            "service" | "services" | "svc" => &mut selection.service,
            "pod" | "pods" | "po" => &mut selection.pod,
            other => {
                return Err(format!(
                    "{other}/{name}: expected service/NAME, pod/NAME, or only a name"
                ));
            }
        };
        *slot = Some(name.to_owned());
        Ok(selection)
    }

    pub(crate) fn has(&self, row: &PodRow) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.namespace, &row.namespace)
            && is(&self.service, &row.service)
            && is(&self.pod, &row.pod)
            && (is(&self.either, &row.service) || is(&self.either, &row.pod))
    }

    /// Whether it names a Service or a pod.
    pub(crate) fn names_one(&self) -> bool {
        self.service.is_some() || self.pod.is_some() || self.either.is_some()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(pod: &str, sessions: u64, streams: u64) -> PodRow {
        PodRow {
            namespace: "shop".to_owned(),
            service: "web".to_owned(),
            pod: pod.to_owned(),
            address: "10.0.0.7:8080".to_owned(),
            sessions,
            streams,
            complete: true,
            ..PodRow::default()
        }
    }

    fn page(pods: &[PodRow]) -> SessionsPage {
        SessionsPage {
            pods: pods.to_vec(),
            ..SessionsPage::default()
        }
    }

    #[test]
    fn a_page_is_read_and_written_as_it_is_specified() {
        let text = json!({"since": "2026-11-23T04:00:00Z", "complete": false, "why": ["a", "b"], "pods": [{
            "namespace": "default", "service": "shop", "pod": "shop-1", "uid": "u", "address": "10.0.0.7:8080",
            "state": "draining", "sessions": 12, "streams": 1, "requests": 4711,
            "lastUse": "2026-11-23T06:00:00Z", "oldest": "2026-11-23T05:00:00Z", "complete": true,
        }]});
        let page: SessionsPage = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(page.pods[0].state, PodRowState::Draining);
        assert_eq!(serde_json::to_value(&page).unwrap(), text);
        let later = json!({"since": null, "pods": [{"pod": "shop-1", "colour": "blue", "lastUse": null}], "moves": {}});
        let later: SessionsPage = serde_json::from_value(later).unwrap();
        assert_eq!(later.pods[0].pod, "shop-1", "a newer controller tells more");
    }

    #[test]
    fn of_replicas_the_largest_numbers_count() {
        let one = PodRow {
            last_use: Some("2026-11-23T06:00:01Z".to_owned()),
            oldest: Some("2026-11-23T05:00:00Z".to_owned()),
            ..row("a", 3, 2)
        };
        let other = PodRow {
            state: PodRowState::Draining,
            last_use: Some("2026-11-23T06:00:02.5Z".to_owned()),
            oldest: Some("2026-11-23T04:00:00Z".to_owned()),
            ..row("a", 5, 0)
        };
        let expected = PodRow {
            streams: 2,
            ..other.clone()
        };
        for pages in [[&one, &other], [&other, &one]] {
            let pages = pages.map(|row| page(std::slice::from_ref(row))).to_vec();
            assert_eq!(together([pages]), std::slice::from_ref(&expected));
        }
    }

    #[test]
    fn what_one_replica_doubts_is_doubtful() {
        let mut other = row("a", 5, 0);
        other.doubt(["it has just started".to_owned()]);
        let pages = vec![page(&[row("a", 3, 0)]), page(std::slice::from_ref(&other))];
        assert_eq!(together([pages]), [other]);
        let old: SessionsPage = serde_json::from_value(json!({"pods": []})).unwrap();
        assert_eq!(
            old.doubts().collect::<Vec<_>>(),
            ["a controller does not say whether it knows all sessions"]
        );
    }

    #[test]
    fn a_pod_of_the_same_name_is_another_row() {
        let of = |uid: &str, sessions| PodRow {
            uid: Some(uid.to_owned()),
            ..row("a", sessions, 0)
        };
        let pages = vec![page(&[of("u1", 3), of("u2", 0)]), page(&[of("u2", 1)])];
        assert_eq!(together([pages]), [of("u1", 3), of("u2", 1)]);
        let elsewhere = PodRow {
            address: "10.0.0.8:8080".to_owned(),
            ..row("a", 1, 0)
        };
        let pages = vec![page(&[row("a", 3, 0), elsewhere.clone()])];
        assert_eq!(together([pages]), [row("a", 3, 0), elsewhere]);
    }

    #[test]
    fn pods_that_are_gone_come_last_in_their_namespace() {
        let gone = PodRow {
            state: PodRowState::Gone,
            ..row("a", 48, 0)
        };
        let elsewhere = PodRow {
            namespace: "shop-2".to_owned(),
            ..row("a", 1, 0)
        };
        let pages = [vec![page(&[gone.clone(), row("b", 41, 0), elsewhere.clone()])]];
        assert_eq!(together(pages), [row("b", 41, 0), gone, elsewhere]);
    }

    #[test]
    fn the_numbers_of_several_controllers_add_up() {
        let pages = [
            vec![page(&[row("a", 3, 0)])],
            vec![page(&[row("b", 1, 1), row("a", 5, 1)])],
        ];
        assert_eq!(together(pages), [row("a", 8, 1), row("b", 1, 1)]);
    }

    #[test]
    fn a_name_may_be_of_a_service_or_of_a_pod() {
        let read = |name: &str| RowSelection::read(Some("shop".to_owned()), Some(name));
        for (name, has) in [
            ("web", true),
            ("a", true),
            ("svc/web", true),
            ("service/a", false),
            ("po/a", true),
            ("pod/web", false),
            ("b", false),
        ] {
            assert_eq!(read(name).unwrap().has(&row("a", 1, 0)), has, "{name}");
        }
        let refused = read("deployment/web").unwrap_err();
        assert!(refused.starts_with("deployment/web: expected "), "{refused}");
        let elsewhere = RowSelection::read(Some("pay".to_owned()), None).unwrap();
        assert!(!elsewhere.has(&row("a", 1, 0)) && !elsewhere.names_one());
        assert!(RowSelection::default().has(&row("a", 1, 0)));
    }
}
