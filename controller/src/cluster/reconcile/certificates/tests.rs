use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;

use super::config::AuthorityConfig;
use super::content::{Authority, AuthorityPhase, AuthorityStep};
use super::gateways::{GatewaySecrets, SecretPlacement};
use super::schedule::{AuthorityStepDue, next_step, renewal};
use super::sign;
use limpet_api::ObjectName;
use limpet_xds::{TlsInMemory, TlsPem, Validity};

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);
const NAME: &str = "limpet-xds-authority";

/// Whole seconds, as in certificates.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn authority() -> Authority {
    written(&Authority::new(now(), 300 * DAY).unwrap())
}

fn written(authority: &Authority) -> Authority {
    Authority::read(authority.object(NAME).object()).unwrap()
}

fn after(authority: &Authority, step: AuthorityStep) -> Authority {
    written(&authority.after(step, now(), 300 * DAY).unwrap())
}

fn place(with_gateways: bool) -> SecretPlacement {
    SecretPlacement {
        namespace: "limpet-system".to_owned(),
        with_gateways,
        label: "limpet.dev_controller".to_owned(),
        keys: None,
    }
}

fn web() -> GatewaySecrets {
    GatewaySecrets::new(&ObjectName::new("shop", "web"), Some("uid"), &place(false))
}

fn secret_of(wanted: &GatewaySecrets, authority: &Authority) -> SecretObject {
    let (pair, _) = wanted.sign(authority, now(), 30 * DAY).unwrap();
    wanted.object(&pair, authority).object().clone()
}

fn is_good(secret: &SecretObject, authority: &Authority, now: SystemTime) -> bool {
    web().certificate(secret, authority, now).is_some() && web().is_complete(secret, authority)
}

fn set(secret: &mut SecretObject, field: &str, value: Option<&[u8]>) {
    let data = secret.data.get_or_insert_default();
    match value {
        Some(value) => data.insert(field.to_owned(), ByteString(value.to_vec())),
        None => data.remove(field),
    };
}

#[test]
fn an_authority_is_read_as_it_was_written() {
    let first = authority();
    assert_eq!(first, written(&first));
    assert_eq!(first.phase(), AuthorityPhase::Settled);
    assert_eq!(first.validity.ends, now() + 300 * DAY);
    assert_ne!(first, authority(), "two have one key");
}

#[test]
fn a_rotation_goes_through_its_phases() {
    let old = authority();
    let trusted = after(&old, AuthorityStep::Introduce);
    assert_eq!(trusted.phase(), AuthorityPhase::Trusted);
    assert_eq!(trusted.signing, old.signing);
    assert!(trusted.trusted.starts_with(&old.trusted) && trusted.trusted.len() > old.trusted.len());

    let signs = after(&trusted, AuthorityStep::Sign);
    assert_eq!(signs.phase(), AuthorityPhase::Signs);
    assert_eq!(signs.trusted, trusted.trusted);
    assert_ne!(signs.signing, old.signing);

    let new = after(&signs, AuthorityStep::Forget);
    assert_eq!(new.phase(), AuthorityPhase::Settled);
    assert_eq!(new.signing, signs.signing);
    assert!(!new.trusted.contains(&old.signing.certificate));
}

#[test]
fn a_phase_lasts_until_every_secret_has_had_it_for_long_enough() {
    let trusted = after(&authority(), AuthorityStep::Introduce);
    let signs = after(&trusted, AuthorityStep::Sign);
    for (authority, step) in [(trusted, AuthorityStep::Sign), (signs, AuthorityStep::Forget)] {
        let at = |held| next_step(&authority, now() + 250 * DAY, held, 10 * MINUTE);
        assert_eq!(at(None), AuthorityStepDue::WithSecrets);
        assert_eq!(at(Some(9 * MINUTE)), AuthorityStepDue::In(MINUTE));
        assert_eq!(at(Some(10 * MINUTE)), AuthorityStepDue::Now(step));
    }
}

#[test]
fn an_authority_is_replaced_in_time_or_when_asked() {
    let mut settled = authority();
    let due = |authority: &Authority, day: u32| next_step(authority, now() + day * DAY, None, MINUTE);
    assert!(matches!(due(&settled, 190), AuthorityStepDue::In(rest) if rest < 11 * DAY));
    assert_eq!(due(&settled, 201), AuthorityStepDue::Now(AuthorityStep::Introduce));
    assert_eq!(
        due(&settled, 300),
        AuthorityStepDue::Now(AuthorityStep::Replace),
        "no Envoy connects any more"
    );
    settled.rotation_request = Some("now".to_owned());
    assert_eq!(due(&settled, 1), AuthorityStepDue::Now(AuthorityStep::Introduce));
    let trusted = after(&settled, AuthorityStep::Introduce);
    assert_eq!(
        due(&trusted, 300),
        AuthorityStepDue::Now(AuthorityStep::Sign),
        "no Envoy connects any more"
    );
}

