//! The Secrets of Gateways: their content, and what they lack.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use limpet_xds::{CertificateIdentity, Validity};
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use zeroize::Zeroizing;

use super::content::{Authority, CERTIFICATE, KEY, TLS, TRUSTED, data};
use super::schedule::renewal;
use super::sign::{self, CertificatePair};
use crate::cluster::kube::{self, StatusDigest, ZeroizingSecret};
use limpet_api::{GATEWAY_GROUP, Kind, ObjectName};
use limpet_model::{envoys_certificate, envoys_keys, envoys_labels, envoys_uri};
use limpet_outputs::manifests::CONTROLLER_LABEL;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretPlacement {
    pub(crate) namespace: String,
    /// Whether the Secrets are in the namespaces of Gateways.
    pub(crate) with_gateways: bool,
    /// A label's value that tells them from other controllers'.
    pub(crate) label: String,
    /// The Secret with key-encryption keys that is copied to the namespaces of Gateways.
    pub(crate) keys: Option<String>,
}

#[derive(Debug)]
pub(super) struct GatewaySecrets {
    pub(super) gateway: ObjectName,
    /// Of the Secret with the certificate.
    pub(super) name: ObjectName,
    labels: BTreeMap<String, String>,
    /// Only an object in the same namespace can be an owner.
    owner: Option<OwnerReference>,
}

impl GatewaySecrets {
    /// `uid`: the Gateway's, if it is an object.
    pub(super) fn new(gateway: &ObjectName, uid: Option<&str>, place: &SecretPlacement) -> Self {
        let mut labels = envoys_labels(gateway);
        labels.insert(CONTROLLER_LABEL.to_owned(), place.label.clone());
        let namespace = if place.with_gateways {
            gateway.namespace.as_str()
        } else {
            &place.namespace
        };
        Self {
            gateway: gateway.clone(),
            name: ObjectName::new(namespace, &envoys_certificate(gateway)),
            labels,
            owner: uid.filter(|_| place.with_gateways).map(|uid| OwnerReference {
                api_version: format!("{GATEWAY_GROUP}/v1"),
                kind: Kind::Gateway.as_str().to_owned(),
                name: gateway.name.to_string(),
                uid: uid.to_owned(),
                ..OwnerReference::default()
            }),
        }
    }

    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.name.namespace.to_string()),
            labels: Some(self.labels.clone()),
            owner_references: self.owner.clone().map(|owner| vec![owner]),
            ..ObjectMeta::default()
        }
    }

    fn is_marked(&self, secret: &SecretObject) -> bool {
        let metadata = &secret.metadata;
        let label = |name: &String| metadata.labels.as_ref().and_then(|labels| labels.get(name));
        let mut owners = metadata.owner_references.iter().flatten();
        self.labels.iter().all(|(name, value)| label(name) == Some(value))
            && self
                .owner
                .as_ref()
                .is_none_or(|owner| owners.any(|is| is.uid == owner.uid))
    }

    pub(super) fn keys_name(&self) -> ObjectName {
        ObjectName::new(&self.name.namespace, &envoys_keys(&self.gateway))
    }

    /// The digest of a Secret's sources: the owner, and `from`.
    pub(super) fn digest(&self, from: &[&str]) -> StatusDigest {
        let owner = self.owner.as_ref().map(|owner| owner.uid.as_str());
        StatusDigest::of([&[owner.unwrap_or_default()], from].concat().join("\n").as_bytes())
    }

    pub(super) fn keys(&self, own: &SecretObject) -> ZeroizingSecret {
        ZeroizingSecret::new(SecretObject {
            metadata: self.metadata(&self.keys_name().name),
            type_: own.type_.clone(),
            data: own.data.clone(),
            ..SecretObject::default()
        })
    }

    pub(super) fn has_keys(&self, secret: &SecretObject, own: &SecretObject) -> bool {
        self.is_marked(secret) && secret.data == own.data
    }

    /// The certificate with its validity. `None`: another one is needed now.
    pub(super) fn certificate(
        &self,
        secret: &SecretObject,
        authority: &Authority,
        now: SystemTime,
    ) -> Option<(CertificatePair, Validity)> {
        let text = |field| {
            let text = std::str::from_utf8(data(secret, field)?).ok()?;
            Some(Zeroizing::new(text.to_owned()))
        };
        let pair = CertificatePair {
            certificate: text(CERTIFICATE)?.to_string(),
            key: text(KEY)?,
        };
        let key = Zeroizing::new(pair.key.as_bytes().to_vec());
        kube::certificate(pair.certificate.as_bytes(), key).ok()?;
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let CertificateIdentity { uris, validity, .. } = CertificateIdentity::of(&der)?;
        let is_ours = uris == [envoys_uri(&self.gateway)] && is_signed(&der, authority, now);
        (is_ours && now < renewal(validity)).then_some((pair, validity))
    }

    pub(super) fn is_complete(&self, secret: &SecretObject, authority: &Authority) -> bool {
        self.is_marked(secret) && data(secret, TRUSTED) == Some(authority.trusted.as_bytes())
    }

    pub(super) fn sign(
        &self,
        authority: &Authority,
        now: SystemTime,
        life: Duration,
    ) -> Result<(CertificatePair, Validity), rcgen::Error> {
        let ends = authority.end(now, life);
        let pair = sign::envoys(&authority.signing, &self.gateway, now, ends)?;
        Ok((pair, Validity { ends, begins: now }))
    }

    pub(super) fn object(&self, pair: &CertificatePair, authority: &Authority) -> ZeroizingSecret {
        let data = [
            (TRUSTED, authority.trusted.as_bytes()),
            (CERTIFICATE, pair.certificate.as_bytes()),
            (KEY, pair.key.as_bytes()),
        ];
        let data = data.map(|(field, value)| (field.to_owned(), ByteString(value.to_vec())));
        ZeroizingSecret::new(SecretObject {
            metadata: self.metadata(&self.name.name),
            type_: Some(TLS.to_owned()),
            data: Some(data.into()),
            ..SecretObject::default()
        })
    }
}

/// Whether a server that trusts only the signing authority accepts this client certificate.
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
