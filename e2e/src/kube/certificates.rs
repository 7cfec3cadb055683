//! The certificates of an API server.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

#[derive(Debug)]
pub(super) struct Certificates {
    /// In PEM.
    pub(super) authority: String,
    #[cfg_attr(not(feature = "node"), expect(dead_code, reason = "programs of a node read it"))]
    pub(super) authority_file: PathBuf,
    pub(super) server: PathBuf,
    pub(super) server_key: PathBuf,
    /// Signs the tokens of service accounts.
    pub(super) token_key: PathBuf,
    pub(super) token_public_key: PathBuf,
}

impl Certificates {
    pub(super) fn make(names: &[&str], directory: &Path) -> Result<Self> {
        let mut authority = CertificateParams::new([])?;
        authority.distinguished_name.push(DnType::CommonName, "test-bed");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;

        let mut server = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server_certificate = server.signed_by(&server_key, &Issuer::new(authority, authority_key))?;

        let token_key = KeyPair::generate()?;

        let written = |name: &str, pem: String| -> Result<PathBuf> {
            let file = directory.join(name);
            std::fs::write(&file, pem)?;
            Ok(file)
        };
        Ok(Self {
            authority: authority_certificate.pem(),
            authority_file: written("ca.crt", authority_certificate.pem())?,
            server: written("server.crt", server_certificate.pem())?,
            server_key: written("server.key", server_key.serialize_pem())?,
            token_key: written("tokens.key", token_key.serialize_pem())?,
            token_public_key: written("tokens.pub", token_key.public_key_pem())?,
        })
    }
}
