//! The Services of a route, and the clusters that they become.

use std::net::IpAddr;
use std::time::Duration;

use limpet_api::{IngressHealthCheck, IngressService, Object, ObjectName, ServicePort, ServiceSpec, StickySession};
use serde_json::json;

use super::go::quoted;
use crate::graph::{Balance, Cluster, ClusterLimits, ClusterName, HealthCheck, Protocol};
use crate::objects::RuleBackend;
use crate::references::{References, ResolvedBackend};
use crate::sessions::never_begins;
use crate::short_hash::short_hash;
use crate::{ContourSettings, Objects, affinity};

const HEALTH_CHECK_HOST: &str = "contour-envoy-healthcheck";
/// The longest time of a health check: a day.
const MOST_SECONDS: i64 = 86_400;
/// Prefixes of annotations; the first that has one counts.
const DOMAINS: [&str; 2] = ["projectcontour.io", "contour.heptio.com"];

/// The choice of a Service's endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadBalancerStrategy<'a> {
    /// Nothing is written.
    Unwritten,
    RoundRobin,
    WeightedLeastRequest,
    Random,
    RingHash,
    Maglev,
    Cookie,
    StickyCookie {
        name: &'a str,
        path: &'a str,
    },
    StickyHeader(&'a str),
    StickyAddress,
}

impl<'a> LoadBalancerStrategy<'a> {
    /// `fields`: of the strategy and of its service, for messages.
    ///
    /// # Errors
    /// If it does not exist.
    pub(super) fn read(
        text: Option<&str>,
        sticky: Option<&'a StickySession>,
        (field, service): (&str, &str),
    ) -> Result<Self, String> {
        Ok(match text {
            None => Self::Unwritten,
            Some("RoundRobin") => Self::RoundRobin,
            Some("WeightedLeastRequest") => Self::WeightedLeastRequest,
            Some("Random") => Self::Random,
            Some("RingHash") => Self::RingHash,
            Some("Maglev") => Self::Maglev,
            Some("Cookie") => Self::Cookie,
            Some("StickySession") => {
                Self::sticky(sticky).map_err(|error| format!("{service}.stickySessionConfig{error}"))?
            }
            Some(other) => {
                return Err(format!(
                    "{field}: expected RoundRobin, WeightedLeastRequest, Random, RingHash, Maglev, Cookie or \
                     StickySession, found {}",
                    quoted(other)
                ));
            }
        })
    }

    fn sticky(config: Option<&'a StickySession>) -> Result<Self, String> {
        let Some(StickySession {
            cookie,
            header,
            connection,
        }) = config
        else {
            return Ok(Self::StickyAddress);
        };
        match (cookie, header, connection) {
            (Some(cookie), None, None) => Ok(Self::StickyCookie {
                name: &cookie.name,
                path: &cookie.path,
            }),
            (None, Some(header), None) => {
                let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
                let name = header.name.as_str();
                if name.is_empty() || !name.chars().all(is_token) {
                    return Err(format!(
                        ".header.name: expected the name of a header, found {}",
                        quoted(name)
                    ));
                }
                if name.to_ascii_lowercase().starts_with("x-limpet-") {
                    return Err(format!(
                        ".header.name: expected a name without x-limpet-, found {}",
                        quoted(name)
                    ));
                }
                Ok(Self::StickyHeader(name))
            }
            (None, None, Some(connection)) if connection.property == "IP" => Ok(Self::StickyAddress),
            (None, None, Some(connection)) => Err(format!(
                ".connection.property: expected IP, found {}",
                quoted(&connection.property)
            )),
            (None, None, None) => Ok(Self::StickyAddress),
            _ => Err(": expected one of cookie, header and connection".to_owned()),
        }
    }

    pub(super) fn is_sticky(self) -> bool {
        matches!(
            self,
            Self::StickyCookie { .. } | Self::StickyHeader(_) | Self::StickyAddress
        )
    }

