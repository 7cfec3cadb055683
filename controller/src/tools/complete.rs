//! `limpet __complete`: what can follow on a command line, in the form of kubectl's plugins (and of Cobra's commands).

use clap::{Arg, Command};

use crate::cli::CompleteArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output;

/// Cobra's directive: the shell completes names of files.
const FILES: &str = ":0";
/// Cobra's directive: nothing but these words.
const ONLY_THESE: &str = ":4";

/// `command`: the whole command line.
pub(crate) fn run(args: &CompleteArgs, command: &Command) -> Result<CommandVerdict, CommandFailure> {
    let mut command = command.clone();
    // Puts options of all commands into each.
    command.build();
    let (words, directive) = complete(&command, &args.words);
    let directive = directive.to_owned();
    let lines: Vec<String> = words.into_iter().chain([directive, String::new()]).collect();
    output::print(&lines.join("\n"))?;
    Ok(CommandVerdict::Good)
}

/// The words that can stand in the place of the last one, each with what it means, and a directive.
fn complete(command: &Command, words: &[String]) -> (Vec<String>, &'static str) {
    let (last, before) = words.split_last().map_or(("", words), |(last, before)| (last, before));
    let (mut command, mut of_option) = (command, None);
    for word in before {
        of_option = match of_option {
            Some(_) => None,
            None => option(command, word),
        };
        if let Some(subcommand) = command.find_subcommand(word) {
            command = subcommand;
        }
    }
    let begins = |line: &String| line.starts_with(last);
    if let Some(option) = of_option {
        return values(option, "", last);
    }
    if let Some((name, value)) = last.split_once('=')
        && let Some(option) = option(command, name)
    {
        return values(option, &format!("{name}="), value);
    }
    if last.starts_with('-') {
        let options = command.get_arguments().filter(|option| !option.is_hide_set());
        let line = |option: &Arg| {
            let name = option.get_long()?;
            Some(described(
                &format!("--{name}"),
                option.get_help().map(ToString::to_string),
            ))
        };
        return (options.filter_map(line).filter(begins).collect(), ONLY_THESE);
    }
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let line = |sub: &Command| described(sub.get_name(), sub.get_about().map(ToString::to_string));
    let found: Vec<String> = subcommands.map(line).filter(begins).collect();
    if !found.is_empty() {
        return (found, ONLY_THESE);
    }
    match command.get_positionals().next() {
        Some(argument) => values(argument, "", last),
        None => (found, ONLY_THESE),
    }
}

/// The option of this name, if it takes a value.
fn option<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let is_it = |option: &&Arg| {
        let long = option
            .get_long()
            .is_some_and(|long| name.strip_prefix("--") == Some(long));
        long || option.get_short().is_some_and(|short| name == format!("-{short}"))
    };
    let takes_values = |option: &&Arg| option.get_action().takes_values();
    command.get_arguments().find(is_it).filter(takes_values)
}

/// The values of an argument, as far as they are known; else the shell completes files.
fn values(argument: &Arg, before: &str, begun: &str) -> (Vec<String>, &'static str) {
    let possible = argument.get_possible_values();
    if possible.is_empty() {
        return (Vec::new(), FILES);
    }
    let possible = possible.iter().filter(|value| value.get_name().starts_with(begun));
    let line = |value: &clap::builder::PossibleValue| {
        described(
            &format!("{before}{}", value.get_name()),
            value.get_help().map(ToString::to_string),
        )
    };
    (possible.map(line).collect(), ONLY_THESE)
}

fn described(word: &str, help: Option<String>) -> String {
    let help = help.unwrap_or_default();
    match help.lines().next() {
        Some(help) => format!("{word}\t{help}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: &str) -> (Vec<String>, &'static str) {
        let mut command = crate::command_line();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (lines, directive) = complete(&command, &words);
        let word = |line: String| line.split('\t').next().unwrap_or_default().to_owned();
        (lines.into_iter().map(word).collect(), directive)
    }

    #[test]
    fn a_command_line_of_a_plugin_is_completed() {
        let words = |line: &str| lines(line).0;
        assert_eq!(words("ke"), ["keys"]);
        assert_eq!(words("keys r"), ["revoke", "rotate"]);
        assert_eq!(words("check -o "), ["text", "wide", "json", "yaml"]);
        assert_eq!(words("check -o json --out"), ["--output"]);
        assert_eq!(words("keys list --output=j"), ["--output=json"]);
        assert_eq!(words("completions z"), ["zsh"]);
        assert!(words("check --q").contains(&"--quiet".to_owned()));
        assert!(!words("").contains(&"__complete".to_owned()));
        assert_eq!(lines("check "), (Vec::new(), FILES));
        assert_eq!(lines("token inspect x --config "), (Vec::new(), FILES));
    }
}
