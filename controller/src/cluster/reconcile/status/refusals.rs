//! Refusals of Envoys, in words that say what to do.

use super::shape::shortened;
use limpet_resources::ResourceType;
use limpet_xds::RefusedResource;

/// The most bytes of Envoy's message.
const WORDS: usize = 1000;
/// Envoy's messages if the filter refuses its configuration. The filter's own words are only in Envoy's log.
const WORDLESS: [&str; 2] = ["Unable to create Wasm", "Failed to initialize dynamic module"];

/// `variables`: those that the filter needs.
pub(super) fn refusal_message(refusal: &RefusedResource, variables: &[String]) -> String {
    let RefusedResource {
        resource_type,
        name,
        node,
        message,
        ..
    } = refusal;
    let told = format!("Envoy {node} refused {resource_type} {name}: {message}");
    let told = shortened(&told, WORDS);
    let is_wordless = WORDLESS.into_iter().any(|words| message.contains(words));
    if *resource_type != ResourceType::ExtensionConfig || !is_wordless || variables.is_empty() {
        return told.to_owned();
    }
    let (variables, holds) = match variables {
        [one] => (one.clone(), "it holds another key"),
        several => (several.join(" or "), "one holds another key"),
    };
    format!(
        "{told} (probably the environment of this Envoy lacks {variables}, or {holds}; \
         the log of this Envoy has the reason in its lines with limpet)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use limpet_resources::Resource;

    fn explained_message(resource_type: ResourceType, message: &str, variables: &[&str]) -> String {
        let version = Resource::new(resource_type, "limpet.wasm", Vec::new()).version();
        let refusal = RefusedResource {
            resource_type,
            name: "limpet.wasm".into(),
            version,
            node: "one".into(),
            message: message.into(),
        };
        let variables: Vec<String> = variables.iter().map(ToString::to_string).collect();
        refusal_message(&refusal, &variables)
    }

    #[test]
    fn a_filter_that_refuses_its_keys_is_told_with_their_variable() {
        for message in [
            "Unable to create Wasm plugin limpet",
            "Failed to initialize dynamic module",
        ] {
            assert_eq!(
                explained_message(ResourceType::ExtensionConfig, message, &["KEK"]),
                format!(
                    "Envoy one refused ExtensionConfig limpet.wasm: {message} (probably the environment of this Envoy \
                     lacks KEK, or it holds another key; the log of this Envoy has the reason in its lines with limpet)"
                )
            );
        }
        let two = explained_message(
            ResourceType::ExtensionConfig,
            "Unable to create Wasm plugin limpet",
            &["A", "B"],
        );
        assert!(two.contains("lacks A or B, or one holds another key"), "{two}");
    }

    #[test]
    fn what_envoy_says_itself_stays_as_it_is() {
        let words = "Invalid path: /etc/limpet/limpet.wasm";
        assert_eq!(
            explained_message(ResourceType::ExtensionConfig, words, &["KEK"]),
            format!("Envoy one refused ExtensionConfig limpet.wasm: {words}")
        );
        let listener = explained_message(ResourceType::Listener, "Unable to create Wasm plugin other", &["KEK"]);
        assert!(!listener.contains("KEK"), "{listener}");
    }
}
