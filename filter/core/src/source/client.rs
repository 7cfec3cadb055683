use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// A policy's clients: prefixes of addresses, number and timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRules {
    /// Bits of an IPv4 address that count.
    pub prefix_v4: u8,
    /// Bits of an IPv6 address that count.
    pub prefix_v6: u8,
    /// How long an unused entry stays.
    pub timeout: Duration,
    /// The most entries.
    pub entries: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientId {
    /// The bits that count; the others are 0.
    pub(crate) ip: IpAddr,
    /// Whether all bits of the address count.
    pub(crate) is_whole: bool,
}

impl SourceRules {
    /// The defaults. Kubernetes has this timeout for `sessionAffinity: ClientIP`.
    pub const DEFAULT: Self = Self {
        prefix_v4: 32,
        prefix_v6: 64,
        timeout: Duration::from_secs(3 * 3600),
        entries: 100_000,
    };

    /// The client at `ip:port`; `None` if it has no IP address.
    pub(crate) fn client(&self, address: &[u8]) -> Option<ClientId> {
        let address: SocketAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
        // In either family, for example through a proxy.
        let ip = match address.ip().to_canonical() {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix_v4.min(32)));
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) & mask.unwrap_or(0)))
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix_v6.min(128)));
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) & mask.unwrap_or(0)))
            }
        };
        Some(ClientId {
            ip,
            is_whole: ip == address.ip(),
        })
    }
}

/// The key of an entry: client, policy and scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey {
    client: [u8; 16],
    scope: ScopeId,
}

/// A scope of a policy. All scopes of all policies may share a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId([u8; 8]);

impl ScopeId {
    /// The prefixes are a part of it, because other prefixes make other clients.
    pub(crate) fn new(policy: &str, rules: &SourceRules, scope: &[u8]) -> Self {
        let mut digest = Sha256::new();
        // No policy's name contains it.
        for part in [policy.as_bytes(), b"\0", &[rules.prefix_v4, rules.prefix_v6], scope] {
            digest.update(part);
        }
        let mut short = [0; 8];
        for (to, from) in short.iter_mut().zip(digest.finalize()) {
            *to = from;
        }
        Self(short)
    }
}

impl EntryKey {
    pub(super) const LEN: usize = 24;

    pub(crate) fn new(client: ClientId, scope: ScopeId) -> Self {
        let ip = match client.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self {
            client: ip.octets(),
            scope,
        }
    }

    /// The key of any client, for tests and measurements.
    #[must_use]
    pub fn of_client(client: [u8; 16], scope: u64) -> Self {
        let scope = ScopeId(scope.to_be_bytes());
        Self { client, scope }
    }

    /// The key as bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (to, from) in bytes.iter_mut().zip(self.client.iter().chain(&self.scope.0)) {
            *to = *from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(prefix_v4: u8, prefix_v6: u8) -> SourceRules {
        SourceRules {
            prefix_v4,
            prefix_v6,
            ..SourceRules::DEFAULT
        }
    }

    #[test]
    fn the_bits_beyond_the_prefix_do_not_count() {
        for (prefixes, address, ip, is_whole) in [
            ((32, 64), "192.0.2.7:4711", "192.0.2.7", true),
            ((24, 64), "192.0.2.7:4711", "192.0.2.0", false),
            ((24, 64), "192.0.2.0:0", "192.0.2.0", true),
            ((1, 64), "192.0.2.7:1", "128.0.0.0", false),
            ((32, 64), "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::", false),
            ((32, 128), "[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2:3:4:5:6", true),
            ((32, 1), "[2001:db8:1:2:3:4:5:6]:1", "::", false),
            ((32, 64), "[::ffff:192.0.2.7]:1", "192.0.2.7", false),
        ] {
            let ip = ip.parse().unwrap();
            let client = rules(prefixes.0, prefixes.1).client(address.as_bytes());
            assert_eq!(client, Some(ClientId { ip, is_whole }), "{address} {prefixes:?}");
        }
    }

    #[test]
    fn what_is_no_ip_address_is_no_client() {
        for address in [
            "",
            "192.0.2.7",
            "/run/envoy.sock",
            "envoy://internal/1",
            "localhost:1",
            "192.0.2.7:x",
        ] {
            assert_eq!(rules(32, 64).client(address.as_bytes()), None, "{address}");
        }
        assert_eq!(rules(32, 64).client(b"\xff"), None);
    }

    #[test]
    fn scopes_policies_and_prefixes_have_keys_of_their_own() {
        let client = rules(32, 64).client(b"192.0.2.7:1").unwrap();
        let keys = [
            ("web", rules(32, 64), "cart"),
            ("web", rules(32, 64), "shop"),
            ("api", rules(32, 64), "cart"),
            ("web", rules(32, 128), "cart"),
            ("web", rules(24, 64), "cart"),
        ];
        let keys = keys.map(|(policy, rules, scope)| {
            EntryKey::new(client, ScopeId::new(policy, &rules, scope.as_bytes())).bytes()
        });
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }
}
