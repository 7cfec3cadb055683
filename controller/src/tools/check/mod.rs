//! `limpet check`: configurations of the filter, and of Envoy with the filter inside.

mod addresses;
mod chain;
mod cluster_types;
mod connection_manager;
mod destination_routes;
mod destinations;
mod failure_policy;
mod filter;
mod header_use;
mod headers;
mod matched_parameters;
mod minimal;
mod mutations;
mod per_route;
mod print;
mod redirects;
pub(crate) mod report;
mod route_entry;
mod route_sessions;
mod route_tables;
mod routes;
mod session;
mod session_conflicts;
mod specifiers;
mod steering;
mod subsets;
mod version;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::cli::CheckArgs;
use crate::envoy_config::config_file;
use crate::envoy_config::discovery::{self, DiscoverySources};
use crate::envoy_config::filter_locator::{self, LocatedBuild, LocatedFilter};
use crate::envoy_config::foreign_config::{self, ForeignConfig};
use crate::envoy_config::node::ConfigNode;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use filter::FilterUsage;
use limpet_core::envoy::FILTER_NAME;
use report::{CheckArea, CheckReport, Severity};

pub(crate) fn run(args: &CheckArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let mut documents = Vec::new();
    let mut unreadable = Vec::new();
    for file in &args.files {
        match config_file::read_all(file) {
            Ok(values) if values.is_empty() => unreadable.push(UnreadableFile::new(file, &"empty")),
            Ok(values) => documents.extend(named(file, values)),
            Err(failure) => unreadable.push(UnreadableFile::new(file, &failure)),
        }
    }
    let (mut report, files) = check_documents(documents, args);
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    if args.quiet {
        report.drop_notes();
    }
    match form {
        Output::Text { .. } => print::text(&report, &files, args.quiet)?,
        Output::Document(format) => print::json(format, &report, &files, &unreadable)?,
    }
    for file in &unreadable {
        output::print_error(&format!("error: {file}\n"));
    }
    if !unreadable.is_empty() {
        return Ok(CommandVerdict::Partial);
    }
    let has = |severity| report.count(severity) > 0;
    Ok(match (has(Severity::Error), has(Severity::Warning)) {
        (true, _) => CommandVerdict::Bad,
        (false, true) if args.deny_warnings => CommandVerdict::Bad,
        (false, true) => CommandVerdict::Warned,
        (false, false) => CommandVerdict::Good,
    })
}

/// Checks these documents by their names, and the files that they discover. Returns the names of all.
pub(crate) fn check_documents(mut documents: Vec<(String, Value)>, args: &CheckArgs) -> (CheckReport, Vec<String>) {
    let given = documents.len();
    discovery::add_files(&mut documents);
    let roots: Vec<ConfigNode<'_>> = documents
        .iter()
        .map(|(file, value)| ConfigNode::root(file, value))
        .collect();
    let sources = DiscoverySources::new(&roots);
    let mut report = CheckReport::default();
    let (mut any, mut without) = (false, Vec::new());
    for (i, root) in roots.iter().enumerate() {
        match check(&mut report, root, &sources, args) {
            DocumentContents::Filter => any = true,
            DocumentContents::NoFilter if i < given => without.push(root),
            DocumentContents::NoFilter | DocumentContents::Routes => {}
        }
    }
    for root in without {
        let message = "no Limpet filter in it";
        if any {
            // A bootstrap or clusters, beside the file that has the filter.
            report.add_note(root, format!("not checked: {message}"));
        } else {
            let expected = "expected a wasm filter or dynamic module named limpet, or one with a configuration of \
                            Limpet's";
            report.within(CheckArea::NoFilter, |report| {
                report.error(root, format!("{message}: {expected}"));
            });
        }
    }
    let files = roots.iter().map(|root| root.file.to_owned()).collect();
    (report, files)
}

/// A file that cannot be read, and why.
struct UnreadableFile<'a> {
    file: &'a str,
    why: String,
}

impl<'a> UnreadableFile<'a> {
    fn new(file: &'a str, why: &dyn fmt::Display) -> Self {
        let why = why.to_string();
        let own = why.strip_prefix(&format!("{file}: ")).map(str::to_owned);
        Self {
            file,
            why: own.unwrap_or(why),
        }
    }
}

impl fmt::Display for UnreadableFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.why)
    }
}

/// What a document is, as far as its fields tell.
#[allow(dead_code, reason = "a build without the controller checks every document")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    /// `limpet check` is for it: a configuration, or an object of another control plane that has one.
    Checked,
    /// An object of Kubernetes.
    Object,
    /// Of other software.
    Other,
}

#[allow(dead_code, reason = "a build without the controller checks every document")]
impl DocumentKind {
    pub(crate) fn of(file: &str, value: &Value) -> Self {
        let root = ConfigNode::root(file, value);
        let has = |field: &&str| root.get(field).is_some();
        if is_object(&root) && foreign_config::find(&root).is_none() {
            Self::Object
        } else if root.has_types() || is_envoys(&root) || FIELDS_THAT_TELL.iter().any(has) {
            Self::Checked
        } else {
            Self::Other
        }
    }
}

