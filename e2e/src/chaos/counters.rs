//! The filter's counters in Envoy's admin interface.

use std::collections::BTreeMap;

/// The counters, such as `refused.expired`, summed over policies, from lines `wasmcustom.limpet.POLICY.NAME: COUNT`.
#[must_use]
pub fn summed(stats: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in stats.lines() {
        let Some((name, count)) = line.split_once(": ") else {
            continue;
        };
        let Some((_, name)) = name.split_once("custom.limpet.") else {
            continue;
        };
        let name = match name.split_once('.') {
            Some(("keys", _)) => continue,
            Some((_, of_policy)) => of_policy,
            None => name,
        };
        if let Ok(count) = count.parse::<u64>() {
            *counts.entry(name.to_owned()).or_default() += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_policies() {
        let stats = "
cluster.limpet.controller.upstream_rq_total: 7
wasmcustom.limpet.a.refused.expired: 1
wasmcustom.limpet.b.refused.expired: 2
wasmcustom.limpet.keys.1.given: 5
dynamicmodulescustom.limpet.host_errors: 3";
        let expected = [("host_errors", 3), ("refused.expired", 3)];
        assert_eq!(
            summed(stats),
            expected.map(|(name, count)| (name.to_owned(), count)).into()
        );
    }
}
