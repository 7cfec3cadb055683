use std::time::Duration;

use super::Problem;
use super::compiled::{Carrier, IdleBound, RebalanceRule};
use super::schema::PolicyConfig;

/// Checks `rebalance`. Also returns the idle bound, which lags less for it. `keeps_up`: whether a token reaches its
/// client with any response. `longest`: how long a session may stay unused. Adds to `problems`.
pub(super) fn rebalance(
    field: &str,
    config: &PolicyConfig,
    own: &Carrier,
    keeps_up: bool,
    longest: Duration,
    problems: &mut Vec<Problem>,
) -> Option<(RebalanceRule, IdleBound)> {
    let after = config.rebalance?.get();
    // `maxIdle` is not the policy's.
    let timeout = config.idle_timeout.or(config.absolute_timeout);
    let message = match own {
        // `source_rules` says why.
        Carrier::Source(_) => None,
        Carrier::Query { .. } if !keeps_up => Some(
            "remove it or add tell: a token is renewed only in redirects, so the time of its last use \
             would be unknown",
        ),
        _ if !keeps_up => Some(
            "remove it in this mode: a token is renewed only when the application sets its cookie or header again, \
             so the time of its last use would be unknown",
        ),
        _ if after.is_zero() => Some("expected a duration greater than zero"),
        _ if timeout.is_some_and(|timeout| after >= timeout.get()) => {
            Some("expected less than sessions may stay unused: they are over then")
        }
        _ => None,
    };
    problems.extend(message.map(|message| Problem {
        field: format!("{field}.rebalance"),
        message: message.to_owned(),
    }));
    // A renewal notes the use; this much before is unknown.
    let lag = (longest / 10).min(after / 5);
    let bound = IdleBound { bound: longest, lag };
    Some((RebalanceRule { unseen: after + lag }, bound))
}
