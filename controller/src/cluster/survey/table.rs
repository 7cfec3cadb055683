//! Tables as `kubectl get` prints them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::page::{PodRow, PodRowState};
use crate::output::printable;
use crate::time_format;
use limpet_core::time::Timestamp;

/// What is between two columns, and the least width of one, as in kubectl.
const PADDING: usize = 3;
const LEAST: usize = 6;

const HEADINGS: [&str; 10] = [
    "NAMESPACE",
    "POD",
    "SERVICE",
    "STATE",
    "SESSIONS",
    "STREAMS",
    "LAST USE",
    "REQUESTS",
    "OLDEST",
    // In a wide table.
    "ADDRESS",
];

/// A table that grows: columns keep the width that they have once had.
#[derive(Debug)]
pub(super) struct SessionTable {
    with_namespaces: bool,
    is_wide: bool,
    widths: [usize; HEADINGS.len()],
    has_headings: bool,
}

impl SessionTable {
    pub(super) fn new(with_namespaces: bool, is_wide: bool) -> Self {
        Self {
            with_namespaces,
            is_wide,
            widths: [0; HEADINGS.len()],
            has_headings: false,
        }
    }

    /// These rows, with headings above the first ones.
    pub(super) fn print(&mut self, rows: &[PodRow], now: Timestamp) -> String {
        let headings = HEADINGS.map(str::to_owned);
        let headings = (!std::mem::replace(&mut self.has_headings, true)).then_some(headings);
        let cells = rows.iter().map(|row| cells(row, now));
        let lines: Vec<_> = headings.into_iter().chain(cells).collect();
        for line in &lines {
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (cell.chars().count() + PADDING).max(LEAST).max(*width);
            }
        }
        let columns = usize::from(!self.with_namespaces)..HEADINGS.len() - usize::from(!self.is_wide);
        let mut text = String::new();
        for line in &lines {
            for (cell, width) in line.iter().zip(self.widths).take(columns.end).skip(columns.start) {
                let _ = write!(text, "{cell:width$}");
            }
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
        }
        text
    }
}

fn cells(row: &PodRow, now: Timestamp) -> [String; HEADINGS.len()] {
    let at_least = |count: u64| format!("{count}{}", if row.complete { "" } else { "+" });
    let since = |time: &Option<String>| {
        let time = time.as_deref().and_then(|text| time_format::parse(text).ok());
        time.map_or_else(|| "-".to_owned(), |time| age(now.since(time)))
    };
    [
        printable(&row.namespace),
        printable(&row.pod),
        printable(&row.service),
        row.state.name().to_owned(),
        at_least(row.sessions),
        at_least(row.streams),
        since(&row.last_use),
        // Counted since the controllers started, or the pod's first session after a time without any.
        row.last_use
            .as_ref()
            .map_or_else(|| "-".to_owned(), |_| row.requests.to_string()),
        since(&row.oldest),
        printable(&row.address),
    ]
}

