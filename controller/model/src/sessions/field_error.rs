use crate::field_problem::FieldProblem;

pub(super) use crate::remembered_sessions::PREFIX;

/// A mistake in session settings, before the path of `sessionPersistence` in the object is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionFieldError {
    pub(super) place: ObjectField,
    /// What was expected.
    pub(super) message: String,
}

/// A field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectField {
    /// Below `sessionPersistence`, like `cookie.name`; itself where empty.
    Persistence(&'static str),
    /// Its name without the prefix.
    Annotation(String),
    /// The field of the controller's `sessionDefaults`, by the annotation's name.
    Default(String),
    /// The matches of the rule, from which the path of the cookie was derived.
    Matches,
}

impl SessionFieldError {
    pub(super) fn persistence(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            place: ObjectField::Persistence(field),
            message: message.into(),
        }
    }

    pub(super) fn annotation(name: &str, message: impl Into<String>) -> Self {
        Self {
            place: ObjectField::Annotation(name.to_owned()),
            message: message.into(),
        }
    }

    /// The problem in an object that has `sessionPersistence` below `parent`, like `spec` or `spec.rules[2]`.
    pub(super) fn below(self, parent: &str) -> FieldProblem {
        FieldProblem {
            field: self.field(parent),
            message: self.message,
        }
    }

    fn field(&self, parent: &str) -> String {
        match &self.place {
            ObjectField::Persistence("") => format!("{parent}.sessionPersistence"),
            ObjectField::Persistence(field) => format!("{parent}.sessionPersistence.{field}"),
            ObjectField::Annotation(name) => annotation_field(name),
            ObjectField::Default(name) => {
                let annotation = annotation_field(name);
                format!("{annotation}, or its default in the controller's sessionDefaults")
            }
            ObjectField::Matches => format!("{parent}.matches"),
        }
    }

    /// The problem of a route whose annotations make a valid `policy` invalid.
    pub(super) fn of_route(self, policy: &dyn std::fmt::Display, is_routes: impl Fn(&str) -> bool) -> FieldProblem {
        match &self.place {
            ObjectField::Annotation(name) if is_routes(name) => self.below(""),
            ObjectField::Annotation(_)
            | ObjectField::Default(_)
            | ObjectField::Persistence(_)
            | ObjectField::Matches => FieldProblem {
                field: "metadata.annotations".to_owned(),
                message: format!("with {policy}: {}: {}", self.field("spec"), self.message),
            },
        }
    }
}

pub(super) fn overruled(annotation: &str, part: &str, by: &str) -> String {
    let annotation = annotation_field(annotation);
    format!("{annotation}: {part} has no effect, because {by} says otherwise")
}

pub(super) fn annotation_field(name: &str) -> String {
    format!("metadata.annotations[{PREFIX}{name}]")
}
