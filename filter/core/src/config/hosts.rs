use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;

use super::Problem;
use crate::address;

/// The known hosts, by cluster name.
#[derive(Debug, Default)]
pub(crate) struct HostsByCluster(HashMap<Box<str>, HostSet>);

#[derive(Debug, Default)]
pub(crate) struct HostSet {
    addresses: HashSet<SocketAddr>,
    by_name: HashMap<Box<str>, SocketAddr>,
}

impl HostsByCluster {
    /// Reads the hosts and adds to `problems`.
    pub(super) fn read(config: &BTreeMap<String, BTreeMap<String, String>>, problems: &mut Vec<Problem>) -> Self {
        let mut read = |cluster: &str, names: &BTreeMap<String, String>| {
            let mut hosts = HostSet::default();
            for (text, name) in names {
                let Some(host) = address::of_host(text.as_bytes()) else {
                    problems.push(Problem {
                        field: format!("hosts.{cluster}"),
                        message: format!(
                            "expected addresses with their ports, as 10.0.0.7:8080 or [2001:db8::7]:8080, found \
                             {text:?}"
                        ),
                    });
                    continue;
                };
                hosts.addresses.insert(host);
                if !name.is_empty() {
                    let known = hosts.by_name.entry(name.as_str().into()).or_insert(host);
                    // A pod may have an address of each family.
                    *known = host.min(*known);
                }
            }
            (Box::from(cluster), hosts)
        };
        Self(config.iter().map(|(cluster, names)| read(cluster, names)).collect())
    }

    pub(crate) fn get(&self, cluster: &[u8]) -> Option<&HostSet> {
        self.0.get(std::str::from_utf8(cluster).ok()?)
    }
}

impl HostSet {
    pub(crate) fn has(&self, host: SocketAddr) -> bool {
        self.addresses.contains(&host)
    }

    pub(crate) fn by_name(&self, name: &[u8]) -> Option<SocketAddr> {
        self.by_name.get(std::str::from_utf8(name).ok()?).copied()
    }
}
