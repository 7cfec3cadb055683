//! `limpet check`: configurations of the filter, and of Envoy with the filter inside.

mod chain;
mod connection_manager;
mod destination_routes;
mod destinations;
mod filter;
mod headers;
mod mutations;
mod per_route;
mod report;
mod route_entry;
mod route_sessions;
mod routes;
mod session;
mod session_conflicts;
mod steering;
mod version;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cli::CheckArgs;
use crate::envoy_config::config_file;
use crate::envoy_config::discovery::{self, Sources};
use crate::envoy_config::filter_locator::{self, Build, LocatedFilter};
use crate::envoy_config::foreign_config::{self, ForeignConfig};
use crate::envoy_config::node::Node;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use filter::Usage;
use report::{Finding, Report, Severity};

pub(crate) fn run(args: &CheckArgs, form: Output) -> Result<Verdict, Failure> {
    let mut documents = Vec::new();
    let mut unreadable = Vec::new();
    for file in &args.files {
        match config_file::read(file) {
            Ok(value) => documents.push((file.clone(), value)),
            Err(failure) => unreadable.push(failure.to_string()),
        }
    }
    let given = documents.len();
    discovery::add_files(&mut documents);
    let roots: Vec<Node<'_>> = documents.iter().map(|(file, value)| Node::root(file, value)).collect();
    let sources = Sources::new(&roots);
    let mut report = Report::default();
    for (i, root) in roots.iter().enumerate() {
        check(&mut report, root, &sources, args, i < given);
    }
    let files: Vec<&str> = roots.iter().map(|root| root.file).collect();
    match form {
        Output::Text => print_text(&report, &files)?,
        Output::Json => print_json(&report, &files)?,
    }
    if !unreadable.is_empty() {
        return Err(Failure(unreadable.join("\nerror: ")));
    }
    let bad = report.count(Severity::Error) > 0 || (args.deny_warnings && report.count(Severity::Warning) > 0);
    Ok(if bad { Verdict::Bad } else { Verdict::Good })
}

/// Checks one document. `given`: it was asked for, rather than found by way of another.
fn check<'a>(report: &mut Report, root: &Node<'a>, sources: &Sources<'a>, args: &CheckArgs, given: bool) {
    if let Some(found) = foreign_config::find(root) {
        return check_foreign(report, root, found, args);
    }
    if !root.has_types() {
        return filter::check(
            report,
            root,
            root.value.to_string().as_bytes(),
            &Usage::default(),
            args.env,
        );
    }
    let found = filter_locator::filters(root);
    for filter in &found {
        check_filter(report, filter, args);
    }
    let chains = connection_manager::check_all(report, root, sources);
    if found.is_empty() && !chains && given && !sources.has_routes(root) {
        let message = "no Limpet filter in it: expected a wasm filter or dynamic module named limpet, or one with a configuration of ours";
        report.error(root, message);
    }
}

/// The filter as another control plane has it: its configuration is a part of the object, and so are the variables that it has.
fn check_foreign(
    report: &mut Report,
    root: &Node<'_>,
    found: Result<Vec<ForeignConfig<'_>>, &'static str>,
    args: &CheckArgs,
) {
    match found {
        Ok(found) => {
            for found in found {
                let json = found.json();
                let usage = Usage {
                    build: Some(found.build),
                    forwarded: found.forwarded,
                };
                filter::check(report, &found.node, &json, &usage, args.env);
            }
        }
        Err(expected) => report.error(root, expected),
    }
}

fn check_filter(report: &mut Report, filter: &LocatedFilter<'_>, args: &CheckArgs) {
    let configuration = &filter.configuration;
    let variables = filter.envoy.at(&["config", "vm_config", "environment_variables"]);
    let mut forwarded = BTreeSet::new();
    if let Some(variables) = &variables {
        let names = variables.list("host_env_keys");
        forwarded.extend(names.iter().filter_map(|name| name.value.as_str()).map(str::to_owned));
        let values = variables.get("key_values");
        forwarded.extend(
            values
                .iter()
                .filter_map(|node| node.value.as_object())
                .flat_map(|values| values.keys().cloned()),
        );
    }
    if let Some(problem) = configuration.problem {
        report.error(&configuration.node, problem);
    }
    if let Some(json) = &configuration.text {
        let usage = Usage {
            build: Some(filter.build),
            forwarded,
        };
        filter::check(report, &configuration.node, json, &usage, args.env);
    }
    if filter.build == Build::Module {
        version::check(report, filter, args.envoy);
    }
}

/// What is wrong goes to stderr, everything else to stdout.
fn print_text(report: &Report, files: &[&str]) -> Result<(), Failure> {
    for file in files {
        let (mut said, mut complaints) = (String::new(), String::new());
        for finding in report.of_file(file) {
            match finding.severity {
                Severity::Note => said += &words(finding),
                _ => complaints += &words(finding),
            }
        }
        output::complain(&complaints);
        output::print(&format!("{said}{file}: {}\n", verdict(report, file)))?;
    }
    Ok(())
}

fn words(finding: &Finding) -> String {
    let label = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let Finding {
        file,
        path,
        field,
        message,
        ..
    } = finding;
    let field = field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    let place = if path.is_empty() {
        file.clone()
    } else {
        format!("{file}: {path}")
    };
    format!("{label:7}  {place}\n         {field}{message}\n")
}

fn verdict(report: &Report, file: &str) -> String {
    let count = |severity, word: &str| {
        let count = report
            .of_file(file)
            .filter(|finding| finding.severity == severity)
            .count();
        (count > 0).then(|| plural(count, word))
    };
    let problems: Vec<String> = [count(Severity::Error, "error"), count(Severity::Warning, "warning")]
        .into_iter()
        .flatten()
        .collect();
    let checked: Vec<String> = report
        .checked
        .iter()
        .filter(|checked| checked.file == file)
        .map(|checked| {
            let keys = match &checked.keys {
                Some(ids) => plural(ids.len(), "key"),
                None => "keys not known here".to_owned(),
            };
            format!("{keys} and {}", policies(&checked.policies))
        })
        .collect();
    let outcome = if problems.is_empty() {
        "ok".to_owned()
    } else {
        problems.join(", ")
    };
    if checked.is_empty() {
        outcome
    } else {
        format!("{outcome} ({})", checked.join("; "))
    }
}

fn plural(count: usize, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {word}{ending}")
}

fn policies(names: &[String]) -> String {
    match names {
        [] => "no policy".to_owned(),
        [name] => format!("the policy {name}"),
        [names @ .., last] if names.len() < 8 => format!("the policies {} and {last}", names.join(", ")),
        names => plural(names.len(), "policy").replace("policys", "policies"),
    }
}

fn print_json(report: &Report, files: &[&str]) -> Result<(), Failure> {
    let file = |file: &&str| -> Value {
        json!({
            "file": file,
            "filters": report.checked.iter().filter(|checked| checked.file == **file).collect::<Vec<_>>(),
            "findings": report.of_file(file).collect::<Vec<_>>(),
        })
    };
    output::print_json(&json!({
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "files": files.iter().map(file).collect::<Vec<_>>(),
    }))
}
