//! New connections as `conntrack -E` prints them.

use std::net::IpAddr;

/// The client's port, and the source of the answers.
#[must_use]
pub fn destination(event: &str) -> Option<(u16, IpAddr)> {
    let value = |name, direction| {
        let mut values = event.split(' ').filter_map(|field| field.strip_prefix(name));
        values.nth(direction)
    };
    Some((value("sport=", 0)?.parse().ok()?, value("src=", 1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_direction_comes_from_the_envoy() {
        let event = "    [NEW] tcp      6 120 SYN_SENT src=10.66.255.254 dst=10.66.250.1 sport=40001 dport=80 \
                     [UNREPLIED] src=10.244.0.7 dst=10.66.255.254 sport=80 dport=1717";
        assert_eq!(destination(event), Some((40001, IpAddr::from([10, 244, 0, 7]))));
    }
}
