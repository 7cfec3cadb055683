//! A limit of what is made of one route: Envoy gets its headers and paths for each match, host and listener.

use std::io;

use serde::Serialize;

use super::Attachment;
use super::rule::{RouteRule, RuleAction};
use crate::field_problem::FieldProblem;

/// JSON is about as large as Envoy's routes: 128 matches of 2 KiB each, for 16 hosts.
const MOST_BYTES: usize = 4 << 20;

pub(super) fn problem(rules: &[RouteRule<'_>], attachments: &[Attachment]) -> Option<FieldProblem> {
    let copies: usize = attachments.iter().map(|attachment| attachment.hostnames.len()).sum();
    let bytes = rules.iter().map(of_rule).fold(0, usize::saturating_add);
    let bytes = bytes.saturating_mul(copies);
    (bytes > MOST_BYTES).then(|| FieldProblem {
        field: "spec.rules".to_owned(),
        message: format!(
            "expected at most {MOST_BYTES} bytes of routes with one for each match, host and listener, found {bytes}: \
             name a listener (spec.parentRefs[].sectionName), or divide matches or hosts among several routes"
        ),
    })
}

fn of_rule(rule: &RouteRule<'_>) -> usize {
    let RouteRule {
        matches,
        otherwise,
        action,
        request_headers,
        response_headers,
        cors,
        ..
    } = rule;
    // In a split, Envoy has a route for each destination, by which it leads sessions there.
    let destinations = match action {
        RuleAction::Forward(forward) if forward.destinations.len() > 1 => forward.destinations.len(),
        _ => 0,
    };
    let for_each = bytes((action, request_headers, response_headers, cors));
    let for_each = for_each.saturating_mul(1 + destinations);
    let of_matches = matches.iter().chain(otherwise).map(|found| for_each + bytes(found));
    of_matches.fold(0, usize::saturating_add)
}

fn bytes(value: impl Serialize) -> usize {
    let mut counted = ByteCounter(0);
    let _ = serde_json::to_writer(&mut counted, &value);
    counted.0
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
