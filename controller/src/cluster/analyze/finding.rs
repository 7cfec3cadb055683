//! What `limpet analyze` says.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::code::FindingCode;
use super::severity::FindingSeverity;
use crate::exit::CommandVerdict;
use crate::output::printable;
use limpet_api::ObjectRef;

/// A problem. They are ordered as they are shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AnalysisFinding {
    pub(crate) severity: FindingSeverity,
    pub(crate) place: FindingPlace,
    pub(crate) code: FindingCode,
    /// One sentence.
    pub(crate) message: String,
}

/// What a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FindingPlace {
    /// Empty if it is no object: then there is a file, or it is about everything.
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) file: String,
    /// A part of it: a listener, a parent, a path in a file.
    pub(crate) part: String,
}

impl FindingPlace {
    pub(crate) fn object(object: &ObjectRef) -> Self {
        Self {
            kind: object.kind.to_string(),
            namespace: object.name.namespace.to_string(),
            name: object.name.name.to_string(),
            ..Self::default()
        }
    }

    /// Of words like `HTTPRoute shop/web`.
    pub(crate) fn words(words: &str) -> Self {
        let (kind, name) = words.split_once(' ').unwrap_or((words, ""));
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it is of the same object, or of a part of it.
    pub(crate) fn is_of(&self, object: &Self) -> bool {
        (&self.kind, &self.namespace, &self.name) == (&object.kind, &object.namespace, &object.name)
    }

    pub(crate) fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            ..Self::default()
        }
    }

    /// As it is shown: `HTTPRoute shop/web`, or the name of a file.
    fn text(&self) -> String {
        let name = match (self.kind.as_str(), self.namespace.as_str(), self.name.as_str()) {
            ("", ..) => self.file.clone(),
            (kind, _, "") => kind.to_owned(),
            (kind, "", name) => format!("{kind} {name}"),
            (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
        };
        match (name.as_str(), self.part.as_str()) {
            (_, "") => name,
            ("", part) => part.to_owned(),
            (name, part) => format!("{name}, {part}"),
        }
    }
}

impl AnalysisFinding {
    pub(crate) fn new(place: FindingPlace, code: FindingCode, message: impl Into<String>) -> Self {
        Self {
            severity: code.severity(),
            place,
            code,
            message: message.into(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let Self {
            severity,
            place,
            code,
            message,
        } = self;
        let fields = [
            ("code", code.as_str()),
            ("severity", severity.word()),
            ("kind", &place.kind),
            ("namespace", &place.namespace),
            ("name", &place.name),
            ("file", &place.file),
            ("part", &place.part),
            ("message", message),
            ("link", code.page()),
        ];
        let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
        fields.map(|(name, value)| (name.to_owned(), json!(value))).collect()
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        let style = self.severity.style();
        let word = self.severity.word();
        let place = match self.place.text() {
            place if place.is_empty() => String::new(),
            place => format!(" {}:", printable(&place)),
        };
        let code = self.code.as_str();
        format!("{style}{word}{style:#} [{code}]{place} {}", printable(&self.message))
    }
}

/// All findings, the worst first, each once.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<AnalysisFinding>);

impl Findings {
    pub(crate) fn new(mut all: Vec<AnalysisFinding>) -> Self {
        all.sort();
        all.dedup();
        Self(all)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AnalysisFinding> {
        self.0.iter()
    }

    pub(crate) fn count(&self, severity: FindingSeverity) -> usize {
        self.0.iter().filter(|finding| finding.severity == severity).count()
    }

    pub(crate) fn verdict(&self) -> CommandVerdict {
        match self.0.first().map(|worst| worst.severity) {
            Some(FindingSeverity::Error) => CommandVerdict::Bad,
            Some(FindingSeverity::Warning) => CommandVerdict::Warned,
            Some(FindingSeverity::Info) | None => CommandVerdict::Good,
        }
    }

    /// `2 errors, 1 warning`; or that nothing is wrong.
    pub(crate) fn summary(&self) -> String {
        let counts = FindingSeverity::ALL.map(|severity| (self.count(severity), severity.word()));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = counts
            .map(|(count, word)| match (*count, *word) {
                (count, "info") => format!("{count} info"),
                (1, word) => format!("1 {word}"),
                (count, word) => format!("{count} {word}s"),
            })
            .collect();
        if parts.is_empty() {
            "no problem found".to_owned()
        } else {
            parts.join(", ")
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}\n  see {}", finding.line(), finding.code.page());
        }
        text + &self.summary() + "\n"
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        self.json_of_worst(self.0.len())
    }

    /// The counts of all, and so many findings.
    pub(crate) fn json_of_worst(&self, most: usize) -> Value {
        json!({
            "errors": self.count(FindingSeverity::Error),
            "warnings": self.count(FindingSeverity::Warning),
            "infos": self.count(FindingSeverity::Info),
            "findings": self.0.iter().take(most).map(AnalysisFinding::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use limpet_api::{Kind, ObjectName};

    fn finding(reason: &str, name: &str) -> AnalysisFinding {
        let object = ObjectRef {
            kind: Kind::HttpRoute,
            name: ObjectName::new("shop", name),
        };
        let code = FindingCode::of(super::super::code::Subject::Route, "ResolvedRefs", reason);
        AnalysisFinding::new(FindingPlace::object(&object), code, "spec: expected another")
    }

    #[test]
    fn the_worst_finding_is_not_the_first() {
        let found = Findings::new(vec![
            finding("Other", "a"),
            finding("BackendNotFound", "c"),
            finding("BackendNotFound", "b"),
            finding("BackendNotFound", "b"),
        ]);
        let names: Vec<_> = found.iter().map(|finding| finding.place.name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
        assert_eq!(found.summary(), "2 errors, 1 warning");
        assert_eq!(found.verdict(), CommandVerdict::Bad);
        assert_eq!(Findings::default().summary(), "no problem found");
        assert_eq!(
            Findings::new(vec![finding("Other", "a")]).verdict(),
            CommandVerdict::Warned
        );
    }

    #[test]
    fn a_name_or_a_message_changed_the_terminal() {
        let mut found = finding("BackendNotFound", "a\u{1b}[2Jb");
        found.message = "one\ntwo\u{202e}".to_owned();
        let line = anstream::adapter::strip_str(&found.line()).to_string();
        assert_eq!(
            line,
            "error [LIMPET0506] HTTPRoute shop/a\\u{1b}[2Jb: one\\ntwo\\u{202e}"
        );
    }
}