#[test]
fn a_wish_for_another_authority_is_heeded_once() {
    let first = authority();
    let mut secret = first.object(NAME).object().clone();
    secret.metadata.annotations = Some([("limpet.dev/rotate".to_owned(), "1".to_owned())].into());
    let wished = Authority::read(&secret).unwrap();
    assert_eq!(wished.rotation_request.as_deref(), Some("1"));
    let next = wished.after(AuthorityStep::Introduce, now(), DAY).unwrap();
    let begun = next.within(&secret, wished.rotation_request.as_deref());
    assert_eq!(Authority::read(begun.object()).unwrap().rotation_request, None);
}

#[test]
fn a_damaged_authority_is_told_by_its_field() {
    let other = authority();
    let trusted = after(&authority(), AuthorityStep::Introduce);
    let leaf = sign::server(&other.signing, &["a".to_owned()], now(), now() + DAY).unwrap();
    let broken = |change: &dyn Fn(&mut SecretObject)| {
        let mut secret = trusted.object(NAME).object().clone();
        change(&mut secret);
        Authority::read(&secret).unwrap_err().0
    };
    let with = |field: &'static str, value: Option<&[u8]>| broken(&|secret| set(secret, field, value));
    assert!(broken(&|secret| secret.type_ = Some("Opaque".to_owned())).starts_with("type: expected"));
    for field in ["tls.crt", "tls.key", "ca.crt", "next.crt", "next.key"] {
        let expected = format!("data[{field}]: expected ");
        for value in [None, Some(&b"damaged"[..]), Some(&[0xff, 0xfe])] {
            let error = with(field, value);
            assert!(
                error.starts_with(&expected) || error.contains(field),
                "{field}: {error}"
            );
        }
    }
    assert!(with("tls.crt", Some(leaf.certificate.as_bytes())).contains("the certificate of one authority"));
    assert!(with("tls.key", Some(other.signing.key.as_bytes())).contains("the private key of tls.crt"));
    let foreign = with("ca.crt", Some(other.trusted.as_bytes()));
    assert_eq!(
        foreign,
        "data[ca.crt]: expected the certificate in tls.crt among others"
    );
    let former = trusted.signing.certificate.as_bytes();
    assert_eq!(
        with("ca.crt", Some(former)),
        "data[ca.crt]: expected the certificate in next.crt among others"
    );
}

#[test]
fn what_replicas_sign_is_taken_by_their_servers() {
    let authority = authority();
    let names = ["limpet-controller.shop".to_owned(), "10.0.0.1".to_owned()];
    let made = sign::server(&authority.signing, &names, now(), now() + DAY).unwrap();
    let identity = identity(&made.certificate);
    assert_eq!(identity.dns_names, ["limpet-controller.shop"]);
    let pem = TlsPem {
        certificate: made.certificate.as_bytes(),
        key: made.key.as_bytes(),
        client_ca: authority.trusted.as_bytes(),
        kept_in: NAME,
    };
    TlsInMemory::default().hand_over(&pem).unwrap();
    assert!(sign::server(&authority.signing, &["\u{e9}".to_owned()], now(), now() + DAY).is_err());
}

fn identity(pem: &str) -> limpet_xds::CertificateIdentity {
    use rustls::pki_types::pem::PemObject as _;
    let der = rustls::pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    limpet_xds::CertificateIdentity::of(&der).unwrap()
}

#[test]
fn a_certificate_names_its_gateway_and_no_other() {
    let authority = authority();
    let (pair, validity) = web().sign(&authority, now(), 30 * DAY).unwrap();
    let identity = identity(&pair.certificate);
    assert_eq!(identity.uris, ["spiffe://limpet.dev/gateway/shop/web"]);
    assert!(identity.dns_names.is_empty());
    assert_eq!(identity.validity.ends, validity.ends);
    // A verifier's clock may be behind.
    assert_eq!(identity.validity.begins, now() - Duration::from_secs(3600));
    let secret = secret_of(&web(), &authority);
    assert!(is_good(&secret, &authority, now()));
    let other = GatewaySecrets::new(&ObjectName::new("shop", "other"), Some("uid"), &place(false));
    assert!(other.certificate(&secret, &authority, now()).is_none());
}

#[test]
fn a_certificate_is_renewed_at_two_thirds_of_its_life() {
    let authority = authority();
    let secret = secret_of(&web(), &authority);
    assert!(is_good(&secret, &authority, now() + 19 * DAY));
    assert!(!is_good(&secret, &authority, now() + 20 * DAY));
    // Nothing outlasts the authority.
    let late = now() + 290 * DAY;
    assert_eq!(authority.end(late, 30 * DAY), now() + 300 * DAY);
    let whole = Validity {
        begins: now(),
        ends: now() + 3 * DAY,
    };
    assert_eq!(renewal(whole), now() + 2 * DAY);
}

