use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::cluster::reconcile::turns::in_turns;
use limpet_api::ObjectName;
use limpet_model::short_hash::hash;

/// Identifies a keyring without revealing it.
pub(crate) fn digest(text: &str) -> String {
    hash(text.as_bytes(), 16)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyringDelivery {
    /// The [`digest`] of the keyring that all connected Envoys have. Disconnected ones have had time to come back.
    Has(String),
    /// Why it is unknown.
    WaitsFor(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EnvoyCounts {
    pub(crate) connected: usize,
    pub(crate) settled: usize,
    /// The first ones, with resource and Envoy's message.
    pub(crate) refusals: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OwnReport {
    /// `None`: its keyring comes from a file.
    pub(super) keyring: Option<KeyringDelivery>,
    /// By Gateway. Those without Envoys are left out.
    pub(super) envoys: BTreeMap<String, EnvoyCounts>,
    pub(super) refused_routes: BTreeSet<RefusedRoute>,
    /// The address of metrics.
    pub(super) pages: Option<SocketAddr>,
}

/// The preflight's unit with its version, and Envoy's words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct RefusedRoute {
    pub(crate) unit: String,
    pub(crate) version: String,
    pub(crate) words: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReplicaReport {
    pub(crate) keyring: Option<KeyringDelivery>,
    pub(crate) envoys: BTreeMap<String, EnvoyCounts>,
    pub(crate) refused_routes: BTreeSet<RefusedRoute>,
    pub(crate) pages: Option<SocketAddr>,
    /// How many Gateways had no room.
    pub(crate) untold: usize,
}

/// The other replicas' reports, by name.
pub(crate) type ReplicaView = BTreeMap<String, ReplicaReport>;

/// The first replica without this keyring, and why.
pub(crate) fn behind<'a>(view: &'a ReplicaView, keyring: &str) -> Option<(&'a str, &'a str)> {
    view.iter().find_map(|(replica, said)| match said.keyring.as_ref()? {
        KeyringDelivery::Has(known) if known == keyring => None,
        KeyringDelivery::Has(_) => Some((&**replica, "its Envoys had another keyring when it reported last")),
        KeyringDelivery::WaitsFor(reason) => Some((&**replica, &**reason)),
    })
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseReport {
    replica: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyring: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// By Gateway: connected Envoys, and those that have acknowledged everything. Short, for thousands of Gateways.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    envoys: BTreeMap<String, (usize, usize)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refusals: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    refused_routes: BTreeSet<RefusedRoute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "is_zero")]
    untold: usize,
    /// Another number in each report.
    beat: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The most refused routes of a report.
const ROUTES: usize = 20;
/// Bytes of `"untold":1234567,` and of the names of optional fields.
const UNTOLD: usize = 18 + 60;

impl OwnReport {
    /// The last report. The Envoys' keyring counts until they have had time to come back elsewhere. The pages are gone,
    /// and soon another pod may have the address.
    pub(super) fn ended(&self) -> Self {
        Self {
            envoys: BTreeMap::new(),
            pages: None,
            ..self.clone()
        }
    }

    /// At most `room` bytes: refusals are left out first, then Gateways. Namespaces take turns, so that one with many
    /// Gateways, or with long words, leaves others their room.
    pub(super) fn text(&self, replica: &str, beat: u64, room: usize) -> String {
        let (keyring, waits_for) = match self.keyring.clone() {
            Some(KeyringDelivery::Has(keyring)) => (Some(keyring), None),
            Some(KeyringDelivery::WaitsFor(reason)) => (None, Some(reason)),
            None => (None, None),
        };
        let mut report = LeaseReport {
            replica: replica.to_owned(),
            keyring,
            waits_for,
            envoys: BTreeMap::new(),
            refusals: BTreeMap::new(),
            refused_routes: BTreeSet::new(),
            pages: self.pages,
            untold: 0,
            beat,
        };
        let mut left = room.saturating_sub(report.text().len() + UNTOLD);
        let mut has_room_for = |bytes: usize| {
            let has_room = bytes <= left;
            left -= if has_room { bytes } else { 0 };
            has_room
        };
        for (name, envoys) in in_turns(&self.envoys, "", |(name, _)| ObjectName::namespace_in(name)) {
            let figures = (envoys.connected, envoys.settled);
            if has_room_for(name.len() + json_length(&figures) + 4) {
                report.envoys.insert(name.clone(), figures);
            } else {
                report.untold += 1;
            }
        }
        // Other replicas find omitted ones themselves.
        let routes = in_turns(&self.refused_routes, "", |refused| {
            refused.unit.split('/').nth(1).unwrap_or_default()
        });
        for refused in routes.into_iter().take(ROUTES) {
            if has_room_for(json_length(refused) + 1) {
                report.refused_routes.insert(refused.clone());
            }
        }
        let refusals = self.envoys.iter().filter(|(name, _)| report.envoys.contains_key(*name));
        let refusals = refusals.flat_map(|(name, envoys)| envoys.refusals.iter().map(move |words| (name, words)));
        for (name, words) in in_turns(refusals, "", |(name, _)| ObjectName::namespace_in(name)) {
            let is_first = !report.refusals.contains_key(name);
            // `"":[],` or a comma.
            let besides = if is_first { name.len() + 6 } else { 1 };
            if has_room_for(json_length(words) + besides) {
                report.refusals.entry(name.clone()).or_default().push(words.clone());
            }
        }
        report.text()
    }
}

fn json_length(value: &impl Serialize) -> usize {
    // Texts and numbers: this cannot fail.
    serde_json::to_string(value).map_or(0, |text| text.len())
}

impl LeaseReport {
    fn text(&self) -> String {
        // Texts and numbers: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl ReplicaReport {
    /// Also returns the replica's name. Fails on reports of other releases, too.
    pub(super) fn read(text: &str) -> Result<(String, Self), serde_json::Error> {
        let report: LeaseReport = serde_json::from_str(text)?;
        let keyring = report.keyring.map(KeyringDelivery::Has);
        let mut refusals = report.refusals;
        let envoys = report.envoys.into_iter().map(|(name, (connected, settled))| {
            let envoys = EnvoyCounts {
                connected,
                settled,
                refusals: refusals.remove(&name).unwrap_or_default(),
            };
            (name, envoys)
        });
        let said = Self {
            envoys: envoys.collect(),
            refused_routes: report.refused_routes,
            pages: report.pages,
            keyring: keyring.or_else(|| report.waits_for.map(KeyringDelivery::WaitsFor)),
            untold: report.untold,
        };
        Ok((report.replica, said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateways(count: usize, words: &str) -> OwnReport {
        let envoys = EnvoyCounts {
            connected: 2,
            settled: 1,
            refusals: vec![words.to_owned(); 3],
        };
        OwnReport {
            keyring: Some(KeyringDelivery::Has(digest("a"))),
            envoys: (0..count)
                .map(|number| (format!("shop-{number:04}/web"), envoys.clone()))
                .collect(),
            refused_routes: BTreeSet::new(),
            pages: Some(([10, 0, 0, 1], 8080).into()),
        }
    }

    #[test]
    fn a_report_is_short_json() {
        let expected = format!(
            concat!(
                r#"{{"replica":"leader","keyring":"{}","envoys":{{"shop-0000/web":[2,1]}},"#,
                r#""refusals":{{"shop-0000/web":["no","no","no"]}},"pages":"10.0.0.1:8080","beat":1}}"#
            ),
            digest("a")
        );
        assert_eq!(gateways(1, "no").text("leader", 1, 1000), expected);
        let own = OwnReport {
            keyring: Some(KeyringDelivery::WaitsFor("1 Envoy".to_owned())),
            ..OwnReport::default()
        };
        let expected = r#"{"replica":"leader","waitsFor":"1 Envoy","beat":2}"#;
        assert_eq!(own.text("leader", 2, 1000), expected);
        assert_eq!(
            OwnReport::default().text("leader", 3, 1000),
            r#"{"replica":"leader","beat":3}"#
        );
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let refused = RefusedRoute {
            unit: "httproute/shop/a".to_owned(),
            version: "01".to_owned(),
            words: "\"no\"".to_owned(),
        };
        let own = OwnReport {
            refused_routes: [refused].into(),
            ..gateways(3, "\"no\", said\nEnvoy")
        };
        let (replica, said) = ReplicaReport::read(&own.text("leader", 1, usize::MAX)).unwrap();
        assert_eq!((&*replica, said.untold), ("leader", 0));
        assert_eq!((said.keyring, said.envoys), (own.keyring, own.envoys));
        assert_eq!(said.refused_routes, own.refused_routes);
        assert_eq!(said.pages, own.pages);
    }

    #[test]
    fn refused_routes_of_one_namespace_kept_those_of_others_untold() {
        let refused = |namespace: &str, number: usize| RefusedRoute {
            unit: format!("httproute/{namespace}/{number:02}"),
            version: "01".to_owned(),
            words: "no".to_owned(),
        };
        let many = (0..2 * ROUTES).map(|number| refused("a-many", number));
        let own = OwnReport {
            refused_routes: many.chain([refused("few", 0), refused("few", 1)]).collect(),
            ..OwnReport::default()
        };
        let (_, said) = ReplicaReport::read(&own.text("leader", 1, usize::MAX)).unwrap();
        assert_eq!(said.refused_routes.len(), ROUTES);
        for number in 0..2 {
            assert!(said.refused_routes.contains(&refused("few", number)), "{number}");
        }
    }

    #[test]
    fn gateways_of_one_namespace_kept_those_of_others_untold() {
        let envoys = EnvoyCounts {
            connected: 1,
            ..EnvoyCounts::default()
        };
        let many = (0..1000).map(|number| format!("a-many/web-{number:04}"));
        let own = OwnReport {
            envoys: many
                .chain(["few/web".to_owned()])
                .map(|name| (name, envoys.clone()))
                .collect(),
            ..OwnReport::default()
        };
        let (_, said) = ReplicaReport::read(&own.text("leader", 1, 10_000)).unwrap();
        assert!(said.untold > 500);
        assert!(said.envoys.contains_key("few/web"));
    }

    #[test]
    fn long_words_of_one_namespace_kept_refusals_of_others_untold() {
        let refuses = |words: &str| EnvoyCounts {
            connected: 1,
            settled: 0,
            refusals: vec![words.to_owned()],
        };
        let route = |namespace: &str, words: &str| RefusedRoute {
            unit: format!("httproute/{namespace}/a"),
            version: "01".to_owned(),
            words: words.to_owned(),
        };
        let long = "long ".repeat(800);
        let many = (0..10).map(|number| (format!("a-many/web-{number}"), refuses(&long)));
        let few = ("few/web".to_owned(), refuses("no"));
        let own = OwnReport {
            envoys: many.chain([few]).collect(),
            refused_routes: [route("a-many", &long), route("few", "no")].into(),
            ..OwnReport::default()
        };
        let (_, said) = ReplicaReport::read(&own.text("leader", 1, 10_000)).unwrap();
        assert_eq!(said.envoys["few/web"].refusals, ["no"]);
        assert!(said.refused_routes.contains(&route("few", "no")));
        assert_eq!(said.untold, 0);
    }

    #[test]
    fn where_there_is_little_room_less_is_told_and_that_it_is_less() {
        let own = gateways(1000, &"no".repeat(50));
        // All of it, one refusal each or two, of a few Gateways, and not all Gateways.
        for (room, refusals, untold) in [
            (400_000, [3, 3], false),
            (200_000, [2, 1], false),
            (30_000, [1, 0], false),
            (10_000, [0, 0], true),
        ] {
            let text = own.text("leader", u64::MAX, room);
            assert!(text.len() <= room, "{} in {room}", text.len());
            let (_, said) = ReplicaReport::read(&text).unwrap();
            assert_eq!(said.keyring, own.keyring);
            let told = |name: &str| said.envoys.get(name).map_or(0, |envoys| envoys.refusals.len());
            assert_eq!(["shop-0000/web", "shop-0999/web"].map(told), refusals);
            assert_eq!(said.envoys.len() + said.untold, 1000);
            assert_eq!(said.untold > 0, untold, "{room}");
            // Only necessary omissions.
            assert!(!untold || text.len() + 100 > room, "{} in {room}", text.len());
        }
        let (_, said) = ReplicaReport::read(&own.text("leader", 1, 0)).unwrap();
        assert_eq!((said.keyring, said.untold), (own.keyring, 1000));
    }
}
