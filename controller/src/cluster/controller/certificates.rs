//! Warns of xDS certificates that end soon: each replica in its log, the leader by an Event on its pod.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use limpet_core::time::Timestamp;
use limpet_xds::{CertificateRole, CertificateUse, Certificates};
use tokio::sync::watch;

use crate::cluster::reconcile::certificates::CertificateFigures;
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};
use crate::time_format;

const INTERVAL: Duration = Duration::from_secs(5);
/// How long before its end a warning names a certificate of long validity.
const BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);
/// One of shorter validity is named in its last fourth, so that timely renewals cause no warning.
const PART: u32 = 4;
const AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The xDS certificates of the server, the connected Envoys, and the Secrets of Gateways.
#[derive(Debug, Clone)]
pub(crate) struct InUse {
    of_server: Certificates,
    in_secrets: Option<watch::Receiver<CertificateFigures>>,
}

impl InUse {
    /// `in_secrets`: the certificates in Secrets of Gateways. `None`: no Envoy is served.
    pub(crate) fn new(
        of_server: Option<Certificates>,
        in_secrets: Option<watch::Receiver<CertificateFigures>>,
    ) -> Option<Self> {
        Some(Self {
            of_server: of_server?,
            in_secrets,
        })
    }

    pub(crate) fn firsts(&self) -> Vec<CertificateUse> {
        let in_secret = self.in_secrets.as_ref().and_then(|known| known.borrow().first.clone());
        let mut firsts: BTreeMap<CertificateRole, CertificateUse> = BTreeMap::new();
        for one in self.of_server.in_use().into_iter().chain(in_secret) {
            let first = firsts.entry(one.role).or_insert_with(|| one.clone());
            if one.validity < first.validity {
                *first = one;
            }
        }
        firsts.into_values().collect()
    }

    /// How many Gateways lack a correct Secret.
    pub(crate) fn behind(&self) -> usize {
        self.in_secrets.as_ref().map_or(0, |known| known.borrow().outdated)
    }
}

/// Runs until the future is dropped.
pub(crate) async fn follow(certificates: InUse, diagnostics: Diagnostics, pod: String) {
    let mut told = LoggedExpiries::default();
    loop {
        let now = SystemTime::now();
        let ending: Vec<_> = certificates
            .firsts()
            .into_iter()
            .filter(|one| is_ending(one, now))
            .collect();
        for one in told.news(&ending, now) {
            tracing::warn!(
                certificate = one.role.name(),
                whose = one.whose,
                end = until(&one),
                "a certificate of xDS must be renewed"
            );
        }
        let diagnostic = |one: &CertificateUse| Diagnostic {
            kind: "Pod",
            namespace: None,
            name: pod.clone(),
            uid: String::new(),
            reason: DiagnosticReason::CertificateEnds,
            message: message(one),
        };
        diagnostics.set("xds.tls", ending.iter().map(diagnostic).collect::<BTreeSet<_>>());
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Negative after the end.
pub(crate) fn seconds_left(one: &CertificateUse, now: SystemTime) -> f64 {
    match one.validity.ends.duration_since(now) {
        Ok(left) => left.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    }
}

fn is_ending(one: &CertificateUse, now: SystemTime) -> bool {
    let validity = one.validity;
    let whole = validity.ends.duration_since(validity.begins).unwrap_or_default();
    validity.ends.duration_since(now).unwrap_or_default() <= BEFORE.min(whole / PART)
}

/// The end as in RFC 3339.
fn until(one: &CertificateUse) -> String {
    let end = one.validity.ends.duration_since(UNIX_EPOCH).unwrap_or_default();
    time_format::exact(Timestamp::from_unix_seconds(end.as_secs()))
}

fn message(one: &CertificateUse) -> String {
    let what = match one.role {
        CertificateRole::Server => "the certificate in",
        CertificateRole::Authority => "an authority in",
        CertificateRole::Client => "the certificate of",
    };
    format!("{what} {} ends at {}: renew it", one.whose, until(one))
}

#[derive(Debug, Default)]
struct LoggedExpiries(BTreeMap<CertificateRole, (CertificateUse, SystemTime)>);

impl LoggedExpiries {
    /// Returns certificates that were not logged yet, or not since yesterday.
    fn news(&mut self, ending: &[CertificateUse], now: SystemTime) -> Vec<CertificateUse> {
        self.0.retain(|role, _| ending.iter().any(|one| one.role == *role));
        let mut news = Vec::new();
        for one in ending {
            let is_told = self.0.get(&one.role).is_some_and(|(told, at)| {
                told.validity == one.validity && now.duration_since(*at).unwrap_or_default() < AGAIN
            });
            if !is_told {
                self.0.insert(one.role, (one.clone(), now));
                news.push(one.clone());
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use limpet_xds::Validity;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn valid(days: u32, from: SystemTime) -> CertificateUse {
        CertificateUse {
            role: CertificateRole::Server,
            whose: "tls.crt".to_owned(),
            validity: Validity {
                begins: from,
                ends: from + days * DAY,
            },
        }
    }

    #[test]
    fn a_certificate_is_told_of_30_days_before_its_end() {
        let start = UNIX_EPOCH + 10_000 * DAY;
        let year = valid(365, start);
        assert!(!is_ending(&year, start + 334 * DAY));
        assert!(is_ending(&year, start + 335 * DAY));
        assert!(is_ending(&year, start + 400 * DAY));
        assert!(
            message(&year).ends_with("tls.crt ends at 1998-05-19T00:00:00Z: renew it"),
            "{}",
            message(&year)
        );
        // One that is renewed every few days causes no warnings.
        let week = valid(8, start);
        assert!(!is_ending(&week, start + 5 * DAY));
        assert!(is_ending(&week, start + 6 * DAY));
        assert!(seconds_left(&week, start + 9 * DAY) < 0.0);
    }

    #[test]
    fn it_is_told_once_a_day_and_when_it_changes() {
        let start = UNIX_EPOCH + 10_000 * DAY;
        let mut told = LoggedExpiries::default();
        let (first, second) = (valid(1, start), valid(2, start));
        assert_eq!(told.news(std::slice::from_ref(&first), start).len(), 1);
        assert_eq!(told.news(std::slice::from_ref(&first), start + DAY / 2).len(), 0);
        assert_eq!(told.news(&[first], start + DAY).len(), 1);
        assert_eq!(told.news(std::slice::from_ref(&second), start + DAY).len(), 1);
        assert_eq!(told.news(&[], start + DAY).len(), 0);
        assert_eq!(told.news(&[second], start + DAY).len(), 1);
    }
}