/// A duration as kubectl writes ages: `45s`, `5m30s`, `90m`, `7h5m`, `3d2h`, `40d`, `2y10d`.
fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with_rest = |whole: u64, unit: &str, rest: u64, of: &str| match rest {
        0 => format!("{whole}{unit}"),
        _ => format!("{whole}{unit}{rest}{of}"),
    };
    match seconds {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => with_rest(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => with_rest(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => with_rest(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 8 * 365 => with_rest(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// The rows that are other than they were, and what became of those that are missing now.
#[derive(Debug, Default)]
pub(super) struct ChangedRows(Vec<PodRow>);

impl ChangedRows {
    pub(super) fn update(&mut self, rows: &[PodRow]) -> Vec<PodRow> {
        let before = std::mem::replace(&mut self.0, rows.to_vec());
        let now: BTreeSet<_> = rows.iter().map(PodRow::identity).collect();
        let mut known: BTreeMap<_, Vec<&PodRow>> = BTreeMap::new();
        for row in &before {
            known.entry(row.identity()).or_default().push(row);
        }
        let gone = before.iter().filter(|row| !now.contains(&row.identity()));
        let gone = gone.map(|row| PodRow {
            state: row.state.min(PodRowState::Gone),
            sessions: 0,
            streams: 0,
            ..row.clone()
        });
        let is_known = |row: &&PodRow| known.get(&row.identity()).is_some_and(|known| known.contains(row));
        let changed = rows.iter().filter(|row| !is_known(row)).cloned();
        changed.chain(gone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pod: &str, sessions: u64) -> PodRow {
        PodRow {
            namespace: "shop".to_owned(),
            service: "web".to_owned(),
            pod: pod.to_owned(),
            address: "10.0.0.7:8080".to_owned(),
            sessions,
            requests: 4711,
            last_use: Some("2026-11-23T06:00:00Z".to_owned()),
            oldest: Some("2026-11-23T02:55:00Z".to_owned()),
            complete: true,
            ..PodRow::default()
        }
    }

    fn now() -> Timestamp {
        time_format::parse("2026-11-23T06:00:05Z").unwrap()
    }

    #[test]
    fn columns_are_as_wide_as_those_of_kubectl() {
        let mut table = SessionTable::new(false, false);
        let never = PodRow {
            state: PodRowState::Draining,
            requests: 0,
            last_use: None,
            oldest: None,
            ..row("web-55d8c67b4f-x2x7p", 0)
        };
        let expected = "\
POD                    SERVICE   STATE      SESSIONS   STREAMS   LAST USE   REQUESTS   OLDEST
a                      web       ready      12         0         5s         4711       3h5m
web-55d8c67b4f-x2x7p   web       draining   0          0         -          -          -
";
        assert_eq!(table.print(&[row("a", 12), never], now()), expected);
        let line = "a                      web       ready      11         0         5s         4711       3h5m\n";
        assert_eq!(table.print(&[row("a", 11)], now()), line, "the widths stay");
        let doubtful = PodRow {
            complete: false,
            ..row("a", 11)
        };
        let line = "a                      web       ready      11+        0+        5s         4711       3h5m\n";
        assert_eq!(table.print(&[doubtful], now()), line);
        assert!(table.print(&[], now()).is_empty());
        let mut all = SessionTable::new(true, true);
        let text = all.print(&[row("a", 12)], now());
        assert!(text.starts_with("NAMESPACE   POD   SERVICE"), "{text}");
        assert!(text.contains("\nshop        a     web"), "{text}");
        assert!(
            text.contains("OLDEST   ADDRESS\n") && text.ends_with("3h5m     10.0.0.7:8080\n"),
            "{text}"
        );
    }

    #[test]
    fn no_name_changes_a_terminal() {
        let text = SessionTable::new(false, false).print(&[row("a\u{1b}[2J\nb", 1)], now());
        assert!(text.contains("a\\u{1b}[2J\\nb   web"), "{text:?}");
    }

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        for (seconds, expected) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 300, "7h5m"),
            (8 * 3600 + 300, "8h"),
            (47 * 3600, "47h"),
            (3 * 86_400 + 7200, "3d2h"),
            (40 * 86_400, "40d"),
            (740 * 86_400, "2y10d"),
            (3650 * 86_400, "10y"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn only_what_changes_is_shown_again() {
        let mut changes = ChangedRows::default();
        let both = [row("a", 1), row("b", 2)];
        assert_eq!(changes.update(&both), both);
        assert!(changes.update(&both).is_empty());
        assert_eq!(changes.update(&[row("a", 1), row("b", 3)]), [row("b", 3)]);
        let gone = PodRow {
            state: PodRowState::Gone,
            ..row("a", 0)
        };
        assert_eq!(changes.update(&[row("b", 3)]), [gone]);
        assert!(changes.update(&[row("b", 3)]).is_empty());
        let unrouted = |sessions| PodRow {
            state: PodRowState::Unrouted,
            ..row("b", sessions)
        };
        assert_eq!(changes.update(&[unrouted(3)]), [unrouted(3)]);
        assert_eq!(
            changes.update(&[]),
            [unrouted(0)],
            "its sessions are over, and it may be there"
        );
    }
}
