//! How a command ends: its exit code.

use std::fmt;

/// What the exit codes mean for every command.
pub(crate) const EXIT_CODES: [&str; 4] = [
    "no error and no warning",
    "warnings only, or a no that is not an error, such as sessions that are left when the time is over",
    "an error: a wrong configuration, an object that is not accepted, or a refused token",
    "the command could not run: a wrong argument, an unreadable file, or no cluster",
];

/// The exit codes of a command, by its name without `limpet`.
struct Outcomes {
    command: &'static str,
    /// What they mean for it. An empty text: the command does not end so; of the last code, the meaning is general.
    codes: [&'static str; 4],
}

/// Commands with other outcomes than success and 3.
const OUTCOMES: &[Outcomes] = &[
    Outcomes {
        command: "analyze",
        codes: [
            "no error and no warning",
            "warnings only",
            "an error",
            "a wrong argument, an unreadable file, or no API server",
        ],
    },
    Outcomes {
        command: "check",
        codes: [
            "no error and no warning",
            "warnings only",
            "an error, or with --deny-warnings a warning",
            "",
        ],
    },
    Outcomes {
        command: "controller",
        codes: [
            "a signal ended it; with --check, the configuration has no error",
            "",
            "the configuration has an error",
            "",
        ],
    },
    Outcomes {
        command: "drain",
        codes: [
            "the pod has the annotation, or with --undo has none; with --wait, it has no sessions left",
            "with --wait: sessions are left after the time or Ctrl-C, the drain was undone, or the pod had sessions at \
             its end",
            "",
            "no such pod, no Service of it, no controller, or a refused request",
        ],
    },
    Outcomes {
        command: "envoy drain",
        codes: [
            "no request is under way; idle connections may be left",
            "requests are under way when the time is over, and end with Envoy",
            "",
            "Envoy's admin interface does not answer, or answers with an error",
        ],
    },
    Outcomes {
        command: "explain",
        codes: [
            "no problem; with tokens, one of them is honoured",
            "with tokens: there is none, its key is not known, or its backend has no ready pod",
            "a problem of the route or of the sessions of a rule; with tokens, each is refused",
            "",
        ],
    },
    Outcomes {
        command: "keys rotate",
        codes: [
            "the rotation is one phase further, or the next phase is not due yet",
            "the next phase is never due: the file does not say since when keys retire",
            "",
            "",
        ],
    },
    Outcomes {
        command: "migrate policies",
        codes: [
            "every policy is ready or was written, or there is none",
            "a policy is to be written, or its former fields cannot be known",
            "the API server refuses a change",
            "no API server answers, or policies cannot be listed",
        ],
    },
    Outcomes {
        command: "render",
        codes: [
            "every object is accepted",
            "no Gateway is for this target",
            "an object is not accepted, not known, or refused by the Gateway API's definitions",
            "",
        ],
    },
    Outcomes {
        command: "sessions",
        codes: [
            "the table was shown, or there are no sessions",
            "",
            "",
            "nothing of that name has sessions, no controller answers, or a right is missing",
        ],
    },
    Outcomes {
        command: "status",
        codes: [
            "no error and no warning",
            "warnings only",
            "an error",
            "a wrong argument, or no API server",
        ],
    },
    Outcomes {
        command: "token inspect",
        codes: [
            "a token is honoured",
            "not verified: no key for it was given",
            "a token is refused, and none is honoured",
            "",
        ],
    },
    Outcomes {
        command: "wait-drained",
        codes: [
            "no session and no stream is left, or no Envoy leads to this pod",
            "sessions or streams are left, or may be left, when the time is over",
            "",
            "the controller does not answer, or counts no sessions",
        ],
    },
];

/// The exit codes of a command, by its name without `limpet`, with what they mean for it.
pub(crate) fn codes(command: &str) -> Vec<(usize, &'static str)> {
    let [success, .., failure] = EXIT_CODES;
    let found = OUTCOMES.iter().find(|outcomes| outcomes.command == command);
    let mut codes = found.map_or(["success", "", "", failure], |outcomes| outcomes.codes);
    let [first, .., last] = &mut codes;
    for (code, general) in [(first, success), (last, failure)] {
        if code.is_empty() {
            *code = general;
        }
    }
    let all = codes.into_iter().enumerate();
    all.filter(|(_, meaning)| !meaning.is_empty()).collect()
}

/// What a command that did its work found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandVerdict {
    Good,
    /// Warnings only, or a no that is not an error.
    Warned,
    Bad,
    /// A part of its input cannot be read, and what it printed says so.
    Partial,
}

impl CommandVerdict {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Warned => 1,
            Self::Bad => 2,
            Self::Partial => FAILURE,
        }
    }
}

/// The exit code of a command that could not do its work.
pub(crate) const FAILURE: u8 = 3;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) struct CommandFailure(pub(crate) String);

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_other_outcomes_has_two_codes() {
        assert_eq!(codes("keys list"), [(0, "success"), (3, EXIT_CODES[3])]);
        assert_eq!(codes("render").len(), 4);
    }
}
