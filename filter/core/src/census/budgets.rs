//! How many sessions may begin anew on another backend, as the controller says it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Backend;
use super::report::Shed;
use crate::time::Timestamp;
use crate::token::Destination;

/// How long they count without a new answer of the controller. An Envoy without requests reports less often than others
/// ([`super::report::SILENCE`]), and has one all the same.
pub const LIFE: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(super) struct Budgets {
    since: Option<Timestamp>,
    services: HashMap<Destination, Budget>,
}

/// What may leave a Service.
#[derive(Debug, Default)]
struct Budget {
    left: u32,
    /// What may leave each host, as far as there is something left.
    hosts: HashMap<SocketAddr, u32>,
}

impl Budgets {
    pub(super) fn new(sheds: &[Shed], now: Timestamp) -> Self {
        let service = |shed: &Shed| {
            let hosts = shed.hosts.iter();
            let budget = Budget {
                left: shed.sessions,
                hosts: hosts.filter_map(|host| Some((host.host()?, host.sessions))).collect(),
            };
            (Destination(shed.destination.to_be_bytes()), budget)
        };
        Self {
            since: Some(now),
            services: sheds.iter().map(service).collect(),
        }
    }

    pub(super) fn take(&mut self, backend: &Backend, now: Timestamp) -> bool {
        if self.since.is_none_or(|since| now.since(since) > LIFE) {
            return false;
        }
        let service = self.services.get_mut(&backend.destination);
        let Some(Budget { left, hosts }) = service else {
            return false;
        };
        let Some(of_host) = hosts
            .get_mut(&backend.host)
            .filter(|of_host| **of_host > 0 && *left > 0)
        else {
            return false;
        };
        *of_host -= 1;
        *left -= 1;
        true
    }
}
