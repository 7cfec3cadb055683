//! How a command ends: exit code 0, 1 or 2.

use std::fmt;

/// For the help of a command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  a configuration has an error, an object is not accepted or not served, a token is refused,
     or requests or sessions were left when the time to drain was over
  2  the command could not do its work: a wrong argument, or a file that cannot be read";

/// What a command that did its work found out: exit code 0, 1 or 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandVerdict {
    Good,
    Bad,
    /// A part of its input cannot be read, and what it printed says so.
    Partial,
}

/// Why a command could not do its work: exit code 2.
#[derive(Debug)]
pub(crate) struct CommandFailure(pub(crate) String);

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
