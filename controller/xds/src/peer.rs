//! The other end of a connection.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::validity::Validity;

/// The other end of a connection, as far as the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The address that the connection comes from.
    pub address: SocketAddr,
    /// Its certificate's content. `None` in plain text.
    pub identity: Option<CertificateIdentity>,
}

/// What a client certificate of a known authority says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// The subject, for people.
    pub subject: String,
    /// URIs of the subject's alternative names.
    pub uris: Vec<String>,
    /// DNS names of the subject's alternative names.
    pub dns_names: Vec<String>,
    /// When the certificate is valid.
    pub validity: Validity,
}

impl CertificateIdentity {
    /// The names of the certificate; a renewed one has the same.
    pub(super) fn names(&self) -> String {
        if self.uris.is_empty() && self.dns_names.is_empty() {
            self.subject.clone()
        } else {
            let names = self.uris.iter().chain(&self.dns_names);
            names.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
    }

    /// Reads this certificate, unverified; `None` if it is none.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let (mut uris, mut dns_names) = (Vec::new(), Vec::new());
        let names = certificate.subject_alternative_name().ok()?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                _ => {}
            }
        }
        Some(Self {
            subject: certificate.subject().to_string(),
            uris,
            dns_names,
            validity: Validity::of(&certificate),
        })
    }
}

/// An address whose connections share limits; of IPv6 the network, since one host has all of its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(IpAddr);

impl From<SocketAddr> for Origin {
    fn from(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// The owner of connections that share places: the names of a Gateway's certificate. In plain text, an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionOwner {
    Certificate(Arc<str>),
    Address(Origin),
}

impl ConnectionOwner {
    /// The namespace of the Gateway. Of an address, the address.
    pub(super) fn group(&self) -> Self {
        match self {
            Self::Certificate(names) => {
                let namespace = names.rsplit_once('/').map(|(namespace, _)| namespace.into());
                Self::Certificate(namespace.unwrap_or_else(|| Arc::clone(names)))
            }
            Self::Address(_) => self.clone(),
        }
    }
}

impl From<&Peer> for ConnectionOwner {
    fn from(peer: &Peer) -> Self {
        match &peer.identity {
            Some(identity) => Self::Certificate(identity.names().into()),
            None => Self::Address(peer.address.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn addresses_of_one_host_have_one_origin() {
        let origin = |address: &str| Origin::from(address.parse::<SocketAddr>().unwrap());
        assert_eq!(origin("10.0.0.1:1"), origin("10.0.0.1:2"));
        assert_eq!(origin("10.0.0.1:1"), origin("[::ffff:10.0.0.1]:1"));
        assert_eq!(origin("[2001:db8::1]:1"), origin("[2001:db8::ffff:1]:1"));
        assert_ne!(origin("10.0.0.1:1"), origin("10.0.0.2:1"));
        assert_ne!(origin("[2001:db8::1]:1"), origin("[2001:db8:0:1::1]:1"));
    }

    #[test]
    fn a_certificate_says_who_it_is_for_and_until_when() {
        let mut params = rcgen::CertificateParams::new(["envoy.example".to_owned()]).unwrap();
        let uri = "spiffe://limpet/gateway/shop/web";
        params
            .subject_alt_names
            .push(rcgen::SanType::URI(uri.try_into().unwrap()));
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "limpet-envoy");
        params.not_after = rcgen::date_time_ymd(2030, 1, 2);
        let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let identity = CertificateIdentity::of(made.der()).unwrap();
        assert_eq!(identity.uris, [uri]);
        assert_eq!(identity.dns_names, ["envoy.example"]);
        assert!(identity.subject.contains("limpet-envoy"), "{identity:?}");
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_542_400);
        assert_eq!(identity.validity.ends, end);
        assert!(identity.validity.begins < end);
        assert_eq!(Validity::first(&[made.der().clone()]), Some(identity.validity));
        assert_eq!(CertificateIdentity::of(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
