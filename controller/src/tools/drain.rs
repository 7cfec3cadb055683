//! `limpet envoy drain`.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::{Http, HttpError};
use crate::cli::DrainEnvoyArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};

/// How long no client may have connected. A load balancer learns after a while that an Envoy ends: one that has no
/// client yet may get one.
const QUIET: Duration = Duration::from_secs(10);
/// How often clients are counted.
const INTERVAL: Duration = Duration::from_millis(250);

/// Listeners and connection managers that no client uses: the admin interface, and readiness and Prometheus of `limpet
/// controller bootstrap`.
const OF_NO_CLIENT: [&str; 3] = ["admin.", "limpet.ready.", "limpet.metrics."];

/// The counters that are asked for: a regular expression, encoded.
const STATS: &str = "/stats?filter=downstream_%28cx_active%7Ccx_total%7Crq_active%29%24";

pub(crate) fn run(args: &DrainEnvoyArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let begun = Instant::now();
    let deadline = begun + args.timeout.get();
    let admin = Http::new(format!("127.0.0.1:{}", args.admin_port));
    let failed = |error: HttpError| CommandFailure(format!("Envoy's admin interface at {admin}: {error}"));
    // Listeners stay open: a client that still comes is served.
    for request in ["/healthcheck/fail", "/drain_listeners?graceful&skip_exit"] {
        admin.post(request, deadline).map_err(failed)?;
    }
    let left = wait(&admin, deadline).map_err(failed)?;
    report(&left, begun.elapsed(), form)
}

/// Waits until no client is left. Returns what was counted last.
fn wait(admin: &Http, deadline: Instant) -> Result<Clients, HttpError> {
    let mut quiet_since = Instant::now();
    let mut last: Result<Clients, HttpError> = Ok(Clients::default());
    loop {
        let now = admin.get(STATS, deadline).map(|text| Clients::read(&text));
        match (&now, &last) {
            (Err(error), _) if error.is_gone() => return now,
            (Ok(now), Ok(last)) if now.are_gone() && now.total == last.total => {}
            // An Envoy that does not answer in time may have clients.
            _ => quiet_since = Instant::now(),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || now.is_ok() && quiet_since.elapsed() >= QUIET {
            // Without time for an answer, the last one counts.
            return now.or(last);
        }
        if now.is_ok() || last.is_err() {
            last = now;
        }
        thread::sleep(INTERVAL.min(left));
    }
}

/// The clients of an Envoy.
#[derive(Debug, Default, PartialEq, Eq)]
struct Clients {
    connections: u64,
    requests: u64,
    /// The connections since Envoy was started.
    total: u64,
}

impl Clients {
    /// Reads Envoy's statistics: `listener.<address>.downstream_cx_active: 1`, and the same of connection managers.
    fn read(stats: &str) -> Self {
        let mut clients = Self::default();
        for line in stats.lines() {
            let Some((name, value)) = line.split_once(": ") else {
                continue;
            };
            let Ok(value) = value.parse::<u64>() else { continue };
            let of_clients = |prefix| {
                let name = name.strip_prefix(prefix)?;
                // A worker's counters are parts of others.
                let counts = !OF_NO_CLIENT.iter().any(|of| name.starts_with(of)) && !name.contains(".worker_");
                name.rsplit_once('.').map(|(_, name)| name).filter(|_| counts)
            };
            match (of_clients("listener."), of_clients("http.")) {
                (Some("downstream_cx_active"), _) => clients.connections += value,
                (Some("downstream_cx_total"), _) => clients.total += value,
                (_, Some("downstream_rq_active")) => clients.requests += value,
                _ => {}
            }
        }
        clients
    }

    fn are_gone(&self) -> bool {
        self.connections == 0 && self.requests == 0
    }
}

fn report(left: &Clients, took: Duration, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let Clients {
        connections, requests, ..
    } = left;
    let seconds = took.as_secs();
    match form {
        Output::Document(format) => {
            let value = json!({"connections": connections, "requests": requests, "seconds": seconds});
            output::print_document(format, &value)?;
        }
        Output::Text { .. } if left.are_gone() => {
            output::print(&format!("drained: no client is left after {seconds} s\n"))?;
        }
        Output::Text { .. } => output::print(&format!(
            "the time is over after {seconds} s: {connections} connections, {requests} requests under way\n"
        ))?,
    }
    // A connection without a request loses nothing: its client reconnects.
    Ok(if *requests == 0 {
        CommandVerdict::Good
    } else {
        CommandVerdict::Warned
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_of_the_admin_interface_do_not_count() {
        let stats = "
http.admin.downstream_rq_active: 1
http.http-8080.downstream_rq_active: 2
http.limpet.ready.downstream_rq_active: 1
http.limpet.metrics.downstream_rq_active: 1
listener.0.0.0.0_8080.downstream_cx_active: 3
listener.0.0.0.0_8080.downstream_cx_total: 40
listener.0.0.0.0_8080.worker_0.downstream_cx_active: 1
listener.0.0.0.0_8080.worker_1.downstream_cx_active: 2
listener.[__]_8443.downstream_cx_active: 4
listener.[__]_8443.downstream_cx_total: 50
listener.admin.downstream_cx_active: 1
listener.admin.downstream_cx_total: 7
listener.admin.main_thread.downstream_cx_active: 1
listener.limpet.ready.downstream_cx_active: 1
listener.limpet.ready.downstream_cx_total: 8
listener.limpet.metrics.downstream_cx_active: 1
listener.limpet.metrics.downstream_cx_total: 9
listener.0.0.0.0_8080.downstream_cx_length_ms: No recorded values";
        let clients = Clients {
            connections: 7,
            requests: 2,
            total: 90,
        };
        assert_eq!(Clients::read(stats), clients);
    }
}