    fn balance(self, has_affinity: bool) -> Balance {
        match self {
            Self::Unwritten if has_affinity => Balance::RingHash,
            Self::Unwritten | Self::RoundRobin => Balance::RoundRobin,
            Self::WeightedLeastRequest => Balance::LeastRequest,
            Self::Random => Balance::Random,
            Self::Maglev => Balance::Maglev,
            Self::RingHash | Self::Cookie | Self::StickyCookie { .. } | Self::StickyHeader(_) | Self::StickyAddress => {
                Balance::RingHash
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct ContourService<'a> {
    pub(super) name: ObjectName,
    pub(super) port: u16,
    pub(super) weight: u32,
    pub(super) strategy: LoadBalancerStrategy<'a>,
    /// How long the client's address holds a session by the Service, without a strategy of the object.
    pub(super) affinity: Option<Duration>,
    base: String,
    spec: Cluster,
}

impl ContourService<'_> {
    /// `never_begins`: whether other services of the route have sessions, and this one has not.
    pub(super) fn backend(&self, never_begins: bool) -> ResolvedBackend {
        let spec = Cluster {
            never_begins: never_begins || self.spec.never_begins,
            ..self.spec.clone()
        };
        // What is not the same for all clusters of the Service's port.
        let settings = json!({
            "protocol": spec.protocol,
            "balance": spec.balance,
            "healthCheck": spec.health_check,
            "affinity": self.affinity.is_some(),
            "neverBegins": spec.never_begins,
        });
        let hash = short_hash(settings.to_string().as_bytes());
        ResolvedBackend {
            cluster: ClusterName(format!("{}#{hash}", self.base).into()),
            spec,
            object: RuleBackend::Service(self.name.clone()),
        }
    }

    /// Adds this health check.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn checked(mut self, at: &str, check: Option<&IngressHealthCheck>) -> Result<Self, String> {
        self.spec.health_check = check.map(|check| health_check(at, check)).transpose()?;
        Ok(self)
    }

    /// Whether tokens name both by one hash, although they are two.
    pub(super) fn is_confused_with(&self, other: &Self) -> bool {
        let name = |service: &Self| ClusterName(service.base.as_str().into());
        self.base != other.base && name(self).destination() == name(other).destination()
    }
}

pub(super) struct ContourServices<'a> {
    pub(super) objects: &'a Objects,
    pub(super) references: &'a References<'a>,
    pub(super) settings: &'a ContourSettings,
}

impl ContourServices<'_> {
    /// Without its health check. `at`: the field of the service.
    ///
    /// # Errors
    /// The object's description, if the service cannot be followed.
    pub(super) fn find<'s>(
        &self,
        namespace: &str,
        at: &str,
        service: &IngressService,
        strategy: LoadBalancerStrategy<'s>,
        notes: &mut Vec<String>,
    ) -> Result<ContourService<'s>, String> {
        let missing = || format!("Service [{}:{}] is invalid or missing", service.name, service.port);
        let name = ObjectName::new(namespace, &service.name);
        let object = self
            .objects
            .services
            .get(&name)
            .filter(|object| object.malformed.is_none());
        let object = object.ok_or_else(missing)?;
        let number = u16::try_from(service.port).map_err(|_| missing())?;
        let port = object.spec.ports_at(number).next().ok_or_else(missing)?;
        let external_name = self.external_name(at, object)?;
        let protocol = protocol(at, object, port)?;
        let backend = RuleBackend::Service(name.clone());
        let tls = self.references.tls(&backend, &port.name);
        let tls = tls.map_err(|message| format!("{at}: {message}"))?;
        let affinity = affinity::of(&object.spec).ok().flatten();
        let affinity = affinity.filter(|_| strategy == LoadBalancerStrategy::Unwritten && external_name.is_none());
        Ok(ContourService {
            port: port.port,
            weight: service.weight,
            strategy,
            affinity,
            base: format!("service/{}/{}/{}", name.namespace, name.name, port.port),
            spec: Cluster {
                port_name: port.name.clone(),
                tls,
                balance: strategy.balance(affinity.is_some()),
                external_name,
                limits: limits(object, at, notes),
                never_begins: never_begins(object),
                ..Cluster::new(name.clone(), port.port, protocol)
            },
            name,
        })
    }

    fn external_name(&self, at: &str, object: &Object<ServiceSpec>) -> Result<Option<String>, String> {
        if object.spec.kind.as_deref() != Some("ExternalName") {
            return Ok(None);
        }
        let name = &object.meta.name;
        if !self.settings.external_names {
            return Err(format!(
                "{at}.name: expected a Service with endpoints, found {name} of type ExternalName, which counts only \
                 with contour.externalNames in the controller's configuration"
            ));
        }
        let host = object.spec.external_name.as_deref().unwrap_or_default();
        if is_foreign(host) {
            return Ok(Some(host.to_owned()));
        }
        Err(format!(
            "{at}.name: expected a Service whose externalName is a name in DNS, and neither localhost nor an address \
             of loopback or link-local, found {name} with {}",
            quoted(host)
        ))
    }
}

/// Whether a name may lead to another machine: Envoy's administration listens on loopback, and clouds give their
/// secrets on link-local addresses.
fn is_foreign(host: &str) -> bool {
    if let Ok(address) = host.parse::<IpAddr>() {
        let address = address.to_canonical();
        let is_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
        };
        return !(is_local || address.is_loopback() || address.is_unspecified() || address.is_multicast());
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let mut labels = name.rsplit('.');
    let last = labels.next().unwrap_or_default();
    // Some resolvers read `127.1`, `0x7f.1` and `2130706433` as addresses. No top-level domain begins with a digit.
    let is_number = last.starts_with(|c: char| c.is_ascii_digit());
    let is_local = matches!(
        last,
        "localhost" | "localdomain" | "localhost4" | "localdomain4" | "localhost6" | "localdomain6"
    ) || matches!(&*name, "ip6-localhost" | "ip6-loopback" | "loopback");
    is_host_name(&name) && !is_number && !is_local
}

