use super::Problem;
use super::compiled::{Carrier, Source};
use super::schema::{CacheControlConfig, PolicyConfig, SourceConfig, TokenConfig};
use crate::source::SourceRules;

/// The most entries of a table: about a gigabyte.
pub(super) const MAX_ENTRIES: u32 = 10_000_000;

/// Checks `source` and adds to `problems`.
pub(super) fn source(
    field: &str,
    policy: &PolicyConfig,
    config: &SourceConfig,
    problems: &mut Vec<Problem>,
) -> Carrier {
    let SourceConfig {
        prefix_v4,
        prefix_v6,
        timeout,
        entries,
    } = *config;
    let mut expect = |holds: bool, name: &str, message: String| {
        if !holds {
            problems.push(Problem {
                field: format!("{field}.{name}"),
                message,
            });
        }
    };
    for (name, prefix, bits) in [("prefixV4", prefix_v4, 32), ("prefixV6", prefix_v6, 128)] {
        let message = format!("expected 1 to {bits} bits, found {prefix}");
        expect((1..=bits).contains(&prefix), &format!("source.{name}"), message);
    }
    let message = "expected a duration greater than zero".to_owned();
    expect(!timeout.get().is_zero(), "source.timeout", message);
    let message = format!("expected 1 to {MAX_ENTRIES} entries, found {entries}");
    expect((1..=MAX_ENTRIES).contains(&entries), "source.entries", message);
    let message = "remove it with source: source.timeout says how long a session may stay unused";
    expect(policy.idle_timeout.is_none(), "idleTimeout", message.to_owned());
    let message = "remove it with source: there are no tokens".to_owned();
    expect(policy.former_lags.is_empty(), "formerLags", message);
    let message = "remove it with source: a session by address would move by chance, in only one Envoy";
    expect(policy.rebalance.is_none(), "rebalance", message.to_owned());
    let nothing_sent = "remove it with source: nothing is sent to the client";
    expect(
        policy.also.is_empty(),
        "also",
        "remove it with source: there are no tokens".to_owned(),
    );
    expect(policy.tell.is_none(), "tell", nothing_sent.to_owned());
    expect(policy.token == TokenConfig::default(), "token", nothing_sent.to_owned());
    let keeps_default = policy.cache_control == CacheControlConfig::default();
    expect(keeps_default, "cacheControl", nothing_sent.to_owned());
    Carrier::Source(Source::new(SourceRules {
        prefix_v4,
        prefix_v6,
        timeout: timeout.get(),
        entries,
    }))
}
