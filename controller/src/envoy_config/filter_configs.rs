//! Every configuration of the filter in a set of documents, wherever it is.

use super::node::ConfigNode;
use super::{filter_locator, foreign_config};
use crate::exit::CommandFailure;
use limpet_core::config;
use limpet_core::config::schema::FilterConfig;

/// The configurations in the documents of `file`, each once; those that lack the types of the schema are left out.
///
/// # Errors
/// If no configuration is left.
pub(crate) fn read(file: &str, roots: &[ConfigNode<'_>]) -> Result<Vec<FilterConfig>, CommandFailure> {
    let mut configs: Vec<FilterConfig> = Vec::new();
    for config in roots.iter().flat_map(in_document) {
        if !configs.contains(&config) {
            configs.push(config);
        }
    }
    if configs.is_empty() {
        let message = format!("no configuration of the filter in it that can be read; `limpet check {file}` says more");
        return Err(CommandFailure(format!("{file}: {message}")));
    }
    Ok(configs)
}

fn in_document(root: &ConfigNode<'_>) -> Vec<FilterConfig> {
    if let Some(found) = foreign_config::find(root) {
        let configs = found.into_iter().flatten();
        configs.filter_map(|found| config::parse(&found.json()).ok()).collect()
    } else if root.has_types() {
        let filters = filter_locator::filters(root);
        filters
            .iter()
            .filter_map(|located| located.configuration.parsed())
            .collect()
    } else {
        config::parse(root.value.to_string().as_bytes()).into_iter().collect()
    }
}
