//! `limpet keys list`.

use serde_json::{Value, json};

use super::keyring_file::{KeyringFile, state_name};
use super::{lifetime, source};
use crate::cli::{ListArgs, required};
use crate::envoy_config::config_file;
use crate::envoy_config::discovery;
use crate::envoy_config::filter_configs;
use crate::envoy_config::node::ConfigNode;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::config::schema::KeyStateConfig;

pub(crate) fn run(args: &ListArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let file = required(args.file.as_ref())?;
    let document = config_file::read(file)?;
    match KeyringFile::from_document(file, &document) {
        Some(keyring) => keyring?.print(form, time_format::now(), lifetime::from_args(&args.life)?)?,
        None => print_configurations(file, document, form)?,
    }
    Ok(CommandVerdict::Good)
}

/// Keys of configurations have states, but no age.
fn print_configurations(file: &str, document: Value, form: Output) -> Result<(), CommandFailure> {
    let mut documents = vec![(file.to_owned(), document)];
    discovery::add_files(&mut documents);
    let roots: Vec<ConfigNode<'_>> = documents
        .iter()
        .map(|(file, value)| ConfigNode::root(file, value))
        .collect();
    let mut keyrings: Vec<Vec<(u8, KeyStateConfig)>> = Vec::new();
    for config in filter_configs::read(file, &roots)? {
        let keys = source::states(&config).map_err(|reason| CommandFailure(format!("{file}: {reason}")))?;
        if !keyrings.contains(&keys) {
            keyrings.push(keys);
        }
    }
    match form {
        Output::Text { .. } => {
            let line = |(id, state): &(u8, KeyStateConfig)| format!("key {id:<3}  {}\n", state_name(*state));
            let text: Vec<String> = keyrings.iter().map(|keys| keys.iter().map(line).collect()).collect();
            output::print(&text.join("\n"))
        }
        Output::Document(format) => {
            let key = |(id, state): &(u8, KeyStateConfig)| json!({"id": id, "state": state_name(*state)});
            let listed = keyrings.iter().map(|keys| keys.iter().map(key).collect());
            output::print_document(
                format,
                &json!({"file": file, "keyrings": listed.collect::<Vec<Value>>()}),
            )
        }
    }
}
