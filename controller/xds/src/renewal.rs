//! When a connection ends so that its client shows a renewed certificate: a client shows it only when it connects, so
//! one that has renewed it would look like one that cannot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use tokio::time::sleep;

use super::tls::{CertificateSource, verifies};
use super::validity::Validity;

/// The part of its certificate's life in which a connection ends. It is usual to renew at two thirds; then a client
/// needs some minutes to have it. At three quarters a warning says that it ends.
const FROM: f64 = 0.70;
const TO: f64 = 0.72;
/// The longest time until a client with the same certificate is asked again; sooner, a fourth of what is left of it.
const AGAIN: Duration = Duration::from_secs(24 * 3600);
/// More than a client takes to come back.
const RETURN: Duration = Duration::from_secs(10);
/// How often connections are compared with the authorities that are trusted.
const TRUST: Duration = Duration::from_secs(1);
/// How often the clock is read: timers do not run while the machine is suspended, and clocks are set.
const LOOK: Duration = Duration::from_secs(60);

/// Waits until a client that has shown these certificates should connect again, and could with the same ones: a client
/// that cannot renew them loses nothing.
pub(super) async fn wait(tls: &CertificateSource, shown: &[CertificateDer<'_>], validity: Validity) {
    let due = due(validity, SystemTime::now(), random());
    loop {
        let now = SystemTime::now();
        let rest = due.duration_since(now).unwrap_or_default();
        if rest.is_zero() && now.checked_add(RETURN).is_some_and(|back| tls.admits(shown, back)) {
            return;
        }
        sleep(if rest.is_zero() { LOOK } else { rest.min(LOOK) }).await;
    }
}

/// Waits until the authority of these certificates is not trusted any more: a client with a stolen key would otherwise
/// stay. Certificates that have ended meanwhile do not matter.
pub(super) async fn distrusted(tls: &CertificateSource, shown: &[CertificateDer<'_>], validity: Validity) {
    let mut compared = None;
    loop {
        let verifier = tls.verifier();
        if !is_same(compared.as_ref(), verifier.as_ref()) {
            let at = SystemTime::now().min(validity.ends);
            if verifier.as_ref().is_some_and(|by| !verifies(&**by, shown, at)) {
                return;
            }
            compared = verifier;
        }
        sleep(TRUST).await;
    }
}

fn is_same(one: Option<&Arc<dyn ClientCertVerifier>>, two: Option<&Arc<dyn ClientCertVerifier>>) -> bool {
    one.zip(two).is_some_and(|(one, two)| Arc::ptr_eq(one, two))
}

/// When a connection should end. `random`, from 0 to 1, spreads the ends of connections whose certificates have one
/// age.
fn due(validity: Validity, began: SystemTime, random: f64) -> SystemTime {
    let between = |from: f64, to: f64| (to - from).mul_add(random, from);
    let whole = validity.ends.duration_since(validity.begins).unwrap_or_default();
    let first = validity.begins.checked_add(whole.mul_f64(between(FROM, TO)));
    let first = first.unwrap_or(validity.ends);
    if began < first {
        return first;
    }
    let left = validity.ends.duration_since(began).unwrap_or_default();
    let wait = (left / 4).min(AGAIN).mul_f64(between(0.8, 1.0)).max(RETURN);
    began.checked_add(wait).unwrap_or(validity.ends)
}

fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn valid(days: u32) -> Validity {
        let begins = SystemTime::UNIX_EPOCH + 10_000 * DAY;
        Validity {
            ends: begins + days * DAY,
            begins,
        }
    }

    #[test]
    fn a_connection_ends_between_renewal_and_warning() {
        let certificate = valid(300);
        let day = |random| due(certificate, certificate.begins, random).duration_since(certificate.begins);
        let (first, last) = (day(0.0).unwrap(), day(1.0).unwrap());
        assert!(first >= 209 * DAY && first <= 211 * DAY, "{first:?}");
        assert!(last > first + 5 * DAY && last < 225 * DAY, "{last:?}");
        assert!((0..100).map(|_| random()).all(|random| (0.0..=1.0).contains(&random)));
        assert!((0..100).any(|_| random() < 0.5) && (0..100).any(|_| random() > 0.5));
    }

    #[test]
    fn who_comes_back_with_an_old_certificate_is_asked_daily() {
        let certificate = valid(300);
        let wait = |left: Duration, random| {
            let began = certificate.ends - left;
            due(certificate, began, random).duration_since(began).unwrap()
        };
        for random in [0.0, 0.3, 1.0] {
            let daily = wait(60 * DAY, random);
            assert!(daily >= DAY / 2 && daily <= DAY, "{daily:?}");
            let hourly = wait(DAY / 6, random);
            assert!(hourly >= DAY / 40 && hourly <= DAY / 24, "{hourly:?}");
            assert_eq!(wait(Duration::from_secs(1), random), RETURN);
        }
    }
}
