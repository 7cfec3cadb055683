//! `docs/reference/commands.md` is made of the definition of the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

use crate::checkout;

/// A reader goes through the page from top to bottom.
const MOST_WORDS: usize = 5_300;

const PAGE: &str = "docs/reference/commands.md";

/// In front of the commands.
const HEAD: &str = "\
# Commands

`make build` leaves the command as `dist/limpet`. These pages call it `limpet`, as it is after
`export PATH=$PWD/dist:$PATH` in the checkout. As `kubectl-limpet` on the PATH, it is a plugin: `kubectl limpet`.

The help of each command (`limpet COMMAND --help`) says the same. `make golden` writes this page.
";

/// Pages that say more of a command.
const MORE: [(&str, &str); 20] = [
    (
        "analyze",
        "[Status](status.md), [the filter in Envoy's configuration](envoy-configuration.md)",
    ),
    ("check", "[The filter in Envoy's configuration](envoy-configuration.md)"),
    (
        "controller",
        "[Operate the controller](../how-to/operate-the-controller.md), [its configuration](controller-configuration.md), [other control planes](other-control-planes.md)",
    ),
    (
        "controller bootstrap",
        "[Point an Envoy at it](../how-to/operate-the-controller.md#point-an-envoy-at-it)",
    ),
    (
        "drain",
        "[Drain one pod](../how-to/rollouts.md#drain-one-pod), [when counts are complete](sessions.md#when-counts-are-complete)",
    ),
    (
        "envoy drain",
        "[Point an Envoy at it](../how-to/operate-the-controller.md#point-an-envoy-at-it)",
    ),
    (
        "explain",
        "[Ask for one token](../how-to/troubleshoot.md#ask-for-one-token), [status](status.md)",
    ),
    ("keys count", "[Counters of keys](metrics.md#for-each-key)"),
    ("keys generate", "[The keyring file](keyring.md#the-keyring-file)"),
    ("keys list", "[Rotate keys](../how-to/rotate-keys.md)"),
    ("keys revoke", "[Rotate keys](../how-to/rotate-keys.md)"),
    ("keys rotate", "[Rotate keys](../how-to/rotate-keys.md)"),
    ("keys wrap", "[Wrapped keyrings](configuration.md#wrapped-keyrings)"),
    (
        "migrate policies",
        "[Upgrade the Gateway API](../how-to/upgrade-the-gateway-api.md)",
    ),
    (
        "render",
        "[The objects of the Envoys](envoy-deployment.md), [names of rules](annotations.md#rules-without-a-name)",
    ),
    (
        "sessions",
        "[Sessions of pods](sessions.md), [what it needs](../how-to/rollouts.md#what-it-needs)",
    ),
    (
        "status",
        "[Status](status.md), [metrics](metrics.md#the-controllers-metrics)",
    ),
    (
        "token inspect",
        "[Several tokens in a request](configuration.md#several-tokens-in-a-request), [moves](configuration.md#moves)",
    ),
    ("token issue", "[Tokens](token.md)"),
    (
        "wait-drained",
        "[Wait for the last session](../how-to/rollouts.md#wait-for-the-last-session)",
    ),
];

fn page() -> String {
    let mut command = limpet::command_line();
    // Puts options of all commands into each.
    command.build();
    let mut all = Vec::new();
    collect(&command, "", &mut all);
    let mut page = HEAD.to_owned();
    page += "\n## Exit codes\n\n| Command | 0 | 1 | 2 | 3 |\n|---|---|---|---|---|\n";
    let general = exit_codes(&command);
    page += &row_of_codes("all", &general);
    for (name, command) in &all {
        let mut codes = exit_codes(command);
        // Only success, or could not run.
        if codes.len() == 2 && codes.get("0").is_some_and(|code| code == "success") {
            continue;
        }
        for (code, meaning) in &mut codes {
            if general.get(code) == Some(meaning) {
                "as above".clone_into(meaning);
            }
        }
        page += &row_of_codes(&link(name), &codes);
    }
    page += "\nOther commands end with 0 or 3.\n\n## Options of several commands\n\n";
    let shared = shared_options(&all);
    let global = command.get_arguments().filter(|option| option.is_global_set());
    page += &table_of_options(global.chain(shared.values().copied()));
    page += "\nNames, annotations and messages come from others. Characters in them that control a terminal or change the order of\n\
             text are printed as numbers, like `\\u{1b}`. With `-o json` or `-o yaml`, a command that fails prints `{\"error\": \"…\"}`.\n\
             Colours are for terminals only, and `NO_COLOR` turns them off.\n";
    for (name, command) in &all {
        section(&mut page, name, command, &shared);
    }
    page
}

/// The commands that do something, with their names without `limpet`.
fn collect<'a>(command: &'a Command, name: &str, all: &mut Vec<(String, &'a Command)>) {
    let subcommands = command.get_subcommands();
    for sub in subcommands.filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let full = format!("{name} {}", sub.get_name()).trim_start().to_owned();
        if !sub.is_subcommand_required_set() {
            all.push((full.clone(), sub));
        }
        collect(sub, &full, all);
    }
}

/// The options that several commands have with the same meaning, by their row.
fn shared_options<'a>(all: &[(String, &'a Command)]) -> BTreeMap<String, &'a Arg> {
    let arguments = all.iter().flat_map(|(_, command)| own_arguments(command));
    let mut counted: BTreeMap<String, (usize, &Arg)> = BTreeMap::new();
    for argument in arguments.filter(|argument| !argument.is_positional()) {
        counted.entry(row(argument)).or_insert((0, argument)).0 += 1;
    }
    // One name is in the table once.
    let meanings = |argument: &Arg| {
        let all = counted
            .values()
            .filter(|(_, other)| other.get_long() == argument.get_long());
        all.count()
    };
    let shared = counted
        .iter()
        .filter(|(_, (count, argument))| *count > 1 && meanings(argument) == 1);
    shared.map(|(row, (_, argument))| (row.clone(), *argument)).collect()
}

