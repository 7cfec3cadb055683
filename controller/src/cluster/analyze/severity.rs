use anstyle::{AnsiColor, Style};

/// How bad a finding is. The worst is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingSeverity {
    /// It does not work, or not as intended.
    Error,
    /// It works, and a person should know of it; or it may not be right.
    Warning,
    /// Something was not looked at, or both ways are right.
    Info,
}

impl FindingSeverity {
    pub(crate) const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Info];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Error => AnsiColor::Red.on_default().bold(),
            Self::Warning => AnsiColor::Yellow.on_default().bold(),
            Self::Info => AnsiColor::Cyan.on_default(),
        }
    }
}
