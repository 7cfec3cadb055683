//! Clients that connect and say nothing, or cannot say who they are.

use std::fs;
use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::net::TcpStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity as ClientIdentity};

use super::*;

/// More than all handshakes that may be under way.
const SILENT: usize = 1000;

/// An authority, and the files of a server with its certificate.
struct Site {
    folder: TempDir,
    authority: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Site {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let site = Self {
            folder: TempDir::new().unwrap(),
            authority: rcgen::Issuer::new(params, key),
            pem,
        };
        let (certificate, key) = site.sign("controller.limpet");
        for (name, text) in [("ca.crt", &site.pem), ("tls.crt", &certificate), ("tls.key", &key)] {
            fs::write(site.folder.path().join(name), text).unwrap();
        }
        site
    }

    fn sign(&self, name: &str) -> (String, String) {
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.authority).unwrap();
        (signed.pem(), key.serialize_pem())
    }

    async fn server(&self, snapshots: &Snapshots) -> Server {
        let file = |name: &str| self.folder.path().join(name);
        let files = TlsFiles {
            certificate: file("tls.crt"),
            key: file("tls.key"),
            client_ca: file("ca.crt"),
        };
        let options = Options {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            security: Security::MutualTls(files),
        };
        Server::bind(options, snapshots.clone()).await.unwrap()
    }

    /// A client with a certificate for this name.
    fn endpoint(&self, address: SocketAddr, name: &str) -> Endpoint {
        let (certificate, key) = self.sign(name);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.pem))
            .identity(ClientIdentity::from_pem(certificate, key))
            .domain_name("controller.limpet");
        let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
        endpoint.tls_config(tls).unwrap()
    }
}

#[tokio::test]
async fn silent_connections_keep_no_envoy_out() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    snapshots.publish(GROUP, Resources::new());
    let server = site.server(&snapshots).await;
    let certificates = server.certificates();
    let roles = || {
        certificates
            .in_use()
            .into_iter()
            .map(|used| used.role)
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(), [CertificateRole::Server, CertificateRole::Authority]);
    let running = run(server);
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(running.address).await.unwrap());
    }
    let endpoint = site.endpoint(running.address, "envoy.example");
    let _client = Client::connect_by(endpoint, asks_for("one", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
    assert_eq!(roles().last(), Some(&CertificateRole::Client));
    // All but the last ones have given way, long before their time was over.
    let away = snapshots.turned_away().into_iter().map(|(_, count)| count).sum::<u64>();
    assert!(away > 0, "{:?}", snapshots.turned_away());
    drop(silent);
}

#[tokio::test]
async fn a_permission_sees_who_asks_and_for_what() {
    let site = Site::new();
    let snapshots = Snapshots::new();
    let permission = Permission::new(|peer, group| {
        let names = peer.identity.as_ref().map(|identity| identity.dns_names.as_slice());
        match names {
            Some([name]) if name == "web.example" && group == GROUP => Ok(()),
            _ => Err(format!("{group} is not yours")),
        }
    });
    let running = run(site.server(&snapshots).await.with_permission(permission));
    let stranger = site.endpoint(running.address, "other.example");
    let mut stranger = Client::connect_by(stranger, asks_for("one", &[])).await;
    let refusal = stranger.message().await.unwrap_err();
    assert_eq!(
        (refusal.code(), refusal.message()),
        (Code::PermissionDenied, "default/web is not yours")
    );
    assert!(snapshots.status().groups().is_empty());
    let own = site.endpoint(running.address, "web.example");
    let _client = Client::connect_by(own, asks_for("one", &[])).await;
    let mut status = snapshots.status();
    while status.connected(GROUP) == 0 {
        timeout(PATIENCE, status.changed()).await.unwrap();
    }
}
