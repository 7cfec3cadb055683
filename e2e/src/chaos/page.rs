//! The page that shows runs.

use std::fmt::Write as _;

use serde_json::Value;

const HEAD: &str = "\
# Rollouts that nobody notices

Pods and processes of the whole installation end in every way, all at once, while clients use their sessions. `make
chaos` does this on a genuine Kubernetes node, and counts what clients see. It writes this page.

## What is promised

- **No request fails**, except those that a killed process had. Each of them is found by its connection: the kernel
  says to which Envoy kube-proxy led it, and the session says at which pod it was. Whatever cannot be told from a kill
  that was sent, and its moment, fails the run.
- **No session moves while its pod lives**, and none moves more than once for one end of its pod.
- **No token is refused**, by the counters of all Envoys.
- **No process grows**: the median memory of a process in the last quarter of the run is less than twice that of the
  beginning.

## What was run

";

const CLIENTS: &str = "
Clients have one session each, and send a request half a second after each answer, without retrying any. A quarter each
speaks HTTP/1.1 (half of them with a connection for each request), HTTP/2, WebSocket and gRPC (half of both keep one
stream open for ever, in which each message that comes back counts as a request). They come in by the Gateway's address,
a Service whose pods kube-proxy chooses.

Limpet is what the Helm chart installs, with three Envoys for the Gateway and phases of 5 seconds for keys. The
application ends as [What a pod must do](../docs/how-to/rollouts.md#what-a-pod-must-do-to-end-well) asks for. Processes
are killed only while three of their kind are ready, because `kubectl drain` may take one at the same time, and of
Envoys one after the other. There is one node: what `kubectl drain` evicts comes back when it is uncordoned, so the
budgets of the Deployments decide how many pods go, and the command ends with those that stay.

";

const COLUMNS: &str = "
## What clients saw

A table for each build of the filter says how often something ended, and what clients saw of it. Four figures are those
of HTTP/1.1, HTTP/2, WebSocket and gRPC.

- **Moved**: sessions that went on at another pod.
- **Lost**: requests that the killed process had.
- **Refused**: connections that the address of a killed Envoy did not take, until kube-proxy knew. The client connected
  again, and nothing was lost.
- **Streams**: WebSockets and gRPC streams that ended with the process. The client opened another one.
";

const TABLE: &str = "
| What ended | Times | Moved | Lost | Refused | Streams |
|---|---|---|---|---|---|
";

/// The page about these runs.
#[must_use]
pub fn page(runs: &[Value]) -> String {
    let mut page = HEAD.to_owned();
    about(&mut page, runs);
    page.push_str(CLIENTS);
    events(&mut page, runs);
    page.push_str(COLUMNS);
    for run in runs {
        one(&mut page, run);
    }
    page
}

/// A run's part of the page.
#[must_use]
pub fn summary(run: &Value) -> String {
    let mut text = String::new();
    events(&mut text, std::slice::from_ref(run));
    one(&mut text, run);
    text
}

fn about(page: &mut String, runs: &[Value]) {
    row(page, "", runs, |run| text(&run["about"]["filter"]));
    let _ = writeln!(page, "|---{}|", "|---".repeat(runs.len()));
    for (name, key) in [
        ("Date", "date"),
        ("Minutes", "minutes"),
        ("Clients", "clients"),
        ("Envoy", "envoy"),
        ("Kubernetes", "kubernetes"),
        ("Gateway API", "gatewayApi"),
        ("Machine", "machine"),
        ("Envoys that ran", "envoys"),
    ] {
        row(page, name, runs, |run| text(&run["about"][key]));
    }
}

fn events(page: &mut String, runs: &[Value]) {
    row(page, "Event", runs, |run| text(&run["about"]["filter"]));
    let _ = writeln!(page, "|---{}|", "|---".repeat(runs.len()));
    let first = runs.first().and_then(|run| run["events"].as_array());
    for event in first.into_iter().flatten() {
        let times = |run: &Value| {
            let events = run["events"].as_array().into_iter().flatten();
            events
                .filter(|of_run| of_run["what"] == event["what"])
                .map(|event| text(&event["times"]))
                .collect()
        };
        row(page, &text(&event["what"]), runs, times);
    }
}

fn row(page: &mut String, name: &str, runs: &[Value], cell: impl Fn(&Value) -> String) {
    let cells: Vec<_> = runs.iter().map(cell).collect();
    let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
}

fn one(page: &mut String, run: &Value) {
    let filter = text(&run["about"]["filter"]);
    let _ = writeln!(page, "\n### With the {filter} filter\n");
    let _ = writeln!(page, "| | {filter} |\n|---|---|");
    let totals = [
        ("Requests answered", four(&run["requests"])),
        ("Requests failed without a kill", text(&run["failed"])),
        ("Sessions moved while their pod lived", text(&run["moved"])),
        ("Sessions moved twice for one end", text(&run["movedAgain"])),
        ("Tokens refused", text(&run["tokensRefused"])),
        ("Tokens renewed under another key", four(&run["renewed"])),
    ];
    for (name, value) in totals {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    for memory in run["memory"].as_array().into_iter().flatten() {
        let _ = writeln!(
            page,
            "| Memory, late to early: {} | {} |",
            text(&memory["of"]),
            text(&memory["ratio"])
        );
    }
    page.push_str(TABLE);
    for row in run["rows"].as_array().into_iter().flatten() {
        let cells = ["moved", "lost", "refused", "streams"].map(|key| four(&row[key]));
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            text(&row["what"]),
            text(&row["ended"]),
            cells.join(" | ")
        );
    }
    if let Some(picture) = run["picture"].as_str() {
        let _ = writeln!(page, "\n![Memory and CPU of controller and Envoys]({picture})");
    }
}

fn four(counts: &Value) -> String {
    let counts: Vec<_> = counts
        .as_array()
        .into_iter()
        .flatten()
        .map(|count| text(&count[1]))
        .collect();
    if counts.iter().all(|count| count == "0") {
        return String::new();
    }
    counts.join(" / ")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