#[test]
fn a_change_of_the_authority_reaches_the_secrets() {
    let old = authority();
    let secret = secret_of(&web(), &old);
    let trusted = after(&old, AuthorityStep::Introduce);
    assert!(web().certificate(&secret, &trusted, now()).is_some());
    assert!(!web().is_complete(&secret, &trusted));
    let signs = after(&trusted, AuthorityStep::Sign);
    assert!(web().certificate(&secret, &signs, now()).is_none());
    let renewed = secret_of(&web(), &signs);
    assert!(is_good(&renewed, &signs, now()));
    let new = after(&signs, AuthorityStep::Forget);
    assert!(web().certificate(&renewed, &new, now()).is_some());
    assert!(!web().is_complete(&renewed, &new));
}

#[test]
fn a_damaged_secret_of_a_gateway_is_noticed() {
    let authority = authority();
    let good = secret_of(&web(), &authority);
    let stranger = secret_of(&web(), &self::authority());
    let server = sign::server(&authority.signing, &["a".to_owned()], now(), now() + DAY).unwrap();
    let value = |secret: &SecretObject, field: &str| secret.data.as_ref().unwrap()[field].0.clone();
    for field in ["ca.crt", "tls.crt", "tls.key"] {
        for damaged in [None, Some(b"damaged".to_vec()), Some(value(&stranger, field))] {
            let mut secret = good.clone();
            set(&mut secret, field, damaged.as_deref());
            assert!(!is_good(&secret, &authority, now()), "{field}");
        }
    }
    let mut both = stranger.clone();
    set(&mut both, "ca.crt", Some(&value(&good, "ca.crt")));
    assert!(!is_good(&both, &authority, now()), "another authority has signed it");
    let mut wrong = good.clone();
    set(&mut wrong, "tls.crt", Some(server.certificate.as_bytes()));
    set(&mut wrong, "tls.key", Some(server.key.as_bytes()));
    assert!(!is_good(&wrong, &authority, now()), "no client may show it");
    let mut unlabelled = good.clone();
    unlabelled.metadata.labels = None;
    assert!(!is_good(&unlabelled, &authority, now()));
}

#[test]
fn secrets_are_beside_the_gateway_if_that_is_asked_for() {
    assert_eq!(web().name.namespace, "limpet-system");
    let authority = authority();
    let beside = GatewaySecrets::new(&ObjectName::new("shop", "web"), Some("uid"), &place(true));
    assert_eq!(beside.name.namespace, "shop");
    let mut secret = secret_of(&beside, &authority);
    assert_eq!(secret.metadata.owner_references.as_ref().unwrap()[0].uid, "uid");
    assert!(beside.is_complete(&secret, &authority));
    // The owner is another Gateway of the same name, so the cluster would delete the Secret.
    secret.metadata.owner_references.as_mut().unwrap()[0].uid = "former".to_owned();
    assert!(!beside.is_complete(&secret, &authority));

    let mut own = SecretObject::default();
    set(&mut own, "LIMPET_KEK_1", Some(b"key"));
    let copy = beside.keys(&own).object().clone();
    assert!(copy.metadata.name.as_ref().unwrap().ends_with("-keys"));
    assert!(beside.has_keys(&copy, &own));
    set(&mut own, "LIMPET_KEK_2", Some(b"another"));
    assert!(!beside.has_keys(&copy, &own));

    // Contour's Gateway is no object, so it owns nothing.
    let contour = GatewaySecrets::new(&ObjectName::new("shop", "contour"), None, &place(true));
    assert_eq!(contour.name.namespace, "shop");
    let secret = secret_of(&contour, &authority);
    assert_eq!(secret.metadata.owner_references, None);
    assert!(contour.is_complete(&secret, &authority));
}

#[test]
fn keys_are_not_shown_by_debug() {
    let trusted = after(&authority(), AuthorityStep::Introduce);
    let shown = format!("{trusted:?} {:?} {:?}", trusted.object(NAME), trusted.signing);
    // Behind the names of the algorithms, which certificates have as well.
    let secret = &trusted.signing.key[78..92];
    assert!(!shown.contains("PRIVATE KEY") && !shown.contains(secret), "{shown}");
}

#[test]
fn lives_that_do_not_fit_are_refused() {
    let config = |life: u64, certificate: u64, phase: u64| {
        let config = AuthorityConfig {
            life: Duration::from_secs(life).into(),
            certificate_life: Duration::from_secs(certificate).into(),
            phase_time: Duration::from_secs(phase).into(),
            ..AuthorityConfig::default()
        };
        config.check()
    };
    assert_eq!(AuthorityConfig::default().check(), Ok(()));
    assert_eq!(config(400, 100, 100), Ok(()));
    for (found, field) in [
        (config(0, 0, 0), "life"),
        (config(400, 0, 1), "certificateLife"),
        (config(400, 101, 1), "certificateLife"),
        (config(400, 100, 101), "phaseTime"),
    ] {
        let error = found.unwrap_err();
        assert!(error.starts_with(&format!("{field}: expected at")), "{error}");
    }
}
