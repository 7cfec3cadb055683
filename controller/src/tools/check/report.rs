//! What a check finds.

use std::collections::HashSet;

use serde::Serialize;

use crate::envoy_config::node::ConfigNode;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// It does not work, or not as intended.
    Error,
    /// It works, but an operator should know about it.
    Warning,
    /// Something was not checked, or both ways are right.
    Note,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CheckArea {
    /// The filter's own configuration.
    #[default]
    Filter,
    /// The build of the filter, and what becomes of requests without it.
    Build,
    /// The chain around the filter.
    Chain,
    /// The sessions of routes, and the clusters that they lead to.
    Routes,
    /// There is no filter.
    NoFilter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Finding {
    #[serde(skip)]
    pub(crate) area: CheckArea,
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) severity: Severity,
    /// Where it stands in the file; empty for the file as a whole.
    pub(crate) path: String,
    /// The field of the filter's configuration, which stands at `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct CheckedFilter {
    #[serde(skip)]
    pub(crate) file: String,
    pub(crate) path: String,
    /// The ids of its keys, if they are known here.
    pub(crate) keys: Option<Vec<u8>>,
    pub(crate) policies: Vec<String>,
}

/// The findings of all files.
#[derive(Debug, Default)]
pub(crate) struct CheckReport {
    /// What is checked now.
    area: CheckArea,
    pub(crate) findings: Vec<Finding>,
    /// The same findings, to recognize a repeated one.
    known: HashSet<Finding>,
    pub(crate) checked: Vec<CheckedFilter>,
}

impl CheckReport {
    /// Makes findings of this area.
    pub(crate) fn within<R>(&mut self, area: CheckArea, check: impl FnOnce(&mut Self) -> R) -> R {
        let around = std::mem::replace(&mut self.area, area);
        let result = check(self);
        self.area = around;
        result
    }

    pub(crate) fn error(&mut self, node: &ConfigNode<'_>, message: impl Into<String>) {
        self.add(Severity::Error, node, message);
    }

    pub(crate) fn warning(&mut self, node: &ConfigNode<'_>, message: impl Into<String>) {
        self.add(Severity::Warning, node, message);
    }

    pub(crate) fn add_note(&mut self, node: &ConfigNode<'_>, message: impl Into<String>) {
        self.add(Severity::Note, node, message);
    }

    pub(crate) fn add(&mut self, severity: Severity, node: &ConfigNode<'_>, message: impl Into<String>) {
        self.insert(severity, node, None, message.into());
    }

    /// A finding at a field of the filter's configuration, which stands at `node`.
    pub(crate) fn field(&mut self, severity: Severity, node: &ConfigNode<'_>, field: &str, message: impl Into<String>) {
        self.insert(severity, node, Some(field.to_owned()), message.into());
    }

    /// Adds each finding once, however many ways lead to it.
    fn insert(&mut self, severity: Severity, node: &ConfigNode<'_>, field: Option<String>, message: String) {
        let finding = Finding {
            area: self.area,
            file: node.file.to_owned(),
            severity,
            path: node.path.clone(),
            field,
            message,
        };
        if self.known.insert(finding.clone()) {
            self.findings.push(finding);
        }
    }

    pub(crate) fn drop_notes(&mut self) {
        self.findings.retain(|finding| finding.severity != Severity::Note);
    }

    pub(crate) fn of_file<'r>(&'r self, file: &'r str) -> impl Iterator<Item = &'r Finding> {
        self.findings.iter().filter(move |finding| finding.file == file)
    }

    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    }
}
