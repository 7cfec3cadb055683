//! Names for policies that tell what is in them.

use std::collections::{BTreeMap, HashMap};

use super::context::{Context, Elsewhere};
use crate::short_hash::hash;
use limpet_api::Text;
use limpet_core::config::schema::PolicyConfig;

/// The longest name of a policy is 128 characters, 17 of which are a hyphen and a hash.
const MAX_STEM: usize = 111;
/// How many digits of the hash a name has if two would be equal.
const MORE_DIGITS: usize = 16;

/// Policies, each once.
#[derive(Debug, Default)]
pub(super) struct Policies {
    all: BTreeMap<PolicyId, PolicyConfig>,
    by_content: HashMap<String, PolicyId>,
}

/// What the policy's name is made of. The name itself depends on what other policies there are ([`Names`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyId {
    stem: String,
    pub(crate) digest: String,
}

impl Policies {
    pub(super) fn add(&mut self, config: PolicyConfig) -> PolicyId {
        // Every policy can be written as JSON.
        let content = serde_json::to_string(&config).unwrap_or_else(|_| format!("{config:?}"));
        if let Some(id) = self.by_content.get(&content) {
            return id.clone();
        }
        let id = PolicyId::new(&config, &content);
        self.by_content.insert(content, id.clone());
        self.all.insert(id.clone(), config);
        id
    }

    /// The names of all, and the policies by name. `all`: each with its name, if there is anything elsewhere.
    pub(super) fn named(
        self,
        context: Context<'_>,
        all: &mut Vec<(PolicyId, Text)>,
    ) -> (Names, BTreeMap<Text, PolicyConfig>) {
        let names = Names::new(self.all.keys(), context);
        if context.elsewhere.is_some() {
            all.extend(self.all.keys().map(|id| (id.clone(), names.of(id))));
        }
        let by_name = self.all.into_iter().map(|(id, config)| (names.of(&id), config));
        let by_name = by_name.collect();
        (names, by_name)
    }
}

impl PolicyId {
    fn new(config: &PolicyConfig, content: &str) -> Self {
        let name = config.carrier().map_or("client-ip", |(_, name)| name);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let stem = name.chars().map(|c| if legal(c) { c } else { '_' });
        Self {
            stem: stem.take(MAX_STEM).collect(),
            digest: hash(content.as_bytes(), MORE_DIGITS / 2),
        }
    }

    pub(crate) fn with_digits(&self, digits: usize) -> Text {
        format!("{}-{}", self.stem, self.digest.get(..digits).unwrap_or(&self.digest)).into()
    }
}

/// The names of policies: `<session name>-<8 hexadecimal digits of a hash of its content>`. Where two have these digits
/// in common, both have 16.
#[derive(Debug)]
pub(super) struct Names {
    /// How many digits there are in a short name.
    digits: usize,
    /// How many policies have each short name.
    short: HashMap<Text, usize>,
}

impl Names {
    fn new<'a>(ids: impl IntoIterator<Item = &'a PolicyId>, context: Context<'_>) -> Self {
        let digits = context.limits.digits;
        let mut short = HashMap::new();
        for id in ids {
            let name = id.with_digits(digits);
            let is_elsewhere = |elsewhere: &dyn Elsewhere| elsewhere.has_policy(&name, &id.digest);
            let others = usize::from(context.elsewhere.is_some_and(is_elsewhere));
            *short.entry(name).or_default() += 1 + others;
        }
        Self { digits, short }
    }

    pub(super) fn of(&self, id: &PolicyId) -> Text {
        let name = id.with_digits(self.digits);
        match self.short.get(&name) {
            Some(1) => name,
            _ => id.with_digits(MORE_DIGITS),
        }
    }
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
        let mut policies = Policies::default();
        let shop = policies.add(policy("shop", false));
        assert_eq!(policies.add(policy("shop", false)), shop);
        let strict = policies.add(policy("shop", true));
        let odd = policies.add(policy("a!#$%&'*+^_`|~z", false));
        let long = policies.add(policy(&"x".repeat(128), false));
        let (names, by_name) = policies.named(Context::default(), &mut Vec::new());
        assert_eq!(by_name.len(), 4);
        let name = names.of(&shop);
        assert_eq!(by_name.get(&name), Some(&policy("shop", false)));
        assert!(name.starts_with("shop-") && name.len() == 13, "{name}");
        assert_ne!(name, names.of(&strict));
        assert!(names.of(&odd).starts_with("a_____________z-"), "{}", names.of(&odd));
        assert_eq!(names.of(&long).len(), 111 + 9);
        for name in by_name.keys() {
            assert!(limpet_core::config::is_policy_name(name), "{name}");
        }
    }

    #[test]
    fn policies_with_eight_digits_in_common_have_sixteen() {
        let id = |digest: &str| PolicyId {
            stem: "shop".to_owned(),
            digest: digest.to_owned(),
        };
        let ids = ["0123456789abcdef", "01234567fedcba98", "89abcdef01234567"].map(id);
        let names = Names::new(&ids, Context::default());
        assert_eq!(
            ids.map(|id| names.of(&id)),
            ["shop-0123456789abcdef", "shop-01234567fedcba98", "shop-89abcdef"]
        );
    }
}
