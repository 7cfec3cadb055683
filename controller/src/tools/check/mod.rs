//! `limpet check`: configurations of the filter, and of Envoy with the filter inside.

mod chain;
mod connection_manager;
mod destination_routes;
mod destinations;
mod failure_policy;
mod filter;
mod headers;
mod mutations;
mod per_route;
mod print;
mod redirects;
mod report;
mod route_entry;
mod route_sessions;
mod routes;
mod session;
mod session_conflicts;
mod steering;
mod version;

use std::collections::BTreeSet;

use crate::cli::CheckArgs;
use crate::envoy_config::config_file;
use crate::envoy_config::discovery::{self, Sources};
use crate::envoy_config::filter_locator::{self, Build, LocatedFilter};
use crate::envoy_config::foreign_config::{self, ForeignConfig};
use crate::envoy_config::node::Node;
use crate::exit::{Failure, Verdict};
use crate::output::Output;
use filter::Usage;
use report::{Report, Severity};

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
    if args.quiet {
        report.drop_notes();
    }
    match form {
        Output::Text => print::text(&report, &files, args.quiet)?,
        Output::Json => print::json(&report, &files)?,
    }
    if !unreadable.is_empty() {
        return Err(Failure(unreadable.join("\nerror: ")));
    }
    let bad = report.count(Severity::Error) > 0 || (args.deny_warnings && report.count(Severity::Warning) > 0);
    Ok(if bad { Verdict::Bad } else { Verdict::Good })
}

/// Checks one document; `given`: it is an argument, rather than found through another document.
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
        let message = "no Limpet filter in it: expected a wasm filter or dynamic module named limpet, or one with a \
                       configuration of Limpet's";
        report.error(root, message);
    }
}

/// Checks the filter in an object of another control plane, which has the filter's configuration and variables.
fn check_foreign(
    report: &mut Report,
    root: &Node<'_>,
    found: Result<Vec<ForeignConfig<'_>>, &'static str>,
    args: &CheckArgs,
) {
    match found {
        Ok(found) => {
            for found in found {
                failure_policy::check_foreign(report, root, &found);
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
    failure_policy::check(report, filter);
    if filter.build == Build::Module {
        version::check(report, filter, args.envoy);
    }
}
