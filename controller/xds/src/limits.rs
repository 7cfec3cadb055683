//! What one stream, and one report, may cost.

use std::time::{Duration, Instant};

use prost::encoding::{DecodeContext, decode_key, skip_field};

/// The longest name of a node or a resource, in bytes: four times the longest one of a Kubernetes object.
pub(super) const NAME: usize = 1 << 10;
/// The memory for names of one stream, of all types, and for what is known of the node's resources.
pub(super) const NAMES_OF_STREAM: usize = 32 << 20;
/// What a name takes beside its bytes: places in maps, and what is known of the resource.
const NAME_OVERHEAD: usize = 128;
/// The memory of a resource that a node has: its place in a map, and its version. The published resource has the name.
pub(super) const ENTRY: usize = 96;
/// The memory of error messages of one stream. Beyond it, only that something is refused is kept.
pub(super) const WORDS_OF_STREAM: usize = 1 << 20;
/// Bytes of an error message that are kept.
const MESSAGE: usize = 4 << 10;
/// How long a stream may be open before its first request.
pub(super) const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// Envoy's largest load report: 10,000 hosts with up to 80 bytes (address as text, four counters), and the node, which
/// Envoy describes each time with all its extensions.
pub(super) const LOADS: usize = 1 << 20;
/// Hosts of a load report that count: more than fit one as Envoy writes it.
pub(super) const HOSTS_OF_REPORT: usize = 20_000;
/// What is kept of a host that has requests in flight.
pub(super) const MEMORY_OF_HOST: usize = 64;
/// The largest report of sessions. The filter stops at 512 KiB; then come the backend that it was at, with up to 25
/// KiB, and the sessions that it moved.
pub(super) const REPORT: usize = 768 << 10;
/// Large reports that are received at once, of all addresses: 24 MiB.
pub(super) const REPORTS: usize = 32;
/// Large load reports that are received at once, of all addresses: 16 MiB.
pub(super) const LARGE_LOADS: usize = 16;
/// The fewest bytes of a backend in a report: hash, address and the time of the last use.
const BACKEND: usize = 16;

/// Whether a report may be decoded: empty parts would take fifty times their bytes.
pub(super) fn is_dense(mut report: &[u8]) -> bool {
    let most = report.len() / BACKEND + BACKEND;
    for _ in 0..most {
        if report.is_empty() {
            return true;
        }
        let context = DecodeContext::default();
        let skipped = decode_key(&mut report).and_then(|(tag, kind)| skip_field(kind, tag, &mut report, context));
        if skipped.is_err() {
            return false;
        }
    }
    report.is_empty()
}

pub(super) fn memory_of(name: &str) -> usize {
    name.len() + NAME_OVERHEAD
}

pub(super) fn clip(message: &mut String) {
    if message.len() > MESSAGE {
        let end = (0..=MESSAGE).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push_str(" ...");
    }
}

/// The pace of requests that answer nothing, or ask for something again. A client that is too fast waits; nothing is
/// lost.
#[derive(Debug)]
pub(super) struct RequestPace {
    /// The time up to which requests are paid for, ahead of now by at most [`RequestPace::AHEAD`].
    paid_until: Instant,
}

impl RequestPace {
    /// The cost of a request in the long run.
    const REQUEST: Duration = Duration::from_millis(10);
    /// The cost of a report: several workers of each Envoy send one every few seconds.
    const REPORT: Duration = Duration::from_millis(1);
    /// The cost of a change between some resources and all, which looks at every resource.
    const WILDCARD: Duration = Duration::from_secs(1);
    /// The cost of a megabyte of a report, or of what the client asked for again.
    const MEGABYTE: Duration = Duration::from_millis(100);
    /// What may be spent at once: a thousand requests, more than Envoy sends at its start.
    const AHEAD: Duration = Duration::from_secs(10);

    pub(super) fn new(now: Instant) -> Self {
        Self { paid_until: now }
    }

    /// Counts a request that answered nothing.
    pub(super) fn spend(&mut self, wildcard: bool, now: Instant) {
        let cost = if wildcard { Self::WILDCARD } else { Self::REQUEST };
        self.paid_until = self.paid_until.max(now) + cost;
    }