/// Whether it has labels of letters, digits, hyphens and underscores (RFC 1123, section 2.1).
pub(super) fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_inner = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

pub(super) fn is_annotation(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| DOMAINS.contains(&domain))
}

fn annotation<'o>(object: &'o Object<ServiceSpec>, name: &str) -> Option<(String, &'o str)> {
    DOMAINS.iter().find_map(|domain| {
        let name = format!("{domain}/{name}");
        let text = object.meta.annotations.get(&name)?;
        Some((name, text.as_str()))
    })
}

fn protocol(at: &str, object: &Object<ServiceSpec>, port: &ServicePort) -> Result<Protocol, String> {
    let names_port = |text: &str| {
        let number = port.port.to_string();
        let mut ports = text.split(',').map(str::trim);
        ports.any(|of| !of.is_empty() && (of == number || of == port.name))
    };
    for (kind, is_supported) in [("h2c", true), ("h2", false), ("tls", false)] {
        let found = annotation(object, &format!("upstream-protocol.{kind}"));
        let Some((name, _)) = found.filter(|(_, text)| names_port(text)) else {
            continue;
        };
        if is_supported {
            return Ok(Protocol::H2c);
        }
        return Err(format!(
            "{at}: expected a Service without the annotation {name} for this port: TLS to backends is not supported \
             by it, but by a BackendTLSPolicy"
        ));
    }
    Ok(Protocol::Http1)
}

fn limits(object: &Object<ServiceSpec>, at: &str, notes: &mut Vec<String>) -> ClusterLimits {
    let mut limit = |name: &str| {
        let (name, text) = annotation(object, name)?;
        let Ok(limit) = text.parse::<u32>() else {
            notes.push(format!(
                "{at}: the annotation {name} of the Service has no effect: expected a number from 0 to {}, found {}",
                u32::MAX,
                quoted(text)
            ));
            return None;
        };
        Some(limit).filter(|limit| *limit > 0)
    };
    ClusterLimits {
        connections: limit("max-connections"),
        pending: limit("max-pending-requests"),
        requests: limit("max-requests"),
        retries: limit("max-retries"),
    }
}

fn health_check(at: &str, check: &IngressHealthCheck) -> Result<HealthCheck, String> {
    let field = |name: &str, expected: &str, found: &str| {
        format!("{at}.healthCheck.{name}: expected {expected}, found {found}")
    };
    let is_text = |text: &str| !text.chars().any(char::is_control);
    if !check.path.starts_with('/') || !is_text(&check.path) {
        return Err(field("path", "a path that begins with /", &quoted(&check.path)));
    }
    if !is_text(&check.host) {
        return Err(field("host", "a host", &quoted(&check.host)));
    }
    let seconds = |name, seconds: i64, default| match u64::try_from(seconds) {
        Ok(0) => Ok(Duration::from_secs(default)),
        Ok(known) if seconds <= MOST_SECONDS => Ok(Duration::from_secs(known)),
        _ => Err(field(name, &format!("0 to {MOST_SECONDS}"), &seconds.to_string())),
    };
    let count = |count: u32, default| if count == 0 { default } else { count };
    let host = if check.host.is_empty() {
        HEALTH_CHECK_HOST
    } else {
        &check.host
    };
    Ok(HealthCheck {
        path: check.path.clone(),
        host: host.to_owned(),
        interval: seconds("intervalSeconds", check.interval_seconds, 5)?,
        timeout: seconds("timeoutSeconds", check.timeout_seconds, 2)?,
        unhealthy_after: count(check.unhealthy_threshold_count, 3),
        healthy_after: count(check.healthy_threshold_count, 2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_not_foreign() {
        for (host, expected) in [
            ("example.com", true),
            ("example.com.", true),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("localhost", false),
            ("LOCALHOST", false),
            ("localhost.", false),
            ("a.localhost", false),
            ("localhost.localdomain", false),
            ("ip6-localhost", false),
            ("localhost4", false),
            ("loopback", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("0.0.0.0", false),
            ("::", false),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("127.1", false),
            ("2130706433", false),
            ("0x7f.1", false),
            ("0x7f000001", false),
            ("", false),
            ("a b", false),
            ("a..b", false),
        ] {
            assert_eq!(is_foreign(host), expected, "{host}");
        }
    }
}
