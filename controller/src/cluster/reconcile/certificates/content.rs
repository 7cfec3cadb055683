//! The content of the Secret with the authority.
//!
//! `tls.crt` and `tls.key` are the authority that signs, `ca.crt` has all trusted ones. During a rotation:
//!
//! 1. `next.crt` and `next.key` exist: the new authority is trusted.
//! 2. `ca.crt` has another authority besides `tls.crt`: the new one signs, the former one is trusted.
//! 3. It has not: the former one is forgotten.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use limpet_xds::Validity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::{Zeroize as _, Zeroizing};

use super::sign::{self, CertificatePair};
use crate::cluster::kube::{self, ZeroizingSecret};
use crate::cluster::reconcile::own_secret;
use limpet_model::{MANAGED_BY, MANAGER};

pub(super) const TLS: &str = "kubernetes.io/tls";
pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const TRUSTED: &str = "ca.crt";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";

/// Names the field and the expectation, never the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokenAuthority(pub(super) String);

impl fmt::Display for BrokenAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(super) signing: CertificatePair,
    pub(super) validity: Validity,
    /// The authority that signs next.
    next: Option<CertificatePair>,
    /// All trusted ones, in PEM.
    pub(super) trusted: String,
    /// The value of `limpet.dev/rotate`, unless it was heeded.
    pub(super) rotation_request: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorityPhase {
    Settled,
    /// Phase 1.
    Trusted,
    /// Phase 2.
    Signs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorityStep {
    /// Phase 1.
    Introduce,
    /// Phase 2.
    Sign,
    /// Phase 3.
    Forget,
    /// Replaces the authority at once, because the former one's certificates are worthless.
    Replace,
}

impl Authority {
    /// Fails without randomness.
    pub(super) fn new(now: SystemTime, life: Duration) -> Result<Self, rcgen::Error> {
        let signing = sign::authority(now, life)?;
        let validity = validity(&signing.certificate).ok_or(rcgen::Error::CouldNotParseCertificate)?;
        Ok(Self {
            trusted: signing.certificate.clone(),
            signing,
            validity,
            next: None,
            rotation_request: None,
        })
    }

    pub(super) fn read(secret: &SecretObject) -> Result<Self, BrokenAuthority> {
        let type_of = secret.type_.as_deref().unwrap_or_default();
        if type_of != TLS {
            return Err(BrokenAuthority(format!("type: expected {TLS}, found {type_of:?}")));
        }
        let (signing, validity) = authority(secret, CERTIFICATE, KEY)?;
        let has_next = data(secret, NEXT_CERTIFICATE).is_some() || data(secret, NEXT_KEY).is_some();
        let next = has_next
            .then(|| authority(secret, NEXT_CERTIFICATE, NEXT_KEY))
            .transpose()?;
        let next = next.map(|(pair, _)| pair);
        let trusted = kube::authorities(&text(secret, TRUSTED)?)
            .map_err(|error| BrokenAuthority(format!("data: {error}")))?
            .pem();
        for (field, pair) in [(CERTIFICATE, Some(&signing)), (NEXT_CERTIFICATE, next.as_ref())] {
            if pair.is_some_and(|pair| !trusted.contains(&pair.certificate)) {
                return Err(BrokenAuthority(format!(
                    "data[{TRUSTED}]: expected the certificate in {field} among others"
                )));
            }
        }
        Ok(Self {
            signing,
            validity,
            next,
            trusted,
            rotation_request: own_secret::rotation_request(secret),
        })
    }

    pub(super) fn phase(&self) -> AuthorityPhase {
        if self.next.is_some() {
            AuthorityPhase::Trusted
        } else if self.trusted == self.signing.certificate {
            AuthorityPhase::Settled
        } else {
            AuthorityPhase::Signs
        }
    }

    /// Whether both have the same signing and trusted certificates.
    pub(super) fn signs_as(&self, other: &Self) -> bool {
        self.signing == other.signing && self.trusted == other.trusted
    }

    /// When a certificate of this life ends, if it is made now.
    pub(super) fn end(&self, now: SystemTime, life: Duration) -> SystemTime {
        let end = now.checked_add(life).unwrap_or(self.validity.ends);
        end.min(self.validity.ends)
    }

    /// The authority after a step. Fails without randomness.
    pub(super) fn after(&self, step: AuthorityStep, now: SystemTime, life: Duration) -> Result<Self, rcgen::Error> {
        let mut after = self.clone();
        match (step, &self.next) {
            (AuthorityStep::Introduce, _) => {
                let next = sign::authority(now, life)?;
                after.trusted.push_str(&next.certificate);
                after.next = Some(next);
            }
            (AuthorityStep::Sign, Some(next)) => {
                after.signing = next.clone();
                after.next = None;
            }
            (AuthorityStep::Sign | AuthorityStep::Forget, _) => after.trusted.clone_from(&self.signing.certificate),
            (AuthorityStep::Replace, _) => return Self::new(now, life),
        }
        Ok(after)
    }

    pub(super) fn object(&self, name: &str) -> ZeroizingSecret {
        let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
        let named = SecretObject {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            type_: Some(TLS.to_owned()),
            ..SecretObject::default()
        };
        self.within(&named, None)
    }

    /// The Secret with only the authority changed. `heeded`: the value of `limpet.dev/rotate` that phase 1 answers.
    pub(super) fn within(&self, secret: &SecretObject, heeded: Option<&str>) -> ZeroizingSecret {
        let mut changed = secret.clone();
        own_secret::heed(&mut changed, heeded);
        let data = changed.data.get_or_insert_default();
        let mut put = |field: &str, value: Option<&str>| {
            let before = match value {
                Some(value) => data.insert(field.to_owned(), ByteString(value.as_bytes().to_vec())),
                None => data.remove(field),
            };
            if let Some(mut before) = before {
                before.0.zeroize();
            }
        };
        put(CERTIFICATE, Some(&self.signing.certificate));
        put(KEY, Some(&self.signing.key));
        put(TRUSTED, Some(&self.trusted));
        put(
            NEXT_CERTIFICATE,
            self.next.as_ref().map(|next| next.certificate.as_str()),
        );
        put(NEXT_KEY, self.next.as_ref().map(|next| next.key.as_str()));
        ZeroizingSecret::new(changed)
    }
}

pub(super) fn data<'a>(secret: &'a SecretObject, field: &str) -> Option<&'a [u8]> {
    let value = secret.data.as_ref()?.get(field)?;
    Some(&value.0)
}

