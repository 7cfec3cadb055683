//! `limpet keys list`.

use limpet_core::config::schema::KeyStateConfig;
use serde_json::{Value, json};

use crate::cli::ListArgs;
use crate::envoy_config::config_file;
use crate::envoy_config::discovery;
use crate::envoy_config::filter_configs;
use crate::envoy_config::node::Node;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use crate::time_format;

use super::ring::{self, Ring};
use super::{rotate, source};

pub(crate) fn run(args: &ListArgs, form: Output) -> Result<Verdict, Failure> {
    let document = config_file::read(&args.file)?;
    match Ring::from_document(&args.file, &document) {
        Some(ring) => ring?.print(form, time_format::now(), rotate::life(&args.life)?)?,
        None => print_configurations(&args.file, form)?,
    }
    Ok(Verdict::Good)
}

/// The keys of configurations. They have states and no age.
fn print_configurations(file: &str, form: Output) -> Result<(), Failure> {
    let documents = discovery::read(file)?;
    let roots: Vec<Node<'_>> = documents.iter().map(|(file, value)| Node::root(file, value)).collect();
    let mut rings: Vec<Vec<(u8, KeyStateConfig)>> = Vec::new();
    for config in filter_configs::read(file, &roots)? {
        let keys = source::states(&config).map_err(|reason| Failure(format!("{file}: {reason}")))?;
        if !rings.contains(&keys) {
            rings.push(keys);
        }
    }
    match form {
        Output::Text => {
            let line = |(id, state): &(u8, KeyStateConfig)| format!("key {id:<3}  {}\n", ring::name(*state));
            let text: Vec<String> = rings.iter().map(|keys| keys.iter().map(line).collect()).collect();
            output::print(&text.join("\n"))
        }
        Output::Json => {
            let key = |(id, state): &(u8, KeyStateConfig)| json!({"id": id, "state": ring::name(*state)});
            let keyrings = rings.iter().map(|keys| keys.iter().map(key).collect());
            output::print_json(&json!({"file": file, "keyrings": keyrings.collect::<Vec<Value>>()}))
        }
    }
}
