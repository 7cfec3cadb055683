//! `limpet drain`.
//!
//! - `pod`: the pod and its annotation. `wait`: when it has no sessions left. Pure.

mod pod;
mod wait;

use std::time::Instant;

use kube::Client;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::own_name;
use crate::cluster::cli::{ClusterArgs, DrainArgs};
use crate::cluster::kube::{ApiConnection, connect, words};
use crate::cluster::runtime::runtime;
use crate::cluster::survey::{Controllers, INTERVAL, PodRow, RowSelection, SessionSurvey, SurveyError};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, printable};
use crate::time_format;
use limpet_core::time::Timestamp;
use pod::{DeletionOutcome, DrainedPod};
use wait::{DrainEnd, DrainStep, DrainWait, PodCount};

const UNSEEN: &str =
    ": it gets no new sessions once a controller has read it, and `limpet sessions` shows the state draining then";

pub(crate) fn run(args: &DrainArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let runtime = runtime()?;
    let name = &args.pod;
    let name = match name.split_once('/') {
        None => name,
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, _)) => {
            return Err(CommandFailure(format!(
                "{kind}/…: expected a pod, like shop-1 or pod/shop-1"
            )));
        }
    };
    runtime.block_on(drain(args, name, form))
}

async fn drain(args: &DrainArgs, name: &str, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let ApiConnection { client, .. } = connect(&args.reach.cluster).await?;
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let pod = DrainedPod::find(&client, namespace, name).await?;
    let mut report = DrainReport {
        form,
        pod: format!("pod/{name}"),
        undo: undo(args, name, namespace),
        json: Map::from_iter([
            ("namespace".to_owned(), namespace.into()),
            ("pod".to_owned(), name.into()),
        ]),
    };
    if args.undo {
        let drained = pod.since().is_some();
        if drained {
            pod.annotate(None).await?;
        }
        report.print(if drained {
            "has no annotation to drain any more: it takes new sessions again once a controller has read that"
        } else {
            "has no annotation to drain"
        })?;
        report.set("drains", false);
        return report.end(CommandVerdict::Good);
    }
    let services = pod.services().await?;
    let controllers = Controllers::new(&client, &args.reach.controller);
    if args.wait {
        // A wait that cannot end changes nothing.
        controllers.sessions().await?;
    }
    let now = time_format::now();
    let now = time_format::exact(Timestamp::from_unix_seconds(now.unix_seconds()));
    let since = pod.since().map(str::to_owned);
    if since.is_none() {
        pod.annotate(Some(&now)).await?;
    }
    let names = services.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    // Without --wait, the command has not looked for a controller.
    let (drains, note) = if args.wait {
        ("drains", "")
    } else {
        ("has the annotation to drain", UNSEEN)
    };
    let since_when = since.as_deref().map(|since| format!(" since {}", printable(since)));
    let since_when = since_when.unwrap_or_default();
    report.print(&format!("{drains}{since_when} (Services: {names}){note}"))?;
    report.set("drains", true);
    report.set("since", since.unwrap_or(now));
    report.set("services", json!(services));
    if !args.wait {
        return report.end(CommandVerdict::Good);
    }
    wait(args, &client, &pod, &controllers, report).await
}

/// Waits for the last session, and deletes the pod if requested.
async fn wait(
    args: &DrainArgs,
    client: &Client,
    pod: &DrainedPod,
    controllers: &Controllers,
    mut report: DrainReport,
) -> Result<CommandVerdict, CommandFailure> {
    let namespace = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let selection = RowSelection {
        namespace: Some(namespace.to_owned()),
        pod: report.pod.strip_prefix("pod/").map(str::to_owned),
        ..RowSelection::default()
    };
    let begun = Instant::now();
    let mut wait = DrainWait::until(begun + args.timeout.get());
    // From now on, Ctrl-C ends the process only where it is handled.
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|error| CommandFailure(format!("cannot listen to signals: {error}")))?;
    let end = tokio::select! {
        end = watch(&mut wait, pod, controllers, &selection, &report) => Some(end?),
        _ = interrupts.recv() => None,
    };
    let left = wait.left().unwrap_or_default();
    report.set("complete", wait.doubts().is_none());
    if let Some(doubts) = wait.doubts() {
        report.set("why", json!(doubts));
    }
    report.set("sessions", left.sessions);
    report.set("streams", left.streams);
    report.set("seconds", begun.elapsed().as_secs());
    let (outcome, verdict) = if let Some(DrainEnd::Empty) = end {
        report.print("has no sessions left")?;
        tokio::select! {
            deletion = delete(args, pod) => {
                report_deletion(deletion?, &mut report)?;
                ("empty", CommandVerdict::Good)
            }
            _ = interrupts.recv() => {
                let still = report.still();
                report.print(&format!("was about to be deleted, and may be; if not, {still}"))?;
                report.set("deleted", false);
                ("interrupted", CommandVerdict::Warned)
            }
        }
    } else {
        report_end(end, left, wait.doubts().is_some(), &mut report)?
    };
    report.set("end", outcome);
    report.end(verdict)
}

