//! The Secrets of Gateways: what they should have, and what they lack.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use limpet_xds::{Identity, Validity};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use zeroize::Zeroizing;

use super::content::{Authority, CERTIFICATE, KEY, TLS, TRUSTED, data};
use super::schedule::renewal;
use super::sign::{self, Pair};
use crate::cluster::kube::{self, Wiped};
use limpet_api::ObjectName;
use limpet_model::{envoys_certificate, envoys_labels, envoys_uri};

/// The Secret that a Gateway should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) gateway: ObjectName,
    /// The Secret.
    pub(super) name: ObjectName,
}

impl Wanted {
    pub(super) fn new(gateway: &ObjectName, namespace: &str) -> Self {
        Self {
            gateway: gateway.clone(),
            name: ObjectName::new(namespace, &envoys_certificate(gateway)),
        }
    }

    /// The certificate in the Secret, and how long it is valid. `None`: another one is needed now.
    pub(super) fn certificate(
        &self,
        secret: &SecretObject,
        authority: &Authority,
        now: SystemTime,
    ) -> Option<(Pair, Validity)> {
        let text = |field| {
            let text = std::str::from_utf8(data(secret, field)?).ok()?;
            Some(Zeroizing::new(text.to_owned()))
        };
        let pair = Pair {
            certificate: text(CERTIFICATE)?.to_string(),
            key: text(KEY)?,
        };
        let key = Zeroizing::new(pair.key.as_bytes().to_vec());
        kube::certificate(pair.certificate.as_bytes(), key).ok()?;
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let Identity { uris, validity, .. } = Identity::of(&der)?;
        let is_ours = uris == [envoys_uri(&self.gateway)] && is_signed(&der, authority, now);
        (is_ours && now < renewal(validity)).then_some((pair, validity))
    }

    /// Whether the rest of the Secret is as it should be.
    pub(super) fn is_complete(&self, secret: &SecretObject, authority: &Authority) -> bool {
        let labels = secret.metadata.labels.clone().unwrap_or_default();
        let has_labels = envoys_labels(&self.gateway)
            .iter()
            .all(|(name, value)| labels.get(name) == Some(value));
        has_labels && data(secret, TRUSTED) == Some(authority.trusted.as_bytes())
    }

    /// A new certificate.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub(super) fn sign(
        &self,
        authority: &Authority,
        now: SystemTime,
        life: Duration,
    ) -> Result<(Pair, Validity), rcgen::Error> {
        let ends = authority.end(now, life);
        let pair = sign::envoys(&authority.signing, &self.gateway, now, ends)?;
        Ok((pair, Validity { ends, begins: now }))
    }

    /// The object for a server-side apply.
    pub(super) fn object(&self, pair: &Pair, authority: &Authority) -> Wiped {
        let data = [
            (TRUSTED, authority.trusted.as_bytes()),
            (CERTIFICATE, pair.certificate.as_bytes()),
            (KEY, pair.key.as_bytes()),
        ];
        let data = data.map(|(field, value)| (field.to_owned(), ByteString(value.to_vec())));
        Wiped::new(SecretObject {
            metadata: ObjectMeta {
                name: Some(self.name.name.clone()),
                namespace: Some(self.name.namespace.clone()),
                labels: Some(envoys_labels(&self.gateway)),
                ..ObjectMeta::default()
            },
            type_: Some(TLS.to_owned()),
            data: Some(data.into()),
            ..SecretObject::default()
        })
    }
}

/// Whether a server that trusts the signing authority alone lets a client in that shows this certificate.
fn is_signed(certificate: &CertificateDer<'_>, authority: &Authority, now: SystemTime) -> bool {
    let check = || {
        let by = CertificateDer::from_pem_slice(authority.signing.certificate.as_bytes()).ok()?;
        let mut roots = RootCertStore::empty();
        roots.add(by).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let since = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let verifier = verifier.build().ok()?;
        verifier
            .verify_client_cert(certificate, &[], UnixTime::since_unix_epoch(since))
            .ok()
    };
    check().is_some()
}