fn own_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own =
        |argument: &&Arg| !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str());
    command.get_arguments().filter(is_own)
}

fn link(name: &str) -> String {
    format!("[{name}](#limpet-{})", name.replace(' ', "-"))
}

fn section(page: &mut String, name: &str, command: &Command, shared: &BTreeMap<String, &Arg>) {
    write!(page, "\n## limpet {name}\n\n").unwrap();
    let about = command.get_long_about().or(command.get_about()).unwrap().to_string();
    for (index, paragraph) in about.split("\n\n").enumerate() {
        // The first one is a heading, without a full stop.
        let end = if index == 0 { "." } else { "" };
        write!(page, "{}\n\n", wrapped(&format!("{paragraph}{end}"))).unwrap();
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let help = command.get_after_help().unwrap().to_string();
    let (examples, _) = help.split_once("\n\nExit codes:\n").unwrap();
    let examples = examples.strip_prefix("Examples:\n").unwrap();
    write!(page, "```text\n{usage}\n```\n\n```sh\n").unwrap();
    for example in examples.lines() {
        writeln!(page, "{}", example.trim_start()).unwrap();
    }
    *page += "```\n";
    let own = own_arguments(command);
    let (others, own): (Vec<&Arg>, Vec<&Arg>) = own.partition(|argument| shared.contains_key(&row(argument)));
    let options = table_of_options(own.into_iter());
    if !options.is_empty() {
        write!(page, "\n{options}").unwrap();
    }
    if !others.is_empty() {
        let names: Vec<String> = others
            .into_iter()
            .map(|argument| format!("`--{}`", argument.get_long().unwrap()))
            .collect();
        let of_all = "[options of several commands](#options-of-several-commands)";
        write!(
            page,
            "\n{}\n",
            wrapped(&format!("Also {}: {of_all}.", names.join(", ")))
        )
        .unwrap();
    }
    if let Some((_, more)) = MORE.iter().find(|(of, _)| *of == name) {
        write!(page, "\n{}\n", wrapped(&format!("More: {more}."))).unwrap();
    }
}

/// What the help of a command says of its exit codes.
fn exit_codes(command: &Command) -> BTreeMap<String, String> {
    let help = command.get_after_help().unwrap().to_string();
    let (_, codes) = help.split_once("Exit codes").unwrap();
    let codes = codes
        .lines()
        .skip(1)
        .map(|line| line.trim_start().split_once("  ").unwrap());
    codes
        .map(|(code, meaning)| (code.to_owned(), meaning.to_owned()))
        .collect()
}

fn row_of_codes(name: &str, codes: &BTreeMap<String, String>) -> String {
    let meaning = |code: &str| {
        codes
            .get(code)
            .map_or_else(String::new, |meaning| cell(&options_as_code(meaning)))
    };
    let cells = ["0", "1", "2", "3"].map(meaning);
    format!("| {name} | {} |\n", cells.join(" | "))
}

fn table_of_options<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::new();
    for argument in arguments {
        table += &row(argument);
    }
    if table.is_empty() {
        return table;
    }
    format!("| Option | Meaning |\n|---|---|\n{table}")
}

fn row(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).unwrap().to_string();
    let mut help = options_as_code(&help);
    let values = argument.get_possible_values();
    let named: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(value_name)
        .collect();
    if argument.get_action().takes_values() && !named.is_empty() {
        write!(help, ": {}", named.join(", ")).unwrap();
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if argument.get_action().takes_values() && !defaults.is_empty() {
        write!(help, " [default: `{}`]", defaults.join(", ")).unwrap();
    }
    if argument.is_required_set() && !argument.is_positional() {
        help += ". Required";
    }
    format!("| {} | {} |\n", names(argument), cell(&help))
}

fn value_name(value: &PossibleValue) -> String {
    let help = value.get_help().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("`{}`{help}", value.get_name())
}

/// `-o FORMAT`, `--output FORMAT`.
fn names(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let value = if argument.get_action().takes_values() {
        format!(" {values}")
    } else {
        String::new()
    };
    let short = argument.get_short().map(|short| format!("`-{short}`, "));
    match argument.get_long() {
        Some(long) => format!("{}`--{long}{value}`", short.unwrap_or_default()),
        None => format!("`{}`", values.replace('|', "\\|")),
    }
}

/// Options in a text for a terminal have no quotes.
fn options_as_code(text: &str) -> String {
    let mut is_code = false;
    let words = text.split(' ').map(|word| {
        let is_option = !is_code && word.starts_with("--") && word.len() > 2;
        is_code ^= word.matches('`').count() % 2 == 1;
        if is_option {
            let end = word.trim_end_matches(['.', ',', ';', ':', ')', ']']).len();
            let (option, rest) = word.split_at(end);
            format!("`{option}`{rest}")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// In a row of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace("| ", "\\| ")
}

/// Lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let text = options_as_code(&text.replace('\n', " "));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().unwrap();
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 120 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[test]
fn the_page_of_commands_is_not_what_the_command_line_is() {
    let file = checkout().join(PAGE);
    let made = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let words = made
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .count();
    assert!(words <= MOST_WORDS, "{words} words");
    assert_eq!(fs::read_to_string(&file).unwrap(), made, "{PAGE}: run `make golden`");
}

#[test]
fn options_in_prose_are_code() {
    assert_eq!(
        options_as_code("with --a, or `x --b` -- c"),
        "with `--a`, or `x --b` -- c"
    );
}
