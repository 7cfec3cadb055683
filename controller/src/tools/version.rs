//! `limpet version`.

use serde_json::json;

use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};

pub(crate) fn run(form: Output) -> Result<CommandVerdict, CommandFailure> {
    let version = env!("CARGO_PKG_VERSION");
    match form {
        Output::Text { .. } => output::print(&format!("limpet {version}\n"))?,
        Output::Document(format) => output::print_document(format, &json!({"version": version}))?,
    }
    Ok(CommandVerdict::Good)
}
