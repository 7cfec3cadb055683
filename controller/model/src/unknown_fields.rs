//! Fields of an object that its type does not have.

#[derive(Debug, Clone, Copy)]
pub(super) struct UnknownFields<'a>(&'a [String]);

impl<'a> UnknownFields<'a> {
    pub(super) fn new(fields: &'a [String]) -> Self {
        Self(fields)
    }

    /// Those at `path` or below it.
    pub(super) fn below(self, path: &str) -> Vec<&'a str> {
        let is_below = |field: &&str| {
            let rest = field.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.0.iter().map(String::as_str).filter(is_below).collect()
    }
}

pub(super) fn no_effect(message: &str, fields: &[String]) -> String {
    if fields.is_empty() {
        message.to_owned()
    } else {
        format!("{message}. Not supported and ignored: {}", fields.join(", "))
    }
}
