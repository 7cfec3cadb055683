//! What controllers know of sessions, and `limpet sessions`, which shows it.
//!
//! - `page`: what they tell, and what it says together. `table`: how it is shown. Both are pure.
//! - `figures`: what they say of themselves. Pure.
//! - `controllers`: how they are asked.

mod controllers;
mod figures;
mod page;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use controllers::{ControllerMetrics, Controllers, SessionSurvey, SurveyError};
#[cfg(test)]
pub(crate) use figures::ControllerFigures;
pub(crate) use page::{PodRow, PodRowState, RowSelection};

use crate::cluster::cli::SessionsArgs;
use crate::cluster::kube::{ApiConnection, connect};
use crate::cluster::runtime::runtime;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use table::{ChangedRows, SessionTable};

/// How often controllers are asked. Envoys report every few seconds.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &SessionsArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let runtime = runtime()?;
    runtime.block_on(show(args, form))?;
    Ok(CommandVerdict::Good)
}

async fn show(args: &SessionsArgs, form: Output) -> Result<(), CommandFailure> {
    let ApiConnection { client, .. } = connect(&args.reach.cluster).await?;
    let own = args.namespace.as_deref().unwrap_or(client.default_namespace());
    let namespace = (!args.all_namespaces).then(|| own.to_owned());
    let selection = RowSelection::read(namespace, args.name().as_deref()).map_err(CommandFailure)?;
    let controllers = Controllers::new(&client, &args.reach.controller);
    let (mut rows, mut why) = selected(controllers.sessions().await?, &selection);
    if rows.is_empty() && !args.watch {
        return none(args, &selection, &why, form);
    }
    if let (false, Output::Document(format)) = (args.watch, form) {
        return output::print_document(format, &page(&rows, &why));
    }
    let mut table = SessionTable::new(args.all_namespaces, form.is_wide());
    let mut changes = ChangedRows::default();
    let mut complained = None;
    let mut doubts = BTreeSet::new();
    loop {
        let news = changes.update(&rows);
        match form {
            // As kubectl does it: an object for each change.
            Output::Document(format) => {
                let print = |row| output::print_next_document(format, &json!(row));
                news.iter().try_for_each(print)?;
            }
            Output::Text { .. } if news.is_empty() => {}
            Output::Text { .. } => output::print(&table.print(&news, time_format::now()))?,
        }
        // The rows are marked; this is for who reads them.
        if why != doubts {
            doubt(&why);
            doubts.clone_from(&why);
        }
        if !args.watch {
            return Ok(());
        }
        (rows, why) = loop {
            tokio::time::sleep(INTERVAL).await;
            match controllers.sessions().await {
                Ok(survey) => break selected(survey, &selection),
                Err(SurveyError::Never(failure)) => return Err(failure),
                Err(SurveyError::Now(why)) if complained.as_ref() != Some(&why) => {
                    output::print_error(&format!("warning: {why}\n"));
                    complained = Some(why);
                }
                Err(SurveyError::Now(_)) => {}
            }
        };
        complained = None;
    }
}

/// The rows that are asked for, and why there may be more than they say. Without a row, nothing is known of one.
fn selected(survey: SessionSurvey, selection: &RowSelection) -> (Vec<PodRow>, BTreeSet<String>) {
    let rows: Vec<_> = survey.rows.into_iter().filter(|row| selection.has(row)).collect();
    let why = if rows.is_empty() {
        survey.why
    } else {
        rows.iter().flat_map(|row| row.why.iter().cloned()).collect()
    };
    (rows, why)
}

fn doubt(why: &BTreeSet<String>) {
    for why in why {
        output::print_error(&format!("warning: there may be more sessions: {why}\n"));
    }
}

fn page(rows: &[PodRow], why: &BTreeSet<String>) -> Value {
    if why.is_empty() {
        json!({ "complete": true, "pods": rows })
    } else {
        json!({ "complete": false, "why": why, "pods": rows })
    }
}

/// Says that there is nothing to show.
fn none(
    args: &SessionsArgs,
    selection: &RowSelection,
    why: &BTreeSet<String>,
    form: Output,
) -> Result<(), CommandFailure> {
    if matches!(form, Output::Text { .. }) || selection.names_one() {
        doubt(why);
    }
    let place = selection
        .namespace
        .as_ref()
        .map_or_else(String::new, |namespace| format!(" in the namespace {namespace}"));
    if selection.names_one() {
        let name = args.name().unwrap_or_default();
        return Err(CommandFailure(format!(
            "{name}: no Service and no pod with sessions{place}"
        )));
    }
    if let Output::Document(format) = form {
        return output::print_document(format, &page(&[], why));
    }
    output::print_error(&format!("No sessions found{place}.\n"));
    Ok(())
}
