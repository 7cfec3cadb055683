//! A server and clients with certificates.

use std::fs;
use std::net::SocketAddr;
use std::time::SystemTime;

use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity as ClientIdentity};

use super::*;

pub(super) fn valid(ago: Duration, left: Duration) -> Validity {
    let now = SystemTime::now();
    Validity {
        begins: now - ago,
        ends: now + left,
    }
}

pub(super) fn year() -> Validity {
    valid(Duration::from_secs(60), Duration::from_secs(365 * 24 * 3600))
}

pub(super) struct Site {
    folder: TempDir,
    authority: rcgen::Issuer<'static, rcgen::KeyPair>,
    pub(super) pem: String,
}

impl Site {
    pub(super) fn new() -> Self {
        let mut params = rcgen::CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let site = Self {
            folder: TempDir::new().unwrap(),
            authority: rcgen::Issuer::new(params, key),
            pem,
        };
        let (certificate, key) = site.sign("controller.limpet", year());
        for (name, text) in [("ca.crt", &site.pem), ("tls.crt", &certificate), ("tls.key", &key)] {
            fs::write(site.folder.path().join(name), text).unwrap();
        }
        site
    }

    pub(super) fn sign(&self, name: &str, validity: Validity) -> (String, String) {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (validity.begins.into(), validity.ends.into());
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.authority).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    pub(super) fn files(&self) -> TlsFiles {
        let file = |name: &str| self.folder.path().join(name);
        TlsFiles {
            certificate: file("tls.crt"),
            key: file("tls.key"),
            client_ca: file("ca.crt"),
        }
    }

    pub(super) async fn server(&self, snapshots: &Snapshots) -> Server {
        let options = ServerOptions {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: ServerSecurity::MutualTls(self.files()),
        };
        Server::bind(options, snapshots.clone()).await.unwrap()
    }

    pub(super) fn endpoint(&self, address: SocketAddr, name: &str) -> Endpoint {
        self.endpoint_valid(address, name, year())
    }

    pub(super) fn endpoint_valid(&self, address: SocketAddr, name: &str, validity: Validity) -> Endpoint {
        self.endpoint_with(address, self.sign(name, validity))
    }

    pub(super) fn endpoint_with(&self, address: SocketAddr, (certificate, key): (String, String)) -> Endpoint {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.pem))
            .identity(ClientIdentity::from_pem(certificate, key))
            .domain_name("controller.limpet");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        endpoint.tls_config(tls).unwrap()
    }
}