fn report_deletion(deletion: Option<DeletionOutcome>, report: &mut DrainReport) -> Result<(), CommandFailure> {
    report.set("deleted", deletion == Some(DeletionOutcome::Done));
    match deletion {
        None => Ok(()),
        Some(DeletionOutcome::Done) => report.print("deleted"),
        Some(DeletionOutcome::Gone) => report.print("is gone already: nothing was deleted"),
        Some(DeletionOutcome::Replaced) => {
            report.print("is gone already, and another pod has its name now: nothing was deleted")
        }
    }
}

/// Reports why the wait ended with sessions left. `None`: interrupted.
fn report_end(
    end: Option<DrainEnd>,
    left: wait::RemainingSessions,
    has_doubts: bool,
    report: &mut DrainReport,
) -> Result<(&'static str, CommandVerdict), CommandFailure> {
    let still = report.still();
    match end {
        Some(DrainEnd::TimeIsOver) => {
            let more = if has_doubts { ", or more" } else { "" };
            report.print(&format!("has {left}{more} left when the time is over; {still}"))?;
            Ok(("timeIsOver", CommandVerdict::Warned))
        }
        Some(DrainEnd::Undone) => {
            report.print(&format!(
                "drains no more, because its annotation was removed; it has {left}"
            ))?;
            report.set("drains", false);
            Ok(("undone", CommandVerdict::Warned))
        }
        Some(DrainEnd::Gone | DrainEnd::Empty) => {
            report.print(&format!("is gone, with {left} at the last look"))?;
            let verdict = if left == wait::RemainingSessions::default() {
                CommandVerdict::Good
            } else {
                CommandVerdict::Warned
            };
            Ok(("gone", verdict))
        }
        None => {
            report.print(&format!("has {left} left; {still}"))?;
            Ok(("interrupted", CommandVerdict::Warned))
        }
    }
}

async fn delete(args: &DrainArgs, pod: &DrainedPod) -> Result<Option<DeletionOutcome>, CommandFailure> {
    if args.delete {
        pod.delete().await.map(Some)
    } else {
        Ok(None)
    }
}

/// Polls until the wait ends.
async fn watch(
    wait: &mut DrainWait,
    pod: &DrainedPod,
    controllers: &Controllers,
    selection: &RowSelection,
    report: &DrainReport,
) -> Result<DrainEnd, CommandFailure> {
    let mut complained = None;
    loop {
        let said = pod.now().await;
        let counted = match controllers.sessions().await {
            Ok(SessionSurvey { rows, asked, why }) => {
                // Another pod may have had its name.
                let is_own = |row: &&PodRow| {
                    let uids = row.uid.as_deref().zip(pod.uid());
                    selection.has(row) && uids.is_none_or(|(one, other)| one == other)
                };
                Ok(PodCount::of(rows.iter().filter(is_own), why, asked))
            }
            Err(SurveyError::Never(failure)) => return Err(report.interrupted(failure)),
            Err(SurveyError::Now(why)) => Err(why),
        };
        let why = match (&said, &counted) {
            (Err(error), _) => Some(format!("cannot read the pod: {}", words(error))),
            (_, Err(why)) => Some(why.clone()),
            (_, Ok(counted)) => counted.doubts().map(|why| format!("there may be more sessions: {why}")),
        };
        if let Some(why) = &why
            && complained.as_ref() != Some(why)
        {
            output::print_error(&format!("warning: {why}\n"));
        }
        complained = why;
        // A pod that cannot be read may still be there.
        let counted = counted.ok().filter(|_| said.is_ok());
        match wait.observe(Instant::now(), said.unwrap_or(wait::PodDrainState::Drains), counted) {
            DrainStep::End(end) => return Ok(end),
            DrainStep::Wait(Some(left)) => report.print(&format!("has {left}"))?,
            DrainStep::Wait(None) => {}
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The command that undoes the drain.
fn undo(args: &DrainArgs, name: &str, namespace: &str) -> String {
    let ClusterArgs { kubeconfig, context } = &args.reach.cluster;
    let kubeconfig = kubeconfig
        .as_ref()
        .map(|file| format!(" --kubeconfig {}", file.display()));
    let context = context.as_ref().map(|context| format!(" --context {context}"));
    let reach: String = [kubeconfig, context].into_iter().flatten().collect();
    format!("{} drain {name} -n {namespace} --undo{reach}", own_name())
}

/// Lines for people as it happens, or one object for programs at the end.
struct DrainReport {
    form: Output,
    /// In the form of kubectl.
    pod: String,
    undo: String,
    json: Map<String, Value>,
}

impl DrainReport {
    fn print(&self, what: &str) -> Result<(), CommandFailure> {
        match self.form {
            Output::Text { .. } => output::print(&format!("{} {what}\n", self.pod)),
            Output::Document(_) => Ok(()),
        }
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.json.insert(field.to_owned(), value.into());
    }

    fn end(self, verdict: CommandVerdict) -> Result<CommandVerdict, CommandFailure> {
        if let Output::Document(format) = self.form {
            output::print_document(format, &Value::Object(self.json))?;
        }
        Ok(verdict)
    }

    fn still(&self) -> String {
        format!("it still drains; to take it back: {}", self.undo)
    }

    /// After the pod has begun to drain.
    fn interrupted(&self, CommandFailure(why): CommandFailure) -> CommandFailure {
        let Self { pod, undo, .. } = self;
        CommandFailure(format!("{why}\n{pod} still drains; to take it back: {undo}"))
    }
}
