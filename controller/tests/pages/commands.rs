//! `docs/reference/commands.md` has a section for every command, with every option.

use std::process::Command;

use crate::{LIMPET, assert_none, checkout};

fn help(command: &[String]) -> String {
    let output = Command::new(LIMPET).args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn commands_of(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let names = lines
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '));
    let names = names
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

fn options_of(help: &str) -> Vec<String> {
    // By indentation: an option's text may begin with another option's name.
    let options = help
        .lines()
        .filter_map(|line| line.strip_prefix("      ").or(line.strip_prefix("  -f, ")));
    let options = options
        .filter(|line| line.starts_with("--"))
        .filter_map(|line| line.split_whitespace().next());
    // Common options have their own section.
    options
        .filter(|name| !["--format", "--help"].contains(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_and_option_is_on_the_page() {
    let page = std::fs::read_to_string(checkout().join("docs/reference/commands.md")).unwrap();
    let section = |name: &str| -> Option<&str> {
        let (_, rest) = page.split_once(&format!("\n## {name}\n"))?;
        Some(rest.split("\n## ").next().unwrap_or(rest))
    };
    let mut problems = Vec::new();
    let mut checked = 0;
    let mut waiting = vec![Vec::new()];
    while let Some(command) = waiting.pop() {
        let help = help(&command);
        let below = commands_of(&help);
        let name = ["limpet".to_owned()]
            .into_iter()
            .chain(command.clone())
            .collect::<Vec<_>>()
            .join(" ");
        let options = options_of(&help);
        // Without options it only groups others.
        if !command.is_empty() && (below.is_empty() || !options.is_empty()) {
            checked += 1;
            match section(&name) {
                None => problems.push(format!("no section `## {name}`")),
                Some(section) => {
                    let missing = options.iter().filter(|option| !section.contains(&format!("`{option}")));
                    problems.extend(missing.map(|option| format!("{name}: {option} is not in its section")));
                }
            }
        }
        waiting.extend(below.into_iter().map(|name| [&command[..], &[name]].concat()));
    }
    assert_none(&problems);
    assert!(checked >= 10, "{checked} commands");
}
