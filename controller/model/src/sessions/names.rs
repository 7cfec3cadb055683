//! Names for policies that tell what is in them.

use std::collections::{BTreeMap, HashMap};

use crate::short_hash::hash;
use limpet_core::config::schema::PolicyConfig;

/// Policies, each once.
#[derive(Debug, Default)]
pub(super) struct Policies {
    all: Vec<Named>,
    by_content: HashMap<String, usize>,
}

#[derive(Debug)]
struct Named {
    config: PolicyConfig,
    stem: String,
    digest: String,
}

/// The longest name of a policy is 128 characters, 17 of which are a hyphen and a hash.
const MAX_STEM: usize = 111;

impl Policies {
    /// The policy's number, by which [`Policies::named`] knows it.
    pub(super) fn add(&mut self, config: PolicyConfig) -> usize {
        // Nothing in a policy has no form in JSON.
        let content = serde_json::to_string(&config).unwrap_or_else(|_| format!("{config:?}"));
        *self.by_content.entry(content).or_insert_with_key(|content| {
            let name = config.carrier().map(|(_, name)| name).unwrap_or_default();
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            let stem = name.chars().map(|c| if legal(c) { c } else { '_' });
            self.all.push(Named {
                stem: stem.take(MAX_STEM).collect(),
                digest: hash(content.as_bytes(), 8),
                config,
            });
            self.all.len() - 1
        })
    }

    /// The names by number, and the policies by name: `<session name>-<8 hexadecimal digits of a hash of its content>`. Where two have these digits
    /// in common, both have 16.
    pub(super) fn named(self) -> (Vec<String>, BTreeMap<String, PolicyConfig>) {
        let mut shared: HashMap<String, usize> = HashMap::new();
        for policy in &self.all {
            *shared.entry(policy.name(8)).or_default() += 1;
        }
        let name = |policy: &Named| match shared.get(&policy.name(8)) {
            Some(1) => policy.name(8),
            _ => policy.name(16),
        };
        let names = self.all.iter().map(name).collect();
        let by_name = self.all.iter().map(|policy| (name(policy), policy.config.clone()));
        let by_name = by_name.collect();
        (names, by_name)
    }
}

impl Named {
    fn name(&self, digits: usize) -> String {
        format!("{}-{}", self.stem, self.digest.get(..digits).unwrap_or(&self.digest))
    }
}

#[cfg(test)]
mod tests {
    use limpet_core::config::schema::CookieConfig;

    use super::*;

    fn policy(name: &str, strict: bool) -> PolicyConfig {
        let mut policy: PolicyConfig = serde_json::from_value(serde_json::json!({"strict": strict})).unwrap();
        policy.cookie = Some(CookieConfig::named(name));
        policy
    }

    #[test]
    fn equal_policies_are_one_and_names_are_legal() {
        let mut policies = Policies::default();
        let shop = policies.add(policy("shop", false));
        assert_eq!(policies.add(policy("shop", false)), shop);
        let strict = policies.add(policy("shop", true));
        let odd = policies.add(policy("a!#$%&'*+^_`|~z", false));
        let long = policies.add(policy(&"x".repeat(128), false));
        let (names, by_name) = policies.named();
        assert_eq!(by_name.len(), 4);
        assert_eq!(by_name.get(&names[shop]), Some(&policy("shop", false)));
        assert!(names[shop].starts_with("shop-") && names[shop].len() == 13, "{names:?}");
        assert_ne!(names[shop], names[strict]);
        assert!(names[odd].starts_with("a_____________z-"), "{names:?}");
        assert_eq!(names[long].len(), 111 + 9);
        for name in &names {
            assert!(limpet_core::config::is_policy_name(name), "{name}");
        }
    }

    #[test]
    fn policies_with_eight_digits_in_common_have_sixteen() {
        let mut policies = Policies::default();
        for strict in [false, true] {
            policies.add(policy("shop", strict));
        }
        policies.all[0].digest = "0123456789abcdef".to_owned();
        policies.all[1].digest = "01234567fedcba98".to_owned();
        let (names, _) = policies.named();
        assert_eq!(names, ["shop-0123456789abcdef", "shop-01234567fedcba98"]);
    }
}
