//! Names of policies by their content.

use std::collections::{BTreeMap, HashMap};

use crate::short_hash::hash;
use limpet_api::Text;
use limpet_core::config::schema::PolicyConfig;

/// The longest stem: 17 of 128 characters are a hyphen and a hash.
const MAX_STEM: usize = 111;
/// Bytes of the hash: so many that no policy can be made which has the name of another one.
const BYTES: usize = 8;

/// Policies by name, `<session name>-<16 hexadecimal digits of a hash of its content>`, independent of other policies.
#[derive(Debug, Default)]
pub(super) struct PolicyNames {
    pub(super) by_name: BTreeMap<Text, PolicyConfig>,
    by_content: HashMap<String, Text>,
}

impl PolicyNames {
    /// Returns the name of the policy.
    pub(super) fn add(&mut self, config: PolicyConfig) -> Text {
        // Every policy can be written as JSON.
        let content = serde_json::to_string(&config).unwrap_or_else(|_| format!("{config:?}"));
        if let Some(name) = self.by_content.get(&content) {
            return name.clone();
        }
        let name = name(&config, &content);
        self.by_content.insert(content, name.clone());
        self.by_name.insert(name.clone(), config);
        name
    }
}

fn name(config: &PolicyConfig, content: &str) -> Text {
    let name = config.carrier().map_or("client-ip", |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let stem = name.chars().map(|c| if legal(c) { c } else { '_' });
    let stem: String = stem.take(MAX_STEM).collect();
    format!("{stem}-{}", hash(content.as_bytes(), BYTES)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use limpet_core::config::schema::CookieConfig;

    fn policy(name: &str, strict: bool) -> PolicyConfig {
        let mut policy: PolicyConfig = serde_json::from_value(serde_json::json!({"strict": strict})).unwrap();
        policy.cookie = Some(CookieConfig::named(name));
        policy
    }

    #[test]
    fn equal_policies_are_one_and_names_are_legal() {
        let mut policies = PolicyNames::default();
        let shop = policies.add(policy("shop", false));
        assert_eq!(policies.add(policy("shop", false)), shop);
        let strict = policies.add(policy("shop", true));
        let odd = policies.add(policy("a!#$%&'*+^_`|~z", false));
        let long = policies.add(policy(&"x".repeat(128), false));
        let by_name = policies.by_name;
        assert_eq!(by_name.len(), 4);
        assert_eq!(by_name.get(&shop), Some(&policy("shop", false)));
        assert!(shop.starts_with("shop-") && shop.len() == 21, "{shop}");
        assert_ne!(shop, strict);
        assert!(odd.starts_with("a_____________z-"), "{odd}");
        assert_eq!(long.len(), 128);
        for name in by_name.keys() {
            assert!(limpet_core::config::is_policy_name(name), "{name}");
        }
    }
}