fn text(secret: &SecretObject, field: &str) -> Result<Zeroizing<String>, BrokenAuthority> {
    let text = data(secret, field).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let text = text.ok_or_else(|| BrokenAuthority(format!("data[{field}]: expected PEM")))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Reads one authority. Its certificate is as [`kube::authorities`] writes it.
fn authority(
    secret: &SecretObject,
    certificate: &str,
    key: &str,
) -> Result<(CertificatePair, Validity), BrokenAuthority> {
    let expected = |what: &str| BrokenAuthority(format!("data[{certificate}]: expected {what}"));
    let one = || expected("the certificate of one authority");
    let (chain, key_text) = (text(secret, certificate)?, text(secret, key)?);
    let pem = kube::authorities(&chain).map_err(|_| one())?.pem();
    let ders: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten().collect();
    let [der] = ders.as_slice() else {
        return Err(one());
    };
    let is_authority = X509Certificate::from_der(der).is_ok_and(|(_, parsed)| parsed.is_ca());
    if !is_authority {
        return Err(one());
    }
    kube::certificate(pem.as_bytes(), Zeroizing::new(key_text.as_bytes().to_vec())).map_err(|_| {
        BrokenAuthority(format!(
            "data[{key}]: expected the private key of {certificate}, in PEM"
        ))
    })?;
    let pair = CertificatePair {
        certificate: pem,
        key: key_text,
    };
    let validity = validity(&pair.certificate).ok_or_else(one)?;
    Ok((pair, validity))
}

/// The validity of the first certificate.
fn validity(pem: &str) -> Option<Validity> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    limpet_xds::CertificateIdentity::of(&der).map(|identity| identity.validity)
}
