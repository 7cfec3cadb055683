//! The first page of docs for Kubernetes, for `make cluster` and a test.

use anyhow::{Context, Result};
use limpet_repo_tests::{Block, Page, Step};

use crate::tools;

/// The page.
pub const PAGE: &str = "docs/get-started/kubernetes.md";

/// The page's commands up to where no cluster is needed; its files are written by commands, too.
///
/// # Errors
/// If the page cannot be read, or a block is no command and no file.
pub fn steps() -> Result<Vec<Step>> {
    let page = Page::parse(&std::fs::read_to_string(tools::checkout().join(PAGE))?);
    let mut session = Vec::new();
    let in_a_cluster = |block: &&Block| !block.text.contains("dist/limpet");
    for block in page.blocks.iter().take_while(in_a_cluster) {
        let plain = |command: String| Step {
            line: block.line,
            command,
            output: vec!["…".to_owned()],
            code: 0,
        };
        match block.language.as_str() {
            "sh" => {
                let commands = block.text.replace("\\\n", "\u{0}");
                session.extend(commands.lines().map(|command| plain(command.replace('\u{0}', "\\\n"))));
            }
            "console" => session.extend(limpet_repo_tests::steps(block).map_err(anyhow::Error::msg)?),
            "yaml" => {
                let name = block.text.lines().next().and_then(|line| line.strip_prefix("# "));
                let name = name.with_context(|| format!("line {}: what is it saved as?", block.line))?;
                session.push(plain(format!("cat >{name} <<'END'\n{}\nEND", block.text)));
            }
            other => anyhow::bail!("line {}: a block of {other}", block.line),
        }
    }
    Ok(session)
}