    /// Counts a request for bytes that were sent before.
    pub(super) fn spend_bytes(&mut self, bytes: usize, now: Instant) {
        let micros = bytes as u128 * Self::MEGABYTE.as_micros() / (1 << 20);
        let cost = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        self.paid_until = self.paid_until.max(now) + cost;
    }

    pub(super) fn spend_report(&mut self, bytes: usize, now: Instant) {
        self.paid_until = self.paid_until.max(now) + Self::REPORT;
        self.spend_bytes(bytes, now);
    }

    /// When the next request is taken in; `None`: now.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let next = self.paid_until.checked_sub(Self::AHEAD)?;
        (next > now).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use limpet_core::census::report::{BackendReport, Report};
    use limpet_core::census::{Backend, Census, ObservedSession, SessionDeparture, SessionIdentity};
    use limpet_core::time::Timestamp;
    use limpet_core::token::DestinationId;
    use prost::Message as _;

    use super::*;

    #[test]
    fn a_stream_that_asks_all_the_time_waits() {
        let now = Instant::now();
        let mut pace = RequestPace::new(now);
        let mut at_once = 0;
        while pace.next(now).is_none() {
            pace.spend(false, now);
            at_once += 1;
        }
        assert!(at_once >= 1000);
        let next = pace.next(now).unwrap();
        assert!(pace.next(next).is_none());
        pace.spend(true, next);
        assert_eq!(pace.next(next), Some(next + RequestPace::WILDCARD));
        // What was not spent is not saved up.
        let later = now + 100 * RequestPace::AHEAD;
        pace.spend(false, later);
        assert_eq!(pace.paid_until, later + RequestPace::REQUEST);
    }

    #[test]
    fn reports_are_paid_for_as_well() {
        let now = Instant::now();
        let mut pace = RequestPace::new(now);
        let mut at_once = 0;
        while pace.next(now).is_none() {
            pace.spend_report(REPORT, now);
            at_once += 1;
        }
        assert_eq!(at_once, 132);
    }

    #[test]
    fn the_largest_report_of_a_filter_is_taken() {
        let now = Timestamp::from_unix_seconds(1_800_000_000);
        let census = Census::new([7; 16], 50_000);
        for number in 0..30_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            let host = SocketAddr::from(([10 + a, b, c, d], 8080));
            let backend = Backend::new(DestinationId([a, b, c, 1]), host, Duration::from_secs(3600));
            for session in 0..if number < 30 { 20_000_u32 } else { 1 } {
                census.record(&ObservedSession {
                    backend,
                    session: SessionIdentity::Token(session.to_be_bytes()),
                    began: now,
                    at: now,
                });
            }
            census.record_departure(SessionDeparture::Rebalanced(backend, now));
        }
        let mut told = 0;
        while let Some(report) = census.report(now) {
            let bytes = report.encode_to_vec();
            assert!(bytes.len() < REPORT, "{}", bytes.len());
            assert!(is_dense(&bytes));
            told += report.backends.len();
        }
        assert_eq!(told, 30_000);
        let empty = Report {
            backends: vec![BackendReport::default(); 1000],
            ..Report::default()
        };
        assert!(!is_dense(&empty.encode_to_vec()));
        assert!(is_dense(&[]) && !is_dense(&[255]));
    }

    #[test]
    fn what_is_sent_again_costs_what_it_weighs() {
        let now = Instant::now();
        let mut pace = RequestPace::new(now);
        pace.spend_bytes(0, now);
        assert_eq!(pace.paid_until, now);
        let mut at_once = 0;
        while pace.next(now).is_none() {
            pace.spend_bytes(4 << 20, now);
            at_once += 1;
        }
        assert_eq!(at_once, 26);
    }

    #[test]
    fn long_messages_are_cut_off_between_characters() {
        let mut short = "refused".to_owned();
        clip(&mut short);
        assert_eq!(short, "refused");
        let mut long = "ä".repeat(MESSAGE);
        clip(&mut long);
        assert!(long.len() <= MESSAGE + 4 && long.ends_with("ä ..."));
    }
}
