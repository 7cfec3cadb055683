use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use limpet_model::Certificate;

/// Reads what a Secret of the type `kubernetes.io/tls` holds: a chain and its key, both in PEM.
///
/// # Errors
/// If Envoy could not serve with it. Envoy would refuse the whole listener, so the Secret is checked here.
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
