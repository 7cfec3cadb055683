use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use limpet_model::{Authorities, Certificate};

/// Reads the chain and key of a Secret of the type `kubernetes.io/tls`, in PEM. Fails if Envoy could not serve with it,
/// because Envoy would refuse the whole listener.
pub(crate) fn read(chain: &[u8], key: Zeroizing<Vec<u8>>) -> Result<Certificate, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|_| "tls.crt: expected certificates in PEM".to_owned())?;
    if certificates.is_empty() {
        return Err("tls.crt: expected a certificate in PEM".to_owned());
    }
    let private =
        PrivateKeyDer::from_pem_slice(&key).map_err(|_| "tls.key: expected a private key in PEM".to_owned())?;
    CertifiedKey::from_der(certificates, private, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            "tls.key: expected the key of the first certificate in tls.crt".to_owned()
        }
        other => format!("tls.crt and tls.key: {other}"),
    })?;
    Ok(Certificate {
        chain: Arc::from(chain),
        key: Arc::new(key),
    })
}

/// Reads certificates of authorities in PEM. Other parts of the text are not sent to Envoys. Fails if there are none,
/// or Envoy could not verify with one: it would refuse all of them.
pub(crate) fn authorities(text: &str) -> Result<Authorities, String> {
    let expected = || "ca.crt: expected certificates in PEM".to_owned();
    let mut known = BTreeSet::new();
    let mut pem = String::new();
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        let certificate = certificate.map_err(|_| expected())?;
        let added = RootCertStore::empty().add(certificate.clone());
        added.map_err(|error| format!("ca.crt: expected certificates of authorities: {error}"))?;
        if known.insert(certificate.to_vec()) {
            write_pem(&mut pem, &certificate);
        }
    }
    if pem.is_empty() {
        return Err(expected());
    }
    Ok(Authorities::of_pem(&pem))
}

/// Writes a certificate in the form of RFC 7468.
fn write_pem(pem: &mut String, certificate: &CertificateDer<'_>) {
    pem.push_str("-----BEGIN CERTIFICATE-----\n");
    for (index, character) in STANDARD.encode(certificate).chars().enumerate() {
        if index > 0 && index % 64 == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str("\n-----END CERTIFICATE-----\n");
}
