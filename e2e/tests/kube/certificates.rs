//! Certificate authorities and the certificates that they sign.

use std::time::Duration;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use serde_json::{Value, json};

pub(crate) struct Authority {
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificate {
    pub(crate) fn secret(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": name},
            "stringData": {"tls.crt": self.certificate, "tls.key": self.key},
        })
    }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        Ok(Self {
            certificate: params.self_signed(&key)?.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    pub(crate) fn sign(&self, name: &str) -> Result<Certificate> {
        self.sign_all(&[name])
    }

    /// As [`Authority::sign_all`], for a certificate of a year, of which only this time is left.
    pub(crate) fn sign_until(&self, names: &[&str], left: Duration) -> Result<Certificate> {
        self.sign_within(names, 365 * Duration::from_secs(24 * 3600), left)
    }

    /// As [`Authority::sign_all`], for a certificate that began this long ago, and of which this time is left.
    pub(crate) fn sign_within(&self, names: &[&str], ago: Duration, left: Duration) -> Result<Certificate> {
        let mut params = named(names)?;
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - ago;
        params.not_after = now + left;
        self.sign_params(params)
    }

    /// A certificate for a server or client of these names, of which some may be URIs.
    pub(crate) fn sign_all(&self, names: &[&str]) -> Result<Certificate> {
        let mut params = named(names)?;
        let first = names.first().copied().unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, first);
        self.sign_params(params)
    }

    /// A certificate with this URI and no name.
    pub(crate) fn sign_uri(&self, uri: &str) -> Result<Certificate> {
        let mut params = CertificateParams::new([])?;
        params.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
        self.sign_params(params)
    }

    fn sign_params(&self, mut params: CertificateParams) -> Result<Certificate> {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok(Certificate {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn named(names: &[&str]) -> Result<CertificateParams> {
    let (uris, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
    let mut params = CertificateParams::new(names.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    for uri in uris {
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
    }
    Ok(params)
}