/// Fields of the filter's configuration and of objects; one of them tells what is meant, whatever else is wrong.
const FIELDS_THAT_TELL: [&str; 6] = ["policies", "keys", "wrappedKeys", "sdsKeys", "apiVersion", "kind"];

/// The documents of a file with names that tell them apart.
pub(crate) fn named(file: &str, values: Vec<Value>) -> impl Iterator<Item = (String, Value)> {
    let is_alone = values.len() == 1;
    let named = move |(index, value)| {
        let name = if is_alone {
            file.to_owned()
        } else {
            format!("{file}, document {}", index + 1)
        };
        (name, value)
    };
    values.into_iter().enumerate().map(named)
}

/// What a document has.
enum DocumentContents {
    Filter,
    /// Routes of a filter elsewhere.
    Routes,
    NoFilter,
}

/// Checks one document.
fn check<'a>(
    report: &mut CheckReport,
    root: &ConfigNode<'a>,
    sources: &DiscoverySources<'a>,
    args: &CheckArgs,
) -> DocumentContents {
    if let Some(found) = foreign_config::find(root) {
        check_foreign(report, root, found, args);
        return DocumentContents::Filter;
    }
    if !root.has_types() && !is_envoys(root) && !is_object(root) {
        filter::check(
            report,
            root,
            root.value.to_string().as_bytes(),
            &FilterUsage::default(),
            args.env,
        );
        return DocumentContents::Filter;
    }
    let found = filter_locator::filters(root);
    for filter in &found {
        check_filter(report, filter, args);
    }
    let chains = connection_manager::check_all(report, root, sources, args);
    match (found.is_empty() && !chains, sources.has_routes(root)) {
        (false, _) => DocumentContents::Filter,
        (true, true) => DocumentContents::Routes,
        (true, false) => DocumentContents::NoFilter,
    }
}

/// Whether it is a bootstrap of Envoy, or what Envoy discovers, without any typed message.
fn is_envoys(root: &ConfigNode<'_>) -> bool {
    ["resources", "dynamic_resources", "static_resources"]
        .iter()
        .any(|field| root.get(field).is_some())
}

/// Whether it is an object of Kubernetes.
fn is_object(root: &ConfigNode<'_>) -> bool {
    root.text("apiVersion").is_some() && root.text("kind").is_some()
}

/// Checks the filter in an object of another control plane, which has the filter's configuration and variables.
fn check_foreign(
    report: &mut CheckReport,
    root: &ConfigNode<'_>,
    found: Result<Vec<ForeignConfig<'_>>, &'static str>,
    args: &CheckArgs,
) {
    match found {
        Ok(found) => {
            for found in found {
                report.within(CheckArea::Build, |report| {
                    failure_policy::check_foreign(report, root, &found);
                });
                let json = found.json();
                let usage = FilterUsage {
                    build: Some(found.build),
                    forwarded: found.forwarded,
                    values: found.values,
                };
                filter::check(report, &found.node, &json, &usage, args.env);
            }
        }
        Err(expected) => report.error(root, expected),
    }
}

fn check_filter(report: &mut CheckReport, filter: &LocatedFilter<'_>, args: &CheckArgs) {
    let configuration = &filter.configuration;
    let variables = filter.envoy.at(&["config", "vm_config", "environment_variables"]);
    let (mut forwarded, mut values) = (BTreeSet::new(), BTreeMap::new());
    if let Some(variables) = &variables {
        let names = variables.list("host_env_keys");
        forwarded.extend(names.iter().filter_map(|name| name.value.as_str()).map(str::to_owned));
        let given = variables.get("key_values");
        let given = given.iter().filter_map(|node| node.value.as_object()).flatten();
        values.extend(given.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())));
    }
    if let Some(problem) = configuration.problem {
        report.error(&configuration.node, problem);
    }
    if let Some(json) = &configuration.text {
        let usage = FilterUsage {
            build: Some(filter.build),
            forwarded,
            values,
        };
        filter::check(report, &configuration.node, json, &usage, args.env);
    }
    report.within(CheckArea::Build, |report| {
        failure_policy::check(report, filter);
        if filter.build == LocatedBuild::Module {
            check_module_name(report, filter);
            version::check(report, filter, args.envoy_version);
        }
    });
}

/// Envoy makes the name of the file from it.
fn check_module_name(report: &mut CheckReport, filter: &LocatedFilter<'_>) {
    let Some(node) = filter.envoy.at(&["dynamic_module_config", "name"]) else {
        return;
    };
    if let Some(found) = node.value.as_str().filter(|found| *found != FILTER_NAME) {
        let message = format!(
            "expected {FILTER_NAME}, found {found}: Envoy loads lib{found}.so, and Limpet's module is \
             lib{FILTER_NAME}.so"
        );
        report.warning(&node, message);
    }
}
