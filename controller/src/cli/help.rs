//! What the help of every command ends with: its examples, and its exit codes.

use std::fmt::Write as _;

use clap::Command;

use super::own_name;
use crate::exit::{self, EXIT_CODES};

/// Adds examples and exit codes to the help of each command. The definition of a command has its examples as its
/// `after_help`, one a line.
pub(crate) fn with_help(command: Command) -> Command {
    let general: Vec<_> = EXIT_CODES.into_iter().enumerate().collect();
    of_each(command, "").after_help(codes("Exit codes of all commands", &general))
}

/// `name`: the command's, without `limpet`.
fn of_each(mut command: Command, name: &str) -> Command {
    let subcommands: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let is_group = !subcommands.is_empty() && command.is_subcommand_required_set();
    for subcommand in subcommands {
        let full = format!("{name} {subcommand}").trim_start().to_owned();
        command = command.mut_subcommand(subcommand, |sub| of_each(sub, &full));
    }
    if is_group {
        return command;
    }
    let mut help = codes("Exit codes", &exit::codes(name));
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let own = format!("{} ", own_name());
        let lines = examples
            .lines()
            .map(|line| format!("  {}\n", line.trim_start().replace("limpet ", &own)));
        help = format!("Examples:\n{}\n{help}", lines.collect::<String>());
    }
    command.after_help(help)
}

fn codes(heading: &str, codes: &[(usize, &str)]) -> String {
    let mut text = format!("{heading}:");
    for (code, meaning) in codes {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {code}  {meaning}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(command: &Command, name: &str, all: &mut Vec<(String, Command)>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let full = format!("{name} {}", sub.get_name()).trim_start().to_owned();
            if !sub.is_subcommand_required_set() {
                all.push((full.clone(), sub.clone()));
            }
            commands(sub, &full, all);
        }
    }

    #[test]
    fn a_command_is_without_examples_or_exit_codes() {
        let mut all = Vec::new();
        commands(&crate::command_line(), "", &mut all);
        assert!(all.len() > 10, "{}", all.len());
        for (name, command) in all {
            let help = command.get_after_help().unwrap().to_string();
            let example = format!("limpet {name}");
            assert!(
                help.starts_with("Examples:\n") && help.contains(&example),
                "{name}: {help}"
            );
            assert!(
                help.contains("\n\nExit codes:\n  0  ") && help.contains("\n  3  "),
                "{name}: {help}"
            );
        }
    }
}
