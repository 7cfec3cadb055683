//! When what is counted of sessions can be relied on.

use std::time::Duration;

/// So long after a change nothing that matters is untold: a new controller has all that Envoys know, and a session that
/// began just before a pod drained is known. An Envoy shows a sign of life every 10 seconds, and tells everything again
/// with the next one if it meets another controller; a report may take 5 seconds. A stream of load reports that breaks
/// is opened again within that time, too: Envoy waits 5 seconds, and reports 2 seconds later.
pub(crate) const SETTLING: Duration = Duration::from_secs(15);
