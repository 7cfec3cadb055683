use std::fmt;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use limpet_api::ObjectName;
use limpet_model::{envoys_name, envoys_uri, short_hash};

/// How far a verifier's clock may be behind.
const CLOCKS: Duration = Duration::from_secs(3600);

/// PEM. The key is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CertificatePair {
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

impl fmt::Debug for CertificatePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificatePair").finish_non_exhaustive()
    }
}

/// A new authority with a unique name, so that verifiers need not try all. Fails without randomness.
pub(super) fn authority(now: SystemTime, life: Duration) -> Result<CertificatePair, Error> {
    let key = key()?;
    let mut params = params(now, life);
    let name = format!("limpet-xds-{}", short_hash(key.public_key_raw()));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&*key)?.pem();
    Ok(pair(certificate, &key))
}

/// A server's certificate. Names may be IP addresses.
pub(super) fn server(
    by: &CertificatePair,
    names: &[String],
    now: SystemTime,
    ends: SystemTime,
) -> Result<CertificatePair, Error> {
    let mut params = leaf(now, ends, ExtendedKeyUsagePurpose::ServerAuth);
    params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
    params.distinguished_name.push(DnType::CommonName, "limpet-controller");
    signed(&params, by)
}

pub(super) fn envoys(
    by: &CertificatePair,
    gateway: &ObjectName,
    now: SystemTime,
    ends: SystemTime,
) -> Result<CertificatePair, Error> {
    let mut params = leaf(now, ends, ExtendedKeyUsagePurpose::ClientAuth);
    params.subject_alt_names = vec![SanType::URI(envoys_uri(gateway).try_into()?)];
    params.distinguished_name.push(DnType::CommonName, envoys_name(gateway));
    signed(&params, by)
}

fn leaf(now: SystemTime, ends: SystemTime, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = params(now, ends.duration_since(now).unwrap_or_default());
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    params
}

fn params(now: SystemTime, life: Duration) -> CertificateParams {
    let now = OffsetDateTime::from(now);
    let span = |length: Duration| time::Duration::try_from(length).unwrap_or(time::Duration::MAX);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = now.saturating_sub(span(CLOCKS.min(life / 10)));
    params.not_after = now.saturating_add(span(life));
    params
}

fn signed(params: &CertificateParams, by: &CertificatePair) -> Result<CertificatePair, Error> {
    let authority = Zeroizing::new(KeyPair::from_pem(&by.key)?);
    let issuer = Issuer::from_ca_cert_pem(&by.certificate, &*authority)?;
    let key = key()?;
    let certificate = params.signed_by(&*key, &issuer)?.pem();
    Ok(pair(certificate, &key))
}

fn key() -> Result<Zeroizing<KeyPair>, Error> {
    KeyPair::generate().map(Zeroizing::new)
}

fn pair(certificate: String, key: &KeyPair) -> CertificatePair {
    CertificatePair {
        certificate,
        key: Zeroizing::new(key.serialize_pem()),
    }
}
