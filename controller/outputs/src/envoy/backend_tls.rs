//! TLS towards backends.
//!
//! The authorities are a secret, so that Envoy accepts the cluster in any case: one that it refused would leave the
//! former one, perhaps in plain text. Without the secret, the backend cannot be reached. The secret is named after its
//! content, so a cluster never meets authorities of another time.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::{DataSource, TransportSocket, data_source, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, Secret, SubjectAltNameMatcher, TlsParameters,
    UpstreamTlsContext, secret, subject_alt_name_matcher::SanType,
};
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use super::options::EnvoyOptions;
use super::pack::{ads, pack};
use crate::used::authorities_secret;
use limpet_model::graph::{BackendTls, Cluster, Protocol, SubjectAltName, TrustedAuthorities};

pub(super) fn transport(tls: &BackendTls, protocol: Protocol) -> TransportSocket {
    let alpn = match protocol {
        Protocol::Http1 => "http/1.1",
        Protocol::H2c => "h2",
    };
    let names = CertificateValidationContext {
        match_typed_subject_alt_names: tls.subject_alt_names.iter().map(matcher).collect(),
        ..CertificateValidationContext::default()
    };
    let validation = CombinedCertificateValidationContext {
        default_validation_context: Some(names),
        validation_context_sds_secret_config: Some(SdsSecretConfig {
            name: authorities_secret(&tls.authorities),
            sds_config: Some(ads()),
        }),
        ..CombinedCertificateValidationContext::default()
    };
    let context = UpstreamTlsContext {
        sni: tls.sni.clone(),
        common_tls_context: Some(CommonTlsContext {
            // Envoy's default for its own connections ends at TLS 1.2.
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
                ..TlsParameters::default()
            }),
            alpn_protocols: vec![alpn.to_owned()],
            validation_context_type: Some(ValidationContextType::CombinedValidationContext(validation)),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack(context))),
    }
}

fn matcher(name: &SubjectAltName) -> SubjectAltNameMatcher {
    let (san_type, text) = match name {
        SubjectAltName::Dns(host) => (SanType::Dns, host),
        SubjectAltName::Uri(uri) => (SanType::Uri, uri),
    };
    SubjectAltNameMatcher {
        san_type: san_type.into(),
        matcher: Some(StringMatcher {
            match_pattern: Some(MatchPattern::Exact(text.clone())),
            ..StringMatcher::default()
        }),
        ..SubjectAltNameMatcher::default()
    }
}

/// The secrets that clusters need, each once: many clusters have the same, which can be large.
pub(super) fn secrets<'c>(clusters: impl Iterator<Item = &'c Cluster>, options: &EnvoyOptions) -> Vec<Secret> {
    let authorities = clusters.filter_map(|cluster| Some(&cluster.tls.as_ref()?.authorities));
    let by_name: BTreeMap<_, _> = authorities.map(|one| (authorities_secret(one), one)).collect();
    let secrets = by_name.into_iter();
    secrets
        .map(|(name, authorities)| secret(name, authorities, options))
        .collect()
}

fn secret(name: String, authorities: &TrustedAuthorities, options: &EnvoyOptions) -> Secret {
    let source = match authorities {
        TrustedAuthorities::System => data_source::Specifier::Filename(options.system_authorities.clone()),
        TrustedAuthorities::Certificates(authorities) => data_source::Specifier::InlineString(authorities.pem()),
    };
    let context = CertificateValidationContext {
        trusted_ca: Some(DataSource {
            specifier: Some(source),
            ..DataSource::default()
        }),
        ..CertificateValidationContext::default()
    };
    Secret {
        name,
        r#type: Some(secret::Type::ValidationContext(context)),
    }
}
