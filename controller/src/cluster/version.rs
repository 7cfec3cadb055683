//! `limpet version`: this command, the controllers of a cluster, and their Envoys.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::cli::VersionArgs;
use crate::cluster::kube::connect;
use crate::cluster::runtime::runtime;
use crate::cluster::survey::{ControllerMetrics, Controllers};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output, Rows};
use crate::tools::version::{self, ClientVersion};

/// How long a cluster may take.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &VersionArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    if args.client {
        return version::run(form);
    }
    let runtime = runtime()?;
    let controllers = runtime.block_on(async {
        match tokio::time::timeout(ANSWER, controllers(args)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer in {} s", ANSWER.as_secs())),
        }
    });
    // A request that still waits ends with the process.
    runtime.shutdown_background();
    let client = ClientVersion::new();
    match form {
        Output::Text { .. } => output::print(&text(&client, &controllers))?,
        Output::Document(format) => output::print_document(format, &document(&client, &controllers))?,
    }
    Ok(CommandVerdict::Good)
}

async fn controllers(args: &VersionArgs) -> Result<Vec<ControllerMetrics>, String> {
    let connection = connect(&args.reach.cluster).await.map_err(|error| error.to_string())?;
    let controllers = Controllers::new(&connection.client, &args.reach.controller);
    let answer = controllers.metrics().await;
    answer.map_err(|unknown| CommandFailure::from(unknown).0)
}

/// How many Envoys have each version, over all controllers.
fn envoys(controllers: &[ControllerMetrics]) -> BTreeMap<&str, u64> {
    let said = controllers
        .iter()
        .filter_map(|controller| controller.said.as_ref().ok());
    let mut sums = BTreeMap::new();
    for (version, count) in said.flat_map(|said| &said.versions) {
        *sums.entry(version.as_str()).or_default() += count;
    }
    sums
}

fn text(client: &ClientVersion, controllers: &Result<Vec<ControllerMetrics>, String>) -> String {
    let mut rows = Rows::default();
    rows.add("client", client.text());
    match controllers {
        Err(why) => rows.add("controllers", format!("not known: {why}")),
        Ok(controllers) => {
            for ControllerMetrics { name, said, .. } in controllers {
                let said = match said {
                    Ok(said) => said.version.as_deref().unwrap_or("an earlier version").to_owned(),
                    Err(why) => format!("not known: {why}"),
                };
                rows.add("controller", format!("{said} ({})", output::printable(name)));
            }
            for (version, count) in envoys(controllers) {
                rows.add("envoys", format!("{} ({count} connected)", output::printable(version)));
            }
        }
    }
    rows.text()
}

fn document(client: &ClientVersion, controllers: &Result<Vec<ControllerMetrics>, String>) -> Value {
    let mut document = json!({"client": client.json()});
    let Value::Object(fields) = &mut document else {
        return document;
    };
    match controllers {
        Err(why) => drop(fields.insert("why".to_owned(), json!(why))),
        Ok(controllers) => {
            let controller = |controller: &ControllerMetrics| match &controller.said {
                Ok(said) => json!({"pod": controller.name, "version": said.version}),
                Err(why) => json!({"pod": controller.name, "why": why}),
            };
            let all: Vec<Value> = controllers.iter().map(controller).collect();
            fields.insert("controllers".to_owned(), json!(all));
            let envoy = |(version, count): (&str, u64)| json!({"version": version, "connected": count});
            let envoys: Vec<Value> = envoys(controllers).into_iter().map(envoy).collect();
            fields.insert("envoys".to_owned(), json!(envoys));
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::survey::ControllerFigures;

    fn controller(name: &str, said: Result<ControllerFigures, String>) -> ControllerMetrics {
        ControllerMetrics {
            instance: String::new(),
            name: name.to_owned(),
            is_ready: true,
            said,
        }
    }

    #[test]
    fn a_version_in_the_cluster_was_not_shown() {
        let figures = ControllerFigures {
            version: Some("0.1.0".to_owned()),
            versions: [("1.40.0".to_owned(), 2)].into(),
            ..ControllerFigures::default()
        };
        let old = ControllerFigures::default();
        let controllers = Ok(vec![
            controller("a", Ok(figures.clone())),
            controller("b", Ok(figures)),
            controller("c", Ok(old)),
            controller("d", Err("not ready".to_owned())),
        ]);
        let client = ClientVersion::new();
        let text = text(&client, &controllers);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "controller  0.1.0 (a)",
            "controller  0.1.0 (b)",
            "controller  an earlier version (c)",
            "controller  not known: not ready (d)",
            "envoys      1.40.0 (4 connected)",
        ];
        assert_eq!(lines, expected);
        let document = document(&client, &controllers);
        assert_eq!(document["envoys"], json!([{"version": "1.40.0", "connected": 4}]));
        assert_eq!(document["controllers"][3], json!({"pod": "d", "why": "not ready"}));
    }

    #[test]
    fn a_cluster_that_does_not_answer_is_named() {
        let silent = Err("no answer in 2 s".to_owned());
        let text = text(&ClientVersion::new(), &silent);
        assert!(text.ends_with("\ncontrollers  not known: no answer in 2 s\n"), "{text}");
        assert_eq!(document(&ClientVersion::new(), &silent)["why"], "no answer in 2 s");
    }
}
